// Dead letters that no target takes, of a queue with x-dead-letter-strategy at-least-once
// (retry-spec 41), and of any queue those for which the disk has no room at present: held, and
// tried again until one takes them. They lie where they lay; an event says that they are dying, so
// that a crash changes nothing. What waits for its next try costs no memory beyond the due index's
// budget.
#include <algorithm>
#include <array>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

constexpr uint8_t kHeldPurpose = 3;    // among a queue's due indexes
constexpr uint32_t kFirstTryMs = 100;  // doubled with every try of one letter
constexpr uint32_t kTryMsMax = 10'000;
constexpr size_t kHeldBatch = 256;  // tried at a time; the next batch once all of it were answered
constexpr uint64_t kHeldStepMs = 50;     // between two batches, unless letters get through
constexpr uint64_t kHeldLogMs = 10'000;  // a line a queue at most

}  // namespace

/// A disk without room is nobody's decision, so nothing is lost by it, whatever the strategy.
bool QueueActor::must_hold(DeadLetterResult result) const {
  if (result == DeadLetterResult::stored) return false;
  return result == DeadLetterResult::no_room || holds();
}

/// It stays where it is, and out. `why`: what the last try came to.
void QueueActor::hold(const Move& move, const char* why) {
  Lane& lane = *find_lane(move.lane);
  if (!move.marked) {
    lane.log->mark_dying(
        move.position, {static_cast<uint8_t>(move.reason), move.delivery_count, now_floor_ms_, {}});
  }
  DueEntry entry;
  // Where there was room a moment ago there will be some soon: no long wait then.
  entry.delay_ms =
      move.held_ms == 0 || held_hurrying_ ? kFirstTryMs : std::min(move.held_ms * 2, kTryMsMax);
  entry.due_ms = now_ceil_ms_ + entry.delay_ms;
  entry.position = move.position;
  entry.counter = move.delivery_count;
  entry.body_bytes = move.body_bytes;
  entry.lane = move.lane;
  entry.kind = static_cast<uint8_t>(move.reason);
  add_held(entry);
  if (now_floor_ms_ < last_held_log_ms_ + kHeldLogMs) return;
  last_held_log_ms_ = now_floor_ms_;
  home_.impl().log->warn(
      "{}: {} dead letter(s) held and tried again, the last one for reason {}: {}", text_of(""),
      held_count(), death_reason_name(move.reason), why);
}

void QueueActor::add_held(const DueEntry& entry) {
  if (!held_) {
    held_ = DueIndex::create(store_.store().due(), shard_, id_, kHeldPurpose);
    held_->set_waker([this] { schedule(); });
  }
  held_->add(entry);
  schedule();
}

/// Those that recovery found and that are not part of a move that a crash interrupted.
void QueueActor::adopt_found_dying() {
  for (const auto& [place, dying] : found_dying_) {
    DueEntry entry;
    entry.delay_ms = kFirstTryMs;
    entry.due_ms = now_floor_ms_;
    entry.position = dying.position;
    entry.counter = dying.delivery_count;
    entry.body_bytes = dying.body_bytes;
    entry.lane = place.first;
    entry.kind = dying.reason;
    add_held(entry);
  }
  found_dying_.clear();
  held_hurry_ = true;
}

void QueueActor::try_held() {
  if (held_->size() == 0) {
    held_hurry_ = false;
    return;
  }
  if (held_trying_ > 0) return;  // an answer wakes us
  const uint64_t next_ms = std::max(held_hurry_ ? 0 : held_->next_due_ms().value_or(0),
                                    held_hurry_ ? 0 : held_tried_ms_ + kHeldStepMs);
  if (next_ms > now_floor_ms_) return arm(made(held_timer_, &QueueActor::schedule), next_ms);
  if (!death_room()) return;  // likewise
  held_tried_ms_ = now_floor_ms_;
  std::array<DueEntry, kHeldBatch> due;
  const size_t count = held_->take_due(held_hurry_ ? UINT64_MAX : now_floor_ms_, due);
  held_hurrying_ = held_hurry_;
  held_hurry_ = false;
  for (size_t i = 0; i < count; ++i) {
    const DueEntry& entry = due[i];
    Lane* lane = find_lane(entry.lane);
    if (!lane || !lane->log->live(entry.position)) continue;
    DyingRun dying{
        entry.lane, {entry.position, 1}, static_cast<DeathReason>(entry.kind), entry.counter};
    dying.marked = true;
    dying.held_ms = entry.delay_ms;
    dying_.push_back(std::move(dying));
    ++dying_count_;
    ++held_trying_;
  }
  if (held_trying_ == 0 && held_->size() > 0)
    arm(made(held_timer_, &QueueActor::schedule),
        now_floor_ms_ + kHeldStepMs);  // a page is being read
}

/// The try of a letter that was held has come to an end.
void QueueActor::note_held_try(const Move& move, bool stored) {
  if (move.held_ms == 0) return;
  if (held_trying_ > 0) --held_trying_;
  if (stored) held_hurry_ = true;
  schedule();
}

}  // namespace tarry
