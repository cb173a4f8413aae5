#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

struct FieldValue;
using FieldArray = std::vector<FieldValue>;

/// An AMQP field table with its entries in wire order; decode followed by encode gives the same
/// bytes. Used for arguments and wherever a header table is looked into or rewritten; messages on
/// the hot path keep raw bytes.
struct FieldTable {
  std::vector<std::pair<std::string, FieldValue>> entries;

  const FieldValue* find(std::string_view name) const;  // the first of that name
  FieldValue* find(std::string_view name);
  /// Replaces the first entry of that name in place, or appends.
  void set(std::string_view name, FieldValue value);
  /// Removes every entry of that name; true if there was one.
  bool erase(std::string_view name);
  bool empty() const;
  /// The same names with equivalent values (FieldValue::equivalent), in any order.
  bool equivalent(const FieldTable& other) const;

  /// `bytes`: the 4-byte length and what it covers, and nothing behind. The error says what was
  /// malformed and where. Depth at most 64, else malformed.
  static Result<FieldTable, std::string> decode(ByteSpan bytes);
  /// Appends length and entries.
  void encode(std::string& out) const;
  std::string encode() const;

  friend bool operator==(const FieldTable&, const FieldTable&);
};

struct FieldDecimal {
  uint8_t scale = 0;
  uint32_t unscaled = 0;
  friend bool operator==(const FieldDecimal&, const FieldDecimal&) = default;
};

/// One value and the type letter that it had on the wire (the de-facto table encoding: t b B s u I
/// i l L f d D S A T F V x; U is read as s). Every integer letter is held as int64_t (L above
/// 2^63-1 keeps its bits).
struct FieldValue {
  using Variant = std::variant<std::monostate, bool, int64_t, float, double, FieldDecimal,
                               std::string, FieldArray, FieldTable>;
  char type = 'V';
  Variant value;

  static FieldValue boolean(bool v) { return {'t', v}; }
  static FieldValue int32(int32_t v) { return {'I', int64_t{v}}; }
  static FieldValue int64(int64_t v) { return {'l', v}; }
  static FieldValue text(std::string v) { return {'S', std::move(v)}; }
  static FieldValue timestamp(uint64_t seconds) { return {'T', static_cast<int64_t>(seconds)}; }
  static FieldValue array(FieldArray v) { return {'A', std::move(v)}; }
  static FieldValue table(FieldTable v) { return {'F', std::move(v)}; }

  bool is_integer() const;                 // any of b B s u U I i l L
  std::optional<int64_t> integer() const;  // none if no integer type (or L above 2^63-1)
  const std::string* text() const {
    return type == 'S' ? std::get_if<std::string>(&value) : nullptr;
  }
  std::optional<bool> boolean() const {
    return type == 't' ? std::optional(std::get<bool>(value)) : std::nullopt;
  }
  const FieldArray* array() const { return std::get_if<FieldArray>(&value); }
  const FieldTable* table() const { return std::get_if<FieldTable>(&value); }
  /// For error texts: `the value '1' of type 'signedint'`-like pieces.
  std::string to_text() const;
  std::string_view type_name() const;  // as RabbitMQ's wording: signedint, long, longstr, bool, ...

  /// Numbers by value whatever their width (5 as byte equals 5 as long); the rest by type and value
  /// (retry-spec 6).
  bool equivalent(const FieldValue& other) const;
  friend bool operator==(const FieldValue&, const FieldValue&) = default;
};

inline bool FieldTable::empty() const { return entries.empty(); }
inline bool operator==(const FieldTable& a, const FieldTable& b) { return a.entries == b.entries; }

}  // namespace tarry
