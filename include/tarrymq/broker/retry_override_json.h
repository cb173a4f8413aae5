#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tarrymq/retry/retry_override.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// What is set, by its key in the HTTP API (retry-spec 8); an empty object: nothing is.
nlohmann::json to_json(const RetryOverride& changes);
/// The whole of an object. The error names the key, what the value was and what is allowed.
Result<RetryOverride, std::string> retry_override_from_json(const nlohmann::json& object);

}  // namespace tarry
