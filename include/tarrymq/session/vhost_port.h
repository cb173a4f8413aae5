#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/routing/exchange.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/runtime/tls.h"

namespace tarry {

/// A user who has logged in, as permissions see him. Immutable name; rights and tags are looked up
/// anew at each use.
struct Login {
  std::string user;
};

/// Where a log-in comes from: some users may only come from this machine, and failures are counted
/// for each address.
struct LoginOrigin {
  std::string address;  // as text, without a port
  bool loopback = false;
};

/// Who declares: for exclusive queues and messages.
struct Actor {
  const Login* login = nullptr;
  ConnectionId connection;
  Requester from;
};

struct ExchangeDeclare {
  std::string name, type;
  bool passive = false, durable = false, auto_delete = false, internal = false;
  FieldTable arguments;
};
struct QueueDeclare {
  std::string name;  // "" makes a name of the server's
  bool passive = false, durable = false, exclusive = false, auto_delete = false;
  FieldTable arguments;
};
struct QueueDeclared {
  std::string name;
  uint64_t message_count = 0, consumer_count = 0;
};
struct BindingSpec {
  std::string source, destination, routing_key;  // source: the exchange bound to
  bool destination_is_queue = true;
  FieldTable arguments;
};

/// What happened to a publish besides its targets.
struct Routed {
  bool cacheable = false;  // depends on exchange and key alone, until topology_version() changes
  std::shared_ptr<ExchangeFigures>
      figures{};      // where this publish, and those by the same route, are to be counted
  bool held = false;  // a target holds it for its x-delay: such a one gets the header with BCC
  bool nowhere =
      false;  // held, but when the delay is over it would go nowhere: unroutable if that matters
  bool deduplicates = false;  // the exchange does: ask seen_before when it is published for good
};

template <class T>
using Answer = std::function<void(Result<T, PeerError>)>;

/// Whether what an answer tells of would outlive a crash by now.
enum class Stored : bool { not_yet, yes };

/// How an operation of a vhost is answered: once, on the calling shard, later or before the call
/// returns. Made of an Answer it is heard when what it tells of is durable. Made of a function that
/// takes Stored as well it is heard as soon as the operation has taken effect, which is when every
/// later call sees it; with `not_yet`, VhostPort::when_stored tells of the rest. So a session can
/// go on with the next method of a channel while the replies to those before wait for the disk, and
/// many changes share one sync. An error owes the disk nothing.
template <class T>
class VhostAnswer {
 public:
  using Outcome = Result<T, PeerError>;
  template <class F>
  requires std::invocable<F&, Outcome, Stored> VhostAnswer(
      F at_once)  // NOLINT(google-explicit-constructor): a lambda is an answer
      : call_(std::move(at_once)) {}
  template <class F>
  requires std::invocable<F&, Outcome> VhostAnswer(
      F once_stored)  // NOLINT(google-explicit-constructor)
      : call_([call = std::move(once_stored)](Outcome outcome, Stored) mutable {
          call(std::move(outcome));
        }),
        once_stored_(true) {}

  /// For who answers. True: not to be called with `not_yet`.
  bool waits_for_disk() const { return once_stored_; }
  void operator()(Outcome outcome, Stored stored = Stored::yes) const {
    call_(std::move(outcome), stored);
  }

 private:
  std::function<void(Outcome, Stored)> call_;
  bool once_stored_ = false;
};

/// Port: a vhost as a session sees it, implemented by broker. Any shard. Every operation checks
/// permissions (configure, write, read: 403 with the RabbitMQ wording), reserved names and
/// amq.retry- (retry-spec 20) itself.
class VhostPort {
 public:
  virtual ~VhostPort() = default;
  virtual const std::string& name() const = 0;

  virtual void declare_exchange(const Actor&, ExchangeDeclare, VhostAnswer<void>) = 0;
  virtual void delete_exchange(const Actor&, std::string name, bool if_unused,
                               VhostAnswer<void>) = 0;
  virtual void declare_queue(const Actor&, QueueDeclare, VhostAnswer<QueueDeclared>) = 0;
  virtual void delete_queue(const Actor&, std::string name, bool if_unused, bool if_empty,
                            VhostAnswer<uint64_t>) = 0;
  virtual void purge_queue(const Actor&, std::string name, VhostAnswer<uint64_t>) = 0;
  virtual void bind(const Actor&, BindingSpec, VhostAnswer<void>) = 0;
  virtual void unbind(const Actor&, BindingSpec, VhostAnswer<void>) = 0;
  /// Runs `then` on the calling shard, perhaps before this returns, once all that has taken effect
  /// by now is durable, whoever asked for it.
  virtual void when_stored(Task then) = 0;

