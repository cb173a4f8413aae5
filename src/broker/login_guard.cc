#include "broker/login_guard.h"

#include <algorithm>

#include "tarrymq/runtime/networks.h"

namespace tarry {
namespace {
constexpr size_t kAddressesMax = 16'384;
}

bool LoginGuard::may_try(const LoginOrigin& from, SteadyTime now) const {
  if (!counts(from)) return true;
  std::lock_guard lock(mutex_);
  const auto found = used_until_ns_.find(neighbourhood_of(from.address));
  return found == used_until_ns_.end() ||
         found->second + kMinuteNs / failures_ <= now.ns + kMinuteNs;
}

bool LoginGuard::failed(const LoginOrigin& from, SteadyTime now) {
  if (!counts(from)) return false;
  std::lock_guard lock(mutex_);
  if (used_until_ns_.size() >= kAddressesMax) make_room(now);
  int64_t& used_until =
      used_until_ns_.try_emplace(neighbourhood_of(from.address), now.ns).first->second;
  const int64_t share = kMinuteNs / failures_;
  used_until = std::max(used_until, now.ns) + share;
  return used_until + share > now.ns + kMinuteNs;
}

/// Those whose failures are all in the past, or else anybody: what is kept is bounded.
void LoginGuard::make_room(SteadyTime now) {
  std::erase_if(used_until_ns_, [&](const auto& entry) { return entry.second <= now.ns; });
  while (used_until_ns_.size() >= kAddressesMax) used_until_ns_.erase(used_until_ns_.begin());
}

}  // namespace tarry
