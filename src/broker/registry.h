#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/policies.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/routing/exchange.h"
#include "tarrymq/storage/definition_store.h"

namespace tarry {

/// Look-up by string_view in maps with string keys.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
};
template <class T>
using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

struct QueueEntry {
  std::shared_ptr<QueueHandle> handle;
  bool durable = false;  // as declared; handle->identity.durable is false for an exclusive one
  bool overflow_declared = false;
  FieldTable arguments;          // as declared
  QueueSettings declared;        // by the arguments alone
  RetryOverride retry_override;  // retry-spec 36
  ConnectionId exclusive_owner;  // 0: not exclusive
  /// retries_scheduled when an operator deleted the companion: it is back with the next one
  /// (retry-spec 18).
  std::optional<uint64_t> companion_gone_at;
  std::string policy, operator_policy;
  FieldTable definition;          // of both policies, merged
  std::set<std::string> sources;  // exchanges with a binding to it

  const QueueIdentity& identity() const { return handle->identity; }
  bool stored() const { return handle->identity.durable; }  // it has a definition on disk
};

/// What a user may do in one vhost.
struct Rights {
  PermissionInfo info;
  Pattern configure, write, read;
};
enum class Right : uint8_t { configure, write, read };
/// Which keys of one topic exchange a user may publish and bind with. The expressions are the
/// user's own: {username} and {vhost} in them have been replaced.
struct TopicRights {
  TopicPermissionInfo info;
  Pattern write, read;
};

struct Vhost {
  explicit Vhost(std::string n) : name(std::move(n)) {}
  const std::string name;
  VhostInfo about;  // what is set by hand; the numbers in it are not kept up
  bool deleted = false;
  QueueNumbers past;  // counters of queues that are gone
  const std::shared_ptr<ExchangeFigures> default_exchange = std::make_shared<ExchangeFigures>();
  ByName<std::unique_ptr<Exchange>> exchanges;  // without the default one
  ByName<std::shared_ptr<QueueEntry>> queues;
  std::unordered_map<QueueId, std::shared_ptr<QueueHandle>> by_id;
  std::unordered_map<ConnectionId, std::vector<std::shared_ptr<QueueHandle>>>
      exclusive;                                      // by owner
  std::map<std::string, Rights, std::less<>> rights;  // by user
  std::map<std::string, std::map<std::string, TopicRights, std::less<>>, std::less<>>
      topic_rights;  // by user, exchange
  PolicySet policies, operator_policies;
  std::atomic<uint64_t> version{1};

  Exchange* find_exchange(std::string_view name_) const;
  std::shared_ptr<QueueEntry> find_queue(std::string_view name_) const;
  /// Below 0: none.
  int64_t limit(std::string_view what) const;
};
/// 400: no regular expression. The error names which.
Result<TopicRights, PeerError> compile_topic_rights(TopicPermissionInfo info);
/// A limit of a user or vhost; -1 if there is none.
int64_t limit_in(const std::map<std::string, int64_t>& limits, std::string_view what);

/// Component, vhost, name.
using ParameterKey = std::tuple<std::string, std::string, std::string>;

/// All names of the broker. Everything in it is guarded by `mutex`: shared to look, exclusive to
/// change. Declarations are rare, routes are cached by the sessions, so one lock is enough. The
/// functions below need it held exclusively; what they change durably they add to `batch`, which is
/// to be handed to the DefinitionStore under the same hold of the lock, so that the order on disk
/// is the order in memory.
class Registry {
 public:
  mutable std::shared_mutex mutex;
  std::map<std::string, std::shared_ptr<Vhost>, std::less<>> vhosts;
  std::map<std::string, UserInfo, std::less<>> users;
  std::map<ParameterKey, ParameterInfo> parameters;
  QueueNumbers past;  // counters of vhosts that are gone

  std::shared_ptr<Vhost> find_vhost(std::string_view name) const;

  /// With its pre-declared exchanges, which are in no definition.
  std::shared_ptr<Vhost> add_vhost(const std::string& name);
  void add_queue(Vhost& vhost, std::shared_ptr<QueueEntry> entry);
  void remove_queue(Vhost& vhost, const std::shared_ptr<QueueEntry>& entry, DefinitionBatch& batch);
  /// Bindings from and to it go too, and auto-delete exchanges that lose their last binding by
  /// that.
  void remove_exchange(Vhost& vhost, std::string_view name, DefinitionBatch& batch);
  /// Told of each holding queue that goes with its exchange (holding.h). Set before anything is
  /// removed.
  std::function<void(std::shared_ptr<QueueHandle>)> on_holding_queue_removed;
  Result<bool, PeerError> bind(Vhost& vhost, const BindingSpec& spec, DefinitionBatch& batch);
  /// True if there was one.
  bool unbind(Vhost& vhost, const BindingSpec& spec, DefinitionBatch& batch);

  /// Computes what policies say about the queue; true if that changed since. The settings are then
  /// to be applied.
  bool refresh_policy(const Vhost& vhost, const QueueIdentity& identity, QueueEntry& entry) const;
  void refresh_policy(const Vhost& vhost, Exchange& exchange) const;
  /// All of a vhost. Returns the queues that are to be told, once the lock is no longer held: a
  /// queue that gets tighter limits may dead-letter at once, which looks into the registry.
  std::vector<std::pair<std::shared_ptr<QueueHandle>, QueueSettings>> refresh_policies(
      Vhost& vhost);
  QueueSettings effective(const QueueIdentity& identity, const QueueEntry& entry) const;

 private:
  void unbind_destination(Vhost& vhost, const Destination& destination, bool stored,
                          const std::vector<std::string>& sources, DefinitionBatch& batch);
  std::optional<Destination> destination_of(const Vhost& vhost, const BindingSpec& spec,
                                            bool& stored) const;
};

/// Of type x-retry (retry-spec 35): a publish to it settles a delivery, which the session sees to.
/// No bindings.
inline constexpr std::string_view kRetryExchange = "amq.retry";
/// Names that a client may not declare: `amq.`.
bool is_reserved_name(std::string_view name);
/// The pre-declared exchanges of a vhost.
bool is_system_exchange(std::string_view name);

}  // namespace tarry
