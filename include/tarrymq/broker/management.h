#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/queue/consumer_use.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/retry/retry_override.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/session/connection_list.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

// Values for the HTTP API: copies, nothing in them changes behind the reader's back.

struct UserInfo {
  std::string name;
  std::string
      password_hash;  // base64(salt4 + sha256(salt4 + password)); "" = no log-in by password
  std::string hashing_algorithm =
      "rabbit_password_hashing_sha256";  // or ..._sha512, or bcrypt ($2b$..., imported)
  std::vector<std::string>
      tags;  // administrator, monitoring, policymaker, management, impersonator
  std::map<std::string, int64_t> limits{};  // max-connections, max-channels; below 0: none
  bool has_tag(std::string_view tag) const;
};
struct PermissionInfo {
  std::string user, vhost, configure, write,
      read;  // regular expressions, unanchored; "" allows nothing
};
/// Of a topic exchange: which routing keys a user may publish and bind with. None for an exchange:
/// all. {username} and {vhost} in an expression stand for those of the connection.
struct TopicPermissionInfo {
  std::string user, vhost, exchange, write, read;
};
/// Of so many sources at most log-ins are counted apart.
inline constexpr size_t kLoginSourcesMax = 1000;
/// Log-ins that were tried. `address` (without port) and `user` only where sources are asked for.
struct LoginAttempts {
  std::string protocol{}, address{}, user{};  // protocol: amqp091 or http
  uint64_t succeeded = 0, failed = 0;
};
/// Figures of a queue as last written by its shard (a turn old at most).
struct QueueNumbers {
  uint64_t ready = 0, ready_bytes = 0, unacked = 0, unacked_bytes = 0, persistent = 0;
  uint64_t delayed = 0, delayed_bytes = 0, next_due_ms = 0,
           last_due_ms = 0;  // broker time; 0: nothing waits
  // Of what waits, since when the first is to be handed back; later than next_due_ms where it had
  // to wait for consumers to make room, and 0 while it does.
  uint64_t owed_since_ms = 0;
  uint64_t consumers = 0;
  ConsumerUse consumer_use{};  // nothing without consumers, nor of several queues together
  int64_t active_at_ns = 0;    // broker time of the last turn; of several queues: the latest
  uint64_t published = 0, delivered = 0, delivered_no_ack = 0, got = 0, got_no_ack = 0, acked = 0,
           redelivered = 0, rejected = 0, confirmed = 0;
  uint64_t retries_scheduled = 0, retries_redelivered = 0, retries_postponed = 0;
  std::map<std::string, uint64_t> dead_lettered, dropped;  // by reason; only those above 0
  uint64_t dead_lettering =
      0;  // in the dead-letter stage now: on their way, or held (retry-spec 41)
  // How long after its due time each return was let in: counts by class of kRetryLagBoundsMs, the
  // last class above its last bound, and the sum of all lags (retry-spec 40).
  std::array<uint64_t, kRetryLagBoundsMs.size() + 1> retry_lag{};
  uint64_t retry_lag_sum_ms = 0;
  uint64_t disk_bytes = 0, memory_bytes = 0, segments = 0;
};
struct VhostInfo {
  std::string name, description{};
  std::vector<std::string> tags{};  // free words
  std::string
      default_queue_type{};  // classic or quorum: of declarations that name none; "" is classic
  bool protected_from_deletion = false;
  std::map<std::string, int64_t> limits{};  // max-connections, max-queues; below 0: none
  QueueNumbers totals{};                    // counters: of deleted queues too
  uint64_t queues = 0;
};
struct ExchangeInfo {
  std::string vhost, name, type;
  bool durable = false, auto_delete = false, internal = false;
  FieldTable arguments;
  std::string policy;  // name, "" if none
  FieldTable effective_policy_definition;
  uint64_t published_in = 0,
           published_out = 0;  // messages that came in, and copies that left for queues
};
struct BindingInfo {
  std::string vhost, source, destination, routing_key;
  bool destination_is_queue = true;
  FieldTable arguments;
  std::string properties_key;  // "~" for none; as RabbitMQ's, unique among the bindings of a pair
};
struct PolicyInfo {
  std::string vhost, name, pattern,
      apply_to = "all";  // all, queues, exchanges, classic_queues, quorum_queues, streams
  int64_t priority = 0;
  FieldTable definition;  // key to integer or text
};
struct ParameterInfo {
  std::string component, vhost, name;  // global ones: component and vhost are ""
  std::string value_json;
};

