#include "tarrymq/amqp/field_table.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>
#include <utility>
#include "amqp/append_be.h"

#include "tarrymq/amqp/method_writer.h"

namespace tarry {

const FieldValue* FieldTable::find(std::string_view name) const {
  for (const auto& [key, value] : entries) {
    if (key == name) return &value;
  }
  return nullptr;
}

FieldValue* FieldTable::find(std::string_view name) {
  return const_cast<FieldValue*>(std::as_const(*this).find(name));
}

void FieldTable::set(std::string_view name, FieldValue value) {
  if (FieldValue* there = find(name)) {
    *there = std::move(value);
  } else {
    entries.emplace_back(std::string(name), std::move(value));
  }
}

bool FieldTable::erase(std::string_view name) {
  return std::erase_if(entries, [name](const auto& entry) { return entry.first == name; }) != 0;
}

namespace {

void put_sized(std::string& out, std::string_view bytes) {
  append_be(out, static_cast<uint32_t>(bytes.size()));
  out.append(bytes);
}

/// Reserves the size, lets `content` append, and then fills the size in.
template <class Content>
void put_measured(std::string& out, Content&& content) {
  const size_t at = out.size();
  append_be(out, uint32_t{0});
  content();
  store_be(reinterpret_cast<std::byte*>(out.data()) + at,
           static_cast<uint32_t>(out.size() - at - 4));
}

void put_value(std::string& out, const FieldValue& field);

struct ValueWriter {
  std::string& out;
  char type;

  void operator()(std::monostate) const {}
  void operator()(bool v) const { out.push_back(v ? 1 : 0); }
  void operator()(int64_t v) const {
    switch (type) {
      case 'b':
      case 'B':
        return append_be(out, static_cast<uint8_t>(v));
      case 's':
      case 'U':
      case 'u':
        return append_be(out, static_cast<uint16_t>(v));
      case 'I':
      case 'i':
        return append_be(out, static_cast<uint32_t>(v));
      default:
        return append_be(out, static_cast<uint64_t>(v));
    }
  }
  void operator()(float v) const { append_be(out, std::bit_cast<uint32_t>(v)); }
  void operator()(double v) const { append_be(out, std::bit_cast<uint64_t>(v)); }
  void operator()(const FieldDecimal& v) const {
    out.push_back(static_cast<char>(v.scale));
    append_be(out, v.unscaled);
  }
  void operator()(const std::string& v) const { put_sized(out, v); }
  void operator()(const FieldArray& v) const {
    put_measured(out, [&] {
      for (const FieldValue& element : v) put_value(out, element);
    });
  }
  void operator()(const FieldTable& v) const { v.encode(out); }
};

void put_value(std::string& out, const FieldValue& field) {
  out.push_back(field.type);
  std::visit(ValueWriter{out, field.type}, field.value);
}

}  // namespace

void FieldTable::encode(std::string& out) const {
  put_measured(out, [&] {
    for (const auto& [name, value] : entries) {
      const std::string_view cut = short_text(name);
      out.push_back(static_cast<char>(cut.size()));
      out.append(cut);
      put_value(out, value);
    }
  });
}

std::string FieldTable::encode() const {
  std::string out;
  encode(out);
  return out;
}

bool FieldValue::is_integer() const {
  return std::string_view("bBsuUIilL").find(type) != std::string_view::npos;
}

std::optional<int64_t> FieldValue::integer() const {
  if (!is_integer()) return std::nullopt;
  const int64_t v = std::get<int64_t>(value);
  if (type == 'L' && v < 0) return std::nullopt;
  return v;
}

std::string_view FieldValue::type_name() const {
  switch (type) {
    case 't':
      return "bool";
    case 'b':
      return "byte";
    case 'B':
      return "unsignedbyte";
    case 's':
    case 'U':
      return "short";
    case 'u':
      return "unsignedshort";
    case 'I':
      return "signedint";
    case 'i':
      return "unsignedint";
    case 'l':
      return "long";
    case 'L':
      return "unsignedlong";
    case 'f':
      return "float";
    case 'd':
      return "double";
    case 'D':
      return "decimal";
    case 'S':
      return "longstr";
    case 'x':
      return "binary";
    case 'A':
      return "array";
    case 'T':
      return "timestamp";
    case 'F':
      return "table";
    default:
      return "void";
  }
}

namespace {

std::string text_of_double(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", v);
  double back = 0;
  // The shortest that reads back as the same: 0.1 and not 0.10000000000000001.
  for (int digits = 1; digits < 17; ++digits) {
    char shorter[32];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, v);
    if (std::sscanf(shorter, "%lf", &back) == 1 && back == v) return shorter;
  }
  return buffer;
}

struct TextMaker {
  char type;

