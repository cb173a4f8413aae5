#include "tarrymq/amqp/table_view.h"

#include <bit>

#include "amqp/table_walk.h"
#include "tarrymq/runtime/limit_hits.h"

namespace tarry {

namespace table_walk {

Fault check_value(const std::byte*& p, const std::byte* end, int depth) {
  if (p == end) return {"missing value", p};
  const std::byte* letter = p++;
  const int8_t size = kValueSizes[std::to_integer<uint8_t>(*letter)];
  if (size >= 0) {
    if (end - p < size) return {"cut value", letter};
    p += size;
    return {};
  }
  if (size == kUnknown) return {"unknown type letter", letter};
  const std::byte* inner_end = nullptr;
  if (Fault fault = check_size(p, end, inner_end)) return fault;
  if (size == kSized) {
    p = inner_end;
    return {};
  }
  if (depth >= kTableDepthMax) {
    count_limit_hit(Limit::table_depth);
    return {"nested deeper than 64", letter};
  }
  if (size == kTable) {
    const Fault fault = check_entries(p, inner_end, depth + 1, [](std::string_view) {});
    p = inner_end;
    return fault;
  }
  while (p != inner_end) {
    if (Fault fault = check_value(p, inner_end, depth + 1)) return fault;
  }
  return {};
}

}  // namespace table_walk

using table_walk::Fault;

Result<void, std::string> validate_table(ByteSpan table) {
  const std::byte* start = table.data();
  const std::byte* p = start;
  const std::byte* const end = p + table.size();
  const std::byte* inner_end = nullptr;
  Fault fault = table_walk::check_size(p, end, inner_end);
  if (!fault && inner_end != end) fault = {"bytes behind the table", inner_end};
  if (!fault) fault = table_walk::check_entries(p, end, 1, [](std::string_view) {});
  if (fault) return table_walk::describe(fault, start);
  return {};
}

namespace {

/// The value whose letter is at the front of `rest`, which was checked; nothing is read beyond it
/// whatever it holds.
bool take_value(ByteSpan& rest, FieldView& out) {
  if (rest.empty()) return false;
  out.type = static_cast<char>(rest[0]);
  const int8_t fixed = table_walk::kValueSizes[std::to_integer<uint8_t>(rest[0])];
  rest = rest.subspan(1);
  if (fixed >= 0) {
    if (rest.size() < static_cast<size_t>(fixed)) return false;
    out.value = rest.first(fixed);
    rest = rest.subspan(fixed);
    return true;
  }
  if (fixed == table_walk::kUnknown || rest.size() < 4) return false;
  const size_t size = load_be<uint32_t>(rest.data());
  if (rest.size() - 4 < size) return false;
  out.value = fixed == table_walk::kTable ? rest.first(4 + size) : rest.subspan(4, size);
  rest = rest.subspan(4 + size);
  return true;
}

}  // namespace

bool TableReader::next(FieldView& out) {
  if (rest_.empty()) return false;
  const size_t size = std::to_integer<uint8_t>(rest_[0]);
  if (rest_.size() <= size) return false;
  out.name = as_text(rest_.subspan(1, size));
  rest_ = rest_.subspan(1 + size);
  return take_value(rest_, out);
}

bool ArrayReader::next(FieldView& out) {
  out.name = {};
  return take_value(rest_, out);
}

std::optional<FieldView> find_field(ByteSpan table, std::string_view name) {
  TableReader reader(table);
  FieldView field;
  while (reader.next(field)) {
    if (field.name == name) return field;
  }
  return std::nullopt;
}

std::optional<int64_t> field_integer(const FieldView& field) {
  const std::byte* p = field.value.data();
  switch (field.type) {
    case 'b':
      return static_cast<int8_t>(*p);
    case 'B':
      return std::to_integer<uint8_t>(*p);
    case 's':
    case 'U':
      return load_be<int16_t>(p);
    case 'u':
      return load_be<uint16_t>(p);
    case 'I':
      return load_be<int32_t>(p);
    case 'i':
      return load_be<uint32_t>(p);
    case 'l':
      return load_be<int64_t>(p);
    case 'L': {
      const auto value = load_be<uint64_t>(p);
      if (value > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

namespace {

FieldTable build_table(ByteSpan table) {
  FieldTable out;
  TableReader reader(table);
  FieldView field;
  while (reader.next(field)) out.entries.emplace_back(std::string(field.name), field_value(field));
  return out;
}

FieldArray build_array(ByteSpan elements) {
  FieldArray out;
  ArrayReader reader(elements);
  FieldView element;
  while (reader.next(element)) out.push_back(field_value(element));
  return out;
}

float bits_to_float(uint32_t bits) { return std::bit_cast<float>(bits); }
double bits_to_double(uint64_t bits) { return std::bit_cast<double>(bits); }

}  // namespace

FieldValue field_value(const FieldView& field) {
  const std::byte* p = field.value.data();
  const char type = field.type;
  switch (type) {
    case 't':
      return {type, *p != std::byte{0}};
    case 'f':
      return {type, bits_to_float(load_be<uint32_t>(p))};
    case 'd':
      return {type, bits_to_double(load_be<uint64_t>(p))};
    case 'D':
      return {type, FieldDecimal{std::to_integer<uint8_t>(p[0]), load_be<uint32_t>(p + 1)}};
    case 'L':
    case 'T':
      return {type, static_cast<int64_t>(load_be<uint64_t>(p))};
    case 'S':
    case 'x':
      return {type, std::string(as_text(field.value))};
    case 'A':
      return {type, build_array(field.value)};
    case 'F':
      return {type, build_table(field.value)};
    case 'V':
      return {type, std::monostate{}};
    default:
      return {type, field_integer(field).value_or(0)};
  }
}

Result<FieldTable, std::string> FieldTable::decode(ByteSpan bytes) {
  if (auto checked = validate_table(bytes); !checked) return std::move(checked).error();
  return build_table(bytes);
}

}  // namespace tarry
