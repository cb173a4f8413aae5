#include "perf/process_stats.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tarry::perf {

int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

namespace {

/// What its living threads have run, in ns; `stat` counts in steps of 10 ms. 0 if the kernel does
/// not say.
uint64_t thread_run_ns(const std::string& directory) {
  uint64_t sum = 0;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(directory + "/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    uint64_t ns = 0;
    if (file >> ns) sum += ns;
  }
  return sum;
}

}  // namespace

ProcessStats process_stats(int pid) {
  ProcessStats stats;
  std::string directory = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid));
  std::ifstream stat(directory + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return stats;
  // The name in parentheses may hold anything; utime and stime are the 12th and 13th field behind
  // it.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  uint64_t user = 0, system = 0;
  fields >> user >> system;
  stats.cpu_seconds =
      static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  // Of this process threads have ended, which are in `stat` alone; a broker's go on.
  if (uint64_t ns = pid != 0 ? thread_run_ns(directory) : 0; ns > 0)
    stats.cpu_seconds = static_cast<double>(ns) * 1e-9;
  std::ifstream status(directory + "/status");
  while (std::getline(status, line)) {
    auto read = [&](const char* key, uint64_t& bytes) {
      if (line.starts_with(key)) bytes = std::stoull(line.substr(line.find(':') + 1)) * 1024;
    };
    read("VmHWM:", stats.rss_peak_bytes);
    read("VmRSS:", stats.rss_bytes);
    read("RssAnon:", stats.heap_bytes);
  }
  return stats;
}

}  // namespace tarry::perf
