#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "session/queue_refs.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/runtime/ids.h"

namespace tarry {

class Channel;

/// The last word to a client that closes a channel or its connection. It waits until the queues,
/// which may live on other shards, have let the consumers go: who has read it may take their place,
/// also by another connection.
struct Farewell {
  size_t left = 1;  // consumers that leave; and one while they are told to
  std::function<void()> say;

  void one_left() {
    if (--left == 0) say();
  }
};

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
  uint32_t granted = 0;                // not used yet
  std::shared_ptr<Farewell> farewell;  // waits for it
  std::optional<uint64_t>
      timeout_ms;  // its own x-consumer-timeout; 0: none, whatever the queue's is
};

}  // namespace tarry
