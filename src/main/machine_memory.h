#pragma once

#include <cstdint>
#include <string>

namespace tarry {

/// Bytes of memory that this process may have: the machine's, or less where a control group that it
/// is in (a container's, a unit's MemoryMax) has a bound. `root`: where /proc and /sys are, for
/// tests.
uint64_t machine_memory(const std::string& root = "");

}  // namespace tarry
