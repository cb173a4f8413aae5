#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/core.h"
#include "broker/retry_face.h"
#include "tarrymq/broker/management.h"

namespace tarry {

/// Management on the registry. What changes something is run on the first shard, where its answers
/// come, too.
class ManagementFace final : public Management {
 public:
  explicit ManagementFace(Core& core)
      : core_(core), retry_face_(core, [this](std::function<void()> work) {
          after_what_was_sent(std::move(work));
        }) {}

  RetryOperations* retry_operations() override { return &retry_face_; }

  void log_in(std::string user, std::string password, LoginOrigin from,
              std::function<void(std::optional<UserInfo>)> answer) override;
  std::vector<LoginAttempts> login_attempts(bool by_source) override;
  void forget_login_attempts() override;
  bool may_access(std::string_view user, std::string_view vhost) override;
  Result<void, PeerError> may_write_to(const Login& login, std::string_view vhost,
                                       std::string_view exchange) override;
  std::vector<UserInfo> users() override;
  std::optional<UserInfo> user(std::string_view name) override;
  void put_user(UserInfo info, std::optional<std::string> password, Answer<bool> answer) override;
  void delete_user(std::string name, Answer<void> answer) override;
  void put_user_limit(std::string user, std::string limit, std::optional<int64_t> value,
                      Answer<void> answer) override;
  std::vector<PermissionInfo> permissions() override;
  void put_permission(PermissionInfo info, Answer<bool> answer) override;
  void delete_permission(std::string user, std::string vhost, Answer<void> answer) override;
  std::vector<TopicPermissionInfo> topic_permissions() override;
  void put_topic_permission(TopicPermissionInfo info, Answer<bool> answer) override;
  void delete_topic_permission(std::string user, std::string vhost, std::string exchange,
                               Answer<void> answer) override;

  WallTime now() override;
  OverviewInfo overview(const Scope& scope) override;
  std::vector<VhostInfo> vhosts() override;
  std::vector<ExchangeInfo> exchanges(const Scope& scope) override;
  std::optional<ExchangeInfo> exchange(std::string_view vhost, std::string_view name) override;
  std::vector<QueueInfo> queues(const Scope& scope) override;
  std::optional<QueueInfo> queue(std::string_view vhost, std::string_view name) override;
  void each_queue(
      const std::function<void(uint64_t id, const QueueNumbers& numbers)>& visit) override;
  std::vector<BindingInfo> bindings(const Scope& scope) override;
  std::vector<std::shared_ptr<const ConnectionFigures>> connections(const Scope& scope) override;
  void consumers(const Scope& scope,
                 std::function<void(std::vector<ConsumerView>)> answer) override;
  std::shared_ptr<const ConnectionFigures> connection(ConnectionId id) override;
  void look_at_queue(std::string vhost, std::string queue,
                     std::function<void(QueueLook)> answer) override;
  bool close_connection(std::string_view name, std::string reason) override;
  void set_listeners(std::vector<ListenerInfo> listeners) override;
  void set_node_facts(NodeFacts facts) override;

  void put_vhost(VhostInfo info, Answer<bool> answer) override;
  void delete_vhost(std::string name, Answer<void> answer) override;
  void put_vhost_limit(std::string vhost, std::string limit, std::optional<int64_t> value,
                       Answer<void> answer) override;

  void declare_exchange(const Login& login, std::string vhost, ExchangeDeclare declare,
                        Answer<bool> answer) override;
  void delete_exchange(const Login& login, std::string vhost, std::string name, bool if_unused,
                       Answer<void> answer) override;
  void declare_queue(const Login& login, std::string vhost, QueueDeclare declare,
                     Answer<bool> answer) override;
  void delete_queue(const Login& login, std::string vhost, std::string name, bool if_unused,
                    bool if_empty, Answer<uint64_t> answer) override;
  void purge_queue(const Login& login, std::string vhost, std::string name,
                   Answer<uint64_t> answer) override;
  void bind(const Login& login, std::string vhost, BindingSpec binding,
            Answer<std::string> answer) override;
  void unbind(const Login& login, std::string vhost, BindingSpec binding,
              Answer<void> answer) override;
  void publish(const Login& login, PublishMessage message, Answer<bool> answer) override;
  void get_messages(const Login& login, std::string vhost, std::string queue, uint32_t count,
                    GetMode mode, Answer<std::vector<GotMessage>> answer) override;

  Result<RetryInfo, PeerError> queue_retry(std::string_view vhost, std::string_view queue) override;
  void put_retry_override(const Login& login, std::string vhost, std::string queue,
                          RetryOverride changes, Answer<void> answer) override;

  std::vector<PolicyInfo> policies(const Scope& scope, bool operator_policies) override;
  void put_policy(PolicyInfo policy, bool operator_policy, Answer<bool> answer) override;
  void delete_policy(std::string vhost, std::string name, bool operator_policy,
                     Answer<void> answer) override;
  std::vector<ParameterInfo> parameters() override;
  void put_parameter(ParameterInfo parameter, Answer<bool> answer) override;
  void delete_parameter(std::string component, std::string vhost, std::string name,
                        Answer<void> answer) override;

  Result<std::string, PeerError> export_definitions(const std::string& vhost) override;
  void import_definitions(const std::string& vhost, std::string json,
                          Answer<ImportReport> answer) override;

 private:
  /// Runs `work` after_what_was_sent with the vhost's face and an actor for `login`; answers 404 if
  /// there is no such vhost.
  template <class T>
  void in_vhost(const Login& login, const std::string& vhost, Answer<T> answer,
                std::function<void(VhostFace& face, const Actor& actor, Answer<T> answer)> work);
  void on_first_shard(std::function<void()> work);
  /// The same, once every shard has read what its sockets held when this was called, and what came
  /// of it is where it belongs: a purge takes what a client had sent before it was asked for, on
  /// whatever shard that client is.
  void after_what_was_sent(std::function<void()> work);
  std::vector<std::shared_ptr<Vhost>> in_scope(const Scope& scope) const;  // under the lock
  void hide_companion(const std::string& vhost, const std::string& name);
  void drop_companion(const Login& login, std::string vhost, std::string name,
                      Answer<uint64_t> answer);

  Core& core_;
  RetryFace retry_face_;
};

/// RabbitMQ's name of a binding among those of its pair: the routing key, and a hash of the
/// arguments if there are any.
std::string properties_key_of(std::string_view routing_key, const FieldTable& arguments);
/// Adds the counters of a queue that ends to those of its vhost.
void add_past(QueueNumbers& past, const QueueFigures& figures);
BindingInfo binding_info(const std::string& vhost, const std::string& source,
                         const Binding& binding);

}  // namespace tarry
