#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/queue/dead_letter_sink.h"

namespace tarry {

/// What the dead-letter stage knows of a message that dies (retry-spec 6). Everything borrowed.
struct Death {
  std::string_view queue;  // it dies in
  DeathReason reason{};
  uint64_t time_s = 0;  // of the system's clock
  ByteSpan route;       // exchange and routing key as short strings, as the record has them
  ByteSpan header;      // content header payload
  uint8_t hops = 0;     // dead-letter stages since a client published it
  std::optional<std::string_view> new_routing_key;
  uint64_t delivery_count = 0;  // that its last delivery carried; 0: none
  std::string_view last_error;  // what a consumer said was wrong (retry-spec 35); "": nothing
};

/// The message as it goes to the dead-letter exchange.
struct Rewritten {
  std::string header;
  std::vector<std::string> routing_keys;  // the first is the message's; more are CC keys
  std::vector<std::string>
      cycle_queues;  // entering one would close an automatic cycle (retry-spec 31)
  uint8_t hops = 0;
  uint8_t priority = 0;
  bool has_delivery_count = false;
};

/// Pure: x-death and its relatives rewritten (retry-spec 30), the keys, and the queues that the
/// cycle rule forbids (31).
Rewritten rewrite_dead_letter(const Death& death);

/// True for a death that a consumer caused (retry-spec 31): it ends an automatic cycle.
bool is_consumers_doing(std::string_view reason);

/// The two short strings of a record's route; empty ones if it is cut off.
struct RouteNames {
  std::string_view exchange, routing_key;
};
RouteNames route_names(ByteSpan route);

}  // namespace tarry
