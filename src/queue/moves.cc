// The dead-letter stage's traffic: what dies, what is on its way, what is dropped (retry-spec 30 to
// 32).
#include <algorithm>

#include "queue/dead_letter.h"
#include "queue/errands.h"
#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

// In flight per source queue (design-notes 3).
constexpr size_t kMovesMax = 64 * 1024;
constexpr uint64_t kMovingBytesMax = 16ull << 20;
// Of one turn: the log keeps what it lent until the turn's end.
constexpr size_t kMovesPerTurn = 1024;
constexpr uint64_t kMoveBytesPerTurn = 1 << 20;
constexpr uint64_t kDropLogMs = 1000;  // a line a queue at most

}  // namespace

const char* death_reason_name(DeathReason reason) {
  switch (reason) {
    case DeathReason::rejected:
      return "rejected";
    case DeathReason::expired:
      return "expired";
    case DeathReason::maxlen:
      return "maxlen";
    case DeathReason::delivery_limit:
      return "delivery_limit";
    case DeathReason::max_age:
      return "max_age";
    case DeathReason::unused:
      break;
  }
  return "unknown";
}

DeadLetterSink* QueueActor::sink_of_letters() const { return home_.impl().dead_letters; }

void QueueActor::kill(Lane& lane, const Run& run, DeathReason reason, uint32_t delivery_count) {
  if (!settings_.dead_letter_exchange || !sink_of_letters()) {
    lane.log->settle(run);
    return count_drop(reason, run.count, "no dead-letter exchange is set");
  }
  add_dying({lane.number, run, reason, delivery_count});
  schedule();
}

void QueueActor::add_dying(DyingRun dying) {
  dying.ticket = arrival_of(*find_lane(dying.lane), dying.run);
  dying_count_ += dying.run.count;
  dying_.push_back(std::move(dying));
}

/// A message that was moved here must be on the disk before it is moved on: a power cut that kept
/// the copy at the next queue and lost the one here would let the first source send it once more.
/// Where nothing is kept, that source must have dropped it for good before.
void QueueActor::note_arrival(Lane& lane, const Position& position,
                              const PublishRequest& request) const {
  if (!request.persistent) return;  // then a crash takes it in any case
  if (!identity_.durable) return lane.open_arrivals.add(*request.origin, position_key(position));
  if (lane.arrivals_ticket == 0 || store_.passed(lane.arrivals_ticket))
    lane.arrivals_from = position_key(position);
  lane.arrivals_ticket = store_.ticket();
}

/// What must have passed before these go on. Told when they die, so that later arrivals keep nobody
/// waiting.
Ticket QueueActor::arrival_of(Lane& lane, const Run& run) const {
  if (lane.arrivals_ticket == 0) [[likely]]
    return 0;
  if (store_.passed(lane.arrivals_ticket)) return lane.arrivals_ticket = 0;
  return position_key(run.first) + run.count > lane.arrivals_from ? lane.arrivals_ticket : 0;
}

/// A move that is tried again because another of its targets had no room on the disk: this one has
/// it already, and confirms it as if it came now.
bool QueueActor::has_come_before(const PublishRequest& request) {
  const bool here = std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane && lane->log->holds_move(*request.origin);
  });
  if (!here) return false;
  const bool owes_barrier = identity_.durable && request.persistent;
  if (request.publish_number != 0)
    add_confirm(owes_barrier ? next_durable_.confirms : confirms_, request, false);
  schedule();
  return true;
}

bool QueueActor::death_room() const {
  return dying_count_ + moves_.size() < kMovesMax && moving_bytes_ < kMovingBytesMax;
}

void QueueActor::pump_moves() {
  uint64_t bytes = 0;
  for (size_t n = 0; !dying_.empty() && moves_.size() < kMovesMax; ++n) {
    if (moving_bytes_ >= kMovingBytesMax) return;  // an answer wakes us
    if (n == kMovesPerTurn || bytes >= kMoveBytesPerTurn) return schedule();
    const uint64_t before = moving_bytes_;
    if (!start_move()) return;
    bytes += moving_bytes_ > before ? moving_bytes_ - before : 1024;
  }
}