  std::string operator()(std::monostate) const { return "undefined"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const {
    return type == 'L' || type == 'T' ? std::to_string(static_cast<uint64_t>(v))
                                      : std::to_string(v);
  }
  std::string operator()(float v) const { return text_of_double(v); }
  std::string operator()(double v) const { return text_of_double(v); }
  std::string operator()(const FieldDecimal& v) const {
    return std::to_string(v.unscaled) + "e-" + std::to_string(v.scale);
  }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const FieldArray& v) const {
    std::string out = "[";
    for (const FieldValue& element : v) {
      if (out.size() > 1) out += ", ";
      out += element.to_text();
    }
    return out + "]";
  }
  std::string operator()(const FieldTable& v) const {
    std::string out = "{";
    for (const auto& [name, value] : v.entries) {
      if (out.size() > 1) out += ", ";
      out += name + ": " + value.to_text();
    }
    return out + "}";
  }
};

bool is_float(const FieldValue& v) { return v.type == 'f' || v.type == 'd'; }

// 64 bits of mantissa: every integer of ours and every double is exact.
static_assert(std::numeric_limits<long double>::digits >= 64);
long double number_of(const FieldValue& v) {
  if (v.type == 'f') return std::get<float>(v.value);
  if (v.type == 'd') return std::get<double>(v.value);
  const int64_t integer = std::get<int64_t>(v.value);
  return v.type == 'L' ? static_cast<long double>(static_cast<uint64_t>(integer))
                       : static_cast<long double>(integer);
}

FieldDecimal reduced(FieldDecimal v) {
  while (v.scale > 0 && v.unscaled % 10 == 0) v.unscaled /= 10, --v.scale;
  return v;
}

}  // namespace

std::string FieldValue::to_text() const { return std::visit(TextMaker{type}, value); }

bool FieldValue::equivalent(const FieldValue& other) const {
  if ((is_integer() || is_float(*this)) && (other.is_integer() || is_float(other))) {
    return number_of(*this) == number_of(other);
  }
  if (type != other.type) return false;
  if (type == 'D') {
    return reduced(std::get<FieldDecimal>(value)) == reduced(std::get<FieldDecimal>(other.value));
  }
  if (type == 'A') {
    return std::ranges::equal(*array(), *other.array(),
                              [](const auto& a, const auto& b) { return a.equivalent(b); });
  }
  if (type == 'F') return table()->equivalent(*other.table());
  return value == other.value;
}

bool FieldTable::equivalent(const FieldTable& other) const {
  if (entries.size() != other.entries.size()) return false;
  auto sorted = [](const FieldTable& table) {
    std::vector<const std::pair<std::string, FieldValue>*> out;
    out.reserve(table.entries.size());
    for (const auto& entry : table.entries) out.push_back(&entry);
    std::ranges::stable_sort(out, {},
                             [](const auto* entry) -> const std::string& { return entry->first; });
    return out;
  };
  return std::ranges::equal(sorted(*this), sorted(other), [](const auto* a, const auto* b) {
    return a->first == b->first && a->second.equivalent(b->second);
  });
}

}  // namespace tarry
