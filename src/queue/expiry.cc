// Time to live: of the queue and of single messages, on time wherever they stand (retry-spec 26,
// design-notes 7).
#include <algorithm>
#include <array>
#include <utility>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "queue/waiting.h"
#include "tarrymq/retry/policy.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

constexpr uint8_t kExpiryPurpose = 2;  // among a queue's due indexes
constexpr size_t kExpireSlice = 4096;
constexpr uint64_t kReadAgainMs = 10;
constexpr uint64_t kFarMs = 9'000'000'000'000;  // beyond it a time in ns does not fit

}  // namespace

bool QueueActor::expired(const RecordView& record, bool came_back) const {
  const uint64_t expires_ms = record.expires_ms(queue_ttl_ms_);
  // A TTL of 0 means: if it can go at once. It does not go twice.
  if (came_back && expires_ms == record.published_ms) return true;
  if (now_floor_ms_ < expires_ms) return false;
  return expires_ms != record.published_ms || record.published_ms < now_floor_ms_;
}

void QueueActor::note_own_ttl(Lane& lane, const Position& position, const PublishRequest& request,
                              bool alone) {
  const uint64_t expires_ms = now_ceil_ms_ + request.ttl_ms;
  lane.own_ttl_seen = true;
  if (request.ttl_ms == 0) expire_ttl_zero_ = true;
  if (alone) {
    lane.greatest_own_expiry = expires_ms;
    return;
  }
  // Something ahead stays longer, so that the head says nothing about this one. Its expiry is taken
  // without the queue's TTL, which a policy may change: that one is in the order of the queue in
  // any case.
  if (expires_ms < lane.greatest_own_expiry) {
    DueEntry entry;
    entry.due_ms = expires_ms;
    entry.position = position;
    entry.body_bytes = static_cast<uint32_t>(request.body.size());
    entry.lane = lane.number;
    entry.kind = kExpiresFresh;
    expiry_index().add(entry);
  } else {
    lane.greatest_own_expiry = expires_ms;
  }
}

void QueueActor::check_expiry_later(Lane& lane, const Run& run, Kind kind, uint64_t due_ms) {
  if (!may_expire(lane)) return;
  for (uint32_t i = 0; i < run.count; ++i) {
    expiry_checks_.push_back({lane.number, nth_of(run, i), kind, due_ms});
  }
}

void QueueActor::check_all_that_came_back() {
  for (auto& lane : lanes_) {
    if (!lane || !may_expire(*lane)) continue;
    lane->requeued.for_each([&](const RequeuedRuns::Entry& entry) {
      check_expiry_later(*lane, entry.run, kExpiresRequeued, 0);
    });
    lane->returns.for_each([&](uint64_t due_ms, const DueReturns::Entry& entry) {
      check_expiry_later(*lane, {entry.position, 1}, kExpiresReturned, due_ms);
    });
  }
}

/// What waits is gone over, too, since its wait ends at the earlier of due time and expiry
/// (retry-spec 26). In slices, as an operator's orders are.
void QueueActor::retime_companion() {
  if (!companion_ || is_holding()) return;
  if (std::exchange(retiming_, true)) {
    retime_again_ = true;
    return;
  }
  WaitingOrder order;
  order.act = WaitingAct::retime;
  start_errand(std::make_shared<WaitingActing>(*this, std::move(order), [this](WaitingOutcome) {
    retiming_ = false;
    if (std::exchange(retime_again_, false) && !gone_) retime_companion();
  }));
}

/// When a waiting message is due, whether or not it expires before.
uint64_t QueueActor::due_of(const DueEntry& entry) {
  return entry.kind == kExpiresParked ? due_after(entry.due_ms, entry.delay_ms) : entry.due_ms;
}

/// How long it waits. Of one that was to expire before, only the log knows it exactly.
uint32_t QueueActor::period_of(const DueEntry& entry) const {
  return entry.kind == kExpiresParked
             ? static_cast<uint32_t>(retry_delay_ms(settings_.retry, entry.counter))
             : entry.delay_ms;
}

/// Makes it end at its expiry, if that comes first.
void QueueActor::end_by_expiry(DueEntry& entry, uint64_t expires_ms) {
  if (expires_ms > entry.due_ms) return;
  entry.delay_ms = static_cast<uint32_t>(std::min<uint64_t>(entry.due_ms - expires_ms, UINT32_MAX));
  entry.due_ms = expires_ms;
  entry.kind = kExpiresParked;
  entry.stored = false;
}

/// As it is by the present message-ttl.
DueEntry QueueActor::retimed(const DueEntry& entry, const RecordView& record) const {
  DueEntry out = entry;
  out.due_ms = due_of(entry);
  out.delay_ms = period_of(entry);
  out.kind = kDue;
  end_by_expiry(out, record.expires_ms(queue_ttl_ms_));
  return out;
}

/// Something whose wait has ended while some entries are still as they were by the message-ttl
/// before. False: it goes on waiting.
bool QueueActor::retime_ended(Lane& lane, DueEntry& entry) {
  Fetched fetched;
  switch (lane.log->read(entry.position, fetched)) {
    case Fetch::none:  // damaged: the log has reported it
      return false;
    case Fetch::pending: {
      const uint64_t due_ms = due_of(entry);
      entry.due_ms = now_floor_ms_ + kReadAgainMs;
      if (entry.kind == kExpiresParked)
        entry.delay_ms = static_cast<uint32_t>(due_ms - std::min(due_ms, entry.due_ms));
      companion_->park_at_once(entry);
      return false;
    }
    case Fetch::ok:
      break;
  }
  entry = retimed(entry, fetched.record);
  if (entry.due_ms <= now_floor_ms_) return true;
  companion_->park_at_once(entry);
  return false;
}

