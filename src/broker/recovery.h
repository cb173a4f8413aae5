#pragma once

#include <string>

#include "broker/core.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// The start: definitions into the registry, queues back on their shards, half-done moves finished.
/// Blocks; the shards run. A store that is new gets the vhost "/" and the default user.
Result<void, std::string> recover_broker(Core& core);

}  // namespace tarry
