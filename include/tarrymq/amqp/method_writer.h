#pragma once

#include <cstdint>
#include <string_view>

#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// A short string holds at most 255 bytes: what is longer is cut, not inside a UTF-8 character.
constexpr std::string_view short_text(std::string_view text) {
  if (text.size() <= 255) return text;
  size_t size = 255;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size == 0 ? 255 : size);
}

/// Visitors for the `fields()` of the method structs (methods.h): how many bytes the arguments
/// take, and those bytes.
class MethodSizer {
 public:
  void octet(uint8_t) { size_ += 1; }
  void integer(uint16_t) { size_ += 2; }
  void integer(uint32_t) { size_ += 4; }
  void integer(uint64_t) { size_ += 8; }
  void short_text(std::string_view s) { size_ += 1 + tarry::short_text(s).size(); }
  void long_text(std::string_view s) { size_ += 4 + s.size(); }
  void table(ByteSpan t) { size_ += t.empty() ? 4 : t.size(); }
  void bits(auto...) { size_ += 1; }
  void reserved_short() { size_ += 2; }
  void reserved_short_text() { size_ += 1; }
  void reserved_long_text() { size_ += 4; }
  void reserved_bits() { size_ += 1; }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

class MethodWriter {
 public:
  explicit MethodWriter(std::byte* at) : at_(at) {}

  void octet(uint8_t v) { *at_++ = std::byte{v}; }
  template <class Integer>
  void integer(Integer v) {
    store_be(at_, v);
    at_ += sizeof v;
  }
  void short_text(std::string_view s) {
    s = tarry::short_text(s);
    octet(static_cast<uint8_t>(s.size()));
    raw(as_bytes(s));
  }
  void long_text(std::string_view s) {
    integer(static_cast<uint32_t>(s.size()));
    raw(as_bytes(s));
  }
  void table(ByteSpan t) {
    if (t.empty()) return integer(uint32_t{0});
    raw(t);
  }
  void bits(auto... bits) {
    uint8_t octet_value = 0;
    int shift = 0;
    ((octet_value |= static_cast<uint8_t>(static_cast<uint8_t>(bits) << shift++)), ...);
    octet(octet_value);
  }
  void reserved_short() { integer(uint16_t{0}); }
  void reserved_short_text() { octet(0); }
  void reserved_long_text() { integer(uint32_t{0}); }
  void reserved_bits() { octet(0); }
  void raw(ByteSpan bytes) {
    if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  std::byte* at() const { return at_; }

 private:
  std::byte* at_;
};

}  // namespace tarry
