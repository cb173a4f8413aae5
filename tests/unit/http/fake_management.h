#pragma once

#include <nlohmann/json.hpp>

#include "tarrymq/broker/management.h"

namespace tarry::http_test {

/// A broker's face made of plain vectors: what a test puts in is listed, what the API asks for is
/// written down. Users: guest (administrator), watcher (monitoring), maker (policymaker), tenant
/// (management, only in "tenant"), nobody (no tag). All have the password "pw" but guest ("guest").
class FakeManagement : public Management {
 public:
  std::vector<UserInfo> user_list{
      {"guest", "", "rabbit_password_hashing_sha256", {"administrator"}},
      {"watcher", "", "rabbit_password_hashing_sha256", {"monitoring"}},
      {"maker", "", "rabbit_password_hashing_sha256", {"policymaker"}},
      {"tenant", "", "rabbit_password_hashing_sha256", {"management"}},
      {"nobody", "", "rabbit_password_hashing_sha256", {}}};
  std::vector<PermissionInfo> permission_list{{"guest", "/", ".*", ".*", ".*"},
                                              {"maker", "/", ".*", ".*", ".*"},
                                              {"tenant", "tenant", ".*", ".*", ".*"}};
  std::vector<VhostInfo> vhost_list{{.name = "/"}, {.name = "tenant"}};
  std::vector<QueueInfo> queue_list;
  std::vector<BindingInfo> binding_list;
  std::vector<PolicyInfo> policy_list;
  std::vector<std::shared_ptr<const ConnectionFigures>> connection_list;
  std::vector<ConsumerView> consumer_list;
  std::optional<uint64_t> head_timestamp_s;
  std::vector<LoginAttempts> attempts_list, attempts_by_source;
  std::vector<GotMessage> messages;
  OverviewInfo overview_info;
  ImportReport import_report;
  std::vector<TopicPermissionInfo> topic_permission_list;
  std::vector<ParameterInfo> parameter_list;
  // What was asked for last.
  struct Limit {
    std::string whose, limit;
    std::optional<int64_t> value;
  };
  std::vector<Limit> put_limits;
  VhostInfo put_vhost_info;
  std::string deleted_topic_exchange, imported;
  QueueDeclare declared_queue;
  ExchangeDeclare declared_exchange;
  PublishMessage published;
  PolicyInfo put_policy_info;
  BindingSpec bound;
  GetMode got_mode{};
  uint32_t got_count = 0;
  std::string deleted_queue, purged_queue;
  RetryInfo retry_info;
  std::string overridden_queue;
  UserInfo put_user_info;
  std::optional<std::string> put_user_password;
  std::vector<PermissionInfo> put_permissions;
  std::optional<PeerError> next_error;  // given once by the next operation

  void log_in(std::string name, std::string password, LoginOrigin,
              std::function<void(std::optional<UserInfo>)> answer) override {
    auto found = user(name);
    if (found && password != (name == "guest" ? "guest" : "pw")) found.reset();
    answer(found);
  }
  std::vector<LoginAttempts> login_attempts(bool by_source) override {
    return by_source ? attempts_by_source : attempts_list;
  }
  void forget_login_attempts() override {
    attempts_list.clear();
    attempts_by_source.clear();
  }
  bool may_access(std::string_view name, std::string_view vhost) override {
    for (const auto& p : permission_list) {
      if (p.user == name && p.vhost == vhost) return true;
    }
    return false;
  }
  Result<void, PeerError> may_write_to(const Login& login, std::string_view,
                                       std::string_view exchange) override {
    if (exchange != "secret") return {};
    return PeerError::access_refused("write access to exchange 'secret' refused for user '" +
                                     login.user + "'");
  }
  std::vector<UserInfo> users() override { return user_list; }
  std::optional<UserInfo> user(std::string_view name) override {
    for (const auto& u : user_list) {
      if (u.name == name) return u;
    }
    return std::nullopt;
  }
  void put_user(UserInfo info, std::optional<std::string> password, Answer<bool> answer) override {
    put_user_info = std::move(info);
    put_user_password = std::move(password);
    give(answer, true);
  }
  void delete_user(std::string, Answer<void> answer) override { give(answer); }
  void put_user_limit(std::string name, std::string limit, std::optional<int64_t> value,
                      Answer<void> answer) override {
    put_limits.push_back({name, limit, value});
    give(answer);
  }
  std::vector<PermissionInfo> permissions() override { return permission_list; }
  void put_permission(PermissionInfo info, Answer<bool> answer) override {
    put_permissions.push_back(std::move(info));
    give(answer, true);
  }
  void delete_permission(std::string, std::string, Answer<void> answer) override { give(answer); }