void QueueActor::run_expiry_checks() {
  for (size_t n = expiry_checks_.size(); n > 0; --n) {
    const ExpiryCheck check = expiry_checks_.front();
    Lane& lane = *find_lane(check.lane);
    Fetched fetched;
    const Fetch fetch = lane.log->read(check.position, fetched);
    if (fetch == Fetch::pending) return;
    expiry_checks_.pop_front();
    if (fetch == Fetch::none) continue;
    const uint64_t expires_ms = fetched.record.expires_ms(queue_ttl_ms_);
    if (expires_ms == UINT64_MAX) continue;
    DueEntry entry;
    entry.due_ms = expires_ms;
    entry.position = check.position;
    entry.body_bytes = static_cast<uint32_t>(fetched.record.body.size());
    entry.lane = check.lane;
    entry.kind = check.kind;
    if (check.kind == kExpiresReturned) {
      // A return that is long overdue when a TTL is set can have expired before it was due: then
      // its head shows it.
      const uint64_t behind = expires_ms - std::min(expires_ms, check.due_ms);
      if (expires_ms < check.due_ms || behind > UINT32_MAX) continue;
      entry.delay_ms = static_cast<uint32_t>(behind);
    }
    expiry_index().add(entry);
  }
}

DueIndex& QueueActor::expiry_index() {
  if (!expiries_) {
    expiries_ = DueIndex::create(store_.store().due(), shard_, id_, kExpiryPurpose);
    expiries_->set_waker([this] { schedule(); });
  }
  return *expiries_;
}

void QueueActor::expire() {
  run_expiry_checks();
  if (expiries_ && expiries_->size() > 0) {
    std::array<DueEntry, 256> due;
    for (size_t taken = 0; taken < kExpireSlice && death_room();) {
      const size_t count = expiries_->take_due(now_floor_ms_, due);
      for (size_t i = 0; i < count; ++i) expire_entry(due[i]);
      taken += count;
      if (count < due.size()) break;
      if (taken >= kExpireSlice) schedule();
    }
  }
  const bool all_looked_at =
      !consumers_.next();  // a TTL of 0 still has a chance while somebody can take it
  for (auto& lane : lanes_) {
    if (lane && may_expire(*lane) && !expire_heads(*lane, expire_ttl_zero_ && all_looked_at)) {
      schedule();
    }
  }
  if (all_looked_at) expire_ttl_zero_ = false;
}

bool QueueActor::expire_heads(Lane& lane, bool ttl_zero_too) {
  Fetched fetched;
  for (size_t n = 0; n < kExpireSlice; ++n) {
    if (lane.log->fresh_count() == 0 || !death_room()) return true;
    if (lane.log->peek(fetched) != Fetch::ok) return true;
    const bool now_or_never =
        ttl_zero_too && fetched.record.expires_ms(queue_ttl_ms_) == fetched.record.published_ms;
    if (!now_or_never && now_floor_ms_ < fetched.record.expires_ms(queue_ttl_ms_)) return true;
    lane.log->take();
    kill(lane, {fetched.position, 1}, DeathReason::expired, last_shown(fetched.counter));
  }
  return false;
}

void QueueActor::expire_entry(const DueEntry& entry) {
  Lane* lane = find_lane(entry.lane);
  if (!lane || !lane->log->live(entry.position)) return;
  const Run one{entry.position, 1};
  switch (entry.kind) {
    case kExpiresFresh:
      if (!lane->log->take_fresh(entry.position, entry.body_bytes)) return;
      return kill(*lane, one, DeathReason::expired, 0);
    case kExpiresRequeued: {
      auto taken = lane->requeued.take(entry.position);
      if (!taken) return;
      lane->log->take_back(entry.position);
      return kill(*lane, one, DeathReason::expired, last_shown(taken->counter));
    }
    case kExpiresReturned: {
      auto taken = lane->returns.take(entry.due_ms - entry.delay_ms, entry.position);
      if (!taken) return;
      lane->log->take_back(entry.position);
      return kill(*lane, one, DeathReason::expired, last_shown(taken->counter));
    }
    default:
      TARRY_INVARIANT(false && "an entry of another index");
  }
}

void QueueActor::arm(Timer& timer, uint64_t due_ms) {
  const int64_t due_ns = static_cast<int64_t>(std::min(due_ms, kFarMs)) * 1'000'000;
  const int64_t wait_ns = std::max<int64_t>(due_ns - shard_.now().ns, 0);
  shard_.timers().schedule(timer, {shard_.steady_now().ns + wait_ns});
}

void QueueActor::arm_expiry_timer() {
  uint64_t next = UINT64_MAX;
  if (death_room()) {  // else what makes room wakes us
    if (expiries_) next = expiries_->next_due_ms().value_or(UINT64_MAX);
    for (auto& lane : lanes_) {
      if (!lane || !may_expire(*lane) || lane->log->fresh_count() == 0) continue;
      Fetched fetched;
      if (lane->log->peek(fetched) != Fetch::ok) continue;
      next = std::min(next, fetched.record.expires_ms(queue_ttl_ms_));
    }
  }
  if (next == UINT64_MAX) {
    if (expiry_timer_) expiry_timer_->cancel();
  } else {
    arm(made(expiry_timer_, &QueueActor::schedule), next);
  }
}

}  // namespace tarry
