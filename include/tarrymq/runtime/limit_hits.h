#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tarry {

/// What keeps one client from taking what others need. Each time one of them bites, the client is
/// told (where the protocol has words for it) and it counts here.
enum class Limit : uint8_t {
  connections,        // more than connections_max: closed at once
  handshake_timeout,  // not open within handshake_timeout_ms: closed
  frame_max,          // a frame above what was negotiated (4096 before that): 501
  channel_max,        // a channel number above what was negotiated: 530
  message_bytes,      // a body above max_message_bytes: 406
  table_depth,        // a field table nested deeper than 64: 501
  http_connections,   // more than 1024 to the HTTP ports: one of them is closed
  http_header,        // a header above 32 KiB: 431
  http_body,          // a body above 64 MiB: 413; too many large ones at once: 503
};

/// Any thread; an atomic addition. Not on a message's path: hitting a limit is the exception.
void count_limit_hit(Limit limit);

struct LimitHits {
  std::string_view name;  // as in the enumeration
  uint64_t hits = 0;
};
/// All of them, in the order of the enumeration, since the process began. Any thread.
std::vector<LimitHits> limit_hits();

}  // namespace tarry
