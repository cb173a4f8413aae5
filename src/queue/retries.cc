// Rejections with a delay, and their way back from the companion (retry-spec 17, 23 to 28).
#include <algorithm>
#include <array>
#include <utility>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/retry/policy.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

// Due returns held in memory; what is due beyond them stays in the companion (10 million due at
// once cost no memory).
constexpr size_t kReturnsMax = 64 * 1024;
constexpr int64_t kPurgeStepMs = 10;
constexpr uint64_t kNoBackoffLogMs = 1000;

void add_life(ParkEvent& event, const RecordView& record) {
  event.no_ttl = record.ttl_ms == kNoTtl;
  event.published_ms = record.published_ms;
  event.ttl_ms = record.ttl_ms;
  event.body_bytes = static_cast<uint32_t>(record.body.size());
}

}  // namespace

void QueueActor::reject(Lane& lane, const SettleRun& settled) {
  const auto each = static_cast<uint32_t>(settled.body_bytes / settled.run.count);
  for (uint32_t i = 0; i < settled.run.count; ++i) {
    reject_one(lane, {lane.number, nth_of(settled.run, i), settled.counter, each, now_ceil_ms_});
  }
}

/// The counter and the limit come first, then what a consumer said of the delay (retry-spec 17,
/// 35).
void QueueActor::reject_one(Lane& lane, LateReject rejected) {
  const uint64_t counter = uint64_t{rejected.counter} + 1;
  if (settings_.delivery_limit && counter > *settings_.delivery_limit) {
    return kill_rejected(lane, rejected, DeathReason::delivery_limit);
  }
  const auto max_age_ms = settings_.retry.max_age_ms;
  if (!may_expire(lane) && !max_age_ms) return park(lane, rejected, nullptr);
  Fetched fetched;
  switch (lane.log->read(rejected.position, fetched)) {
    case Fetch::pending:
      late_rejects_.push_back(std::move(rejected));
      return;
    case Fetch::none:  // damaged: the log has reported it
      if (rejected.word) owe_confirm(*rejected.word, true);
      return;
    case Fetch::ok:
      break;
  }
  const uint64_t published_ms = fetched.record.published_ms;
  if (max_age_ms && now_floor_ms_ > published_ms && now_floor_ms_ - published_ms > *max_age_ms) {
    return kill_rejected(lane, rejected, DeathReason::max_age);
  }
  const uint64_t expires_ms = fetched.record.expires_ms(queue_ttl_ms_);
  if (now_floor_ms_ >= expires_ms) {
    return kill_rejected(lane, rejected, DeathReason::expired);
  }
  park(lane, rejected, &fetched.record);
}

void QueueActor::kill_rejected(Lane& lane, const LateReject& rejected, DeathReason reason) {
  if (rejected.word) {
    mark_dying(lane, rejected.position, reason, rejected.counter, rejected.word->error);
    owe_confirm(*rejected.word);
    return;
  }
  kill(lane, {rejected.position, 1}, reason, rejected.counter);
}

uint64_t QueueActor::delay_of(const LateReject& rejected, uint32_t counter) {
  const RetrySettings& retry = settings_.retry;
  if (rejected.word && rejected.word->delay_ms) {
    return std::min({*rejected.word->delay_ms, retry.max_ms.value_or(kDelayMsMax), kDelayMsMax});
  }
  const uint64_t delay_ms = retry_delay_ms(retry, counter);
  return retry.jitter_percent > 0 ? jittered_delay_ms(retry, delay_ms, random_() >> 20) : delay_ms;
}

/// A line a queue at most every second: a message that is rejected over and over comes by here as
/// often.
void QueueActor::note_no_backoff() {
  ++no_backoff_since_log_;
  if (now_floor_ms_ < last_no_backoff_log_ms_ + kNoBackoffLogMs) return;
  last_no_backoff_log_ms_ = now_floor_ms_;
  home_.impl().log->warn(
      "{}: its retry queue cannot store {} message(s) (no room on the disk or it fails), requeued "
      "without delay",
      text_of(""), std::exchange(no_backoff_since_log_, 0));
}