  std::vector<TopicPermissionInfo> topic_permissions() override { return topic_permission_list; }
  void put_topic_permission(TopicPermissionInfo info, Answer<bool> answer) override {
    topic_permission_list.push_back(std::move(info));
    give(answer, true);
  }
  void delete_topic_permission(std::string, std::string, std::string exchange,
                               Answer<void> answer) override {
    deleted_topic_exchange = std::move(exchange);
    give(answer);
  }

  WallTime now() override { return WallTime::from_ms(overview_info.now_ms); }
  OverviewInfo overview(const Scope&) override { return overview_info; }
  std::vector<VhostInfo> vhosts() override { return vhost_list; }
  std::vector<ExchangeInfo> exchanges(const Scope& scope) override {
    std::vector<ExchangeInfo> out;
    for (const auto& v : vhost_list) {
      if (!scope.vhost.empty() && scope.vhost != v.name) continue;
      for (const char* name : {"", "amq.direct", "amq.topic"})
        out.push_back(*exchange(v.name, name));
    }
    return out;
  }
  std::optional<ExchangeInfo> exchange(std::string_view vhost, std::string_view name) override {
    const bool known = std::any_of(vhost_list.begin(), vhost_list.end(),
                                   [&](const auto& v) { return v.name == vhost; });
    if (!known || (name != "" && name != "amq.direct" && name != "amq.topic")) return std::nullopt;
    ExchangeInfo info;
    info.vhost = vhost, info.name = name, info.type = name == "amq.topic" ? "topic" : "direct",
    info.durable = true;
    return info;
  }
  std::vector<QueueInfo> queues(const Scope& scope) override {
    std::vector<QueueInfo> out;
    for (const auto& q : queue_list) {
      if (scope.vhost.empty() || scope.vhost == q.vhost) out.push_back(q);
    }
    return out;
  }
  std::optional<QueueInfo> queue(std::string_view vhost, std::string_view name) override {
    for (const auto& q : queue_list) {
      if (q.vhost == vhost && q.name == name) return q;
    }
    return std::nullopt;
  }
  void each_queue(const std::function<void(uint64_t, const QueueNumbers&)>& visit) override {
    for (const auto& q : queue_list) {
      if (!q.internal) visit(q.id, q.numbers);
    }
  }
  std::vector<BindingInfo> bindings(const Scope&) override { return binding_list; }
  std::vector<std::shared_ptr<const ConnectionFigures>> connections(const Scope&) override {
    return connection_list;
  }
  void consumers(const Scope&, std::function<void(std::vector<ConsumerView>)> answer) override {
    answer(consumer_list);
  }
  std::shared_ptr<const ConnectionFigures> connection(ConnectionId id) override {
    for (const auto& one : connection_list) {
      if (one->info.id == id) return one;
    }
    return nullptr;
  }
  void look_at_queue(std::string, std::string name,
                     std::function<void(QueueLook)> answer) override {
    QueueLook out;
    for (const auto& view : consumer_list) {
      if (view.queue == name) out.consumers.push_back(view.consumer);
    }
    out.head_timestamp_s = head_timestamp_s;
    answer(std::move(out));
  }
  bool close_connection(std::string_view, std::string) override { return true; }
  void set_listeners(std::vector<ListenerInfo> listeners) override {
    overview_info.listeners = std::move(listeners);
  }
  void set_node_facts(NodeFacts facts) override { overview_info.facts = std::move(facts); }

