#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "broker/core.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// Log-in and vhosts for sessions. Any shard.
class Access final : public AccessPort {
 public:
  explicit Access(Core& core) : core_(core) {}

  void log_in(std::string user, std::string password, LoginOrigin from,
              std::function<void(std::unique_ptr<Login>)> answer) override;
  void log_in_verified(std::string user, LoginOrigin from,
                       std::function<void(std::unique_ptr<Login>)> answer) override;
  Result<std::shared_ptr<VhostPort>, PeerError> open_vhost(const Login& login,
                                                           std::string_view vhost) override;
  void connection_opened(const ConnectionInfo& info) override;
  void connection_closed(ConnectionId id) override;

  /// The user, if the password is his and he may come from there. Any thread; does not wait. The
  /// answer comes at once, or on another thread when the user's hash is one that takes long on
  /// purpose (bcrypt).
  static void check_password(Core& core, const std::string& user, const std::string& password,
                             const LoginOrigin& from,
                             std::function<void(std::optional<UserInfo>)> answer);
  /// Writes it down, and returns how many ms the answer has still to wait: it comes
  /// login_failure_delay_ms after the question, however long the check took, so that its time tells
  /// nothing. Any thread.
  static uint32_t refused(Core& core, const std::string& user, const LoginOrigin& from,
                          SteadyTime asked_at);

 private:
  Core& core_;
};

}  // namespace tarry
