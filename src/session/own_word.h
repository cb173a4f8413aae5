#pragma once

#include <cstring>
#include <string_view>

#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// The exchange that settles the delivery whose tag is the routing key (retry-spec 35).
inline constexpr std::string_view kOwnWordExchange = "amq.retry";

/// True for a route (exchange and key as short strings) to it. On the path of every publish.
inline bool is_own_word_route(ByteSpan route) {
  return route.size() > kOwnWordExchange.size() && route[0] == std::byte{kOwnWordExchange.size()} &&
         std::memcmp(route.data() + 1, kOwnWordExchange.data(), kOwnWordExchange.size()) == 0;
}

}  // namespace tarry