/// `record` is given if it may expire. What cannot be stored comes back at once (retry-spec 28), so
/// its raised counter is not waited for: that is written once the disk takes it, and a crash before
/// may lower it (retry-spec 16 speaks of what was stored).
void QueueActor::park(Lane& lane, const LateReject& rejected, const RecordView* record) {
  const uint32_t counter = rejected.counter == UINT32_MAX ? UINT32_MAX : rejected.counter + 1;
  if (identity_.durable && store_.store().refuses_appends()) {
    note_no_backoff();
    if (rejected.word) {
      lane.log->note_error(rejected.position, rejected.word->error);
      owe_confirm(*rejected.word);
    }
    lane.log->requeue({rejected.position, 1}, counter, true);
    return add_requeued(lane, {{rejected.position, 1}, counter, true, rejected.body_bytes, 0},
                        false);
  }
  const uint64_t delay_ms = delay_of(rejected, counter);
  const uint64_t due_ms = due_after(rejected.rejected_ms, delay_ms);
  ParkEvent event{due_ms, rejected.rejected_ms, counter, static_cast<uint32_t>(delay_ms),
                  rejected.word ? std::string_view(rejected.word->error) : std::string_view()};
  event.no_ttl = !lane.own_ttl_seen;
  event.entry_body_bytes = rejected.body_bytes;
  if (record) add_life(event, *record);
  lane.log->park(rejected.position, event);
  const uint64_t expires_ms = record ? record->expires_ms(queue_ttl_ms_) : UINT64_MAX;
  DueEntry entry;
  entry.due_ms = due_ms;
  entry.position = rejected.position;
  entry.counter = counter;
  entry.delay_ms = static_cast<uint32_t>(delay_ms);
  entry.body_bytes = rejected.body_bytes;
  entry.lane = lane.number;
  entry.kind = kDue;
  end_by_expiry(entry, expires_ms);
  // All that this entry says is in the event, and nothing that may change later. Of a transient
  // message there may be none.
  entry.stored = identity_.durable && !record && transient_seen_ == 0;
  add_parked(entry);
  ++counts_.retries_scheduled;
  if (rejected.word) owe_confirm(*rejected.word);
}

void QueueActor::add_parked(const DueEntry& entry) {
  if (identity_.durable) {
    companion().park(entry, store_.ticket());
  } else {
    companion().park_at_once(entry);
  }
}

void QueueActor::run_late_rejects() {
  // Those that still cannot be read come to the back again, so one round is enough.
  for (size_t n = late_rejects_.size(); n > 0; --n) {
    LateReject rejected = std::move(late_rejects_.front());
    late_rejects_.pop_front();
    Lane& lane = *find_lane(rejected.lane);
    reject_one(lane, std::move(rejected));
  }
  if (!late_rejects_.empty() || late_syncs_.empty()) return;
  next_durable_.replies.insert(next_durable_.replies.end(), late_syncs_.begin(), late_syncs_.end());
  late_syncs_.clear();
}

Companion& QueueActor::companion() {
  if (!companion_) {
    CompanionGate gate = identity_.durable
                             ? gate_of(store_)
                             : CompanionGate{[](Ticket) { return true; },
                                             [this](Task task) { shard_.post(std::move(task)); }};
    companion_ = std::make_unique<Companion>(store_.store().due(), shard_, id_, std::move(gate),
                                             [this] { drain_companion(); });
    if (identity_.durable) companion_->set_cold_keeper(keeper());
  }
  return *companion_;
}

void QueueActor::drain_companion() {
  refresh_time();
  if (purge_delayed_left_ > 0) run_purge_delayed();
  std::array<DueEntry, 512> due;
  for (size_t taken = 0; taken < kDrainCountMax;) {
    if (returns_count() >= kReturnsMax || !death_room()) {
      companion_->pause();
      drain_paused_ = true;
      returns_full_ = returns_count() >= kReturnsMax;
      break;
    }
    const size_t count = companion_->drain(now_floor_ms_, due);
    for (size_t i = 0; i < count; ++i) drain_entry(due[i]);
    taken += count;
    if (count < due.size()) break;
  }
  schedule();
}

size_t QueueActor::returns_count() const {
  size_t count = 0;
  for (const auto& lane : lanes_) count += lane ? lane->returns.count() : 0;
  return count;
}

void QueueActor::resume_draining() {
  if (!drain_paused_ || returns_count() >= kReturnsMax / 2 || !death_room()) return;
  drain_paused_ = false;
  // Whoever is late, it is not the broker while consumers leave no room for what is due.
  if (std::exchange(returns_full_, false)) room_since_ms_ = now_floor_ms_;
  companion_->resume();
}

