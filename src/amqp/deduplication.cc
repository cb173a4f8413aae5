#include "tarrymq/amqp/deduplication.h"

#include "tarrymq/amqp/table_view.h"

namespace tarry {
namespace {

constexpr int64_t kCacheSizeMax = 10'000'000;

std::string got_instead(const FieldValue& value) {
  return ", got the value '" + value.to_text() + "' of type '" + std::string(value.type_name()) +
         "'";
}

}  // namespace

Result<std::optional<Deduplication>, ArgumentComplaint> deduplication_of(
    const FieldTable& arguments) {
  const FieldValue* on = arguments.find("x-message-deduplication");
  if (on && !on->boolean()) {
    return ArgumentComplaint{"x-message-deduplication", "expected a boolean" + got_instead(*on)};
  }
  const bool wanted = on && *on->boolean();
  Deduplication out;
  for (const char* name : {"x-cache-size", "x-cache-ttl", "x-deduplication-header"}) {
    const FieldValue* value = arguments.find(name);
    if (!value) continue;
    if (!wanted) return ArgumentComplaint{name, "needs x-message-deduplication: true"};
    if (name == std::string_view("x-deduplication-header")) {
      if (!value->text() || value->text()->empty() || value->text()->size() > 255) {
        return ArgumentComplaint{
            name, "expected the name of a header, 1 to 255 bytes" + got_instead(*value)};
      }
      out.header = *value->text();
      continue;
    }
    const bool is_size = name == std::string_view("x-cache-size");
    const int64_t number = value->is_integer() ? value->integer().value_or(INT64_MAX) : 0;
    if (number < 1 || (is_size && number > kCacheSizeMax)) {
      std::string allowed = "expected an integer of at least 1";
      if (is_size) allowed += " and at most " + std::to_string(kCacheSizeMax);
      return ArgumentComplaint{name, allowed + got_instead(*value)};
    }
    if (is_size)
      out.cache_size = static_cast<size_t>(number);
    else
      out.cache_ttl_ms = static_cast<uint64_t>(number);
  }
  if (!wanted) return std::optional<Deduplication>();
  return std::optional<Deduplication>(std::move(out));
}

std::optional<std::string> Deduplicator::value_of(ByteSpan headers) const {
  const auto field = find_field(headers, settings_.header);
  if (!field) return std::nullopt;
  // Clients write a number in as few bytes as it needs, or always in eight.
  if (const auto number = field_integer(*field)) return "i" + std::to_string(*number);
  std::string value(1, field->type);
  value.append(as_text(field->value));
  return value;
}

void Deduplicator::forget(const std::string& value) {
  const auto found = seen_.find(value);
  if (found == seen_.end()) return;
  const auto entry = found->second;
  seen_.erase(found);  // first: its key borrows from the entry
  by_age_.erase(entry);
}

bool Deduplicator::seen_before(std::string value, ByteSpan headers, uint64_t now_ms) {
  if (auto found = seen_.find(value); found != seen_.end()) {
    if (now_ms < found->second->expires_ms) return true;
    const auto entry = found->second;
    seen_.erase(found);
    by_age_.erase(entry);
  }
  std::optional<uint64_t> ttl_ms = settings_.cache_ttl_ms;
  if (const auto own = find_field(headers, "x-cache-ttl")) {
    if (const auto number = field_integer(*own); number && *number >= 0)
      ttl_ms = static_cast<uint64_t>(*number);
  }
  if (by_age_.size() >= settings_.cache_size) {
    seen_.erase(by_age_.front().value);
    by_age_.pop_front();
  }
  const uint64_t expires_ms =
      ttl_ms && *ttl_ms < UINT64_MAX - now_ms ? now_ms + *ttl_ms : UINT64_MAX;
  by_age_.push_back({std::move(value), expires_ms});
  seen_.emplace(by_age_.back().value, std::prev(by_age_.end()));
  return false;
}

}  // namespace tarry