bool QueueActor::start_move() {
  DyingRun& dying = dying_.front();
  Lane& lane = *find_lane(dying.lane);
  const Position position = dying.run.first;
  if (dying.ticket != 0 && !store_.passed(dying.ticket)) {
    ask_gate();
    return false;
  }
  if (lane.open_arrivals.contains(position_key(position))) return false;  // close_move() wakes us
  Fetched fetched;
  const Fetch fetch = lane.log->read(position, fetched);
  if (fetch == Fetch::pending) return false;
  if (dying.guessed && fetch == Fetch::ok && !is_holding()) guess_death(dying, fetched);
  const DeathReason reason = dying.reason;
  const uint32_t delivery_count = dying.delivery_count;
  std::vector<QueueId> holders = dying.holders;
  Move move{lane.number, position, reason, 0, true};
  move.marked = dying.marked;
  move.held_ms = dying.held_ms;
  move.delivery_count = delivery_count;
  --dying_count_;
  if (dying.run.count == 1) {
    dying_.pop_front();
  } else {
    dying.run = {nth_of(dying.run, 1), dying.run.count - 1};
  }
  if (fetch == Fetch::none) {  // damaged: the log has reported it
    note_held_try(move, false);
    return true;
  }
  const RecordView& record = fetched.record;
  if (is_holding()) {
    move.marked = true;  // it is parked on the disk, which says as much
    move.body_bytes = static_cast<uint32_t>(record.body.size());
    send_delayed(lane, move, record, std::move(holders));
    return true;
  }
  move.body_bytes = static_cast<uint32_t>(record.body.size());
  if (!settings_.dead_letter_exchange) {  // a policy was taken away meanwhile
    note_held_try(move, false);
    if (holds()) {
      hold(move, "no dead-letter exchange is set");
      return true;
    }
    lane.log->settle({position, 1});
    count_drop(reason, 1, "no dead-letter exchange is set");
    return true;
  }

  const std::string error = fetched.has_error ? lane.log->park_error(position) : std::string();
  Rewritten rewritten = rewrite(record, reason, delivery_count, error);
  const uint64_t token = next_token_++;
  move.bytes = record.body.size() + rewritten.header.size();
  moving_bytes_ += move.bytes;
  moves_[token] = move;

  DeadLetter letter;
  letter.origin = {id_, lane.number, position.segment, position.ordinal};
  letter.already_in = std::move(holders);
  send_letter(letter, token, reason, record, rewritten);
  return true;
}

Rewritten QueueActor::rewrite(const RecordView& record, DeathReason reason, uint32_t delivery_count,
                              std::string_view last_error) const {
  Death death;
  death.queue = identity_.name;
  death.reason = reason;
  death.time_s = shard_.clock().system_now().floor_ms() / 1000;
  death.route = record.route;
  death.header = record.header;
  death.hops = record.hops;
  if (settings_.dead_letter_routing_key) death.new_routing_key = *settings_.dead_letter_routing_key;
  death.delivery_count = delivery_count;
  death.last_error = last_error;
  return rewrite_dead_letter(death);
}

void QueueActor::send_letter(DeadLetter& letter, uint64_t token, DeathReason reason,
                             const RecordView& record, Rewritten& rewritten) {
  const std::string exchange = *settings_.dead_letter_exchange;
  letter.source = handle_;
  letter.token = token;
  letter.reason = reason;
  letter.exchange = exchange;
  letter.routing_keys = std::move(rewritten.routing_keys);
  letter.header = rewritten.header;
  letter.body = record.body;
  letter.persistent = record.persistent;
  letter.priority = rewritten.priority;
  letter.hops = rewritten.hops;
  letter.has_delivery_count = rewritten.has_delivery_count;
  letter.cycle_queues = std::move(rewritten.cycle_queues);
  sink_of_letters()->route(letter);  // may answer within the call
}

void QueueActor::dead_letter_refused(const PublishRequest& request) {
  if (!settings_.dead_letter_exchange || !sink_of_letters()) {
    return count_drop(DeathReason::maxlen, 1, "no dead-letter exchange is set");
  }
  RecordView record;
  record.persistent = request.persistent;
  record.hops = request.hops;
  record.route = request.route;
  record.header = request.header;
  record.body = request.body;
  Rewritten rewritten = rewrite(record, DeathReason::maxlen, 0, {});
  const uint64_t token = next_token_++;
  moves_[token] = {0, {}, DeathReason::maxlen, 0, false};
  DeadLetter letter;  // without an origin: there is no source record
  send_letter(letter, token, DeathReason::maxlen, record, rewritten);
}

