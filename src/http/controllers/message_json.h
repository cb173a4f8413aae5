#pragma once

#include <optional>
#include <string>

#include "http/message.h"
#include "tarrymq/broker/management.h"

namespace tarry::http {

/// {"delivery_mode": 2, "headers": {...}, ...} to a content header payload. [] counts as {} (PHP).
/// The error names the property and what it may be.
Result<std::string, std::string> properties_from_json(const Json& properties, uint64_t body_bytes);
/// Back, only what is there.
Json properties_json(std::string_view header);
/// A message as POST .../get shows it. `base64`: always, else only what is no UTF-8. `truncate`:
/// bytes of payload shown.
Json got_json(const GotMessage& message, bool base64, std::optional<uint64_t> truncate);

}  // namespace tarry::http
