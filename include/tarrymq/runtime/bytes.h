#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tarry {

/// Borrowed bytes.
using ByteSpan = std::span<const std::byte>;

inline ByteSpan as_bytes(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}
inline std::string_view as_text(ByteSpan b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

template <class Integer>
Integer load_be(const std::byte* p) {
  Integer v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (sizeof v == 2)
    v = static_cast<Integer>(__builtin_bswap16(static_cast<uint16_t>(v)));
  if constexpr (sizeof v == 4)
    v = static_cast<Integer>(__builtin_bswap32(static_cast<uint32_t>(v)));
  if constexpr (sizeof v == 8)
    v = static_cast<Integer>(__builtin_bswap64(static_cast<uint64_t>(v)));
  return v;
}
template <class Integer>
void store_be(std::byte* p, Integer v) {
  if constexpr (sizeof v == 2)
    v = static_cast<Integer>(__builtin_bswap16(static_cast<uint16_t>(v)));
  if constexpr (sizeof v == 4)
    v = static_cast<Integer>(__builtin_bswap32(static_cast<uint32_t>(v)));
  if constexpr (sizeof v == 8)
    v = static_cast<Integer>(__builtin_bswap64(static_cast<uint64_t>(v)));
  std::memcpy(p, &v, sizeof v);
}
template <class Integer>
Integer load_le(const std::byte* p) {
  Integer v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class Integer>
void store_le(std::byte* p, Integer v) {
  std::memcpy(p, &v, sizeof v);
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the helpers above are for little-endian machines");

}  // namespace tarry
