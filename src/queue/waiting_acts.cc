// Redeliver now, dead-letter now, drop (retry-spec 37).
#include <algorithm>
#include <utility>

#include "queue/dead_letter.h"
#include "queue/queue_shard_impl.h"
#include "queue/waiting.h"

namespace tarry {
namespace {

constexpr size_t kScanCount = 1024;
// Of one turn, and of one group that is taken out and treated together.
constexpr size_t kActsPerTurn = 1024;
constexpr size_t kGroup = 1024;
constexpr uint64_t kReadBytesPerTurn = 1 << 20;
// On their way through the dead-letter stage.
constexpr size_t kActMovingMax = 1024;
constexpr uint64_t kActMovingBytesMax = 4 << 20;

}  // namespace

void QueueActor::act_on_waiting(WaitingOrder order, std::function<void(WaitingOutcome)> done) {
  if (gone_) {
    WaitingOutcome outcome;
    outcome.error = gone_error();
    return done(std::move(outcome));
  }
  start_errand(std::make_shared<WaitingActing>(*this, std::move(order), std::move(done)));
}

/// What recovery found on its way out of the companion is no longer to be counted there.
void QueueActor::tidy_companion() {
  if (std::exchange(tidying_, true)) return;
  WaitingOrder order;
  order.act = WaitingAct::tidy;
  start_errand(std::make_shared<WaitingActing>(*this, std::move(order),
                                               [this](WaitingOutcome) { tidying_ = false; }));
}

WaitingActing::WaitingActing(QueueActor& queue, WaitingOrder order,
                             std::function<void(WaitingOutcome)> done)
    : QueueErrand(queue), order_(std::move(order)), done_(std::move(done)) {
  for (const std::string& text : order_.ids) {
    // What is no id of ours names nothing that waits.
    if (auto id = WaitingId::parse(text)) ids_.insert(*id);
  }
}

bool WaitingActing::step() {
  for (;;) {
    switch (state_) {
      case State::start:
        if (!start()) {
          finish();
          return true;
        }
        break;
      case State::first_barrier:
        if (!durable_) return false;
        if (!queue_.companion_) {
          state_ = State::moves;
          break;
        }
        queue_.companion_->look_at_gate();
        last_sequence_ = queue_.companion_->last_sequence();
        state_ = State::scan;
        break;
      case State::scan:
        if (!scan()) state_ = State::moves;
        break;
      case State::scanning:
        return false;
      case State::match:
        if (!match_some()) return false;
        break;
      case State::moves:
        if (!moving_.empty()) return false;
        state_ = State::last_barrier;
        wait_for_barrier();
        break;
      case State::last_barrier:
        if (!durable_) return false;
        finish();
        return true;
      case State::done:
        return true;
    }
  }
}

bool WaitingActing::start() {
  QueueActor& q = queue_;
  if (order_.act == WaitingAct::dead_letter &&
      (!q.settings_.dead_letter_exchange || !q.sink_of_letters())) {
    outcome_.error = PeerError::precondition_failed(
        q.text_of(" has no dead-letter exchange: set x-dead-letter-exchange, or drop them"));
    return false;
  }
  state_ = State::first_barrier;
  durable_ = !q.companion_ || q.companion_->gated_count() == 0;
  if (!durable_) wait_for_barrier();
  return true;
}

/// Looks for more; false if there is none.
bool WaitingActing::scan() {
  if (!queue_.companion_ || !whole_) return false;
  size_t count = kScanCount;
  if (!order_.ids.empty()) {
    if (ids_.empty()) return false;
    // By due time; most have a millisecond of their own.
    const uint64_t due_ms = ids_.begin()->due_ms;
    if (from_.due_ms < due_ms) {
      from_ = {due_ms, 0};
      count = 16;
    }
  }
  state_ = State::scanning;
  queue_.companion_->scan(from_, 0, count, [this](std::vector<DueFound> found, bool whole) {
    found_ = std::move(found);
    whole_ = whole_ && whole;
    next_ = 0;
    state_ = found_.empty() ? State::moves : State::match;
    if (!found_.empty()) {
      from_ = found_.back().key();
      ++from_.sequence;
    }
    again();
  });
  return true;
}

bool WaitingActing::wanted(const DueFound& found) const {
  if (found.sequence > last_sequence_) return false;
  const DueEntry& entry = found.entry;
  if (order_.act == WaitingAct::tidy) {
    return queue_.moving_parked_.contains({entry.lane, position_key(entry.position)});
  }
  if (order_.act == WaitingAct::retime) {
    const Lane* lane = queue_.find_lane(entry.lane);
    return entry.kind == QueueActor::kExpiresParked || (lane && queue_.may_expire(*lane));
  }
  if (!order_.ids.empty()) {
    return ids_.contains(
        {entry.due_ms, entry.lane, entry.position.segment, entry.position.ordinal});
  }
  if (!order_.filter) return true;
  const WaitingFilter& filter = *order_.filter;
  return (!filter.due_before_ms || entry.due_ms < *filter.due_before_ms) &&
         (!filter.due_after_ms || entry.due_ms > *filter.due_after_ms) &&
         (!filter.count_min || entry.counter >= *filter.count_min) &&
         (!filter.count_max || entry.counter <= *filter.count_max);
}

bool WaitingActing::matches(const DueFound& found, const Fetched& fetched, Lane& lane) const {
  if (order_.act == WaitingAct::retime) {
    const DueEntry retimed = queue_.retimed(found.entry, fetched.record);
    return retimed.due_ms != found.entry.due_ms || retimed.kind != found.entry.kind;
  }
  if (!order_.filter) return true;
  const WaitingFilter& filter = *order_.filter;
  const RouteNames names = route_names(fetched.record.route);
  if (filter.exchange && names.exchange != *filter.exchange) return false;
  if (filter.routing_key && names.routing_key != *filter.routing_key) return false;
  if (!filter.header.empty() && !header_matches(fetched.record.header, filter.header, filter.value))
    return false;
  return !filter.error ||
         lane.log->park_error(found.entry.position).find(*filter.error) != std::string::npos;
}

/// Goes on in what was found; false if that has to wait.
bool WaitingActing::match_some() {
  QueueActor& q = queue_;
  std::vector<DueFound> group;
  std::vector<Fetched> fetched;
  uint64_t read_bytes = 0;
  bool waits = false;
  size_t acts = 0;
  for (; next_ < found_.size() && !waits; ++next_) {
    const DueFound& found = found_[next_];
    if (!wanted(found)) continue;
    Lane* lane = q.find_lane(found.entry.lane);
    Fetched one;
    if (needs_record() && lane) {
      if (moving_.size() + group.size() >= kActMovingMax || moving_bytes_ >= kActMovingBytesMax) {
        waits = true;  // an answer wakes us
        break;
      }
      const Fetch fetch = lane->log->read(found.entry.position, one);
      if (fetch == Fetch::pending) {
        waits = true;
        break;
      }
      if (fetch == Fetch::none) continue;
      read_bytes += one.record.body.size() + one.record.header.size();
      if (!matches(found, one, *lane)) {
        if (read_bytes < kReadBytesPerTurn) continue;
        ++next_;
        again();
        waits = true;
        break;
      }
    }
    group.push_back(found);
    fetched.push_back(one);
    if (group.size() == kGroup) {
      acts += group.size();
      treat(group, fetched);
    }
    if (acts >= kActsPerTurn || read_bytes >= kReadBytesPerTurn) {
      ++next_;
      again();
      waits = true;
      break;
    }
  }
  treat(group, fetched);
  if (waits) return false;
  state_ = State::scan;
  if (!order_.ids.empty()) {
    // Those that were due up to here and were not met do not wait (any more).
    while (!ids_.empty() && ids_.begin()->due_ms < from_.due_ms) ids_.erase(ids_.begin());
  }
  return true;
}

/// Takes the group out of the companion and does what was ordered, within this turn.
void WaitingActing::treat(std::vector<DueFound>& group, std::vector<Fetched>& records) {
  if (group.empty()) return;
  std::vector<DueFound> taken;
  std::vector<Fetched> fetched;
  taken.swap(group);
  fetched.swap(records);
  queue_.companion_->erase(taken);
  for (size_t i = 0; i < taken.size(); ++i) {
    const DueFound& found = taken[i];
    const DueEntry& entry = found.entry;
    ids_.erase({entry.due_ms, entry.lane, entry.position.segment, entry.position.ordinal});
    Lane* lane = queue_.find_lane(entry.lane);
    if (found.gone) continue;
    if (queue_.moving_parked_.erase({entry.lane, position_key(entry.position)}) > 0)
      continue;  // it is dying already
    if (!lane || !lane->log->live(entry.position)) continue;
    switch (order_.act) {
      case WaitingAct::redeliver:
        redeliver(*lane, found);
        break;
      case WaitingAct::dead_letter:
        dead_letter(*lane, found, fetched[i]);
        break;
      case WaitingAct::drop:
        lane->log->settle({entry.position, 1});
        ++outcome_.affected;
        break;
      case WaitingAct::retime:
        queue_.companion_->park_at_once(queue_.retimed(entry, fetched[i].record));
        break;
      case WaitingAct::tidy:
        break;
    }
  }
}

/// It waits anew, and is due: so a crash does not take it back, and what a full queue does to a
/// return is done to it.
void WaitingActing::redeliver(Lane& lane, const DueFound& found) {
  QueueActor& q = queue_;
  DueEntry entry = found.entry;
  const uint64_t due_ms = QueueActor::due_of(entry);
  entry.delay_ms = q.period_of(entry);
  const uint64_t rejected_ms = due_ms - std::min<uint64_t>(due_ms, entry.delay_ms);
  entry.due_ms = q.now_floor_ms_;
  entry.kind = QueueActor::kDue;
  lane.log->park(
      entry.position,
      {entry.due_ms, rejected_ms, entry.counter, entry.delay_ms, {}});  // its error stays
  q.companion_->park_at_once(entry);  // the counter is not raised: no barrier is owed
  ++outcome_.affected;
}

void WaitingActing::dead_letter(Lane& lane, const DueFound& found, const Fetched& fetched) {
  QueueActor& q = queue_;
  lane.log->take_back(found.entry.position);
  const std::string error =
      fetched.has_error ? lane.log->park_error(found.entry.position) : std::string();
  Rewritten rewritten =
      q.rewrite(fetched.record, DeathReason::rejected, q.last_shown(found.entry.counter), error);
  const uint64_t token = new_move(found.entry.lane, found.entry.position);
  moving_[token] = found.entry;
  moving_bytes_ += found.entry.body_bytes;
  DeadLetter letter;
  letter.origin = {q.id_, found.entry.lane, found.entry.position.segment,
                   found.entry.position.ordinal};
  q.send_letter(letter, token, DeathReason::rejected, fetched.record, rewritten);
}

void WaitingActing::move_done(uint64_t token, DeadLetterResult result) {
  auto it = moving_.find(token);
  if (it == moving_.end()) return;
  const DueEntry entry = it->second;
  moving_.erase(it);
  moving_bytes_ -= entry.body_bytes;
  if (result == DeadLetterResult::stored) {
    ++outcome_.affected;
    ++queue_.counts_.dead_lettered[static_cast<size_t>(DeathReason::rejected)];
    return drop_source(token, entry.lane, entry.position);
  }
  // Nobody asked for it to be lost: it goes on waiting. On disk it never ceased to.
  ++outcome_.failed;
  outcome_.reason = dead_letter_failure(result);
  queue_.find_lane(entry.lane)->log->requeue({entry.position, 1}, entry.counter, false);
  queue_.companion().park_at_once(entry);
  again();
}

void WaitingActing::finish() {
  state_ = State::done;
  if (!whole_ && !outcome_.error) {
    outcome_.reason = "some of what waits could not be read from disk; try again";
  }
  done_(std::move(outcome_));
}

void WaitingActing::queue_gone() {
  outcome_.error = queue_.gone_error();
  done_(std::move(outcome_));
}

}  // namespace tarry
