#include "tarrymq/routing/route_walk.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "tarrymq/amqp/delay.h"
#include "tarrymq/amqp/table_view.h"

namespace tarry {

namespace {

/// One walk. The memory is a thread's and kept, so that the ordinary publish (one exchange, queues)
/// allocates nothing.
struct Walk {
  RouteMatches matches;                  // of the exchange being visited
  std::vector<std::string> waiting;      // to be visited
  std::unordered_set<std::string> seen;  // ever put in `waiting`, and the first one

  void clear() {
    waiting.clear();
    if (!seen.empty()) seen.clear();
  }
  void go_to(std::string name) {
    if (seen.insert(name).second) waiting.push_back(std::move(name));
  }
};

void visit_default(RouteLookup& lookup, const RouteQuery& query, RouteResult& out) {
  auto by_name = [&](std::string_view name) {
    if (const QueueId queue = lookup.find_queue(name); queue != QueueId{})
      out.queues.push_back(queue);
  };
  by_name(query.routing_key);
  for (const std::string_view key : query.more_keys) by_name(key);
}

/// True: it went to the holding queue.
bool waits_first(const Exchange& exchange, const RouteQuery& query, RouteResult& out) {
  if (query.ignore_delay || !query.properties || !query.properties->has_delay) return false;
  const Delay delay = delay_of(*query.properties);
  if (!delay.is_number) out.bad_delay = true;
  const QueueId queue = exchange.holding_queue();
  if (delay.ms == 0 || queue == QueueId{}) return false;
  out.queues.push_back(queue);
  out.held = true;
  return true;
}

void visit(const Exchange& exchange, const RouteQuery& query, Walk& walk, RouteResult& out) {
  if (!exchange.cacheable()) out.cacheable = false;
  if (exchange.delays() && waits_first(exchange, query, out)) return;
  RouteMatches& matches = walk.matches;
  matches.clear();
  exchange.match(query.routing_key, query.headers, matches, query.properties);
  for (const std::string_view key : query.more_keys) {
    exchange.match(key, query.headers, matches, query.properties);
  }
  out.queues.insert(out.queues.end(), matches.queues.begin(), matches.queues.end());
  if (matches.exchanges.empty() && !matches.queues.empty()) return;
  if (walk.seen.empty()) walk.seen.insert(exchange.name());
  if (matches.empty()) {
    if (auto alternate = exchange.alternate()) walk.go_to(*std::move(alternate));
  }
  for (std::string& name : matches.exchanges) walk.go_to(std::move(name));
}

}  // namespace

void walk_route(RouteLookup& lookup, const RouteQuery& query, RouteResult& out) {
  thread_local Walk walk;
  walk.clear();
  out.queues.clear();
  out.exchange_missing = out.held = out.bad_delay = out.deduplicates = false;
  out.cacheable = query.more_keys.empty();
  if (query.exchange.empty()) {
    visit_default(lookup, query, out);
  } else {
    const Exchange* first = lookup.find_exchange(query.exchange);
    if (first == nullptr) {
      out.exchange_missing = true;
      return;
    }
    out.deduplicates = first->deduplicates();
    visit(*first, query, walk, out);
  }
  while (!walk.waiting.empty()) {
    const std::string name = std::move(walk.waiting.back());
    walk.waiting.pop_back();
    if (name.empty()) {
      visit_default(lookup, query, out);
    } else if (const Exchange* exchange = lookup.find_exchange(name)) {
      visit(*exchange, query, walk, out);
    }
  }
  std::sort(out.queues.begin(), out.queues.end());
  out.queues.erase(std::unique(out.queues.begin(), out.queues.end()), out.queues.end());
}

std::optional<PeerError> append_sender_keys(const PropertiesView& properties, bool with_bcc,
                                            std::vector<std::string_view>& keys) {
  auto append = [&](std::string_view header) -> std::optional<PeerError> {
    auto refused = [&](const std::string& what) {
      return PeerError::precondition_failed("invalid header '" + std::string(header) +
                                            "': " + what + ", expected an array of longstr");
    };
    const auto field = find_field(properties.headers, header);
    if (!field) return std::nullopt;
    if (field->type != 'A') {
      return refused("of type '" + std::string(field_value(*field).type_name()) + "'");
    }
    ArrayReader reader(field->value);
    FieldView element;
    while (reader.next(element)) {
      if (element.type != 'S') {
        return refused("an element of type '" + std::string(field_value(element).type_name()) +
                       "'");
      }
      keys.push_back(as_text(element.value));
    }
    return std::nullopt;
  };
  if (properties.has_cc) {
    if (auto error = append("CC")) return error;
  }
  if (with_bcc && properties.has_bcc) return append("BCC");
  return std::nullopt;
}

}  // namespace tarry
