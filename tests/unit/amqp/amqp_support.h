#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry::test {

/// A sink for the frame encoder that keeps everything as text.
struct TextSink {
  std::string bytes;
  std::byte* append(size_t size) {
    const size_t at = bytes.size();
    bytes.resize(at + size);
    return reinterpret_cast<std::byte*>(bytes.data()) + at;
  }
};

/// The 4-byte length and `entries`.
inline std::string table_bytes(std::string_view entries) {
  std::string out(4, '\0');
  store_be(reinterpret_cast<std::byte*>(out.data()), static_cast<uint32_t>(entries.size()));
  return out.append(entries);
}

/// A copy on the heap of exactly its size, so that the address sanitizer sees a read beyond it.
class ExactCopy {
 public:
  explicit ExactCopy(std::string_view bytes)
      : size_(bytes.size()), data_(new std::byte[size_ + (size_ == 0)]) {
    std::memcpy(data_.get(), bytes.data(), size_);
  }
  ByteSpan span() const { return {data_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> data_;
};

/// One value of each type letter, then some nesting.
inline FieldTable table_of_every_type() {
  FieldTable t;
  t.set("bool", FieldValue::boolean(true));
  t.set("int8", {'b', int64_t{-128}});
  t.set("uint8", {'B', int64_t{255}});
  t.set("int16", {'s', int64_t{-32768}});
  t.set("int16 too", {'U', int64_t{-2}});
  t.set("uint16", {'u', int64_t{65535}});
  t.set("int32", FieldValue::int32(INT32_MIN));
  t.set("uint32", {'i', int64_t{UINT32_MAX}});
  t.set("int64", FieldValue::int64(INT64_MIN));
  t.set("uint64", {'L', int64_t{-1}});
  t.set("float", {'f', 1.5F});
  t.set("double", {'d', -0.1});
  t.set("decimal", {'D', FieldDecimal{2, 1234}});
  t.set("text", FieldValue::text("a text"));
  t.set("bytes", {'x', std::string("\0\xff", 2)});
  t.set("timestamp", FieldValue::timestamp(1'700'000'000));
  t.set("nothing", {'V', std::monostate{}});
  t.set("",
        FieldValue::array({FieldValue::text("x"), FieldValue::array({}), {'V', std::monostate{}}}));
  FieldTable inner;
  inner.set("deep", FieldValue::table({}));
  t.set("table", FieldValue::table(inner));
  return t;
}

/// A table of any shape, for properties that must hold for all of them.
class RandomTable {
 public:
  explicit RandomTable(uint32_t seed) : random_(seed) {}
  FieldTable table(int depth = 0) {
    FieldTable t;
    for (int n = below(5); n > 0; --n) t.entries.emplace_back(text(8), value(depth));
    return t;
  }
  FieldValue value(int depth) {
    constexpr std::string_view kLetters = "tbBsUuIilLfdDSxTVAF";
    const char type = kLetters[below(depth < 4 ? 19 : 17)];
    const auto bits = static_cast<int64_t>(uint64_t{random_()} << 32 | random_());
    switch (type) {
      case 't':
        return FieldValue::boolean(bits & 1);
      case 'b':
        return {type, int64_t{static_cast<int8_t>(bits)}};
      case 'B':
        return {type, int64_t{static_cast<uint8_t>(bits)}};
      case 's':
      case 'U':
        return {type, int64_t{static_cast<int16_t>(bits)}};
      case 'u':
        return {type, int64_t{static_cast<uint16_t>(bits)}};
      case 'I':
        return {type, int64_t{static_cast<int32_t>(bits)}};
      case 'i':
        return {type, int64_t{static_cast<uint32_t>(bits)}};
      case 'f':
        return {type, static_cast<float>(bits % 1000) / 8};
      case 'd':
        return {type, static_cast<double>(bits % 100000) / 16};
      case 'D':
        return {type, FieldDecimal{static_cast<uint8_t>(bits), static_cast<uint32_t>(bits >> 8)}};
      case 'S':
      case 'x':
        return {type, text(20)};
      case 'V':
        return {type, std::monostate{}};
      case 'A': {
        FieldArray array;
        for (int n = below(4); n > 0; --n) array.push_back(value(depth + 1));
        return FieldValue::array(std::move(array));
      }
      case 'F':
        return FieldValue::table(table(depth + 1));
      default:
        return {type, bits};
    }
  }
  std::string text(int most) {
    std::string out;
    for (int n = below(most + 1); n > 0; --n) out.push_back(static_cast<char>(random_()));
    return out;
  }
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

 private:
  std::mt19937 random_;
};

}  // namespace tarry::test