/// Adds `more` to `sum`: counts and gauges alike; next_due_ms is the earlier, last_due_ms the later
/// one.
void add_numbers(QueueNumbers& sum, const QueueNumbers& more);

/// A queue, or the companion of a retry-enabled one (retry-spec 21): that one has `internal` and
/// `owner`, no arguments, and its waiting messages as numbers.ready and ready_bytes, with
/// next_due_ms; delayed is 0 there.
struct QueueInfo {
  std::string vhost, name, type;  // type: classic or quorum, as declared
  bool durable = false, exclusive = false, auto_delete = false, internal = false,
       retry_enabled = false;
  std::string owner;                       // of a companion
  FieldTable arguments;                    // as declared
  std::string policy, operator_policy;     // names, "" if none
  FieldTable effective_policy_definition;  // policy and operator policy merged
  std::optional<uint64_t> delivery_limit;  // the effective one
  ConnectionId exclusive_owner;
  QueueNumbers numbers;
  uint64_t id = 0;  // of its life: never reused; a companion has its owner's
};
/// A queue's retries as declared, as an operator has changed them, and as they are (retry-spec 36).
struct RetryInfo {
  RetrySettings declared, effective;
  std::optional<uint64_t> declared_limit;  // none: not declared
  std::string type;                        // x-delayed-retry-type, "" if not declared
  RetryOverride changes;
  uint64_t effective_limit = 0;  // policies included
};
struct ConsumerView {
  std::string vhost, queue;
  ConsumerInfo consumer;
};
struct ListenerInfo {
  std::string protocol, address;  // amqp, http, amqp/ssl ...
  uint16_t port = 0;
  std::optional<int64_t>
      certificate_until_s{};  // with TLS: when the first of its certificates expires; since 1970
};
/// What main knows of the process and the broker does not.
struct NodeFacts {
  std::string data_dir, config_file, log_file;
  uint64_t memory_limit_bytes = 0, disk_free_min_bytes = 0;
};
struct OverviewInfo {
  std::string version, node, cluster_name;
  uint64_t uptime_ms = 0;
  uint64_t connections = 0, channels = 0, exchanges = 0, queues = 0, consumers = 0;
  QueueNumbers totals;  // summed over all queues; companions count as delayed
  uint64_t connections_opened = 0, connections_closed = 0, queues_declared = 0, queues_deleted = 0;
  uint64_t received = 0,
           received_confirmed = 0;  // messages published over AMQP, and of these confirmed
  uint64_t channels_opened = 0, channels_closed = 0, unroutable_returned = 0,
           unroutable_dropped = 0;
  uint64_t bytes_in = 0, bytes_out = 0;  // of all connections, those that are gone too
  uint64_t now_ms = 0;                   // broker time: what due times are to be compared with
  bool disk_alarm = false, memory_alarm = false;
  std::vector<ListenerInfo> listeners;
  NodeFacts facts;
};

enum class GetMode : uint8_t {
  ack_requeue_true,      // peek: back to the old place, counter untouched (retry-spec 42)
  reject_requeue_true,   // a rejection with requeue: counts, may be delayed or dead-lettered
  ack_requeue_false,     // taken
  reject_requeue_false,  // dead-lettered
};
struct GotMessage {
  std::string exchange, routing_key;
  std::string header;  // content header payload (PropertiesView::parse), x-delivery-count included
  std::string body;
  bool redelivered = false;
  uint64_t message_count = 0;  // still ready behind this one
};
struct PublishMessage {
  std::string vhost, exchange, routing_key;
  std::string header;  // content header payload (PropertiesBuilder::build)
  std::string body;
};
struct ImportReport {
  std::vector<std::string>
      skipped;  // one line each: what was left out and why (retry-spec 7 and 21)
};
class RetryOperations;
struct Scope {  // what a listing covers; "" is everything
  std::string vhost;
};

/// The broker's face to the HTTP API. Any thread, and nothing blocks. What is listed about names,
/// arguments and bindings is read-after-write. Answers come on any thread, at once or later,
/// exactly once: the caller goes back to its own. Errors: PeerError with an AMQP reply code (403,
/// 404, 405, 406) or, where only HTTP knows the case, 400 or 409; `text` is the reason to show.
/// http turns 406 into 400. Operations on queues, exchanges and messages check the login's
/// permissions as AMQP does; the rest checks nothing: who may call it is http's to decide by tags.
class Management {
 public:
  virtual ~Management() = default;

