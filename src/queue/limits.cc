// max-length and max-length-bytes (retry-spec 25).
#include "queue/queue_actor.h"

namespace tarry {
namespace {

constexpr size_t kDropSlice = 4096;

}  // namespace

bool QueueActor::would_overflow(uint64_t body_bytes) const {
  return (settings_.max_length && ready() + 1 > *settings_.max_length) ||
         (settings_.max_length_bytes && ready_bytes() + body_bytes > *settings_.max_length_bytes);
}

bool QueueActor::over_limit() const {
  return (settings_.max_length && ready() > *settings_.max_length) ||
         (settings_.max_length_bytes && ready_bytes() > *settings_.max_length_bytes);
}

/// `passes_on`: it is taken all the same, to die here at once.
bool QueueActor::refuse_if_full(const PublishRequest& request, bool& passes_on) {
  if (!would_overflow(request.body.size())) return false;
  // What a consumer takes at this turn's end is not in the way.
  if (Consumer* consumer = consumers_.next(); consumer && consumer->capacity() > ready()) {
    return false;
  }
  if (settings_.overflow == Overflow::reject_publish_dlx) {
    // Were a dead letter refused, its source might send it once more, after a crash or because it
    // holds it (retry-spec 41), and what it dies to here would have it twice.
    passes_on = request.origin && settings_.dead_letter_exchange && sink_of_letters();
    if (passes_on) return false;
    dead_letter_refused(request);
  }
  if (request.publish_number != 0) add_confirm(confirms_, request, true);
  schedule();
  return true;
}

void QueueActor::enforce_limits() {
  if (!limited_ || rejecting_ || consumers_.next()) return;
  for (size_t n = 0; over_limit(); ++n) {
    if (n == kDropSlice) return schedule();
    if (!death_room() || drop_victim() != Fetch::ok) return;  // what makes room or reads wakes us
  }
}

Fetch QueueActor::drop_victim() {
  // The lowest priority that has anything but due returns; its requeued runs are older than what is
  // behind the cursor.
  for (auto& lane : lanes_) {
    if (!lane) continue;
    if (!lane->requeued.empty()) {
      const RequeuedRuns::Entry entry = lane->requeued.front();
      (void)lane->requeued.take_front(std::nullopt);  // sums are estimates within a run
      lane->log->take_back(entry.run.first);
      kill(*lane, {entry.run.first, 1}, DeathReason::maxlen,
           entry.redelivered ? last_shown(entry.counter) : 0);
      return Fetch::ok;
    }
    if (lane->log->fresh_count() == 0) continue;
    Fetched fetched;
    const Fetch fetch = lane->log->peek(fetched);
    if (fetch != Fetch::ok) return fetch;
    lane->log->take();
    kill(*lane, {fetched.position, 1}, DeathReason::maxlen, last_shown(fetched.counter));
    return Fetch::ok;
  }
  for (auto& lane : lanes_) {
    if (!lane || lane->returns.empty()) continue;
    const DueReturns::Entry entry = lane->returns.front();
    lane->returns.take_front();
    lane->log->take_back(entry.position);
    kill(*lane, {entry.position, 1}, DeathReason::maxlen, last_shown(entry.counter));
    return Fetch::ok;
  }
  return Fetch::none;
}

}  // namespace tarry
