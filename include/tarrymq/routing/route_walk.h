#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/routing/exchange.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/ids.h"

namespace tarry {

/// What a walk asks its vhost. Implemented by broker, on its registry as it is for the length of
/// the walk.
class RouteLookup {
 public:
  virtual ~RouteLookup() = default;
  /// Null if missing; else lives until the walk returns. Never asked for "" (the default exchange).
  virtual const Exchange* find_exchange(std::string_view name) = 0;
  /// The queue that the default exchange leads to; 0 if there is none or it may not be reached
  /// (amq.retry-, retry-spec 20).
  virtual QueueId find_queue(std::string_view name) = 0;
};

struct RouteQuery {
  std::string_view exchange;  // "": the default exchange, where the key is a queue's name
  std::string_view routing_key;
  std::span<const std::string_view>
      more_keys;     // from CC and BCC (append_sender_keys); each routes as the routing key does
  ByteSpan headers;  // the message's checked header table, may be empty
  const PropertiesView* properties =
      nullptr;                // of the message: what may be delayed or hashed; may be missing
  bool ignore_delay = false;  // where it would go when its delay is over
};

struct RouteResult {
  std::vector<QueueId> queues;    // distinct, ascending
  bool exchange_missing = false;  // the query's own exchange; nothing else was looked at
  bool cacheable = true;  // depends on exchange and routing key alone, until the topology changes
  bool held = false;      // at least one of the queues holds it for an x-delayed-message exchange
  bool bad_delay =
      false;  // it came to such an exchange with an x-delay that is no number; taken as none
  bool deduplicates = false;  // the query's own exchange does
};

/// Follows a publish to its queues: bindings, exchange-to-exchange bindings, and the alternate
/// exchange of each exchange on the way that has no destination for it (RabbitMQ: a destination
/// that is an exchange counts, wherever that leads). An exchange is visited once, so cycles end.
/// Exchanges on the way that are missing are skipped. A message with an x-delay goes no further
/// than the holding queue of an exchange that delays. Any thread. `out` is overwritten; keep it to
/// save the allocation.
void walk_route(RouteLookup& lookup, const RouteQuery& query, RouteResult& out);

/// The keys in the headers CC and, if `with_bcc`, BCC (sender-selected distribution), appended to
/// `keys`; they borrow the header. Error: 406, when one is no array of strings.
std::optional<PeerError> append_sender_keys(const PropertiesView& properties, bool with_bcc,
                                            std::vector<std::string_view>& keys);

}  // namespace tarry
