#pragma once

#include <array>
#include <cstdint>

#include "http/api.h"

namespace tarry::http {

/// What the kernel says of this process, and what of it is kept in the history.
struct NodeFigures {
  uint64_t memory_bytes = 0, memory_limit = 0, machine_memory = 0;
  uint64_t descriptors = 0, descriptors_max = 0;
  uint64_t disk_free = 0, disk_total = 0;  // of the data directory's disk; 0: not known
  uint64_t cpu_user_ms = 0, cpu_system_ms = 0;
  uint64_t connections = 0;
};
/// Server's thread: reads some small files.
NodeFigures node_figures(Context& context);

enum NodeValue : size_t { kMemUsed, kFdUsed, kSocketsUsed, kDiskFree, kCpuMs, kNodeValues };
std::array<int64_t, kNodeValues> node_values(Context& context);

}  // namespace tarry::http
