#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "session/queue_refs.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/runtime/ids.h"

namespace tarry {

class Channel;

/// One basic.consume. Owned by the connection, which keeps it after basic.cancel (or the channel's
/// end) until the queue has confirmed the cancel: what is still on its way to it must be given back
/// to the right queue. (Not "Consumer": the queue room has one, and the linker would take either's
/// destructor for both.)
struct ChannelConsumer {
  ChannelConsumer(ConsumerId i, std::string t, uint16_t channel_number, QueueRef& q)
      : id(i), tag(std::move(t)), queue(q), frames(channel_number, tag) {}

  const ConsumerId id;
  const std::string tag;
  QueueRef& queue;  // held
  DeliverTemplate frames;
  Channel* channel = nullptr;  // null once cancelled
  bool no_ack = false;
  bool running = false;  // consume-ok was given
  bool paused = false;   // as the queue was told
  bool limited = false;  // channel-limited: gets only what it was granted
  bool wants_credit = false;
  uint32_t granted = 0;  // not used yet
  std::optional<uint64_t>
      timeout_ms;  // its own x-consumer-timeout; 0: none, whatever the queue's is
};

}  // namespace tarry
