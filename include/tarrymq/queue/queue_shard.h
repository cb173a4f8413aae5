#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tarrymq/queue/dead_letter_sink.h"
#include "tarrymq/queue/delivery_sink.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/runtime/ids.h"

namespace tarry {

class Shard;
class Store;
class StoreShard;

/// The queue room's side of one shard: its actors' home, the sinks of its connections, and what
/// batches publishes, settlements and deliveries to other shards (one Task a target and turn). Own
/// shard only, but for create().
class QueueShard {
 public:
  QueueShard(Shard& shard, Store& store);
  ~QueueShard();
  QueueShard(const QueueShard&) = delete;
  QueueShard& operator=(const QueueShard&) = delete;

  Shard& shard();
  StoreShard& store();

  /// The queue-shard of the calling thread's shard, or null.
  static QueueShard* current();

  void set_dead_letter_sink(DeadLetterSink& sink);  // before the shard runs
  void add_sink(ConnectionId id, DeliverySink& sink);
  void remove_sink(ConnectionId id);
  DeliverySink* find_sink(ConnectionId id);

  /// Publishes from here to other shards wait there with more bytes than they should (a mark per
  /// shard), or the disk is behind: whoever publishes more should ask to be told of room, and stop
  /// reading until DeliverySink::on_room (for the disk 100 ms at most).
  bool publishes_held_up() const;
  void tell_of_room(ConnectionId id);

  /// A new queue that lives on this shard. Any thread. Files are opened with the first message.
  std::shared_ptr<QueueHandle> create(QueueId id, QueueIdentity identity, QueueSettings settings);
  /// A queue that was there before the start: opens its logs, adds what was parked to the due
  /// index, and returns once it could serve. Before the shard runs, or on it. Half-done moves into
  /// it are reported to `origins` as (origin, this queue's id).
  std::shared_ptr<QueueHandle> recover(QueueId id, QueueIdentity identity, QueueSettings settings,
                                       std::vector<std::pair<Origin, QueueId>>& origins);
  /// At start, after all queues are back: `origin` was found in `holders`. If the source record
  /// still lives in `source`, its move is finished (routed again, holders skipped, then dropped).
  /// Runs on this shard. False: there is nothing to finish (any more); the holders can forget it
  /// (QueueHandle::close_move).
  bool finish_move(QueueHandle& source, const Origin& origin, std::vector<QueueId> holders);

  void dead_letter_done(QueueHandle& source, uint64_t token, DeadLetterResult result);

  /// For a clean stop: after the connections are closed, hands over all that is in memory; `done`
  /// runs on this shard when it is durable.
  void flush(std::function<void()> done);

  struct Impl;
  Impl& impl() { return *impl_; }  // for the queue room

 private:
  std::shared_ptr<QueueHandle> make(QueueId id, QueueIdentity identity, QueueSettings settings);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarry
