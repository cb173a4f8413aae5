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

namespace tarry::fuzz {
inline ByteSpan input(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}
}  // namespace tarry::fuzz