  /// Waiting messages and redrives (retry_operations.h). Null in a face that has none.
  virtual RetryOperations* retry_operations() { return nullptr; }

  // -- Who
  /// Null after login_failure_delay_ms if refused.
  virtual void log_in(std::string user, std::string password, LoginOrigin from,
                      std::function<void(std::optional<UserInfo>)> answer) = 0;
  /// Log-ins since the start or the last reset, by protocol; or by protocol, address and user,
  /// where of those that tried last are known (kLoginSourcesMax).
  virtual std::vector<LoginAttempts> login_attempts(bool by_source) = 0;
  virtual void forget_login_attempts() = 0;
  virtual bool may_access(std::string_view user,
                          std::string_view vhost) = 0;  // has permissions there
  /// Errors: 403 in RabbitMQ's words, 404 without the vhost.
  virtual Result<void, PeerError> may_write_to(const Login& login, std::string_view vhost,
                                               std::string_view exchange) = 0;
  virtual std::vector<UserInfo> users() = 0;
  virtual std::optional<UserInfo> user(std::string_view name) = 0;
  /// Creates or replaces. A `password` is hashed with a new salt; else info.password_hash is stored
  /// as it is. The answer tells whether it is new.
  virtual void put_user(UserInfo info, std::optional<std::string> password,
                        Answer<bool> answer) = 0;
  virtual void delete_user(std::string name, Answer<void> answer) = 0;  // 404
  /// max-connections or max-channels; no value: no limit any more. 400: unknown limit, 404: no such
  /// user.
  virtual void put_user_limit(std::string user, std::string limit, std::optional<int64_t> value,
                              Answer<void> answer) = 0;
  virtual std::vector<PermissionInfo> permissions() = 0;
  /// 400: bad regular expression, no such user or vhost.
  virtual void put_permission(PermissionInfo info, Answer<bool> answer) = 0;
  virtual void delete_permission(std::string user, std::string vhost, Answer<void> answer) = 0;
  virtual std::vector<TopicPermissionInfo> topic_permissions() = 0;
  virtual void put_topic_permission(TopicPermissionInfo info,
                                    Answer<bool> answer) = 0;  // 400 as put_permission
  /// `exchange` "": all that the user has in the vhost.
  virtual void delete_topic_permission(std::string user, std::string vhost, std::string exchange,
                                       Answer<void> answer) = 0;

  // -- Listings
  virtual WallTime now() = 0;  // broker time
  virtual OverviewInfo overview(const Scope& scope) = 0;
  virtual std::vector<VhostInfo> vhosts() = 0;
  virtual std::vector<ExchangeInfo> exchanges(const Scope& scope) = 0;
  virtual std::optional<ExchangeInfo> exchange(std::string_view vhost, std::string_view name) = 0;
  virtual std::vector<QueueInfo> queues(const Scope& scope) = 0;  // companions included
  virtual std::optional<QueueInfo> queue(std::string_view vhost,
                                         std::string_view name) = 0;  // companions too
  /// The figures of every queue (no companions), without the copies that queues() makes. `visit` is
  /// called under a lock: it must not call back.
  virtual void each_queue(
      const std::function<void(uint64_t id, const QueueNumbers& numbers)>& visit) = 0;
  /// Includes the implicit binding of each queue to the default exchange, but for internal ones.
  virtual std::vector<BindingInfo> bindings(const Scope& scope) = 0;
  /// With their channels (ConnectionFigures::channels).
  virtual std::vector<std::shared_ptr<const ConnectionFigures>> connections(const Scope& scope) = 0;
  virtual std::shared_ptr<const ConnectionFigures> connection(ConnectionId id) = 0;  // or null
  virtual void consumers(const Scope& scope,
                         std::function<void(std::vector<ConsumerView>)> answer) = 0;
  virtual void look_at_queue(std::string vhost, std::string queue,
                             std::function<void(QueueLook)> answer) = 0;
  /// 320 to the client, `reason` as text. False: no such connection.
  virtual bool close_connection(std::string_view name, std::string reason) = 0;
  virtual void set_listeners(std::vector<ListenerInfo> listeners) = 0;  // by main, for overview()
  virtual void set_node_facts(NodeFacts facts) = 0;                     // by main, the same