  void put_vhost(VhostInfo info, Answer<bool> answer) override {
    put_vhost_info = std::move(info);
    give(answer, true);
  }
  void put_vhost_limit(std::string vhost, std::string limit, std::optional<int64_t> value,
                       Answer<void> answer) override {
    put_limits.push_back({vhost, limit, value});
    give(answer);
  }
  void delete_vhost(std::string, Answer<void> answer) override { give(answer); }

  void declare_exchange(const Login&, std::string, ExchangeDeclare declare,
                        Answer<bool> answer) override {
    declared_exchange = std::move(declare);
    give(answer, true);
  }
  void delete_exchange(const Login&, std::string, std::string, bool, Answer<void> answer) override {
    give(answer);
  }
  void declare_queue(const Login&, std::string, QueueDeclare declare,
                     Answer<bool> answer) override {
    declared_queue = std::move(declare);
    give(answer, true);
  }
  void delete_queue(const Login&, std::string, std::string name, bool, bool,
                    Answer<uint64_t> answer) override {
    deleted_queue = std::move(name);
    give(answer, uint64_t{0});
  }
  void purge_queue(const Login&, std::string, std::string name, Answer<uint64_t> answer) override {
    purged_queue = std::move(name);
    give(answer, uint64_t{0});
  }
  void bind(const Login&, std::string, BindingSpec binding, Answer<std::string> answer) override {
    bound = std::move(binding);
    give(answer, std::string("a/b"));
  }
  void unbind(const Login&, std::string, BindingSpec binding, Answer<void> answer) override {
    bound = std::move(binding);
    give(answer);
  }
  void publish(const Login&, PublishMessage message, Answer<bool> answer) override {
    published = std::move(message);
    give(answer, true);
  }
  void get_messages(const Login&, std::string, std::string, uint32_t count, GetMode mode,
                    Answer<std::vector<GotMessage>> answer) override {
    got_count = count, got_mode = mode;
    give(answer, messages);
  }

  Result<RetryInfo, PeerError> queue_retry(std::string_view, std::string_view) override {
    if (auto error = std::exchange(next_error, std::nullopt)) return *error;
    return retry_info;
  }
  void put_retry_override(const Login&, std::string, std::string name, RetryOverride changes,
                          Answer<void> answer) override {
    overridden_queue = std::move(name);
    retry_info.changes = changes;
    give(answer);
  }

  std::vector<PolicyInfo> policies(const Scope&, bool) override { return policy_list; }
  void put_policy(PolicyInfo policy, bool, Answer<bool> answer) override {
    put_policy_info = std::move(policy);
    give(answer, true);
  }
  void delete_policy(std::string, std::string, bool, Answer<void> answer) override { give(answer); }
  std::vector<ParameterInfo> parameters() override { return parameter_list; }
  void put_parameter(ParameterInfo parameter, Answer<bool> answer) override {
    parameter_list.push_back(std::move(parameter));
    give(answer, true);
  }
  void delete_parameter(std::string, std::string, std::string name, Answer<void> answer) override {
    std::erase_if(parameter_list, [&](const auto& p) { return p.name == name; });
    give(answer);
  }

  Result<std::string, PeerError> export_definitions(const std::string&) override {
    return Result<std::string, PeerError>(boost::system::in_place_value, R"({"queues":[]})");
  }
  void import_definitions(const std::string&, std::string json,
                          Answer<ImportReport> answer) override {
    imported = std::move(json);
    give(answer, import_report);
  }

 private:
  template <class T>
  void give(const Answer<T>& answer, T value) {
    if (auto error = std::exchange(next_error, std::nullopt)) return answer(*error);
    answer(Result<T, PeerError>(boost::system::in_place_value, std::move(value)));
  }
  void give(const Answer<void>& answer) {
    if (auto error = std::exchange(next_error, std::nullopt)) return answer(*error);
    answer({});
  }
};

inline QueueInfo make_queue(std::string vhost, std::string name, uint64_t ready = 0) {
  QueueInfo queue;
  queue.vhost = std::move(vhost);
  queue.name = std::move(name);
  queue.type = "classic";
  queue.durable = true;
  queue.numbers.ready = ready;
  return queue;
}

}  // namespace tarry::http_test
