#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "broker/management_face.h"
#include "tarrymq/broker/json_values.h"
#include "tarrymq/broker/retry_override_json.h"
#include "tarrymq/retry/retry_arguments.h"

namespace tarry {
namespace {

using nlohmann::json;

json user_json(const UserInfo& user) {
  return {{"name", user.name},
          {"password_hash", user.password_hash},
          {"hashing_algorithm", user.hashing_algorithm},
          {"tags", user.tags},
          {"limits", user.limits}};
}

json permission_json(const PermissionInfo& p) {
  return {{"user", p.user},
          {"vhost", p.vhost},
          {"configure", p.configure},
          {"write", p.write},
          {"read", p.read}};
}

json vhost_json(const std::string& name, const VhostInfo& about) {
  json metadata = {{"description", about.description}, {"tags", about.tags}};
  if (!about.default_queue_type.empty()) metadata["default_queue_type"] = about.default_queue_type;
  json out = {{"name", name},
              {"description", about.description},
              {"tags", about.tags},
              {"metadata", std::move(metadata)}};
  if (!about.default_queue_type.empty()) out["default_queue_type"] = about.default_queue_type;
  if (about.protected_from_deletion) out["protected_from_deletion"] = true;
  return out;
}

/// In the order of these keys, so that two exports of the same things are the same text.
void sort_by(json& list, std::initializer_list<const char*> keys) {
  std::sort(list.begin(), list.end(), [keys](const json& a, const json& b) {
    for (const char* key : keys) {
      if (!a.contains(key) || a[key] == b[key]) continue;
      return a[key] < b[key];
    }
    return false;
  });
}

/// The lists of one vhost, gathered over all that are asked for.
struct Lists {
  json permissions = json::array(), topic_permissions = json::array(), policies = json::array(),
       operator_policies = json::array(), exchanges = json::array(), queues = json::array(),
       bindings = json::array(), parameters = json::array();
  bool with_vhost = true;  // an export of one vhost does not name it in its entries

  json entry(const std::string& vhost, const std::string& name) const {
    json out = {{"name", name}};
    if (with_vhost) out["vhost"] = vhost;
    return out;
  }

  void add(const Vhost& vhost) {
    for (const auto& [user, rights] : vhost.rights)
      permissions.push_back(permission_json(rights.info));
    for (const auto& [user, of_exchanges] : vhost.topic_rights) {
      for (const auto& [exchange, rights] : of_exchanges) {
        const TopicPermissionInfo& p = rights.info;
        topic_permissions.push_back({{"user", p.user},
                                     {"vhost", p.vhost},
                                     {"exchange", p.exchange},
                                     {"write", p.write},
                                     {"read", p.read}});
      }
    }
    if (!vhost.about.limits.empty()) {  // where RabbitMQ keeps them
      json limits = entry(vhost.name, "limits");
      limits["component"] = "vhost-limits";
      limits["value"] = vhost.about.limits;
      parameters.push_back(std::move(limits));
    }
    for (bool operators : {false, true}) {
      for (const auto& [name, policy] : operators ? vhost.operator_policies : vhost.policies) {
        json out = entry(vhost.name, name);
        out["pattern"] = policy.info.pattern;
        out["apply-to"] = policy.info.apply_to;
        out["priority"] = policy.info.priority;
        out["definition"] = to_json(policy.info.definition);
        (operators ? operator_policies : policies).push_back(std::move(out));
      }
    }
    for (const auto& [name, exchange] : vhost.exchanges) add(vhost, *exchange);
    for (const auto& [name, queue] : vhost.queues) {
      if (!queue->stored() || !queue->identity().holds_for.empty()) continue;
      json out = entry(vhost.name, name);
      out["durable"] = true;
      out["auto_delete"] = queue->identity().auto_delete;
      out["arguments"] = to_json(queue->arguments);
      if (!queue->retry_override.empty()) out["retry_override"] = to_json(queue->retry_override);
      queues.push_back(std::move(out));
    }
  }

