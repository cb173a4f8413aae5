#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/runtime/ids.h"
#include "tarrymq/storage/record.h"

namespace tarry {

/// A message on its way to a consumer. The record's spans live for the call.
struct Delivery {
  RecordView record;
  Position position;
  uint8_t lane = 0;
  uint32_t counter = 0;  // deliveries before this one
  bool redelivered = false;
  bool show_counter =
      false;  // put x-delivery-count into the headers (retry-spec 14; never when counter is 0)
  std::string_view
      last_error;  // put x-last-error into the headers (retry-spec 35); "": no. Lives for the call
};

/// Publishes of one channel that were stored (durably where that is owed) or refused by a queue.
/// `first`..`last` are publish numbers that the session gave, all of them to this queue; a number
/// can be in several queues' ranges.
struct ConfirmRange {
  uint16_t channel = 0;
  uint32_t channel_serial = 0;  // tells a channel from its successor on the same number
  uint64_t first = 0;
  uint64_t last = 0;
  bool refused = false;  // overflow reject-publish, no room on the disk, or the queue is gone
  bool no_room = false;  // refused, and only because the disk takes nothing at present
};

/// Answers to the commands of queue_handle.h that have a token.
struct QueueReply {
  std::optional<PeerError> error;
  uint64_t message_count = 0;     // stat: ready; purge and remove: messages taken; get: still ready
  uint64_t consumer_count = 0;    // stat
  const Delivery* got = nullptr;  // get: the message, null if empty. Lives for the call
};

/// Port: where a queue's answers go. Implemented by session's connections and by broker's
/// dead-letter router. Every call is made on the sink's own shard.
class DeliverySink {
 public:
  virtual ~DeliverySink() = default;
  /// A batch for one consumer, in order. A consumer that is gone by now: give them back with
  /// Outcome::not_delivered.
  virtual void on_deliver(ConsumerId consumer, std::span<const Delivery> batch) = 0;
  virtual void on_confirm(std::span<const ConfirmRange> ranges) = 0;
  virtual void on_reply(uint64_t token, const QueueReply& reply) = 0;
  /// The queue is gone (or cancels for another reason): basic.cancel to the client. Its deliveries
  /// are settled with the queue: no settlement is owed, a late one is ignored.
  virtual void on_cancelled(ConsumerId consumer) = 0;
  /// The queue has something for a channel-limited consumer without credit: grant some when the
  /// channel has room.
  virtual void on_credit_wanted(ConsumerId consumer) = 0;
  /// The queue has run empty: `count` granted credits come back unused.
  virtual void on_credit_returned(ConsumerId consumer, uint32_t count) = 0;
  /// After QueueShard::tell_of_room: publishes may go on.
  virtual void on_room() {}
};

}  // namespace tarry