  /// The queue for consume or get: exists (404), not exclusive to another connection (405), not
  /// internal (403), read permission (403).
  virtual Result<std::shared_ptr<QueueHandle>, PeerError> open_queue(const Actor&,
                                                                     std::string_view name) = 0;
  /// Any queue by name, without checks; null if missing.
  virtual std::shared_ptr<QueueHandle> find_queue(std::string_view name) = 0;

  /// Changes whenever any exchange, queue or binding of the vhost or any permission does. Cheap;
  /// any thread.
  virtual uint64_t topology_version() const = 0;
  /// Appends the distinct queues that a publish goes to, CC and BCC keys and alternate exchanges
  /// included. Errors: no such exchange (404), internal (403), no write permission (403), an
  /// x-delay that is no number (406). `exchange` "" is the default exchange. `properties`: of the
  /// message; null when only exchange and key may matter (then ask again with them if the answer is
  /// not cacheable).
  virtual Result<Routed, PeerError> route(const Login& login, std::string_view exchange,
                                          std::string_view routing_key,
                                          const PropertiesView* properties,
                                          std::vector<std::shared_ptr<QueueHandle>>& targets) = 0;

  /// Errors: the user has as many channels as he may (530).
  virtual Result<void, PeerError> may_open_channel(const Login&) { return {}; }

  /// Whether the user may publish with somebody else's name as user_id.
  virtual bool may_impersonate(const Login&) { return false; }

  /// The exchange deduplicates, and has seen such a message: it is not to be published, but is
  /// confirmed. Else it has seen this one now; `value` is what it noted, if anything.
  virtual bool seen_before(std::string_view exchange, const PropertiesView& properties,
                           std::string& value) {
    (void)exchange, (void)properties, (void)value;
    return false;
  }
  /// A queue refused what was noted: who publishes it again shall not be taken for a duplicate.
  virtual void forget_seen(std::string_view exchange, const std::string& value) {
    (void)exchange, (void)value;
  }

  /// The connection is gone: delete its exclusive queues.
  virtual void connection_closed(ConnectionId connection) = 0;
};

/// What a connection tells about itself, for listings; updated by its shard, read by any thread
/// under its lock-free or locked means of its own.
struct ConnectionInfo {
  ConnectionId id;
  std::string name, peer_host, user, vhost, mechanism;
  uint16_t peer_port = 0, local_port = 0;
  uint64_t connected_at_ms = 0;
  uint16_t channel_max = 0, heartbeat_s = 0;
  uint32_t frame_max = 0;
  FieldTable client_properties;
  std::shared_ptr<const TlsFacts> tls{};  // null: without TLS
  std::string local_host{};
};

/// Port: log-in and vhosts, implemented by broker. Any shard.
class AccessPort {
 public:
  virtual ~AccessPort() = default;
  /// Null when refused. May take long on purpose after failures; `answer` comes on the calling
  /// shard.
  virtual void log_in(std::string user, std::string password, LoginOrigin from,
                      std::function<void(std::unique_ptr<Login>)> answer) = 0;
  /// The same for a user whom a checked certificate names (SASL EXTERNAL): no password is asked
  /// for.
  virtual void log_in_verified(std::string user, LoginOrigin from,
                               std::function<void(std::unique_ptr<Login>)> answer) {
    (void)user, (void)from;
    answer(nullptr);
  }
  /// Errors: unknown vhost, no access, connection limit: all 530.
  virtual Result<std::shared_ptr<VhostPort>, PeerError> open_vhost(const Login& login,
                                                                   std::string_view vhost) = 0;
  virtual void connection_opened(const ConnectionInfo& info) = 0;
  virtual void connection_closed(ConnectionId id) = 0;
};

}  // namespace tarry
