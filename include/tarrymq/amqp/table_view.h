#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

inline constexpr int kTableDepthMax = 64;

/// Checks a table (4-byte length, entries, nothing behind) without allocating: known types, exact
/// lengths, depth. The error says what was malformed and where.
Result<void, std::string> validate_table(ByteSpan table);

/// One entry of a raw table, looked at in place.
struct FieldView {
  std::string_view name;
  char type = 'V';
  ByteSpan value;  // scalars: their bytes; S and x: the content; A: the elements; F: the whole
                   // table with its length
};

/// Walks the top level of a table that was checked (validate_table, PropertiesView::parse,
/// parse_method). Borrows it. An empty span is an empty table.
class TableReader {
 public:
  explicit TableReader(ByteSpan table) : rest_(table.empty() ? table : table.subspan(4)) {}
  bool next(FieldView& out);

 private:
  ByteSpan rest_;
};
/// The same for the elements of an array (`value` of a FieldView of type A); names are empty.
class ArrayReader {
 public:
  explicit ArrayReader(ByteSpan elements) : rest_(elements) {}
  bool next(FieldView& out);

 private:
  ByteSpan rest_;
};

/// The first entry of that name in a checked table.
std::optional<FieldView> find_field(ByteSpan table, std::string_view name);
/// The integer of any integer type; none for another type or above 2^63-1.
std::optional<int64_t> field_integer(const FieldView& field);
/// The value on its own, copied out.
FieldValue field_value(const FieldView& field);

}  // namespace tarry
