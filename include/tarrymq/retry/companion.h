#pragma once

#include <boost/container/deque.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "tarrymq/retry/due_histogram.h"
#include "tarrymq/runtime/ids.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/due_index.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

/// How a companion learns what is durable. Called per batch, never per message.
struct CompanionGate {
  std::function<bool(Ticket)> passed;
  std::function<void(Task)> when_durable;  // the task runs on the companion's shard
};
/// The gate of a durable queue. The store outlives every companion.
CompanionGate gate_of(StoreShard& store);

/// How many entries one drain may ask for, so that a million coming due at once do not stall the
/// shard.
inline constexpr size_t kDrainCountMax = 4096;

/// The waiting messages of one queue, `amq.retry-<queue>`, ordered by due time, with the one timer
/// that wakes their owner (retry-spec 19, 23, 26, 29). It holds places and instants only: records
/// stay where they lie, and the ack log is the truth, so an entry may be stale when it is drained
/// (the owner asks its log). An entry is drained no earlier than its due time and not before its
/// ticket has passed, so that no delivery carries a counter that is not on disk (retry-spec 16).
/// Own shard only.
class Companion {
 public:
  /// `on_due` is called from a timer when something can be drained; it calls drain() once or a few
  /// times and returns. While more is due it is called again in the next turn, so other work runs
  /// between batches.
  Companion(DueStore& store, Shard& shard, QueueId queue, CompanionGate gate,
            std::function<void()> on_due);
  ~Companion();
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  /// Adds a message whose park event the log has taken, also one that is postponed (retry-spec 25).
  /// `entry.due_ms` is the earlier of due time and expiry, `entry.kind` the owner's word for which
  /// of the two it is. `ticket`: the StoreShard's, drawn after MessageLog::park; for a queue that
  /// is not durable use park_at_once.
  void park(const DueEntry& entry, Ticket ticket);
  /// Without a gate: what recovery found (it is on disk), or the queue owes no durability.
  void park_at_once(const DueEntry& entry);

  /// The same for many, that are read when they come due. The due time of each is told to
  /// count_cold(), before or after.
  void park_cold(ColdEntries entries, uint64_t body_bytes);
  void count_cold(uint64_t due_ms) { histogram_.add(due_ms); }

  /// What waits long may leave memory this way.
  void set_cold_keeper(ColdKeeper keeper) { index_->set_cold_keeper(std::move(keeper)); }

  /// Takes up to min(out.size(), kDrainCountMax) entries with due_ms <= now_ms, in due order;
  /// returns how many.
  size_t drain(uint64_t now_ms, std::span<DueEntry> out);

  /// The owner can take no more for now: on_due is not called until resume().
  void pause();
  void resume();

  /// Waiting messages, and the sum of their bodies. Stale entries count until they are drained.
  uint64_t count() const { return index_->size() + gated_.size(); }
  uint64_t body_bytes() const { return body_bytes_; }
  /// Broker time in ms; none if nothing waits. The next one may be named too early while park
  /// events are on their way to the disk.
  std::optional<uint64_t> next_due_ms() const;
  std::optional<uint64_t> last_due_ms() const;

  // -- For operators (retry-spec 37): what waits behind the barrier is not seen yet

  /// Entries whose park event is not durable yet, as far as is known.
  uint64_t gated_count() const { return gated_.size(); }
  /// Looks which are by now.
  void look_at_gate() {
    open_gate();
    if (!waking_) arm();
  }
  /// Counts what scan() sees.
  const DueHistogram& histogram() const { return histogram_; }
  uint64_t last_sequence() const { return index_->last_sequence(); }
  /// DueIndex::scan and erase.
  void scan(DueKey from, size_t skip, size_t count, DueIndex::Scanned done) {
    index_->scan(from, skip, count, std::move(done));
  }
  void erase(std::span<DueFound> found);

  /// Drops all entries (purge, deletion).
  void clear();

 private:
  struct Gated {
    DueEntry entry;
    Ticket ticket;
  };

  void arm();
  void arm_at(uint64_t due_ms);
  void wake();
  void ask_gate();
  void open_gate();
  uint64_t gated_next_ms() const;

  Shard& shard_;
  const CompanionGate gate_;
  const std::function<void()> on_due_;

  void put(const DueEntry& entry);

  std::unique_ptr<DueIndex> index_;
  DueHistogram histogram_;  // of what is in the index
  boost::container::deque<Gated>
      gated_;                 // in the order of their tickets, which had not passed when last asked
  Ticket passed_ticket_ = 0;  // the latest known to have passed
  bool asked_ =
      false;  // a when_durable task is out; it covers all that was gated when it was asked
  // At or below every due time in gated_: of what is covered by the task that is out, and of the
  // rest.
  uint64_t asked_due_min_ = UINT64_MAX;
  uint64_t unasked_due_min_ = UINT64_MAX;
  uint64_t gated_due_max_ = 0;  // at or above
  uint64_t body_bytes_ = 0;
  bool waits_for_page_ = false;  // the index reads from disk and will wake us
  bool paused_ = false;
  bool waking_ = false;             // within on_due_
  uint64_t armed_ms_ = UINT64_MAX;  // broker time that the timer is set for
  Timer timer_;
  std::shared_ptr<Companion*>
      self_;  // what is on its way through the gate looks here; null when this is gone
};

}  // namespace tarry
