#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tarrymq/runtime/task.h"

namespace tarry {

class Shard;
class Store;

/// Orders the durability of one shard: a ticket covers everything that the shard's logs took before
/// it was drawn.
using Ticket = uint64_t;

/// A shard's side of the store: gathers what its logs have to write, hands it to the barrier at the
/// end of each turn when somebody waits (else within 20 ms or 1 MiB a log), and runs waiters when
/// the group commit has passed. Own shard only.
class StoreShard {
 public:
  StoreShard(Store& store, Shard& shard);
  ~StoreShard();
  StoreShard(const StoreShard&) = delete;
  StoreShard& operator=(const StoreShard&) = delete;

  Shard& shard();
  Store& store();

  /// Covers all that was appended, parked, settled, requeued or purged on this shard until now.
  Ticket ticket() const;
  bool passed(Ticket ticket) const;
  /// Runs `task` on this shard once everything until now is durable at the configured level; in the
  /// order of the calls. At once (at this turn's end) if nothing is outstanding. While the disk is
  /// full or failing it waits.
  void when_durable(Task task);

  /// The disk is behind: of what the shards of the process handed over, more waits for it than the
  /// share of tail_memory_bytes that is meant for that. Whoever brings more should pause, but for
  /// long only with a look at the disk's alarm: a failing disk may stay behind.
  bool disk_is_behind() const;

 private:
  friend class MessageLog;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tarry
