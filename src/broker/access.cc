#include "broker/access.h"

#include <algorithm>

#include "broker/desk.h"
#include "broker/passwords.h"
#include "broker/vhost_face.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {

namespace {

/// At most `limit` (below 0: any number) of the open connections may fit `mine`.
template <class Mine>
bool over_limit(const ConnectionList& connections, int64_t limit, Mine mine) {
  if (limit < 0) return false;
  size_t count = 0;
  for (const auto& connection : connections.all()) count += mine(connection->info) ? 1 : 0;
  return count >= static_cast<size_t>(limit);
}

bool must_be_near(const Core& core, const std::string& user) {
  return core.options.default_user_loopback_only && user == core.options.default_user;
}

/// For the log alone: a client gets the same words in all cases.
const char* why_refused(const Core& core, const std::string& user, const LoginOrigin& from) {
  std::shared_lock lock(core.registry.mutex);
  const auto found = core.registry.users.find(user);
  if (found == core.registry.users.end()) return "there is no such user";
  if (!from.loopback && must_be_near(core, user))
    return "it may log in from this machine only (default_user_loopback_only)";
  return found->second.password_hash.empty() ? "it has no password" : "wrong password";
}

/// Of any user who has one; empty: nobody has.
std::string some_slow_hash(const Core& core) {
  std::shared_lock lock(core.registry.mutex);
  for (const auto& [name, user] : core.registry.users) {
    if (is_slow_algorithm(user.hashing_algorithm)) return user.password_hash;
  }
  return {};
}

/// A refusal takes as long for those who are checked quickly, or are not there at all, as for who
/// has a slow hash: else it would tell who exists. Twice a check, since it may have to wait.
int64_t refusal_ms(const Core& core) {
  constexpr int64_t kMost = 5'000;
  return std::max<int64_t>(core.options.login_failure_delay_ms,
                           std::min<int64_t>(2 * int64_t{core.slow_hashes.longest_ms()}, kMost));
}

}  // namespace

uint32_t Access::refused(Core& core, const std::string& user, const LoginOrigin& from,
                         SteadyTime asked_at) {
  const SteadyTime now = core.clock.steady_now();
  if (core.login_guard.may_try(from, now)) {
    log_for("broker")->warn("log-in of user '{}' from {} refused: {}", user, from.address,
                            why_refused(core, user, from));
    if (core.login_guard.failed(from, now)) {
      log_for("broker")->warn(
          "{}: no log-in from there is heard for a while: {} have failed "
          "(login_failures_per_minute)",
          from.address, core.options.login_failures_per_minute);
    }
  }
  const int64_t passed_ms = (now.ns - asked_at.ns) / 1'000'000;
  return static_cast<uint32_t>(std::max<int64_t>(refusal_ms(core) - passed_ms, 0));
}

void Access::check_password(Core& core, const std::string& user, const std::string& password,
                            const LoginOrigin& from,
                            std::function<void(std::optional<UserInfo>)> answer) {
  if (!core.login_guard.may_try(from, core.clock.steady_now())) return answer(std::nullopt);
  // Compared with when there is no such user, so that the time taken does not tell who exists.
  static const std::string nobody = hash_password("nobody");
  UserInfo found;
  bool known = false;
  {
    std::shared_lock lock(core.registry.mutex);
    auto it = core.registry.users.find(user);
    known = it != core.registry.users.end();
    if (known) found = it->second;
  }
  const bool may_come = known && (from.loopback || !must_be_near(core, user));
  if (known && is_slow_algorithm(found.hashing_algorithm)) {
    const std::string hash = found.password_hash;
    core.slow_hashes.check(
        hash, password,
        [may_come, found = std::move(found), answer = std::move(answer)](bool right) {
          answer(right && may_come ? std::optional(found) : std::nullopt);
        });
    return;
  }
  const bool right = password_matches(known ? found.password_hash : nobody,
                                      known ? found.hashing_algorithm : "", password);
  if (right && may_come) return answer(std::move(found));
  if (core.slow_hashes.longest_ms() == 0) {
    // Nothing is known yet of how long the others take.
    if (const std::string hash = some_slow_hash(core); !hash.empty())
      return core.slow_hashes.check(hash, password,
                                    [answer = std::move(answer)](bool) { answer(std::nullopt); });
  }
  answer(std::nullopt);
}

