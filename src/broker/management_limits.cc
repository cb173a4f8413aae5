// Limits of users and vhosts, topic permissions, parameters: what HTTP may set besides users,
// rights and policies.
#include "broker/definition_codec.h"
#include "broker/management_face.h"
#include "broker/success.h"
#include "broker/wording.h"

namespace tarry {
namespace {

PeerError unknown_limit(const std::string& limit, const char* allowed) {
  return bad_request("limit '" + limit + "' is not known: allowed are " + allowed);
}

void set_limit(std::map<std::string, int64_t>& limits, const std::string& limit,
               std::optional<int64_t> value) {
  if (value)
    limits[limit] = *value;
  else
    limits.erase(limit);
}

/// The expression with {username} and {vhost} filled in, taken literally.
std::string filled_in(std::string expression, const TopicPermissionInfo& info) {
  for (const auto& [name, value] :
       {std::pair{"{username}", &info.user}, std::pair{"{vhost}", &info.vhost}}) {
    const std::string variable = name;
    const std::string literal = Pattern::literal(*value);
    for (size_t at = expression.find(variable); at != std::string::npos;
         at = expression.find(variable, at)) {
      expression.replace(at, variable.size(), literal);
      at += literal.size();
    }
  }
  return expression;
}

}  // namespace

Result<TopicRights, PeerError> compile_topic_rights(TopicPermissionInfo info) {
  TopicRights rights;
  for (const auto& [name, text, pattern] : {std::tuple{"write", &info.write, &rights.write},
                                            std::tuple{"read", &info.read, &rights.read}}) {
    auto compiled = Pattern::compile(filled_in(*text, info));
    if (!compiled) {
      return bad_request(std::string(name) + ": invalid regular expression '" + *text +
                         "': " + compiled.error());
    }
    *pattern = std::move(*compiled);
  }
  rights.info = std::move(info);
  return rights;
}

void ManagementFace::put_user_limit(std::string user, std::string limit,
                                    std::optional<int64_t> value, Answer<void> answer) {
  if (limit != "max-connections" && limit != "max-channels") {
    return answer(unknown_limit(limit, "max-connections, max-channels"));
  }
  std::unique_lock lock(core_.registry.mutex);
  auto found = core_.registry.users.find(user);
  if (found == core_.registry.users.end()) {
    lock.unlock();
    return answer(PeerError::not_found("no user '" + user + "'"));
  }
  set_limit(found->second.limits, limit, value);
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::user_key(user), definition::user_value(found->second));
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
}

void ManagementFace::put_vhost_limit(std::string name, std::string limit,
                                     std::optional<int64_t> value, Answer<void> answer) {
  if (limit != "max-connections" && limit != "max-queues") {
    return answer(unknown_limit(limit, "max-connections, max-queues"));
  }
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(name);
  if (!vhost) {
    lock.unlock();
    return answer(PeerError::not_found("no vhost '" + name + "'"));
  }
  set_limit(vhost->about.limits, limit, value);
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::vhost_key(name), definition::vhost_value(*vhost));
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
}

std::vector<TopicPermissionInfo> ManagementFace::topic_permissions() {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<TopicPermissionInfo> out;
  for (const auto& [name, vhost] : core_.registry.vhosts) {
    for (const auto& [user, exchanges] : vhost->topic_rights) {
      for (const auto& [exchange, rights] : exchanges) out.push_back(rights.info);
    }
  }
  return out;
}

void ManagementFace::put_topic_permission(TopicPermissionInfo info, Answer<bool> answer) {
  if (info.exchange.size() > kNameBytesMax)
    return answer(name_too_long("exchange name", info.exchange));
  auto rights = compile_topic_rights(info);
  if (!rights) return answer(rights.error());
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(info.vhost);
  const bool user_there = core_.registry.users.contains(info.user);
  if (!vhost || !user_there) {
    lock.unlock();
    return answer(
        bad_request(vhost ? "no user '" + info.user + "'" : "no vhost '" + info.vhost + "'"));
  }
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::topic_permission_key(info.vhost, info.user, info.exchange),
                          definition::topic_permission_value(info));
  const bool is_new =
      vhost->topic_rights[info.user].insert_or_assign(info.exchange, std::move(*rights)).second;
  ++vhost->version;
  core_.commit(lock, std::move(batch), [answer, is_new] { answer(success(is_new)); });
}

void ManagementFace::delete_topic_permission(std::string user, std::string vhost_name,
                                             std::string exchange, Answer<void> answer) {
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(vhost_name);
  DefinitionBatch batch;
  if (vhost) {
    auto exchanges = vhost->topic_rights.find(user);
    if (exchanges != vhost->topic_rights.end()) {
      std::erase_if(exchanges->second, [&](const auto& entry) {
        if (!exchange.empty() && entry.first != exchange) return false;
        batch.erases.push_back(definition::topic_permission_key(vhost_name, user, entry.first));
        return true;
      });
      if (exchanges->second.empty()) vhost->topic_rights.erase(exchanges);
    }
  }
  if (batch.empty()) {
    lock.unlock();
    return answer(PeerError::not_found(
        "user '" + user + "' has no such topic permissions in vhost '" + vhost_name + "'"));
  }
  ++vhost->version;
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
}

void ManagementFace::put_parameter(ParameterInfo parameter, Answer<bool> answer) {
  if (parameter.name.empty()) return answer(bad_request("a parameter needs a name"));
  std::unique_lock lock(core_.registry.mutex);
  if (!parameter.component.empty() && !core_.registry.find_vhost(parameter.vhost)) {
    lock.unlock();
    return answer(PeerError::not_found("no vhost '" + parameter.vhost + "'"));
  }
  DefinitionBatch batch;
  batch.puts.emplace_back(
      definition::parameter_key(parameter.component, parameter.vhost, parameter.name),
      definition::parameter_value(parameter));
  ParameterKey key{parameter.component, parameter.vhost, parameter.name};
  const bool is_new =
      core_.registry.parameters.insert_or_assign(std::move(key), std::move(parameter)).second;
  core_.commit(lock, std::move(batch), [answer, is_new] { answer(success(is_new)); });
}

void ManagementFace::delete_parameter(std::string component, std::string vhost, std::string name,
                                      Answer<void> answer) {
  std::unique_lock lock(core_.registry.mutex);
  if (core_.registry.parameters.erase(ParameterKey{component, vhost, name}) == 0) {
    lock.unlock();
    return answer(PeerError::not_found("no parameter '" + name + "'"));
  }
  DefinitionBatch batch;
  batch.erases.push_back(definition::parameter_key(component, vhost, name));
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
}

}  // namespace tarry
