#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/record.h"

namespace tarry {

/// A dead letter ready to be routed: headers already rewritten (retry-spec 30). Also a message that
/// a holding queue sends on: it moves in the same way. Borrowed parts live for the call.
struct DeadLetter {
  QueueHandle* source = nullptr;  // outlives the answer
  uint64_t token = 0;             // for the answer
  DeathReason reason{};
  std::string_view exchange;              // "" is the default exchange
  std::vector<std::string> routing_keys;  // the first is the message's; more are CC keys
  std::string_view header;                // content header payload
  ByteSpan body;
  bool persistent = false;
  uint8_t priority = 0;
  uint8_t hops = 0;  // raised by this one
  bool has_delivery_count = false;
  ByteSpan shown_route;  // exchange and routing key that consumers see; empty: as routed
  uint32_t counter = 0;  // of a redrive: deliveries before
  Origin origin;  // origin.queue 0: no source record (a publish that was refused); publish without
  std::vector<std::string>
      cycle_queues;  // must not be entered: the cycle would be automatic (retry-spec 31)
  std::vector<QueueId> already_in;  // recovery: these targets hold it (design-notes 3)
};

enum class DeadLetterResult : uint8_t {
  stored,  // every target that takes it has it, durably where owed
  no_exchange,
  no_route,
  cycle,    // all targets were cut off by the cycle rule
  refused,  // no target took it (full)
  no_room,  // a target's disk takes nothing at present: to be tried again, whoever else has it
};

/// Port: the dead-letter stage's way out, implemented by broker (route, post, count the answers).
/// One a shard. After `stored` the source queue drops its copy, and once that drop is durable calls
/// source_dropped, so that the targets can forget the move (QueueHandle::close_move on each).
class DeadLetterSink {
 public:
  virtual ~DeadLetterSink() = default;
  /// Answers exactly once, on this shard, later or at once, by QueueShard::dead_letter_done(source,
  /// token, result).
  virtual void route(const DeadLetter& letter) = 0;
  virtual void source_dropped(QueueHandle& source, uint64_t token) = 0;
  /// The queue is gone for good (deleted, auto-delete, expired): forget its name and definition. On
  /// its shard.
  virtual void queue_removed(QueueHandle& queue) = 0;
  /// A queue may be used while its definition is on its way to the disk, but what was promised of
  /// its messages would be lost with it. `then` runs on this shard, perhaps at once, when all
  /// definitions that have been given to the store by now are durable.
  virtual void when_definitions_stored(Task then) { then(); }
};

}  // namespace tarry