void Access::log_in(std::string user, std::string password, LoginOrigin from,
                    std::function<void(std::unique_ptr<Login>)> answer) {
  Shard* home = Shard::current();
  ShardDesk* desk = core_.desk();
  TARRY_INVARIANT(desk != nullptr);
  const SteadyTime asked_at = core_.clock.steady_now();
  auto decide = [this, user, from, desk, asked_at,
                 answer = std::move(answer)](const std::optional<UserInfo>& found) {
    core_.login_book.note("amqp091", from, user, found.has_value());
    if (found) return answer(std::make_unique<Login>(Login{found->name}));
    // Guessing passwords takes time; the shard goes on meanwhile.
    desk->run_later(refused(core_, user, from, asked_at), [answer] { answer(nullptr); });
  };
  check_password(core_, user, password, from, [home, decide](std::optional<UserInfo> found) {
    if (Shard::current() == home) return decide(found);
    home->post([decide, found = std::move(found)] { decide(found); });
  });
}

void Access::log_in_verified(std::string user, LoginOrigin from,
                             std::function<void(std::unique_ptr<Login>)> answer) {
  ShardDesk* desk = core_.desk();
  TARRY_INVARIANT(desk != nullptr);
  std::unique_ptr<Login> login;
  {
    std::shared_lock lock(core_.registry.mutex);
    const auto it = core_.registry.users.find(user);
    const bool known = it != core_.registry.users.end();
    if (known && (from.loopback || !must_be_near(core_, user)))
      login = std::make_unique<Login>(Login{user});
  }
  core_.login_book.note("amqp091", from, user, login != nullptr);
  if (login) return answer(std::move(login));
  desk->run_later(refused(core_, user, from, core_.clock.steady_now()),
                  [answer] { answer(nullptr); });
}

Result<std::shared_ptr<VhostPort>, PeerError> Access::open_vhost(const Login& login,
                                                                 std::string_view name) {
  std::shared_ptr<Vhost> vhost;
  int64_t of_vhost = -1, of_user = -1;
  {
    std::shared_lock lock(core_.registry.mutex);
    vhost = core_.registry.find_vhost(name);
    if (!vhost) return PeerError::connection(530, "vhost " + std::string(name) + " not found");
    if (!vhost->rights.contains(login.user)) {
      return PeerError::connection(
          530, "access to vhost '" + std::string(name) + "' refused for user '" + login.user + "'");
    }
    of_vhost = vhost->limit("max-connections");
    auto user = core_.registry.users.find(login.user);
    if (user != core_.registry.users.end())
      of_user = limit_in(user->second.limits, "max-connections");
  }
  if (over_limit(core_.connections, of_vhost,
                 [&](const ConnectionInfo& info) { return info.vhost == name; })) {
    return PeerError::connection(
        530, "access to vhost '" + std::string(name) + "' refused for user '" + login.user +
                 "': connection limit (" + std::to_string(of_vhost) + ") is reached");
  }
  if (over_limit(core_.connections, of_user,
                 [&](const ConnectionInfo& info) { return info.user == login.user; })) {
    return PeerError::connection(530, "connection refused for user '" + login.user +
                                          "': user connection limit (" + std::to_string(of_user) +
                                          ") is reached");
  }
  return std::shared_ptr<VhostPort>(core_.face(vhost));
}

void Access::connection_opened(const ConnectionInfo&) {
  core_.connections_opened.fetch_add(1, std::memory_order_relaxed);
}

void Access::connection_closed(ConnectionId) {
  core_.connections_closed.fetch_add(1, std::memory_order_relaxed);
  core_.signal.notify();
}

bool UserInfo::has_tag(std::string_view tag) const {
  for (const std::string& mine : tags) {
    if (mine == tag) return true;
  }
  return false;
}

}  // namespace tarry
