#include <cmath>
#include <nlohmann/json.hpp>

#include "tarrymq/broker/json_values.h"
#include "tarrymq/broker/retry_override_json.h"

namespace tarry {
namespace {

using nlohmann::json;

/// JSON holds UTF-8 only: other bytes become U+FFFD when written (nlohmann's `replace`), so nothing
/// is lost here yet.
json text_json(const std::string& text) { return text; }

json decimal_json(const FieldDecimal& d) {
  return static_cast<double>(d.unscaled) / std::pow(10.0, d.scale);
}

ArgumentValue argument_from_json(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return INT64_MAX;
  if (value.is_number_integer()) return value.get<int64_t>();
  OtherArgument other;
  if (value.is_null()) {
    other.what = "null";
    return other;
  }
  other.what = std::string(value.type_name()) + " " +
               value.dump(-1, ' ', false, json::error_handler_t::replace);
  return other;
}

}  // namespace

json to_json(const FieldTable& table) {
  json out = json::object();
  for (const auto& [name, value] : table.entries) out[name] = to_json(value);
  return out;
}

json to_json(const FieldValue& value) {
  if (value.type == 'L') return static_cast<uint64_t>(std::get<int64_t>(value.value));
  struct Visitor {
    json operator()(std::monostate) const { return nullptr; }
    json operator()(bool v) const { return v; }
    json operator()(int64_t v) const { return v; }
    json operator()(float v) const { return v; }
    json operator()(double v) const { return v; }
    json operator()(const FieldDecimal& v) const { return decimal_json(v); }
    json operator()(const std::string& v) const { return text_json(v); }
    json operator()(const FieldArray& v) const {
      json out = json::array();
      for (const FieldValue& element : v) out.push_back(to_json(element));
      return out;
    }
    json operator()(const FieldTable& v) const { return to_json(v); }
  };
  return std::visit(Visitor{}, value.value);
}

Result<FieldValue, std::string> value_from_json(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return FieldValue{};
    case json::value_t::boolean:
      return FieldValue::boolean(value.get<bool>());
    case json::value_t::number_unsigned:
      if (value.get<uint64_t>() > INT64_MAX)
        return FieldValue{'L', static_cast<int64_t>(value.get<uint64_t>())};
      [[fallthrough]];
    case json::value_t::number_integer: {
      auto number = value.get<int64_t>();
      if (number < INT32_MIN || number > INT32_MAX) return FieldValue::int64(number);
      return FieldValue::int32(static_cast<int32_t>(number));
    }
    case json::value_t::number_float:
      return FieldValue{'d', value.get<double>()};
    case json::value_t::string:
      return FieldValue::text(value.get<std::string>());
    case json::value_t::array: {
      FieldArray out;
      for (const json& element : value) {
        auto converted = value_from_json(element);
        if (!converted) return converted;
        out.push_back(std::move(*converted));
      }
      return FieldValue::array(std::move(out));
    }
    case json::value_t::object: {
      auto table = table_from_json(value);
      if (!table) return table.error();
      return FieldValue::table(std::move(*table));
    }
    default:
      return std::string("a value of a kind that no argument can have");
  }
}

Result<FieldTable, std::string> table_from_json(const json& object) {
  FieldTable out;
  // An empty list is what some clients write for no arguments.
  if (object.is_null() || (object.is_array() && object.empty())) return out;
  if (!object.is_object()) return std::string("expected an object");
  for (const auto& [name, value] : object.items()) {
    if (name.size() > 255) return "the name '" + name + "' is longer than 255 bytes";
    auto converted = value_from_json(value);
    if (!converted) return name + ": " + converted.error();
    out.set(name, std::move(*converted));
  }
  return out;
}

json to_json(const RetryOverride& changes) {
  json out = json::object();
  const auto put = [&out](const char* key, const std::optional<uint64_t>& value) {
    if (value) out[key] = *value;
  };
  put("min", changes.min_ms);
  put("multiplier", changes.multiplier);
  put("max", changes.max_ms);
  put("limit", changes.limit);
  put("jitter", changes.jitter_percent);
  put("max_age", changes.max_age_ms);
  return out;
}

Result<RetryOverride, std::string> retry_override_from_json(const json& object) {
  if (!object.is_object()) return std::string("expected an object");
  RetryOverride changes;
  for (const auto& [key, value] : object.items()) {
    if (auto set = set_retry_value(changes, key, argument_from_json(value)); !set)
      return set.error();
  }
  return changes;
}

}  // namespace tarry
