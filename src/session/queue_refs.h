#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tarrymq/queue/queue_handle.h"

namespace tarry {

/// A queue that this connection has consumers on or unacknowledged deliveries from, and the
/// settlements that are on their way to it. Stable address while `uses` is above 0.
struct QueueRef {
  std::shared_ptr<QueueHandle> handle;
  uint32_t uses = 0;  // consumers, unacknowledged runs and auto-ack runs that point here
  bool touched = false;
  Outcome outcome{};
  std::vector<SettleRun> runs;  // all with `outcome`, in the order they were settled
};

/// The queues of one connection. Settlements are gathered and leave by flush(), a batch a queue: to
/// be called before the connection's turn with a queue ends, and before any other command to a
/// queue.
class QueueRefs {
 public:
  /// Counts as a use.
  QueueRef& hold(const std::shared_ptr<QueueHandle>& handle);
  void release(QueueRef& ref) {
    if (--ref.uses == 0) touch(ref);
  }
  /// Order within a queue is kept; what is contiguous with the run before is joined to it.
  void settle(QueueRef& ref, Outcome outcome, const SettleRun& run);
  void flush();

 private:
  void touch(QueueRef& ref) {
    if (ref.touched) return;
    ref.touched = true;
    touched_.push_back(&ref);
  }
  static void send(QueueRef& ref);

  std::unordered_map<QueueHandle*, std::unique_ptr<QueueRef>> refs_;
  std::vector<QueueRef*> touched_;
  std::vector<QueueHandle*> idle_;  // maybe without use: looked at when no flush() is on the stack
  int depth_ = 0;                   // of flush(): a queue may answer from within
};

}  // namespace tarry
