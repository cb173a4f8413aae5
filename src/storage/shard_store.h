#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/barrier.h"
#include "storage/chunk.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

class LogState;

/// What is behind a StoreShard: the logs with something to write, the tickets, the chunk memory.
/// Own shard only, but for what `link.done` posts.
class ShardStore : public TurnHook {
 public:
  ShardStore(Store& store, Shard& shard);
  ~ShardStore() override;

  Ticket ticket() const { return owes_ ? epoch_ : epoch_ - 1; }
  bool passed(Ticket ticket) const { return ticket <= passed_; }
  void when_durable(Task task);
  void on_turn_end() override;

  // -- For logs

  /// The log has something to write. `owes`: somebody may wait for it.
  void list_dirty(LogState& log, bool owes);
  /// The log has nothing that owes durability, but memory that could be written out if it is short.
  void list_spillable(LogState& log);
  /// The log wants to be swept at this turn's end / looked at when it is idle.
  void list_sweep(LogState& log);
  void list_lazy(LogState& log);
  void hand_over_now(LogState& log);
  /// Sends the calls added so far at once.
  void send_calls();
  void forget(LogState& log);
  /// Submits calls that are due at once (removals), without an epoch.
  void add_call(BarrierCall call, bool durable);

  /// Events that were handed over and are not back yet: a piece of their text.
  std::optional<std::string> event_text(const SegmentFiles& files, uint32_t ack_offset) const;

  Chunk* new_chunk(uint32_t bytes);
  void free_chunk_data(Chunk& chunk);
  /// Frees it, or leaves it until the barrier is done with it.
  void drop_chunk(Chunk* chunk);
  bool memory_short() const;
  bool disk_is_behind() const;

  Shard& shard() { return shard_; }
  Store& store() { return store_; }
  Store::Impl& impl() { return store_.impl(); }

 private:
  friend struct ShardStoreTest;
  void wake() { shard_.at_turn_end(TurnStage::storage, *this); }
  void submit(bool sync);
  void submit_some(LogState& log);
  void send(std::unique_ptr<Submission> submission);
  void take_back(std::vector<std::unique_ptr<Submission>> done);
  void run_waiters();
  void sweep_logs();
  void relieve_memory();
  void on_age_timer();
  void on_lazy_timer();
  void arm_timers();

  Store& store_;
  Shard& shard_;
  BarrierLink link_;
  std::shared_ptr<ShardStore*> alive_;  // null pointee: destroyed
  ChunkPool pool_;
  std::vector<Chunk*> orphans_;
  struct HandedEvents {
    const SegmentFiles* files;
    uint32_t offset;
    std::shared_ptr<std::vector<std::byte>> events;
  };
  std::vector<HandedEvents> handed_events_;

  std::vector<LogState*> dirty_, spillable_, sweep_, lazy_;
  std::vector<BarrierCall> calls_;  // removals and the like
  bool calls_durable_ = false;

  Ticket epoch_ = 1, passed_ = 0, submitted_sync_ = 0;
  bool owes_ = false;
  bool sync_outstanding_ = false;
  bool age_due_ = false;
  struct Waiter {
    Ticket ticket;
    Task task;
  };
  std::deque<Waiter> waiters_;
  Timer age_timer_, lazy_timer_;
};

struct StoreShard::State : ShardStore {
  using ShardStore::ShardStore;
};

}  // namespace tarry
