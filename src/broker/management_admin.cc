#include "broker/access.h"
#include "broker/definition_codec.h"
#include "broker/desk.h"
#include "broker/management_face.h"
#include "broker/passwords.h"
#include "broker/success.h"
#include "broker/wording.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

PeerError no_vhost(const std::string& name) {
  return PeerError::not_found("no vhost '" + name + "'");
}

}  // namespace

void ManagementFace::on_first_shard(std::function<void()> work) {
  core_.shards[0]->post(std::move(work));
}

namespace {

/// The first mail may run in a turn whose sockets were looked at before it was sent, and the one
/// that it posts to its own shard in that same turn; the next turn reads the sockets, and at its
/// end what they brought leaves for other shards; so in the turn after that all is done.
constexpr int kOwnPosts = 3;

void wait_turns(Shard& shard, int posts_left, std::function<void()> work) {
  shard.post([&shard, posts_left, work = std::move(work)]() mutable {
    if (posts_left == 0)
      work();
    else
      wait_turns(shard, posts_left - 1, std::move(work));
  });
}

}  // namespace

void ManagementFace::after_what_was_sent(std::function<void()> work) {
  auto left = std::make_shared<std::atomic<size_t>>(core_.shards.size());
  auto one_done = [this, left, work = std::move(work)] {
    if (left->fetch_sub(1) == 1) on_first_shard(work);
  };
  for (Shard* shard : core_.shards) wait_turns(*shard, kOwnPosts, one_done);
}

// -- Users and rights

void ManagementFace::log_in(std::string user, std::string password, LoginOrigin from,
                            std::function<void(std::optional<UserInfo>)> answer) {
  const SteadyTime asked_at = core_.clock.steady_now();
  Access::check_password(
      core_, user, password, from,
      [this, user, from, asked_at, answer = std::move(answer)](std::optional<UserInfo> found) {
        core_.login_book.note("http", from, user, found.has_value());
        if (found) return answer(std::move(found));
        const uint32_t wait_ms = Access::refused(core_, user, from, asked_at);
        on_first_shard([core = &core_, wait_ms, answer] {
          core->desks[0]->run_later(wait_ms, [answer] { answer(std::nullopt); });
        });
      });
}

std::vector<LoginAttempts> ManagementFace::login_attempts(bool by_source) {
  return by_source ? core_.login_book.by_source() : core_.login_book.by_protocol();
}

void ManagementFace::forget_login_attempts() { core_.login_book.forget(); }

bool ManagementFace::may_access(std::string_view user, std::string_view vhost) {
  std::shared_lock lock(core_.registry.mutex);
  auto found = core_.registry.find_vhost(vhost);
  return found && found->rights.find(user) != found->rights.end();
}

Result<void, PeerError> ManagementFace::may_write_to(const Login& login, std::string_view vhost,
                                                     std::string_view exchange) {
  std::shared_lock lock(core_.registry.mutex);
  auto found = core_.registry.find_vhost(vhost);
  if (!found) return no_vhost(std::string(vhost));
  return Core::check_right(*found, &login, Right::write, "exchange", exchange);
}

std::vector<UserInfo> ManagementFace::users() {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<UserInfo> out;
  for (const auto& [name, info] : core_.registry.users) out.push_back(info);
  return out;
}

std::optional<UserInfo> ManagementFace::user(std::string_view name) {
  std::shared_lock lock(core_.registry.mutex);
  auto it = core_.registry.users.find(name);
  if (it == core_.registry.users.end()) return std::nullopt;
  return it->second;
}

void ManagementFace::put_user(UserInfo info, std::optional<std::string> password,
                              Answer<bool> answer) {
  if (info.name.empty()) return answer(bad_request("a user needs a name"));
  if (password) {
    if (is_slow_algorithm(info.hashing_algorithm))
      info.hashing_algorithm = UserInfo{}.hashing_algorithm;
    info.password_hash = hash_password(*password, info.hashing_algorithm);
    if (info.password_hash.empty()) {
      return answer(bad_request("hashing_algorithm '" + info.hashing_algorithm +
                                "' is not known: " + kKnownAlgorithms));
    }
  } else if (!password_hash_valid(info.password_hash, info.hashing_algorithm)) {
    return answer(bad_request("password_hash is no salted hash for " + info.hashing_algorithm +
                              "; known are " + kKnownAlgorithms));
  }
  std::unique_lock lock(core_.registry.mutex);
  if (auto known = core_.registry.users.find(info.name); known != core_.registry.users.end()) {
    info.limits = known->second.limits;
  }
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::user_key(info.name), definition::user_value(info));
  bool is_new = core_.registry.users.insert_or_assign(info.name, info).second;
  core_.commit(lock, std::move(batch), [answer, is_new] { answer(success(is_new)); });
}

