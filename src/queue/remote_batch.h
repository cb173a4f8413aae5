#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/runtime/timer_wheel.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

class QueueActor;

/// Bytes that stay where they are until the whole is destroyed or reset.
class Arena {
 public:
  std::byte* allocate(size_t bytes, size_t alignment) {
    const size_t at = (used_ + alignment - 1) & ~(alignment - 1);
    if (at + bytes > capacity_) [[unlikely]]
      return allocate_slowly(bytes);
    used_ = at + bytes;
    return block_ + at;
  }
  ByteSpan copy(ByteSpan bytes) {
    if (bytes.empty()) return {};
    std::byte* at = allocate(bytes.size(), 1);
    std::memcpy(at, bytes.data(), bytes.size());
    return {at, bytes.size()};
  }
  template <class T>
  std::span<T> copy(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (values.empty()) return {};
    auto* at = reinterpret_cast<T*>(allocate(values.size_bytes(), alignof(T)));
    std::memcpy(static_cast<void*>(at), values.data(), values.size_bytes());
    return {at, values.size()};
  }
  /// The deliveries with everything that they point at.
  std::span<const Delivery> copy_deep(std::span<const Delivery> batch);
  /// Empty again. A few blocks are kept for what comes next, so that a steady flow touches no new
  /// pages.
  void reset();

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t capacity;
  };
  std::byte* allocate_slowly(size_t bytes);
  RecordView copy(const RecordView& record);

  std::vector<Block> blocks_;
  size_t in_use_ = 0;  // of the blocks; the last of these is the one allocated from
  std::byte* block_ = nullptr;
  size_t used_ = 0, capacity_ = 0;  // of that block
};

/// All that one shard's queue room has for another's within a turn, in order: commands to actors
/// there, and answers to sinks there. Built on the one shard, run on the other.
class RemoteBatch {
 public:
  /// `from`: who is told when its publishes were taken; null when a thread that is no shard's
  /// sends.
  RemoteBatch(QueueShard& target, QueueShard* from) : target_(&target), from_(from) {}
  /// Makes one that has run a new one, which has its predecessor's memory.
  void begin_anew(QueueShard& target, QueueShard* from) {
    target_ = &target;
    from_ = from;
  }

  // To actors that live on the target.
  /// Answers how many bytes it is held to weigh.
  uint64_t publish(const std::shared_ptr<QueueActor>& actor, const PublishRequest& request);
  void settle(const std::shared_ptr<QueueActor>& actor, Outcome outcome,
              std::span<const SettleRun> runs);
  void call(const std::shared_ptr<QueueActor>& actor, Task task);

  // To sinks that are registered at the target.
  /// The actor hears QueueActor::arrived(consumer, bytes) when the sink has it.
  void deliver(const std::shared_ptr<QueueActor>& from, ConnectionId to, ConsumerId consumer,
               std::span<const Delivery> batch, uint64_t bytes);
  void confirm(ConnectionId to, std::span<const ConfirmRange> ranges);
  void reply(const std::shared_ptr<QueueActor>& from, ConnectionId to, uint64_t token,
             const QueueReply& reply);
  enum class Note : uint8_t { cancelled, credit_wanted, credit_returned };
  void note(ConnectionId to, Note what, ConsumerId consumer, uint32_t count);
  /// So many bytes of publishes that came from the target have been taken.
  void taken(uint64_t bytes) { entries_.emplace_back(Taken{bytes}); }

  /// On the target's shard, once; afterwards it is empty.
  void run();
  QueueShard& target() { return *target_; }

 private:
  /// A publish as it travels: this, its origin if it has one, and behind it route, header and body.
  struct Packed {
    uint64_t publish_number, body_bytes;
    uint32_t header_bytes, ttl_ms, counter, channel_serial;
    uint16_t route_bytes, channel;
    uint8_t priority, hops;
    bool persistent : 1, has_delivery_count : 1, has_origin : 1;
  };
  /// Publishes to one queue by one connection that lie one behind the other.
  struct Publishes {
    QueueActor* actor;
    Requester from;
    const std::byte* first;
    const std::byte* end;
  };
  struct Settle {
    QueueActor* actor;
    Outcome outcome;
    std::span<const SettleRun> runs;
  };
  struct Deliver {
    QueueActor* actor;
    ConnectionId to;
    ConsumerId consumer;
    std::span<const Delivery> batch;
    uint64_t bytes;
  };
  struct Confirm {
    ConnectionId to;
    std::span<const ConfirmRange> ranges;
  };
  struct Reply {
    QueueActor* actor;
    ConnectionId to;
    uint64_t token;
    std::unique_ptr<QueueReply> reply;
  };
  struct Told {
    ConnectionId to;
    Note what;
    ConsumerId consumer;
    uint32_t count;
  };
  struct Taken {
    uint64_t bytes;
  };
  void run(Publishes& entry);
  void run(Settle& entry);
  void run(Deliver& entry);
  void run(Confirm& entry);
  void run(Reply& entry);
  void run(Told& entry);
  void run(Taken& entry);
  void run(Task& entry) { entry(); }
  QueueActor* keep(const std::shared_ptr<QueueActor>& actor);

  QueueShard* target_;
  QueueShard* from_;
  uint64_t published_bytes_ = 0;
  Arena arena_;
  std::vector<std::variant<Publishes, Settle, Deliver, Confirm, Reply, Told, Taken, Task>> entries_;
  std::vector<std::shared_ptr<QueueActor>> kept_;  // once per queue in a row
};

/// The batches of the present turn, one a target; they leave at the turn's end. Counts the bytes of
/// publishes that the other shards have not taken yet, so that a publisher on a shard with little
/// to do does not fill the mailbox of one with much; and holds publishers up while the disk is
/// behind, so that what they send does not pile up in memory.
class RemoteBatches final : public TurnHook {
 public:
  RemoteBatches(Shard& shard, QueueShard& home, StoreShard& store);
  RemoteBatch& to(QueueShard& target);
  void publish(QueueShard& target, const std::shared_ptr<QueueActor>& actor,
               const PublishRequest& request);
  /// One that ran here, to be used again.
  void give_back(std::unique_ptr<RemoteBatch> batch);
  void on_turn_end() override;

  bool held_up() const;
  void tell_of_room(ConnectionId id);
  void taken(uint64_t bytes);

 private:
  void look_at_disk();
  void let_go();

  Shard& shard_;
  QueueShard& home_;
  std::vector<std::unique_ptr<RemoteBatch>> open_, spare_;
  uint64_t untaken_bytes_ = 0;
  std::vector<ConnectionId> waiting_;
  StoreShard& store_;
  Timer disk_timer_;
  SteadyTime disk_patience_;  // when those who wait for the disk go on all the same
};

/// Sends a batch on its way now, from any thread.
void send_batch(std::unique_ptr<RemoteBatch> batch);

/// Deliveries as the runs that settle them.
void append_runs(std::vector<SettleRun>& out, ConsumerId consumer, std::span<const Delivery> batch);

}  // namespace tarry