  void add(const Vhost& vhost, const Exchange& exchange) {
    const ExchangeSpec& spec = exchange.spec();
    if (!spec.durable) return;
    if (!is_system_exchange(spec.name)) {
      json out = entry(vhost.name, spec.name);
      out["type"] = exchange_type_name(spec.type);
      out["durable"] = true;
      out["auto_delete"] = spec.auto_delete;
      out["internal"] = spec.internal;
      out["arguments"] = to_json(spec.arguments);
      exchanges.push_back(std::move(out));
    }
    for (const Binding& binding : exchange.bindings()) {
      if (!destination_is_stored(vhost, binding.destination)) continue;
      json out = {{"source", spec.name},
                  {"destination", binding.destination.name},
                  {"destination_type", binding.destination.is_queue() ? "queue" : "exchange"},
                  {"routing_key", binding.key},
                  {"arguments", to_json(binding.arguments)}};
      if (with_vhost) out["vhost"] = vhost.name;
      bindings.push_back(std::move(out));
    }
  }

  static bool destination_is_stored(const Vhost& vhost, const Destination& to) {
    if (to.is_queue()) {
      auto queue = vhost.find_queue(to.name);
      return queue && queue->stored();
    }
    Exchange* exchange = vhost.find_exchange(to.name);
    return exchange && exchange->spec().durable;
  }
};

}  // namespace

Result<std::string, PeerError> ManagementFace::export_definitions(const std::string& vhost_name) {
  json out = {{"product_name", "TarryMQ"},
              {"product_version", TARRYMQ_VERSION},
              {"rabbit_version", "4.0.0"},
              {"rabbitmq_version", "4.0.0"}};
  Lists lists;
  lists.with_vhost = vhost_name.empty();
  std::shared_lock lock(core_.registry.mutex);
  if (vhost_name.empty()) {
    out["users"] = json::array();
    for (const auto& [name, user] : core_.registry.users) out["users"].push_back(user_json(user));
    out["vhosts"] = json::array();
    json globals = json::array();
    for (const auto& [name, vhost] : core_.registry.vhosts) {
      out["vhosts"].push_back(vhost_json(name, vhost->about));
      lists.add(*vhost);
    }
    for (const auto& [key, p] : core_.registry.parameters) {
      json value = json::parse(p.value_json, nullptr, false);
      if (p.component.empty())
        globals.push_back({{"name", p.name}, {"value", value}});
      else
        lists.parameters.push_back(
            {{"component", p.component}, {"vhost", p.vhost}, {"name", p.name}, {"value", value}});
    }
    out["permissions"] = std::move(lists.permissions);
    out["topic_permissions"] = std::move(lists.topic_permissions);
    out["global_parameters"] = std::move(globals);
  } else {
    auto vhost = core_.registry.find_vhost(vhost_name);
    if (!vhost) return PeerError::not_found("no vhost '" + vhost_name + "'");
    lists.add(*vhost);
    for (const auto& [key, p] : core_.registry.parameters) {
      if (p.component.empty() || p.vhost != vhost_name) continue;
      lists.parameters.push_back({{"component", p.component},
                                  {"name", p.name},
                                  {"value", json::parse(p.value_json, nullptr, false)}});
    }
    out["description"] = vhost->about.description;
    out["metadata"] = vhost_json(vhost_name, vhost->about)["metadata"];
  }
  sort_by(lists.exchanges, {"vhost", "name"});
  sort_by(lists.queues, {"vhost", "name"});
  sort_by(lists.bindings,
          {"vhost", "source", "destination_type", "destination", "routing_key", "arguments"});
  out["parameters"] = std::move(lists.parameters);
  out["policies"] = std::move(lists.policies);
  out["operator_policies"] = std::move(lists.operator_policies);
  out["exchanges"] = std::move(lists.exchanges);
  out["queues"] = std::move(lists.queues);
  out["bindings"] = std::move(lists.bindings);
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace tarry