void QueueActor::dead_letter_done(uint64_t token, DeadLetterResult result) {
  if (token & kErrandToken) return errand_move_done(token, result);
  auto it = moves_.find(token);
  TARRY_INVARIANT(it != moves_.end());
  const Move move = it->second;
  moves_.erase(it);
  moving_bytes_ -= move.bytes;
  note_held_try(move, result == DeadLetterResult::stored);
  if (move.has_source && !gone_ && must_hold(result)) {
    hold(move, dead_letter_failure(result));
    return schedule();
  }
  if (is_holding()) {
    count_released(result);
  } else if (result == DeadLetterResult::stored) {
    ++counts_.dead_lettered[static_cast<size_t>(move.reason)];
  } else {
    count_drop(move.reason, 1, dead_letter_failure(result));
  }
  if (gone_) {
    // Nothing is left to drop, but the targets need not remember the move.
    if (result == DeadLetterResult::stored && move.has_source) {
      store_.when_durable([sink = sink_of_letters(), handle = weak_handle_.lock(), token] {
        if (handle) sink->source_dropped(*handle, token);
      });
    }
    return;
  }
  if (move.has_source) {
    find_lane(move.lane)->log->settle({move.position, 1});
    if (result == DeadLetterResult::stored) next_durable_.dropped_moves.push_back(token);
  }
  schedule();
}

void QueueActor::count_drop(DeathReason reason, uint64_t count, const char* why) {
  counts_.dropped[static_cast<size_t>(reason)] += count;
  drops_since_log_ += count;
  if (now_floor_ms_ < last_drop_log_ms_ + kDropLogMs) return;
  last_drop_log_ms_ = now_floor_ms_;
  const auto level = settings_.dead_letter_exchange ? spdlog::level::warn : spdlog::level::debug;
  home_.impl().log->log(
      level,
      "{}: dropped {} message(s) instead of dead-lettering them, the last one for reason {}: {}",
      text_of(""), drops_since_log_, death_reason_name(reason), why);
  drops_since_log_ = 0;
}

void QueueActor::guess_death(DyingRun& dying, const Fetched& fetched) const {
  // The reason is not on disk; the source says as much as it can.
  if (now_floor_ms_ >= fetched.record.expires_ms(queue_ttl_ms_)) {
    dying.reason = DeathReason::expired;
  } else if (settings_.delivery_limit && fetched.counter >= *settings_.delivery_limit) {
    dying.reason = DeathReason::delivery_limit;
  }
  dying.delivery_count = counting_ ? fetched.counter : 0;
}

bool QueueActor::finish_move(const Origin& origin, std::vector<QueueId> holders) {
  Lane* lane = find_lane(origin.lane);
  const Position position{origin.segment, origin.ordinal, 0};
  if (gone_ || !lane || !lane->log->live(position)) return false;
  refresh_time();
  DyingRun dying{origin.lane, {position, 1}, DeathReason::rejected, 0, std::move(holders), true};
  if (auto found = found_dying_.find({origin.lane, position_key(position)});
      found != found_dying_.end()) {
    dying.guessed = false;
    dying.marked = true;
    dying.reason = static_cast<DeathReason>(found->second.reason);
    dying.delivery_count = found->second.delivery_count;
    found_dying_.erase(found);
  } else if (!lane->log->take_fresh(position, UINT32_MAX)) {
    lane->log->take_back(position);
    moving_parked_.insert({origin.lane, position_key(position)});
    tidy_companion();
  }
  // What is let go after its x-delay has no hops either, and goes to all that the exchange names.
  if (origin.sole && !is_holding()) return finish_redriven(origin, std::move(dying.holders));
  if ((!settings_.dead_letter_exchange && !is_holding()) || !sink_of_letters()) {
    lane->log->settle({position, 1});
    return false;
  }
  dying_.push_back(std::move(dying));
  ++dying_count_;
  schedule();
  return true;
}

}  // namespace tarry
