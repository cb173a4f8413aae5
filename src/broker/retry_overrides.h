#pragma once

#include <string>

#include "broker/core.h"
#include "tarrymq/broker/management.h"

namespace tarry {

/// Replaces the override of a live queue (retry-spec 36); the answer comes when it is durable and
/// in effect. First shard. `login`: who asks, for whom the right is checked; null (an import): may
/// do it.
void change_retry_override(Core& core, const Login* login, const std::string& vhost,
                           const std::string& queue, const RetryOverride& changes,
                           Answer<void> answer);

}  // namespace tarry
