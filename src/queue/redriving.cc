// Dead letters go back (retry-spec 38).
#include "queue/redriving.h"

#include <algorithm>
#include <cmath>

#include "queue/dead_letter.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/properties.h"

namespace tarry {
namespace {

// Of one turn.
constexpr size_t kFoundPerTurn = 1024;
constexpr size_t kMovedPerTurn = 256;
constexpr uint64_t kBytesPerTurn = 1 << 20;
// On their way.
constexpr size_t kFlightsMax = 1024;
constexpr uint64_t kFlyingBytesMax = 4 << 20;

const std::string* text_in(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value ? value->text() : nullptr;
}

std::string text_or_empty(const FieldTable& table, std::string_view name) {
  const std::string* text = text_in(table, name);
  return text ? *text : std::string();
}

}  // namespace

void QueueActor::redrive(RedriveOrder order, std::shared_ptr<RedriveProgress> progress,
                         RedriveEvents events) {
  if (gone_) return events.ended(RedriveEnd::stopped, gone_error().text);
  refresh_time();
  start_errand(
      std::make_shared<Redriving>(*this, std::move(order), std::move(progress), std::move(events)));
}

void QueueActor::go_redrive(uint64_t id) {
  for (const auto& errand : errands_) {
    if (auto* redriving = dynamic_cast<Redriving*>(errand.get());
        redriving && redriving->id() == id)
      redriving->go();
  }
}

void QueueActor::cancel_redrive(uint64_t id) {
  for (const auto& errand : errands_) {
    if (auto* redriving = dynamic_cast<Redriving*>(errand.get());
        redriving && redriving->id() == id)
      redriving->cancel();
  }
}

Redriving::Redriving(QueueActor& queue, RedriveOrder order,
                     std::shared_ptr<RedriveProgress> progress, RedriveEvents events)
    : QueueErrand(queue),
      order_(std::move(order)),
      progress_(std::move(progress)),
      events_(std::move(events)),
      started_ms_(queue.now_ceil_ms_),
      resumed_(order_.plan.has_value()),
      rate_from_(queue.shard_.steady_now()),
      rate_timer_([this] { again(); }) {
  if (resumed_) plan_ = *order_.plan;
  begin_walk();
}

bool Redriving::step() {
  for (;;) {
    switch (state_) {
      case State::find:
        if (!find_some()) return false;
        break;
      case State::planned:
        return false;
      case State::first_barrier:
        if (!durable_ || !arrivals_closed()) return false;
        state_ = State::move;
        rate_from_ = queue_.shard_.steady_now();
        begin_walk();
        break;
      case State::move:
        if (!move_some()) return false;
        break;
      case State::last_moves:
        if (!flights_.empty()) return false;
        state_ = State::last_barrier;
        wait_for_barrier();
        break;
      case State::last_barrier:
        if (!durable_) return false;
        state_ = State::done;
        events_.ended(end_, reason_);
        return true;
      case State::done:
        return true;
    }
  }
}

void Redriving::go() {
  if (state_ != State::planned) return;
  // What has only just come as a dead letter may not be on the disk yet. Were it moved on before, a
  // crash could keep the copy at the target and lose the one here: the first source would send
  // another one.
  state_ = State::first_barrier;
  wait_for_barrier();
}

/// Of a queue that is not durable; close_move() makes the queue look again.
bool Redriving::arrivals_closed() const {
  for (const auto& lane : queue_.lanes_) {
    const auto first = lane ? lane->open_arrivals.first() : std::nullopt;
    if (!first) continue;
    const Position position{static_cast<uint32_t>(*first >> 32), static_cast<uint32_t>(*first), 0};
    if (within_plan(lane->number, position)) return false;
  }
  return true;
}

void Redriving::cancel() { stop(RedriveEnd::cancelled, "cancelled"); }

void Redriving::stop(RedriveEnd how, std::string reason) {
  const bool all_sent =
      state_ == State::last_moves || state_ == State::last_barrier || state_ == State::done;
  // What was on its way when all had been sent may still be refused.
  const bool refused_late =
      state_ == State::last_moves && end_ == RedriveEnd::completed && how == RedriveEnd::stopped;
  if (all_sent && !refused_late) return;
  end_ = how;
  reason_ = std::move(reason);
  if (all_sent) return;
  state_ = State::last_moves;
  again();
}

void Redriving::queue_gone() { events_.ended(RedriveEnd::stopped, queue_.gone_error().text); }

// -- The walk

void Redriving::begin_walk() {
  lanes_left_ = queue_.lanes_.size();
  lane_ = nullptr;
}

void Redriving::open_lane(size_t number) {
  lane_ = queue_.lanes_[number].get();
  early_.clear();
  early_at_ = 0;
  early_nth_ = 0;
  fresh_from_ = {};
  if (!lane_) return;
  lane_->requeued.for_each([&](const RequeuedRuns::Entry& entry) {
    early_.push_back({entry.run, 0});
  });
  lane_->returns.for_each([&](uint64_t due_ms, const DueReturns::Entry& entry) {
    early_.push_back({{entry.position, 1}, due_ms});
  });
  std::sort(early_.begin(), early_.end(),
            [](const Early& a, const Early& b) { return a.run.first < b.run.first; });
}

bool Redriving::within_plan(uint8_t lane, const Position& position) const {
  for (const RedrivePlan::End& end : plan_.ends) {
    if (end.lane == lane) return position <= end.last;
  }
  return false;
}

/// The next message that is ready, and leaves it where it is.
Fetch Redriving::next(Candidate& out) {
  const bool bounded = state_ == State::move || resumed_;
  for (;;) {
    if (!lane_) {
      if (lanes_left_ == 0) return Fetch::none;
      open_lane(--lanes_left_);
      continue;
    }
    out.lane = lane_;
    if (early_at_ < early_.size()) {
      const Early& early = early_[early_at_];
      const Position position = nth_of(early.run, early_nth_);
      const Fetch fetch = lane_->log->read(position, out.fetched);
      if (fetch == Fetch::pending) return fetch;
      out.fresh = false;
      out.due_ms = early.due_ms;
      if (++early_nth_ == early.run.count) {
        ++early_at_;
        early_nth_ = 0;
      }
      if (fetch == Fetch::none || (bounded && !within_plan(lane_->number, position))) continue;
      return fetch;
    }
    const Fetch fetch = lane_->log->next_fresh(fresh_from_, out.fetched);
    if (fetch == Fetch::pending) return fetch;
    const Position& position = out.fetched.position;
    if (fetch == Fetch::none || out.fetched.record.published_ms > started_ms_ ||
        (bounded && !within_plan(lane_->number, position))) {
      lane_ = nullptr;
      continue;
    }
    fresh_from_ = {position.segment, position.ordinal + 1, 0};
    out.fresh = true;
    out.due_ms = 0;
    return Fetch::ok;
  }
}

std::optional<Redriving::Death> Redriving::match(const Candidate& candidate) const {
  const RecordView& record = candidate.fetched.record;
  const RouteNames names = route_names(record.route);
  Death death;
  death.exchange = names.exchange;
  death.routing_key = names.routing_key;
  auto view = PropertiesView::parse(record.header);
  std::optional<FieldTable> headers;
  if (view && !view->headers.empty()) {
    if (auto table = FieldTable::decode(view->headers)) headers = std::move(*table);
  }
  if (headers) {
    const FieldValue* history = headers->find("x-death");
    const FieldArray* entries = history ? history->array() : nullptr;
    const FieldTable* newest = entries && !entries->empty() ? entries->front().table() : nullptr;
    if (newest) {
      death.queue = text_or_empty(*newest, "queue");
      death.reason = text_or_empty(*newest, "reason");
      if (const std::string* exchange = text_in(*newest, "exchange")) death.exchange = *exchange;
      const FieldValue* keys = newest->find("routing-keys");
      if (keys && keys->array() && !keys->array()->empty() && keys->array()->front().text()) {
        death.routing_key = *keys->array()->front().text();
      }
      // Longer names than a message can carry were put there by a client.
      if (death.exchange.size() > 255 || death.routing_key.size() > 255) {
        death.exchange = names.exchange;
        death.routing_key = names.routing_key;
      }
    }
    const FieldValue* count = headers->find("x-delivery-count");
    if (count && count->integer()) death.delivery_count = *count->integer();
  }
  const RedriveFilter& filter = order_.filter;
  if (!filter.reason.empty() && death.reason != filter.reason) return std::nullopt;
  if (!filter.queue.empty() && death.queue != filter.queue) return std::nullopt;
  if (!filter.header.empty() && !header_matches(record.header, filter.header, filter.value))
    return std::nullopt;
  // To the queue it is in already would be no move.
  if (order_.target.empty() && (death.queue.empty() || death.queue == queue_.identity_.name))
    return std::nullopt;
  return death;
}

// -- Finding

bool Redriving::find_some() {
  uint64_t bytes = 0;
  for (size_t n = 0;; ++n) {
    if (n == kFoundPerTurn || bytes >= kBytesPerTurn) {
      again();
      return false;
    }
    Candidate candidate;
    const bool full = !resumed_ && order_.limit && plan_.matched >= *order_.limit;
    const Fetch fetch = full ? Fetch::none : next(candidate);
    if (fetch == Fetch::pending) return false;
    if (fetch == Fetch::none) break;
    bytes += candidate.fetched.record.header.size() + candidate.fetched.record.body.size();
    const auto death = match(candidate);
    if (!death) {
      progress_->skipped.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    if (resumed_) {
      ++launched_;  // for now: how many are left
      continue;
    }
    ++plan_.matched;
    if (order_.dry_run) count_target(order_.target.empty() ? death->queue : order_.target);
    const uint8_t lane = candidate.lane->number;
    const Position& position = candidate.fetched.position;
    if (plan_.ends.empty() || plan_.ends.back().lane != lane)
      plan_.ends.push_back({lane, position});
    plan_.ends.back().last = std::max(plan_.ends.back().last, position);
  }
  progress_->matched.store(plan_.matched, std::memory_order_relaxed);
  if (resumed_) {
    // What is no longer there was moved before the restart.
    moved_ = plan_.matched - std::min(plan_.matched, launched_);
    launched_ = 0;
    progress_->moved.store(moved_, std::memory_order_relaxed);
    state_ = State::planned;
    go();
    return true;
  }
  if (order_.dry_run) {
    if (!order_.target.empty()) targets_.try_emplace(order_.target, 0);
    if (events_.counted) events_.counted(std::move(targets_));
  }
  if (order_.dry_run || plan_.matched == 0) {
    stop(RedriveEnd::completed, plan_.matched == 0 ? why_nothing() : "dry run");
    return true;
  }
  state_ = State::planned;
  events_.planned(plan_);
  return true;
}

std::string Redriving::why_nothing() const {
  if (progress_->skipped.load(std::memory_order_relaxed) == 0) return "nothing is ready there";
  const RedriveFilter& filter = order_.filter;
  const bool all = filter.reason.empty() && filter.queue.empty() && filter.header.empty();
  if (!all) return "nothing matches";
  return "nothing matches: no message there has died in another queue (x-death), so that none has "
         "an origin to go back to; name a target";
}

void Redriving::count_target(const std::string& queue) {
  if (targets_.size() < kRedriveTargetsMax || targets_.contains(queue)) ++targets_[queue];
}

// -- Moving

bool Redriving::rate_allows() {
  if (!order_.rate) return true;
  // The n-th may go n/rate after the first. At most an hour ahead, then it looks again.
  const double due_ns = std::min(static_cast<double>(launched_) * 1e9 / *order_.rate, 9e18);
  const int64_t wait_ns = std::llround(due_ns) - (queue_.shard_.steady_now().ns - rate_from_.ns);
  if (wait_ns <= 0) return true;
  const int64_t wait_ms = std::min<int64_t>((wait_ns - 1) / 1'000'000 + 1, 3'600'000);
  queue_.shard_.timers().schedule(rate_timer_, queue_.shard_.steady_now().plus_ms(wait_ms));
  return false;
}

bool Redriving::move_some() {
  uint64_t bytes = 0;
  for (size_t n = 0, sent = 0; state_ == State::move; ++n) {
    if (flights_.size() >= kFlightsMax || flying_bytes_ >= kFlyingBytesMax)
      return false;  // an answer wakes us
    if (sent == kMovedPerTurn || n == kFoundPerTurn || bytes >= kBytesPerTurn) {
      again();
      return false;
    }
    if (moved_ + flights_.size() >= plan_.matched) break;
    if (!rate_allows()) return false;
    Candidate candidate;
    const Fetch fetch = next(candidate);
    if (fetch == Fetch::pending) return false;
    if (fetch == Fetch::none) break;
    bytes += candidate.fetched.record.header.size() + candidate.fetched.record.body.size();
    auto death = match(candidate);
    Flight flight;
    if (!death || !take_out(candidate, flight)) continue;
    ++sent;
    ++launched_;
    send(candidate, *death, std::move(flight));
  }
  stop(RedriveEnd::completed, moved_ + flights_.size() >= plan_.matched
                                  ? "all that matched were moved"
                                  : "all that were left of those that matched were moved");
  return true;
}

/// False: a consumer has it by now.
bool Redriving::take_out(Candidate& candidate, Flight& flight) {
  Lane& lane = *candidate.lane;
  const Position& position = candidate.fetched.position;
  flight.lane = lane.number;
  flight.position = position;
  flight.body_bytes = static_cast<uint32_t>(candidate.fetched.record.body.size());
  flight.counter = candidate.fetched.counter;
  flight.redelivered = candidate.fetched.redelivered;
  flight.due_ms = candidate.due_ms;
  if (candidate.fresh) return lane.log->take_fresh(position, flight.body_bytes);
  if (candidate.due_ms > 0) {
    auto taken = lane.returns.take(candidate.due_ms, position);
    if (!taken) return false;
    flight.counter = taken->counter;
  } else {
    auto taken = lane.requeued.take(position);
    if (!taken) return false;
    flight.counter = taken->counter;
    flight.redelivered = taken->redelivered;
  }
  lane.log->take_back(position);
  return true;
}

void Redriving::send(const Candidate& candidate, const Death& death, Flight flight) {
  QueueActor& q = queue_;
  const RecordView& record = candidate.fetched.record;
  flight.target = order_.target.empty() ? death.queue : order_.target;
  std::string header(as_text(record.header)), route;
  uint8_t priority = 0;
  if (auto view = PropertiesView::parse(record.header)) {
    priority = view->priority;
    FieldTable headers;
    if (!view->headers.empty()) {
      if (auto table = FieldTable::decode(view->headers)) headers = std::move(*table);
    }
    headers.erase("x-delivery-count");
    header = without_expiration(record.header, headers);
  }
  for (const std::string* part : {&death.exchange, &death.routing_key}) {
    route.push_back(static_cast<char>(part->size()));
    route += *part;
  }
  DeadLetter letter;
  letter.source = q.handle_;
  letter.token = new_move(flight.lane, flight.position);
  letter.reason = DeathReason::rejected;
  letter.routing_keys = {flight.target};  // through the default exchange
  letter.header = header;
  letter.body = record.body;
  letter.persistent = record.persistent;
  letter.priority = priority;
  letter.shown_route = as_bytes(route);
  if (!order_.reset_budget) {
    letter.counter =
        static_cast<uint32_t>(std::clamp<int64_t>(death.delivery_count, 0, UINT32_MAX));
  }
  letter.origin = {q.id_, flight.lane, flight.position.segment, flight.position.ordinal, true};
  flying_bytes_ += flight.body_bytes;
  flights_[letter.token] = std::move(flight);
  q.sink_of_letters()->route(letter);  // may answer within the call
}

void Redriving::move_done(uint64_t token, DeadLetterResult result) {
  auto it = flights_.find(token);
  if (it == flights_.end()) return;
  const Flight flight = std::move(it->second);
  flights_.erase(it);
  flying_bytes_ -= flight.body_bytes;
  if (result == DeadLetterResult::stored) {
    ++moved_;
    progress_->moved.store(moved_, std::memory_order_relaxed);
    return drop_source(token, flight.lane, flight.position);
  }
  put_back(flight);
  progress_->failed.fetch_add(1, std::memory_order_relaxed);
  const bool missing =
      result == DeadLetterResult::no_route || result == DeadLetterResult::no_exchange;
  stop(RedriveEnd::stopped,
       "queue '" + flight.target + "' in vhost '" + queue_.identity_.vhost + "' " +
           (missing ? "does not exist" : "refuses them: it is full, or the disk is"));
  again();
}

void Redriving::put_back(const Flight& flight) {
  Lane& lane = *queue_.find_lane(flight.lane);
  const Run one{flight.position, 1};
  lane.log->requeue(one, flight.counter, false);
  if (flight.due_ms > 0) {
    lane.returns.add(flight.due_ms, {flight.position, flight.counter, flight.body_bytes});
    queue_.check_expiry_later(lane, one, QueueActor::kExpiresReturned, flight.due_ms);
  } else {
    queue_.add_requeued(
        lane, {one, flight.counter, flight.redelivered || flight.counter > 0, flight.body_bytes, 0},
        false);
  }
}

}  // namespace tarry
