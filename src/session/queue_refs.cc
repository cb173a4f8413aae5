#include "session/queue_refs.h"

namespace tarry {

QueueRef& QueueRefs::hold(const std::shared_ptr<QueueHandle>& handle) {
  auto& slot = refs_[handle.get()];
  if (!slot) {
    slot = std::make_unique<QueueRef>();
    slot->handle = handle;
  }
  ++slot->uses;
  return *slot;
}

void QueueRefs::settle(QueueRef& ref, Outcome outcome, const SettleRun& run) {
  touch(ref);
  if (!ref.runs.empty() && ref.outcome != outcome) send(ref);
  ref.outcome = outcome;
  if (!ref.runs.empty()) {
    SettleRun& last = ref.runs.back();
    if (last.lane == run.lane && last.counter == run.counter && last.consumer == run.consumer &&
        last.run.first.segment == run.run.first.segment &&
        last.run.first.ordinal + last.run.count == run.run.first.ordinal) {
      last.run.count += run.run.count;
      last.body_bytes += run.body_bytes;
      return;
    }
  }
  ref.runs.push_back(run);
}

void QueueRefs::send(QueueRef& ref) {
  if (ref.runs.empty()) return;
  // Settling can bring the next deliveries at once, and with them new settlements of this very
  // queue.
  std::vector<SettleRun> runs;
  runs.swap(ref.runs);
  ref.handle->settle(ref.outcome, runs);
  if (ref.runs.empty()) {
    runs.clear();
    ref.runs.swap(runs);  // keeps the capacity
  }
}

void QueueRefs::flush() {
  ++depth_;
  for (size_t i = 0; i < touched_.size(); ++i) {
    QueueRef* ref = touched_[i];
    ref->touched = false;
    send(*ref);
    if (ref->uses == 0) idle_.push_back(ref->handle.get());
  }
  touched_.clear();
  if (--depth_ > 0) return;
  for (QueueHandle* handle : idle_) {
    auto it = refs_.find(handle);
    if (it == refs_.end()) continue;
    const QueueRef& ref = *it->second;
    if (ref.uses == 0 && !ref.touched && ref.runs.empty()) refs_.erase(it);
  }
  idle_.clear();
}

}  // namespace tarry
