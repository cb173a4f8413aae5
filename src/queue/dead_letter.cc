#include "queue/dead_letter.h"

#include <algorithm>
#include <limits>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/properties.h"

namespace tarry {
namespace {

constexpr std::string_view kDeath = "x-death";

std::string_view text_of(const FieldTable& entry, std::string_view name) {
  const FieldValue* value = entry.find(name);
  const std::string* text = value ? value->text() : nullptr;
  return text ? std::string_view(*text) : std::string_view{};
}

/// An entry as a broker writes it, or null: malformed ones pass through and count for nothing.
const FieldTable* well_formed(const FieldValue& value) {
  const FieldTable* entry = value.table();
  if (!entry) return nullptr;
  const FieldValue* count = entry->find("count");
  if (!count || !count->integer() || *count->integer() < 0) return nullptr;
  const FieldValue* queue = entry->find("queue");
  const FieldValue* reason = entry->find("reason");
  if (!queue || !queue->text() || !reason || !reason->text()) return nullptr;
  return entry;
}

/// The queues between this death and the last one that a consumer caused, newest first, of those
/// since the last publish by a client. Within an automatic stretch no {queue, reason} repeats (it
/// would have been cut off), so the n-th newest entry is the n-th newest death.
std::vector<std::string> cycle_queues(const Death& death, const FieldArray& history) {
  std::vector<std::string> queues;
  if (is_consumers_doing(death_reason_name(death.reason))) return queues;
  queues.emplace_back(death.queue);
  uint32_t deaths = 0;
  for (const FieldValue& value : history) {
    if (deaths == death.hops) break;
    const FieldTable* entry = well_formed(value);
    if (!entry) continue;
    ++deaths;
    if (is_consumers_doing(text_of(*entry, "reason"))) break;
    queues.emplace_back(text_of(*entry, "queue"));
  }
  return queues;
}

FieldArray keys_of(const std::vector<std::string>& keys) {
  FieldArray array;
  for (const std::string& key : keys) array.push_back(FieldValue::text(key));
  return array;
}

/// Takes the entry of this queue and reason out of `history`, or makes one, and puts it in front
/// with one more count.
void add_death(FieldArray& history, const Death& death, std::string_view exchange,
               const std::vector<std::string>& keys,
               const std::optional<std::string_view>& expiration) {
  const std::string reason = death_reason_name(death.reason);
  auto it = std::find_if(history.begin(), history.end(), [&](const FieldValue& value) {
    const FieldTable* entry = well_formed(value);
    return entry && text_of(*entry, "queue") == death.queue && text_of(*entry, "reason") == reason;
  });
  FieldTable entry;
  if (it != history.end()) {
    entry = *it->table();
    history.erase(it);
    int64_t count = *entry.find("count")->integer();
    if (count < std::numeric_limits<int64_t>::max()) ++count;
    entry.set("count", FieldValue::int64(count));
    entry.set("time", FieldValue::timestamp(death.time_s));
  } else {
    entry.set("count", FieldValue::int64(1));
    entry.set("reason", FieldValue::text(reason));
    entry.set("queue", FieldValue::text(std::string(death.queue)));
    entry.set("time", FieldValue::timestamp(death.time_s));
    entry.set("exchange", FieldValue::text(std::string(exchange)));
    entry.set("routing-keys", FieldValue::array(keys_of(keys)));
  }
  if (expiration) entry.set("original-expiration", FieldValue::text(std::string(*expiration)));
  history.insert(history.begin(), FieldValue::table(std::move(entry)));
}

void set_first_and_last(FieldTable& headers, const Death& death, std::string_view exchange) {
  const auto set = [&](const std::string& prefix) {
    headers.set(prefix + "reason", FieldValue::text(death_reason_name(death.reason)));
    headers.set(prefix + "queue", FieldValue::text(std::string(death.queue)));
    headers.set(prefix + "exchange", FieldValue::text(std::string(exchange)));
  };
  if (!headers.find("x-first-death-reason")) set("x-first-death-");
  set("x-last-death-");
}

}  // namespace

bool is_consumers_doing(std::string_view reason) {
  return reason == "rejected" || reason == "delivery_limit" || reason == "max_age";
}

RouteNames route_names(ByteSpan route) {
  const std::string_view bytes = as_text(route);
  const auto take = [&](size_t at) -> std::string_view {
    if (at >= bytes.size()) return {};
    return bytes.substr(at + 1, static_cast<unsigned char>(bytes[at]));
  };
  RouteNames names;
  names.exchange = take(0);
  names.routing_key = take(1 + names.exchange.size());
  return names;
}

Rewritten rewrite_dead_letter(const Death& death) {
  Rewritten out;
  out.hops = death.hops == UINT8_MAX ? UINT8_MAX : static_cast<uint8_t>(death.hops + 1);
  const auto [exchange, routing_key] = route_names(death.route);

  // Both were checked when the message came in; if its bytes are damaged all the same, it goes on
  // as it is.
  auto view = PropertiesView::parse(death.header);
  FieldTable headers;
  if (view && !view->headers.empty()) {
    if (auto table = FieldTable::decode(view->headers)) headers = std::move(*table);
  }
  if (view) out.priority = view->priority;

  std::vector<std::string> keys{std::string(routing_key)};
  if (const FieldValue* cc = headers.find("CC"); cc && cc->array()) {
    for (const FieldValue& key : *cc->array()) {
      if (key.text()) keys.push_back(*key.text());
    }
  }

  FieldArray history;
  if (const FieldValue* old = headers.find(kDeath)) {
    // One that is no array never was a history.
    if (old->type == 'A' && old->array()) history = *old->array();
  }
  out.cycle_queues = cycle_queues(death, history);
  add_death(history, death, exchange, keys, view ? view->expiration : std::nullopt);
  headers.set(kDeath, FieldValue::array(std::move(history)));
  set_first_and_last(headers, death, exchange);
  if (death.delivery_count > 0) {
    headers.set("x-delivery-count", FieldValue::int64(static_cast<int64_t>(death.delivery_count)));
  }
  if (!death.last_error.empty())
    headers.set("x-last-error", FieldValue::text(std::string(death.last_error)));
  out.has_delivery_count = headers.find("x-delivery-count") != nullptr;

  if (death.new_routing_key) {
    headers.erase("CC");
    out.routing_keys.emplace_back(*death.new_routing_key);
  } else {
    out.routing_keys = std::move(keys);
  }
  out.header =
      view ? without_expiration(death.header, headers) : std::string(as_text(death.header));
  return out;
}

}  // namespace tarry
