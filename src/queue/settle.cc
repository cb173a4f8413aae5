// What consumers do with their deliveries, delayed retries apart (retry-spec 2 and 3).
#include <algorithm>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {

void QueueActor::settle(Outcome outcome, std::span<const SettleRun> runs) {
  if (gone_) return;
  refresh_time();
  for (const SettleRun& run : runs) settle_run(outcome, run);
  schedule();
}

/// What a settlement means for the counts, whatever it says. Its lane.
Lane& QueueActor::take_settled(const SettleRun& settled) {
  Lane* lane = find_lane(settled.lane);
  TARRY_INVARIANT(lane != nullptr && settled.run.count > 0);
  const uint32_t count = settled.run.count;
  unacked_ -= std::min<uint64_t>(unacked_, count);
  unacked_bytes_ =
      unacked_ == 0 ? 0 : unacked_bytes_ - std::min(unacked_bytes_, settled.body_bytes);
  if (settled.consumer != ConsumerId{}) {
    if (Consumer* consumer = consumers_.find(settled.consumer)) {
      consumer->outstanding -= std::min(consumer->outstanding, count);
      consumers_.refresh(*consumer);
    } else {
      consumers_.settled_after_leaving(settled.consumer, count);
    }
  }
  return *lane;
}

void QueueActor::forget_returns_out(Lane& lane, const SettleRun& settled) {
  if (lane.returns_out.empty() || settled.counter == 0) return;
  for (uint32_t i = 0; i < settled.run.count; ++i) {
    lane.returns_out.erase(position_key(nth_of(settled.run, i)));
  }
}

void QueueActor::settle_run(Outcome outcome, const SettleRun& settled) {
  Lane* lane = &take_settled(settled);
  const uint32_t count = settled.run.count;
  if (outcome == Outcome::not_delivered || outcome == Outcome::put_back) {
    return put_back(*lane, settled);
  }
  forget_returns_out(*lane, settled);
  switch (outcome) {
    case Outcome::ack:
      counts_.acked += count;
      lane->log->settle(settled.run);
      return;
    case Outcome::drop:
      counts_.rejected += count;
      kill(*lane, settled.run, DeathReason::rejected, counting_ ? settled.counter : 0);
      return;
    case Outcome::reject_requeue:
    case Outcome::nack_requeue:
      counts_.rejected += count;
      [[fallthrough]];
    case Outcome::channel_closed:
    case Outcome::recovered:
    case Outcome::timed_out:
      if (waits(outcome)) return reject(*lane, settled);
      return requeue_counted(*lane, settled);
    case Outcome::not_delivered:
    case Outcome::put_back:
      return;
  }
}

/// Whether such a return is delayed (retry-spec 2 and 39).
bool QueueActor::waits(Outcome outcome) const {
  if (!identity_.retry_enabled) return false;
  const bool failed = outcome == Outcome::reject_requeue || outcome == Outcome::channel_closed;
  const bool returned = outcome == Outcome::nack_requeue || outcome == Outcome::timed_out;
  switch (settings_.retry.type) {
    case RetryType::rejections:
      return outcome == Outcome::reject_requeue || outcome == Outcome::nack_requeue;
    case RetryType::all:
      return failed || returned;
    case RetryType::failed:
      return failed;
    case RetryType::returned:
      return returned;
  }
  return false;
}

void QueueActor::requeue_counted(Lane& lane, const SettleRun& settled) {
  // Without counting the number is kept in memory alone, for the redelivered flag and for a limit
  // that comes later.
  const uint32_t counter = settled.counter == UINT32_MAX ? UINT32_MAX : settled.counter + 1;
  if (counting_ && settings_.delivery_limit && counter > *settings_.delivery_limit) {
    return kill(lane, settled.run, DeathReason::delivery_limit, settled.counter);
  }
  lane.log->requeue(settled.run, counter, counting_);
  add_requeued(lane, {settled.run, counter, true, settled.body_bytes, 0}, counting_);
}

void QueueActor::put_back(Lane& lane, const SettleRun& settled) {
  lane.log->requeue(settled.run, settled.counter, false);
  if (settled.counter == 0 || lane.returns_out.empty()) {
    return add_requeued(
        lane, {settled.run, settled.counter, settled.counter > 0, settled.body_bytes, 0}, false);
  }
  const uint64_t each = settled.body_bytes / settled.run.count;
  for (uint32_t i = 0; i < settled.run.count; ++i) {
    const Position position = nth_of(settled.run, i);
    auto out = lane.returns_out.find(position_key(position));
    if (out == lane.returns_out.end()) {
      add_requeued(lane, {{position, 1}, settled.counter, true, each, 0}, false);
      continue;
    }
    lane.returns.add(out->second, {position, settled.counter, static_cast<uint32_t>(each)});
    check_expiry_later(lane, {position, 1}, kExpiresReturned, out->second);
    lane.returns_out.erase(out);
  }
}

void QueueActor::add_requeued(Lane& lane, RequeuedRuns::Entry entry, bool gated) {
  // A counter that a client has not seen yet must be on disk before it does (retry-spec 16).
  if (gated && identity_.durable) entry.ticket = store_.ticket();
  lane.requeued.add(entry);
  check_expiry_later(lane, entry.run, kExpiresRequeued, 0);
}

}  // namespace tarry
