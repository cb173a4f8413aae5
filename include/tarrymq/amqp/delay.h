#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/amqp/properties.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// The header `x-delay` of a message for an x-delayed-message exchange.
struct Delay {
  uint64_t ms = 0;  // 0: none, or a negative one: it is routed at once
  bool is_number =
      true;  // false: the header is there, but is no number (an error of the publisher's)
};
/// Any integer type; a fraction is rounded up; what is above 2^64-1 is that.
Delay delay_of(const PropertiesView& properties);
/// The header's value in words, for the error.
std::string delay_in_words(const PropertiesView& properties);

/// The instant at which it is due: saturates at the end of the year 9999, so that every instant can
/// be shown.
uint64_t delayed_until(uint64_t now_ms, uint64_t delay_ms);

/// A message that leaves the delay: its x-delay is negated (as RabbitMQ's plugin does), so that no
/// exchange delays it again and consumers can see what it was; the BCC header is gone.
struct ReleasedMessage {
  std::string header;                  // content header payload
  std::vector<std::string> more_keys;  // from CC and BCC
};
ReleasedMessage release_from_delay(ByteSpan header, const PropertiesView& properties);

}  // namespace tarry
