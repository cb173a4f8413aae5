#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tarrymq/amqp/table_view.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry::table_walk {

/// A field table on the wire, all integers big-endian:
///
///     table:  size in bytes of what follows (4) | entry ...
///     entry:  name as short string | value
///     value:  type letter (1) | what the letter says:
///       t bool, b int8, B uint8 (1)    s, U int16, u uint16 (2)    I int32, i uint32, f float (4)
///       l int64, L uint64, d double, T timestamp in s (8)          D scale (1), unscaled (4)    V
///       nothing S text, x bytes: size (4), content     A array: size in bytes (4), value ...    F
///       table
///
/// A bool octet other than 0 or 1 reads as true, as RabbitMQ does, and is written as 1.

inline constexpr int8_t kSized = -1, kArray = -2, kTable = -3, kUnknown = -4;

constexpr std::array<int8_t, 256> make_value_sizes() {
  std::array<int8_t, 256> sizes{};
  for (auto& size : sizes) size = kUnknown;
  sizes['t'] = sizes['b'] = sizes['B'] = 1;
  sizes['s'] = sizes['u'] = sizes['U'] = 2;
  sizes['I'] = sizes['i'] = sizes['f'] = 4;
  sizes['l'] = sizes['L'] = sizes['d'] = sizes['T'] = 8;
  sizes['D'] = 5;
  sizes['V'] = 0;
  sizes['S'] = sizes['x'] = kSized;
  sizes['A'] = kArray;
  sizes['F'] = kTable;
  return sizes;
}
/// Bytes behind the type letter, or one of the constants above.
inline constexpr std::array<int8_t, 256> kValueSizes = make_value_sizes();

/// What is wrong with a table, and where; `what` null: nothing.
struct Fault {
  const char* what = nullptr;
  const std::byte* at = nullptr;
  explicit operator bool() const { return what != nullptr; }
};

/// "unknown type letter at byte 17", counted from `start`.
inline std::string describe(const Fault& fault, const std::byte* start) {
  return std::string(fault.what) + " at byte " + std::to_string(fault.at - start);
}

/// Checks one value whose letter is at `p`, and moves `p` behind it. `depth`: of what holds it; a
/// table alone is 1.
Fault check_value(const std::byte*& p, const std::byte* end, int depth);

/// Checks the size at `p` against `end` and moves `p` behind the size; `inner_end` is where the
/// content ends.
inline Fault check_size(const std::byte*& p, const std::byte* end, const std::byte*& inner_end) {
  if (end - p < 4) return {"cut size", p};
  const uint32_t size = load_be<uint32_t>(p);
  if (static_cast<uint64_t>(end - p - 4) < size) return {"size beyond the end", p};
  p += 4;
  inner_end = p + size;
  return {};
}

/// Checks a short string at `p` and moves `p` behind it.
inline Fault check_name(const std::byte*& p, const std::byte* end, std::string_view& name) {
  const size_t size = std::to_integer<uint8_t>(*p);  // the caller has seen that p != end
  if (static_cast<size_t>(end - p) <= size) return {"name beyond the end", p};
  name = {reinterpret_cast<const char*>(p + 1), size};
  p += 1 + size;
  return {};
}

/// Checks the entries in p..end of a table at `depth`, calling `seen(name)` for each before its
/// value is checked.
template <class Seen>
Fault check_entries(const std::byte* p, const std::byte* end, int depth, Seen&& seen) {
  while (p != end) {
    std::string_view name;
    if (Fault fault = check_name(p, end, name)) return fault;
    seen(name);
    if (Fault fault = check_value(p, end, depth)) return fault;
  }
  return {};
}

}  // namespace tarry::table_walk