void ManagementFace::delete_user(std::string name, Answer<void> answer) {
  std::unique_lock lock(core_.registry.mutex);
  if (core_.registry.users.erase(name) == 0) {
    lock.unlock();
    return answer(PeerError::not_found("no user '" + name + "'"));
  }
  DefinitionBatch batch;
  batch.erases.push_back(definition::user_key(name));
  for (auto& [vhost_name, vhost] : core_.registry.vhosts) {
    if (vhost->rights.erase(name))
      batch.erases.push_back(definition::permission_key(vhost_name, name));
    auto topics = vhost->topic_rights.find(name);
    if (topics == vhost->topic_rights.end()) continue;
    for (const auto& [exchange, rights] : topics->second) {
      batch.erases.push_back(definition::topic_permission_key(vhost_name, name, exchange));
    }
    vhost->topic_rights.erase(topics);
  }
  core_.bump_all_versions();
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
  for (const auto& connection : core_.connections.all()) {
    if (connection->info.user == name)
      core_.connections.close(connection->info.id, 320, "user '" + name + "' was deleted");
  }
}

std::vector<PermissionInfo> ManagementFace::permissions() {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<PermissionInfo> out;
  for (const auto& [name, vhost] : core_.registry.vhosts) {
    for (const auto& [user, rights] : vhost->rights) out.push_back(rights.info);
  }
  return out;
}

void ManagementFace::put_permission(PermissionInfo info, Answer<bool> answer) {
  Rights rights{info, {}, {}, {}};
  struct Part {
    const char* name;
    const std::string& text;
    Pattern& pattern;
  };
  for (const Part& part :
       {Part{"configure", info.configure, rights.configure},
        Part{"write", info.write, rights.write}, Part{"read", info.read, rights.read}}) {
    auto compiled = Pattern::compile(part.text);
    if (!compiled) {
      return answer(bad_request(std::string(part.name) + ": invalid regular expression '" +
                                part.text + "': " + compiled.error()));
    }
    part.pattern = *compiled;
  }
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(info.vhost);
  bool user_there = core_.registry.users.contains(info.user);
  if (!vhost || !user_there) {
    lock.unlock();
    return answer(
        bad_request(vhost ? "no user '" + info.user + "'" : "no vhost '" + info.vhost + "'"));
  }
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::permission_key(info.vhost, info.user),
                          definition::permission_value(info));
  bool is_new = vhost->rights.insert_or_assign(info.user, std::move(rights)).second;
  ++vhost->version;
  core_.commit(lock, std::move(batch), [answer, is_new] { answer(success(is_new)); });
}

void ManagementFace::delete_permission(std::string user, std::string vhost_name,
                                       Answer<void> answer) {
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(vhost_name);
  if (!vhost || vhost->rights.erase(user) == 0) {
    lock.unlock();
    return answer(PeerError::not_found("user '" + user + "' has no permissions in vhost '" +
                                       vhost_name + "'"));
  }
  DefinitionBatch batch;
  batch.erases.push_back(definition::permission_key(vhost_name, user));
  ++vhost->version;
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
}

// -- Vhosts

void ManagementFace::put_vhost(VhostInfo info, Answer<bool> answer) {
  const std::string name = info.name;
  if (name.empty() || name.size() > 255)
    return answer(bad_request("a vhost's name has 1 to 255 bytes"));
  if (info.default_queue_type != "" && info.default_queue_type != "classic" &&
      info.default_queue_type != "quorum") {
    return answer(bad_request("default_queue_type: expected classic or quorum, got '" +
                              info.default_queue_type + "'"));
  }
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(name);
  bool is_new = !vhost;
  if (is_new) vhost = core_.registry.add_vhost(name);
  info.limits = vhost->about.limits;
  vhost->about = std::move(info);
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::vhost_key(name), definition::vhost_value(*vhost));
  core_.commit(lock, std::move(batch), [answer, is_new] { answer(success(is_new)); });
}

