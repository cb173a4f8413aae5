#pragma once

#include <string>

#include "tarrymq/routing/exchange.h"

namespace tarry {

/// What a consistent-hash exchange hashes of this message when it is not the routing key.
std::string hashed_text(const HashOn& on, ByteSpan headers, const PropertiesView* properties);

}  // namespace tarry
