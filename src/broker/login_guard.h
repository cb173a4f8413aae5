#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tarrymq/runtime/clock.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// Counts failed log-ins for each address (of IPv6: for each /64). When an address has had its
/// share, further log-ins from there are refused without a look at the password, until enough time
/// has passed. This machine's own addresses are not counted: a proxy of HTTP or a broken script
/// here would shut everybody out. Any thread.
class LoginGuard {
 public:
  /// `failures`: so many at once, and so many a minute in the long run. 0: no cap.
  explicit LoginGuard(uint32_t failures) : failures_(failures) {}

  bool may_try(const LoginOrigin& from, SteadyTime now) const;
  /// True if this one was the last of its share.
  bool failed(const LoginOrigin& from, SteadyTime now);

 private:
  static constexpr int64_t kMinuteNs = 60'000'000'000;
  bool counts(const LoginOrigin& from) const { return failures_ > 0 && !from.loopback; }
  void make_room(SteadyTime now);

  const uint32_t failures_;
  mutable std::mutex mutex_;  // guards what follows
  /// Each failure moves the address's instant by a minute's share: a minute ahead of now means that
  /// all is used up.
  std::unordered_map<std::string, int64_t> used_until_ns_;
};

}  // namespace tarry
