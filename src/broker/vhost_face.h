#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "broker/core.h"
#include "broker/registry.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// A vhost as sessions see it, and (with `created` told) as the HTTP API uses it. Any shard; holds
/// no state of its own.
class VhostFace final : public VhostPort {
 public:
  VhostFace(Core& core, std::shared_ptr<Vhost> vhost) : core_(core), vhost_(std::move(vhost)) {}

  const std::string& name() const override { return vhost_->name; }

  void declare_exchange(const Actor&, ExchangeDeclare, VhostAnswer<void>) override;
  void delete_exchange(const Actor&, std::string name, bool if_unused, VhostAnswer<void>) override;
  void declare_queue(const Actor&, QueueDeclare, VhostAnswer<QueueDeclared>) override;
  void delete_queue(const Actor&, std::string name, bool if_unused, bool if_empty,
                    VhostAnswer<uint64_t>) override;
  void purge_queue(const Actor&, std::string name, VhostAnswer<uint64_t>) override;
  void bind(const Actor&, BindingSpec, VhostAnswer<void>) override;
  void unbind(const Actor&, BindingSpec, VhostAnswer<void>) override;
  Result<std::shared_ptr<QueueHandle>, PeerError> open_queue(const Actor&,
                                                             std::string_view name) override;
  std::shared_ptr<QueueHandle> find_queue(std::string_view name) override;
  void when_stored(Task then) override { core_.when_durable(std::move(then)); }
  uint64_t topology_version() const override {
    return vhost_->version.load(std::memory_order_acquire);
  }
  Result<Routed, PeerError> route(const Login& login, std::string_view exchange,
                                  std::string_view routing_key, const PropertiesView* properties,
                                  std::vector<std::shared_ptr<QueueHandle>>& targets) override;
  Result<void, PeerError> may_open_channel(const Login& login) override;
  bool may_impersonate(const Login& login) override;
  bool seen_before(std::string_view exchange, const PropertiesView& properties,
                   std::string& value) override;
  void forget_seen(std::string_view exchange, const std::string& value) override;
  void connection_closed(ConnectionId connection) override;

  /// As declare_queue, but for names that only the broker may give (amq.gen-... from an export).
  void declare_queue_unchecked(const Actor&, QueueDeclare, VhostAnswer<QueueDeclared>);

 private:
  using Lock = std::unique_lock<std::shared_mutex>;

  /// What has taken effect in memory; `stored`: whether it owes the disk nothing. Not under the
  /// lock.
  template <class T>
  void tell(const VhostAnswer<T>& answer, std::type_identity_t<Result<T, PeerError>> result,
            Stored stored) {
    if (stored == Stored::yes || !answer.waits_for_disk()) return answer(std::move(result), stored);
    core_.when_durable([answer, result = std::move(result)] { answer(result); });
  }
  Result<void, PeerError> check(const Actor& actor, Right right, std::string_view kind,
                                std::string_view queue) const {
    return Core::check_right(*vhost_, actor.login, right, kind, queue);
  }
  /// Exists, not internal, not exclusive to another connection, and the right is there. Under the
  /// lock.
  Result<std::shared_ptr<QueueEntry>, PeerError> usable_queue(const Actor& actor, Right right,
                                                              std::string_view queue) const;
  /// 403 unless the key is one that the user may use with this exchange, if it is a topic exchange.
  /// Under the lock.
  Result<void, PeerError> check_topic(const Login* login, Right right, std::string_view exchange,
                                      std::string_view routing_key) const;
  static bool locked_for(const QueueEntry& entry, const Actor& actor) {
    return entry.exclusive_owner != ConnectionId{} && entry.exclusive_owner != actor.connection;
  }
  Result<void, PeerError> check_binding(const Actor& actor, const BindingSpec& spec) const;
  static bool is_bound(const Vhost& vhost, const BindingSpec& spec);
  Result<void, PeerError> check_dead_letter_rights(const Actor& actor,
                                                   const QueueDeclare& declare) const;
  void give_default_type(QueueDeclare& declare,
                         const QueueEntry* existing) const;  // under the lock
  void declare_passive(const Actor& actor, const std::string& queue,
                       VhostAnswer<QueueDeclared> answer);
  void redeclare_queue(const Actor& actor, QueueDeclare declare, std::shared_ptr<QueueEntry> entry,
                       VhostAnswer<QueueDeclared> answer);
  void create_queue(const Actor& actor, QueueDeclare declare, VhostAnswer<QueueDeclared> answer);
  /// The counts of a queue that was there; if it ended meanwhile, `again` runs instead.
  void answer_counts(std::shared_ptr<QueueHandle> handle, bool is_use,
                     VhostAnswer<QueueDeclared> answer, std::function<void()> again);

  Core& core_;
  const std::shared_ptr<Vhost> vhost_;
};

/// Takes out what clients paste into names by accident, as RabbitMQ does.
std::string without_line_ends(std::string name);

}  // namespace tarry
