#include "main/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace tarry {
namespace {

/// The least bound of a group and those above it. In a container the path may be one of the
/// outside; the folder above all is the container's own then.
uint64_t least_bound(const std::string& mount, std::string group, const char* file) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    if (group.ends_with('/')) group.pop_back();
    std::ifstream in(mount + group + "/" + file);
    uint64_t bytes = 0;  // "max" is no number: no bound
    if (in >> bytes) least = std::min(least, bytes);
    if (group.empty()) return least;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

uint64_t machine_memory(const std::string& root) {
  uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  // Lines "number:controllers:/path"; version 2 has the one without controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string path = line.substr(second + 1);
    const std::string kinds = "," + line.substr(first + 1, second - first - 1) + ",";
    if (kinds == ",,")
      bytes = std::min(bytes, least_bound(root + "/sys/fs/cgroup", path, "memory.max"));
    else if (kinds.find(",memory,") != std::string::npos)
      bytes = std::min(bytes,
                       least_bound(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
  }
  return bytes;
}

}  // namespace tarry
