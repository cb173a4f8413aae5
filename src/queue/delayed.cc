// The holding queue of an x-delayed-message exchange: what comes in is parked until its x-delay is
// over, and then moved through the exchange as a dead letter is, so that a crash neither loses nor
// doubles it.
#include <algorithm>

#include "queue/dead_letter.h"
#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/amqp/delay.h"

namespace tarry {
namespace {

// Of one turn: the log keeps what it lent until the turn's end.
constexpr size_t kDelayedCountMax = 4096;
constexpr uint64_t kDelayedBytesMax = 4 << 20;

}  // namespace

/// Parks what was published since the last turn, and after a crash what was stored but not parked
/// yet.
void QueueActor::park_delayed() {
  Lane* lane = find_lane(0);
  if (!lane) return;
  uint64_t bytes = 0;
  for (size_t n = 0; lane->log->fresh_count() > 0; ++n) {
    if (n == kDelayedCountMax || bytes > kDelayedBytesMax) return schedule();
    Fetched fetched;
    if (lane->log->peek(fetched) != Fetch::ok) return;  // being read: the waker schedules us
    lane->log->take();
    const RecordView& record = fetched.record;
    bytes += record.header.size() + record.body.size();
    const auto properties = PropertiesView::parse(record.header);
    const uint64_t delay_ms = properties ? tarry::delay_of(*properties).ms : 0;
    DueEntry entry;
    entry.due_ms = delayed_until(record.published_ms, delay_ms);
    entry.position = fetched.position;
    entry.delay_ms = static_cast<uint32_t>(std::min<uint64_t>(delay_ms, UINT32_MAX));
    entry.body_bytes = static_cast<uint32_t>(std::min<size_t>(record.body.size(), UINT32_MAX));
    entry.lane = lane->number;
    entry.kind = kDue;
    lane->log->park(entry.position, {entry.due_ms, record.published_ms, 0, entry.delay_ms, {}});
    companion().park_at_once(entry);  // no counter is raised, so no barrier is owed
  }
}

void QueueActor::release(Lane& lane, const DueEntry& entry) {
  lane.log->take_back(entry.position);
  add_dying({lane.number, {entry.position, 1}, DeathReason::unused, 0});
}

void QueueActor::send_delayed(Lane& lane, Move move, const RecordView& record,
                              std::vector<QueueId> holders) {
  const Position position = move.position;
  const auto properties = PropertiesView::parse(record.header);
  if (!properties) {  // it was checked when it came in
    note_held_try(move, false);
    return lane.log->settle({position, 1});
  }
  ReleasedMessage released = release_from_delay(record.header, *properties);
  const uint64_t token = next_token_++;
  move.bytes = record.body.size() + released.header.size();
  moving_bytes_ += move.bytes;
  moves_[token] = move;

  DeadLetter letter;
  letter.source = handle_;
  letter.token = token;
  letter.reason = DeathReason::unused;
  letter.exchange = identity_.holds_for;
  letter.shown_route = record.route;
  letter.routing_keys.emplace_back(route_names(record.route).routing_key);
  for (std::string& key : released.more_keys) letter.routing_keys.push_back(std::move(key));
  letter.header = released.header;
  letter.body = record.body;
  letter.persistent = record.persistent;
  letter.priority = properties->priority;
  letter.hops = record.hops;
  letter.has_delivery_count = properties->has_delivery_count;
  letter.origin = {id_, lane.number, position.segment, position.ordinal};
  letter.already_in = std::move(holders);
  sink_of_letters()->route(letter);  // may answer within the call
}

void QueueActor::count_released(DeadLetterResult result) {
  if (result == DeadLetterResult::stored) return;
  ++drops_since_log_;
  if (now_floor_ms_ < last_drop_log_ms_ + 1000) return;  // a line a queue at most
  last_drop_log_ms_ = now_floor_ms_;
  const bool refused = result == DeadLetterResult::refused;
  home_.impl().log->log(
      refused ? spdlog::level::warn : spdlog::level::debug,
      "exchange '{}' in vhost '{}': dropped {} message(s) whose delay was over: {}",
      identity_.holds_for, identity_.vhost, drops_since_log_,
      refused ? "no queue has room" : "no queue is bound for them");
  drops_since_log_ = 0;
}

}  // namespace tarry