  // -- Vhosts
  /// Name, description, tags, default queue type and protection count; limits have a call of their
  /// own.
  virtual void put_vhost(VhostInfo info, Answer<bool> answer) = 0;
  virtual void delete_vhost(std::string name,
                            Answer<void> answer) = 0;  // its queues and connections go too
  /// max-connections or max-queues; no value: no limit any more. 400: unknown limit, 404: no such
  /// vhost.
  virtual void put_vhost_limit(std::string vhost, std::string limit, std::optional<int64_t> value,
                               Answer<void> answer) = 0;

  // -- Exchanges, queues, bindings, messages. `true`: it is new.
  virtual void declare_exchange(const Login& login, std::string vhost, ExchangeDeclare declare,
                                Answer<bool> answer) = 0;
  virtual void delete_exchange(const Login& login, std::string vhost, std::string name,
                               bool if_unused, Answer<void> answer) = 0;
  virtual void declare_queue(const Login& login, std::string vhost, QueueDeclare declare,
                             Answer<bool> answer) = 0;
  /// Of a companion: its waiting messages are dropped (retry-spec 21). 404 if missing. The answer:
  /// messages taken.
  virtual void delete_queue(const Login& login, std::string vhost, std::string name, bool if_unused,
                            bool if_empty, Answer<uint64_t> answer) = 0;
  virtual void purge_queue(const Login& login, std::string vhost, std::string name,
                           Answer<uint64_t> answer) = 0;
  /// The answer is the properties_key.
  virtual void bind(const Login& login, std::string vhost, BindingSpec binding,
                    Answer<std::string> answer) = 0;
  virtual void unbind(const Login& login, std::string vhost, BindingSpec binding,
                      Answer<void> answer) = 0;  // 404
  /// True: at least one queue took it (durably where that is owed).
  virtual void publish(const Login& login, PublishMessage message, Answer<bool> answer) = 0;
  /// At most `count` messages, oldest first; what the mode says is done to all of them once they
  /// are out.
  virtual void get_messages(const Login& login, std::string vhost, std::string queue,
                            uint32_t count, GetMode mode,
                            Answer<std::vector<GotMessage>> answer) = 0;

  // -- Retry override (retry-spec 36)
  /// 404: no such queue; 400: one without retries.
  virtual Result<RetryInfo, PeerError> queue_retry(std::string_view vhost,
                                                   std::string_view queue) = 0;
  /// Replaces the whole override, for rejections from then on; an empty one removes it. Answered
  /// when durable. Needs the right to configure the queue. Errors as above.
  virtual void put_retry_override(const Login& login, std::string vhost, std::string queue,
                                  RetryOverride changes, Answer<void> answer) = 0;

  // -- Policies and parameters
  virtual std::vector<PolicyInfo> policies(const Scope& scope, bool operator_policies) = 0;
  /// 400: bad pattern, unknown or bad key; delayed-retry-* keys with a reason that points at the
  /// retry override (retry-spec 7). 404: no such vhost.
  virtual void put_policy(PolicyInfo policy, bool operator_policy, Answer<bool> answer) = 0;
  virtual void delete_policy(std::string vhost, std::string name, bool operator_policy,
                             Answer<void> answer) = 0;
  virtual std::vector<ParameterInfo> parameters() = 0;
  /// Kept, shown and exported; what no part of this broker reads has no effect. 404: no such vhost.
  virtual void put_parameter(ParameterInfo parameter, Answer<bool> answer) = 0;
  virtual void delete_parameter(std::string component, std::string vhost, std::string name,
                                Answer<void> answer) = 0;

  // -- Definitions, in RabbitMQ's JSON. vhost "" is all of them.
  virtual Result<std::string, PeerError> export_definitions(const std::string& vhost) = 0;
  /// Adds what is missing; what is there already keeps its arguments. Nothing is done when the JSON
  /// is malformed (400).
  virtual void import_definitions(const std::string& vhost, std::string json,
                                  Answer<ImportReport> answer) = 0;
};

/// base64(salt4 + sha256(salt4 + password)) with a new random salt. `algorithm`: also
/// rabbit_password_hashing_sha512.
std::string hash_password(std::string_view password, std::string_view algorithm = "");

}  // namespace tarry
