#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tarrymq/amqp/table_view.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// Visitor for the `fields()` of the method structs: reads the arguments. After a fault, what is
/// left reads as nothing.
class MethodReader {
 public:
  explicit MethodReader(ByteSpan arguments) : rest_(arguments) {}

  void octet(uint8_t& v) {
    if (const std::byte* p = take(1)) v = std::to_integer<uint8_t>(*p);
  }
  template <class Integer>
  void integer(Integer& v) {
    if (const std::byte* p = take(sizeof v)) v = load_be<Integer>(p);
  }
  void short_text(std::string_view& v) {
    uint8_t size = 0;
    octet(size);
    if (const std::byte* p = take(size)) v = {reinterpret_cast<const char*>(p), size};
  }
  void long_text(std::string_view& v) {
    uint32_t size = 0;
    integer(size);
    if (const std::byte* p = take(size)) v = {reinterpret_cast<const char*>(p), size};
  }
  void table(ByteSpan& v) {
    const ByteSpan whole = rest_;
    uint32_t size = 0;
    integer(size);
    if (take(size) == nullptr) return;
    v = whole.first(4 + size_t{size});
    if (auto checked = validate_table(v); !checked && !table_fault_)
      table_fault_ = std::move(checked).error();
  }
  void bits(auto&... bits) {
    uint8_t octet_value = 0;
    octet(octet_value);
    int shift = 0;
    ((bits = (octet_value >> shift++ & 1) != 0), ...);
  }
  void reserved_short() { (void)take(2); }
  void reserved_short_text() {
    std::string_view ignored;
    short_text(ignored);
  }
  void reserved_long_text() {
    std::string_view ignored;
    long_text(ignored);
  }
  void reserved_bits() { (void)take(1); }

  bool cut() const { return cut_; }
  size_t left() const { return rest_.size(); }
  const std::optional<std::string>& table_fault() const { return table_fault_; }

 private:
  const std::byte* take(size_t size) {
    if (cut_ || rest_.size() < size) {
      cut_ = true;
      return nullptr;
    }
    const std::byte* p = rest_.data();
    rest_ = rest_.subspan(size);
    return p;
  }

  ByteSpan rest_;
  bool cut_ = false;
  std::optional<std::string> table_fault_;
};

}  // namespace tarry