void ManagementFace::delete_vhost(std::string name, Answer<void> answer) {
  on_first_shard([this, name, answer] {
    std::unique_lock lock(core_.registry.mutex);
    auto vhost = core_.registry.find_vhost(name);
    if (!vhost) {
      lock.unlock();
      return answer(no_vhost(name));
    }
    if (vhost->about.protected_from_deletion) {
      lock.unlock();
      return answer(PeerError::soft(412, "vhost '" + name + "' is protected from deletion"));
    }
    vhost->deleted = true;
    DefinitionBatch batch;
    std::vector<std::shared_ptr<QueueEntry>> entries;
    for (const auto& [queue, entry] : vhost->queues) entries.push_back(entry);
    for (const auto& entry : entries) core_.registry.remove_queue(*vhost, entry, batch);
    while (!vhost->exchanges.empty()) {
      core_.registry.remove_exchange(*vhost, std::string(vhost->exchanges.begin()->first), batch);
    }
    for (const auto& [user, rights] : vhost->rights)
      batch.erases.push_back(definition::permission_key(name, user));
    for (const auto& [policy, info] : vhost->policies)
      batch.erases.push_back(definition::policy_key(name, policy, false));
    for (const auto& [policy, info] : vhost->operator_policies) {
      batch.erases.push_back(definition::policy_key(name, policy, true));
    }
    for (const auto& [user, exchanges] : vhost->topic_rights) {
      for (const auto& [exchange, rights] : exchanges) {
        batch.erases.push_back(definition::topic_permission_key(name, user, exchange));
      }
    }
    std::erase_if(core_.registry.parameters, [&](const auto& entry) {
      const auto& [component, in_vhost, parameter] = entry.first;
      if (component.empty() || in_vhost != name) return false;
      batch.erases.push_back(definition::parameter_key(component, in_vhost, parameter));
      return true;
    });
    batch.erases.push_back(definition::vhost_key(name));
    add_numbers(core_.registry.past, vhost->past);
    core_.registry.vhosts.erase(name);
    // Its connections would find nothing any more.
    for (const auto& connection : core_.connections.all()) {
      if (connection->info.vhost == name)
        core_.connections.close(connection->info.id, 320, "vhost '" + name + "' is deleted");
    }
    std::vector<std::shared_ptr<QueueHandle>> stored;
    for (const auto& entry : entries) {
      if (entry->stored()) stored.push_back(entry->handle);
    }
    core_.commit(lock, std::move(batch), [core = &core_, answer, stored] {
      for (const auto& handle : stored) core->store.remove_queue_directory(handle->id);
      DefinitionBatch tombstones;
      for (const auto& handle : stored)
        tombstones.erases.push_back(definition::tombstone_key(handle->id));
      if (!tombstones.empty()) {
        core->store.on_store_thread([all = &core->definitions, tombstones = std::move(tombstones)] {
          all->write(tombstones, [] {});
        });
      }
      answer({});
    });
    ShardDesk& desk = *core_.desks[0];
    for (const auto& entry : entries) {
      auto handle = entry->handle;
      handle->remove(false, false, desk.me(), desk.expect([handle](const QueueReply&) {}));
    }
  });
}

// -- Policies

std::vector<PolicyInfo> ManagementFace::policies(const Scope& scope, bool operator_policies) {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<PolicyInfo> out;
  for (const auto& vhost : in_scope(scope)) {
    for (const auto& [name, policy] :
         operator_policies ? vhost->operator_policies : vhost->policies) {
      out.push_back(policy.info);
    }
  }
  return out;
}

void ManagementFace::put_policy(PolicyInfo info, bool operator_policy, Answer<bool> answer) {
  auto policy = check_policy(std::move(info), operator_policy);
  if (!policy) return answer(policy.error());
  std::lock_guard one_change(core_.policy_mutex);
  std::unique_lock lock(core_.registry.mutex);
  std::string vhost_name = policy->info.vhost, name = policy->info.name;
  auto vhost = core_.registry.find_vhost(vhost_name);
  if (!vhost) {
    lock.unlock();
    return answer(no_vhost(vhost_name));
  }
  DefinitionBatch batch;
  batch.puts.emplace_back(definition::policy_key(vhost_name, name, operator_policy),
                          definition::policy_value(policy->info));
  auto& set = operator_policy ? vhost->operator_policies : vhost->policies;
  bool is_new = set.insert_or_assign(name, std::move(*policy)).second;
  auto changed = core_.registry.refresh_policies(*vhost);
  core_.commit(lock, std::move(batch), [answer, is_new] { answer(success(is_new)); });
  for (auto& [handle, settings] : changed) handle->apply(std::move(settings));
}

void ManagementFace::delete_policy(std::string vhost_name, std::string name, bool operator_policy,
                                   Answer<void> answer) {
  std::lock_guard one_change(core_.policy_mutex);
  std::unique_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(vhost_name);
  if (!vhost || (operator_policy ? vhost->operator_policies : vhost->policies).erase(name) == 0) {
    lock.unlock();
    return answer(PeerError::not_found("no policy '" + name + "' in vhost '" + vhost_name + "'"));
  }
  DefinitionBatch batch;
  batch.erases.push_back(definition::policy_key(vhost_name, name, operator_policy));
  auto changed = core_.registry.refresh_policies(*vhost);
  core_.commit(lock, std::move(batch), [answer] { answer({}); });
  for (auto& [handle, settings] : changed) handle->apply(std::move(settings));
}

std::vector<ParameterInfo> ManagementFace::parameters() {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<ParameterInfo> out;
  for (const auto& [key, parameter] : core_.registry.parameters) out.push_back(parameter);
  return out;
}

}  // namespace tarry
