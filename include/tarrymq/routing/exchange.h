#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tarrymq/amqp/deduplication.h"
#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/ids.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

class BindingIndex;

enum class ExchangeType : uint8_t {
  direct,
  fanout,
  topic,
  headers,
  retry,    // x-retry, the pre-declared amq.retry (retry-spec 35): nobody declares one, it has no
            // bindings
  delayed,  // x-delayed-message: routes as its x-delayed-type once a message's x-delay is over
  consistent_hash,  // x-consistent-hash: one destination by hash; binding keys are weights
  random,           // x-random: one destination, any
  local_random,     // x-local-random: the same (RabbitMQ: of those on this node), binding keys are
                    // empty
  modulus_hash,     // x-modulus-hash: one destination, by the key's hash modulo their number
};
std::string_view exchange_type_name(ExchangeType type);  // "direct", ..., "x-retry"
/// None for a name that no client may declare ("x-retry" included).
std::optional<ExchangeType> exchange_type_of(std::string_view name);

struct ExchangeSpec {
  std::string name;
  ExchangeType type = ExchangeType::direct;
  bool durable = false, auto_delete = false, internal = false;
  FieldTable arguments;
};

/// What a binding leads to: a queue (its id, and its name for listings) or, with id 0, another
/// exchange by name.
struct Destination {
  std::string name;
  QueueId queue;
  bool is_queue() const { return queue != QueueId{}; }
  static Destination to_queue(QueueId id, std::string name) { return {std::move(name), id}; }
  static Destination to_exchange(std::string name) { return {std::move(name), QueueId{}}; }
  friend bool operator==(const Destination&, const Destination&) = default;
};

struct Binding {
  Destination destination;
  std::string key;
  FieldTable arguments;
};

/// Where one exchange sends a message. Appended to; kept between calls by who asks, so that it does
/// not allocate.
struct RouteMatches {
  std::vector<QueueId> queues;
  std::vector<std::string> exchanges;
  bool empty() const { return queues.empty() && exchanges.empty(); }
  void clear() {
    queues.clear();
    exchanges.clear();
  }
};

/// What went through an exchange: messages that came in, and copies that left for queues. Any
/// thread; who publishes gathers and adds once a turn.
struct ExchangeFigures {
  std::atomic<uint64_t> in{0}, out{0};
  void add(uint64_t messages, uint64_t copies) {
    in.fetch_add(messages, std::memory_order_relaxed);
    out.fetch_add(copies, std::memory_order_relaxed);
  }
};

/// What a consistent-hash exchange hashes: the routing key, or what its arguments name
/// (hash-header, or LavinMQ's x-hash-on; hash-property: correlation_id, message_id or timestamp). A
/// message without it hashes as an empty text.
struct HashOn {
  enum class What : uint8_t { routing_key, header, property } what = What::routing_key;
  std::string name;
};

/// What an exchange's arguments say, checked.
struct ExchangeArguments {
  ExchangeType routes_as = ExchangeType::direct;  // the exchange's type, or x-delayed-type
  bool delays = false;                            // x-delayed-message, or x-delayed-exchange: true
  HashOn hash_on;
  std::optional<Deduplication> deduplication;
};
/// Errors: 406 that names the argument, what it was and what is allowed.
Result<ExchangeArguments, PeerError> check_exchange_arguments(const ExchangeSpec& spec);
/// The arguments that have a meaning, and so count when an exchange is declared again.
std::span<const std::string_view> known_exchange_arguments();

/// An exchange and its bindings. Any thread; bindings are guarded by its own lock, which no call
/// holds while it calls out.
class Exchange {
 public:
  /// 406 for a bad argument (check_exchange_arguments).
  static Result<std::unique_ptr<Exchange>, PeerError> create(ExchangeSpec spec);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const ExchangeSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  ExchangeType type() const { return spec_.type; }
  /// Outlives the exchange while somebody counts.
  const std::shared_ptr<ExchangeFigures>& figures() const { return figures_; }

  /// True: new. False: there was such a binding (same destination, key, and arguments in any order;
  /// integers by value). Error: 406, the binding's arguments are not what this type allows (x-match
  /// of a headers exchange).
  Result<bool, PeerError> bind(const Destination& destination, std::string_view key,
                               const FieldTable& arguments);
  /// True: there was one, it is gone.
  bool unbind(const Destination& destination, std::string_view key, const FieldTable& arguments);
  /// All bindings to it, for a destination that is deleted. Costs O(those). Returns what was
  /// removed.
  std::vector<Binding> unbind_all(const Destination& destination);

  std::vector<Binding> bindings() const;  // in no order
  std::vector<Binding> bindings_to(const Destination& destination) const;
  size_t binding_count() const;
  bool empty() const { return binding_count() == 0; }

  /// Appends each destination that the bindings give for this message once; `out` is left sorted by
  /// queue id as far as this call appended. `headers`: the message's checked header table (with its
  /// length), may be empty; `properties`: the message's, for an exchange that hashes one of them.
  /// No alternate exchange: that is route_walk.h's. Nothing waits here: see delays().
  void match(std::string_view routing_key, ByteSpan headers, RouteMatches& out,
             const PropertiesView* properties = nullptr) const;
  /// What match gives depends on more than the routing key (and the bindings).
  bool depends_on_headers() const { return arguments_.routes_as == ExchangeType::headers; }
  /// The answer for a routing key may be kept until bindings change.
  bool cacheable() const { return cacheable_; }

  /// A message with an x-delay waits in holding_queue() before it is routed.
  bool delays() const { return arguments_.delays; }
  QueueId holding_queue() const { return holding_queue_.load(std::memory_order_acquire); }
  void set_holding_queue(QueueId queue) { holding_queue_.store(queue, std::memory_order_release); }

  bool deduplicates() const { return deduplicator_ != nullptr; }
  /// Deduplicator::seen_before. Only when the message is published for good, and once for each.
  /// `value`: what was noted of it, empty if nothing was.
  bool seen_before(ByteSpan headers, uint64_t now_ms, std::string& value);
  /// Deduplicator::forget.
  void forget_seen(const std::string& value);

  /// Where messages go that match nothing; empty: nowhere. Begins as argument `alternate-exchange`;
  /// a policy may give one where the argument is missing (the argument wins).
  std::optional<std::string> alternate() const;
  void set_policy_alternate(std::optional<std::string> name);

 private:
  struct Bound;  // a destination and its bindings
  Exchange(ExchangeSpec spec, ExchangeArguments arguments);

  const ExchangeSpec spec_;
  const std::shared_ptr<ExchangeFigures> figures_ = std::make_shared<ExchangeFigures>();
  const ExchangeArguments arguments_;
  const bool cacheable_;
  std::atomic<QueueId> holding_queue_{QueueId{}};
  std::mutex deduplicator_mutex_;
  const std::unique_ptr<Deduplicator> deduplicator_;  // guarded by its mutex
  mutable std::shared_mutex mutex_;                   // guards what follows
  std::unordered_map<std::string, std::unique_ptr<Bound>> bound_;
  std::unique_ptr<BindingIndex> index_;
  std::optional<std::string> policy_alternate_;
  size_t binding_count_ = 0;
};

}  // namespace tarry
