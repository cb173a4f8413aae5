#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tarrymq/runtime/bytes.h"

/// A property that must hold; a fuzzer finds the input for which it doesn't.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

/// Asked by the leak sanitizer, which libFuzzer has look after an input while threads of the broker
/// go on. What the C library keeps for a thread that begins or ends just then seems lost to it.
extern "C" __attribute__((used, weak)) const char* __lsan_default_suppressions() {
  return "leak:__cxa_thread_atexit_impl\n";
}

namespace tarry::fuzz {
inline ByteSpan input(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}
}  // namespace tarry::fuzz