void QueueActor::drain_entry(DueEntry entry) {
  Lane* lane = find_lane(entry.lane);
  if (!lane || !lane->log->live(entry.position)) return;
  if (!moving_parked_.empty() &&
      moving_parked_.erase({entry.lane, position_key(entry.position)}) > 0) {
    return;  // it is on its way through the dead-letter stage
  }
  if (is_holding()) return release(*lane, entry);
  if (retiming_ && !retime_ended(*lane, entry)) [[unlikely]]
    return;
  if (entry.kind == kExpiresParked) {
    lane->log->take_back(entry.position);
    kill(*lane, {entry.position, 1}, DeathReason::expired, last_shown(entry.counter));
    return;
  }
  if (rejecting_ && ready() > 0 && would_overflow(entry.body_bytes)) return postpone(*lane, entry);
  lane->returns.add(entry.due_ms, {entry.position, entry.counter, entry.body_bytes});
  check_expiry_later(*lane, {entry.position, 1}, kExpiresReturned, entry.due_ms);
  ++counts_.retries_redelivered;
  count_lag(entry.due_ms);
}

void QueueActor::count_lag(uint64_t due_ms) {
  const uint64_t owed_ms = std::max(due_ms, room_since_ms_);
  const uint64_t lag_ms = now_floor_ms_ - std::min(now_floor_ms_, owed_ms);
  const auto bound = std::lower_bound(kRetryLagBoundsMs.begin(), kRetryLagBoundsMs.end(), lag_ms);
  ++counts_.lag[bound - kRetryLagBoundsMs.begin()];
  counts_.lag_sum_ms += lag_ms;
}

void QueueActor::postpone(Lane& lane, const DueEntry& entry) {
  // Whole periods from the due time; those that were slept through at once.
  const uint64_t period = std::max<uint64_t>(entry.delay_ms, 1);
  const uint64_t periods = (now_floor_ms_ - entry.due_ms) / period + 1;
  const uint64_t due_ms = due_after(entry.due_ms, period * periods);
  ParkEvent event{due_ms, entry.due_ms, entry.counter, entry.delay_ms, {}};
  event.no_ttl = !lane.own_ttl_seen;
  ++counts_.retries_postponed;
  DueEntry again = entry;
  again.due_ms = due_ms;
  again.stored = false;  // not durable yet
  if (may_expire(lane)) {
    Fetched fetched;
    // A record that must be read from disk first is looked at when it is due: it is not delivered
    // late in any case.
    if (lane.log->read(entry.position, fetched) == Fetch::ok) {
      add_life(event, fetched.record);
      end_by_expiry(again, fetched.record.expires_ms(queue_ttl_ms_));
    }
  }
  lane.log->park(entry.position, event);
  companion().park_at_once(again);  // the counter is not raised: no barrier is owed
}

void QueueActor::purge_delayed() {
  if (gone_ || !companion_) return;
  refresh_time();
  purge_delayed_before_ms_ = now_ceil_ms_;
  purge_delayed_left_ = companion_->count();
  run_purge_delayed();
  schedule();
}

void QueueActor::run_purge_delayed() {
  std::array<DueEntry, 512> taken;
  std::vector<DueEntry> younger;
  while (purge_delayed_left_ > 0) {
    const size_t count = companion_->drain(UINT64_MAX, taken);
    for (size_t i = 0; i < count; ++i) {
      const DueEntry& entry = taken[i];
      Lane* lane = find_lane(entry.lane);
      if (!lane || !lane->log->live(entry.position)) continue;
      // A delay that does not fit (of a holding queue) says nothing of when it began.
      if (entry.kind == kDue && entry.delay_ms != UINT32_MAX &&
          entry.due_ms - entry.delay_ms > purge_delayed_before_ms_) {
        younger.push_back(entry);
      } else if (moving_parked_.erase({entry.lane, position_key(entry.position)}) == 0) {
        lane->log->settle({entry.position, 1});
      }
    }
    purge_delayed_left_ -= std::min<uint64_t>(purge_delayed_left_, count);
    if (count == 0) break;
  }
  for (const DueEntry& entry : younger) add_parked(entry);
  if (companion_->count() == younger.size()) purge_delayed_left_ = 0;
  // The rest is being read from disk or waits for its barrier.
  if (purge_delayed_left_ > 0) {
    shard_.timers().schedule(made(purge_timer_, &QueueActor::go_on_purging),
                             shard_.steady_now().plus_ms(kPurgeStepMs));
  }
}

void QueueActor::go_on_purging() {
  if (companion_) run_purge_delayed();
  schedule();
}

}  // namespace tarry
