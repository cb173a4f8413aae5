#include "http/node_figures.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tarry::http {
namespace {

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * page_bytes();
}

uint64_t open_descriptors() {
  std::error_code ec;
  uint64_t n = 0;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", ec);
       !ec && it != std::filesystem::directory_iterator(); it.increment(ec)) {
    ++n;
  }
  return n;
}

uint64_t ms_of(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_usec) / 1000;
}

}  // namespace

NodeFigures node_figures(Context& context) {
  const OverviewInfo info = context.broker.overview({});
  NodeFigures out;
  out.memory_bytes = resident_bytes();
  out.machine_memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  out.memory_limit =
      info.facts.memory_limit_bytes != 0 ? info.facts.memory_limit_bytes : out.machine_memory;
  out.descriptors = open_descriptors();
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    out.descriptors_max = static_cast<uint64_t>(descriptors.rlim_cur);
  struct statvfs disk {};
  if (!info.facts.data_dir.empty() && statvfs(info.facts.data_dir.c_str(), &disk) == 0) {
    out.disk_free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
    out.disk_total = static_cast<uint64_t>(disk.f_blocks) * disk.f_frsize;
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    out.cpu_user_ms = ms_of(usage.ru_utime);
    out.cpu_system_ms = ms_of(usage.ru_stime);
  }
  out.connections = info.connections;
  return out;
}

std::array<int64_t, kNodeValues> node_values(Context& context) {
  const NodeFigures f = node_figures(context);
  return {static_cast<int64_t>(f.memory_bytes), static_cast<int64_t>(f.descriptors),
          static_cast<int64_t>(f.connections), static_cast<int64_t>(f.disk_free),
          static_cast<int64_t>(f.cpu_user_ms + f.cpu_system_ms)};
}

}  // namespace tarry::http
