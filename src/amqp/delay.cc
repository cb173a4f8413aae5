#include "tarrymq/amqp/delay.h"

#include <cmath>

#include "tarrymq/amqp/table_view.h"

namespace tarry {
namespace {

constexpr std::string_view kDelayHeader = "x-delay";
constexpr uint64_t kEndOf9999Ms = 253'402'300'799'999;
constexpr double kTwoTo64 = 18446744073709551616.0;

uint64_t as_delay(double ms) {
  if (ms <= 0) return 0;
  ms = std::ceil(ms);
  return ms >= kTwoTo64 ? UINT64_MAX : static_cast<uint64_t>(ms);
}

}  // namespace

Delay delay_of(const PropertiesView& properties) {
  if (!properties.has_delay) return {};
  const auto field = find_field(properties.headers, kDelayHeader);
  if (!field) return {};
  const FieldValue value = field_value(*field);
  if (value.is_integer()) {
    const auto number = value.integer();
    if (!number)
      return {static_cast<uint64_t>(std::get<int64_t>(value.value)),
              true};  // unsigned, above 2^63-1
    return {*number < 0 ? 0 : static_cast<uint64_t>(*number), true};
  }
  double fraction = std::nan("");
  if (const float* f = std::get_if<float>(&value.value)) fraction = static_cast<double>(*f);
  if (const double* d = std::get_if<double>(&value.value)) fraction = *d;
  if (std::isnan(fraction)) return {0, false};
  return {as_delay(fraction), true};
}

std::string delay_in_words(const PropertiesView& properties) {
  const auto field = find_field(properties.headers, kDelayHeader);
  if (!field) return "none";
  const FieldValue value = field_value(*field);
  return "the value '" + value.to_text() + "' of type '" + std::string(value.type_name()) + "'";
}

uint64_t delayed_until(uint64_t now_ms, uint64_t delay_ms) {
  if (now_ms >= kEndOf9999Ms) return now_ms;
  return delay_ms > kEndOf9999Ms - now_ms ? kEndOf9999Ms : now_ms + delay_ms;
}

ReleasedMessage release_from_delay(ByteSpan header, const PropertiesView& properties) {
  ReleasedMessage out;
  auto headers = FieldTable::decode(properties.headers);
  if (!headers) {
    out.header = as_text(header);
    return out;
  }
  for (const char* name : {"CC", "BCC"}) {
    const FieldValue* keys = headers->find(name);
    if (!keys || !keys->array()) continue;
    for (const FieldValue& key : *keys->array()) {
      if (key.text()) out.more_keys.push_back(*key.text());
    }
  }
  headers->erase("BCC");
  const uint64_t ms = delay_of(properties).ms;
  const int64_t negated =
      ms > static_cast<uint64_t>(INT64_MAX) ? INT64_MIN : -static_cast<int64_t>(ms);
  headers->set(kDelayHeader, negated >= INT32_MIN ? FieldValue::int32(static_cast<int32_t>(negated))
                                                  : FieldValue::int64(negated));
  out.header = with_headers(header, *headers);
  return out;
}

}  // namespace tarry
