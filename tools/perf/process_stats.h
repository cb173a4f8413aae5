#pragma once

#include <cstdint>

namespace tarry::perf {

/// Monotonic, ns.
int64_t now_ns();

struct ProcessStats {
  double cpu_seconds = 0;  // user and system, of all threads, since the process started
  uint64_t rss_peak_bytes = 0;
  uint64_t rss_bytes = 0, heap_bytes = 0;  // now; heap is what of it no file backs
};
/// From /proc; `pid` 0 is this process. Zeros when there is no such process.
ProcessStats process_stats(int pid);

}  // namespace tarry::perf
