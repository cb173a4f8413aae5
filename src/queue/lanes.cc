// A queue's lanes: their logs, and which message is the next (retry-spec 24).
#include <algorithm>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/storage/store.h"

namespace tarry {

Result<std::unique_ptr<MessageLog>> QueueActor::open_log(uint8_t number, bool recovering) {
  MessageLog::Options options;
  const Store& store = store_.store();
  options.directory =
      (identity_.durable ? store.queue_directory(id_) : store.transient_directory(id_)) + "/" +
      std::to_string(number);
  options.durable = identity_.durable;
  options.queue_id = id_.value;
  options.lane = number;
  options.label = text_of("");
  if (recovering) {
    options.queue_ttl_ms = queue_ttl_ms_;
    options.in_batch = [this](const RecoveredPark& park) {
      companion().count_cold(park.ends_ms(queue_ttl_ms_));
    };
  }
  return MessageLog::open(store_, std::move(options));
}

void QueueActor::adopt_lane(uint8_t number, std::unique_ptr<MessageLog> log) {
  if (lanes_.size() <= number) lanes_.resize(size_t{number} + 1);
  auto lane = std::make_unique<Lane>();
  lane->number = number;
  lane->log = std::move(log);
  lane->log->set_waker([this] { schedule(); });
  lane->log->set_size_watcher([this] { publish_sizes(); });
  lanes_[number] = std::move(lane);
}

Lane* QueueActor::lane_for(uint8_t priority) {
  const auto number = static_cast<uint8_t>(std::min<uint16_t>(priority, identity_.max_priority));
  if (Lane* lane = find_lane(number)) [[likely]]
    return lane;
  auto log = open_log(number);
  if (!log) {
    home_.impl().log->error("{}: cannot open its log, publishes are refused: {}", text_of(""),
                            log.error().message());
    return nullptr;
  }
  adopt_lane(number, std::move(*log));
  return find_lane(number);
}

Lane* QueueActor::highest_ready() {
  for (size_t i = lanes_.size(); i-- > 0;) {
    if (lanes_[i] && lanes_[i]->ready() > 0) return lanes_[i].get();
  }
  return nullptr;
}

Fetch QueueActor::head_of(Lane& lane, Head& out) {
  while (!lane.returns.empty()) {
    const DueReturns::Entry& entry = lane.returns.front();
    const Fetch fetch = lane.log->read(entry.position, out.fetched);
    if (fetch == Fetch::none) {  // damaged: the log has reported it
      lane.returns.take_front();
      continue;
    }
    out.from = Head::From::returned;
    out.counter = entry.counter;
    out.redelivered = true;
    return fetch;
  }
  while (!lane.requeued.empty()) {
    const RequeuedRuns::Entry& entry = lane.requeued.front();
    if (entry.ticket != 0 && !store_.passed(entry.ticket)) {
      ask_gate();
      return Fetch::pending;
    }
    const Fetch fetch = lane.log->read(entry.run.first, out.fetched);
    if (fetch == Fetch::none) {
      (void)lane.requeued.take_front(std::nullopt);  // only sums depend on what it had
      continue;
    }
    out.from = Head::From::requeued;
    out.counter = entry.counter;
    out.redelivered = entry.redelivered || out.fetched.redelivered;
    return fetch;
  }
  const Fetch fetch = lane.log->peek(out.fetched);
  out.from = Head::From::fresh;
  out.counter = out.fetched.counter;
  out.redelivered = out.fetched.redelivered;
  return fetch;
}

void QueueActor::take_head(Lane& lane, Head& head) {
  switch (head.from) {
    case Head::From::returned:
      lane.returns_out[position_key(head.fetched.position)] = lane.returns.front_due_ms();
      lane.returns.take_front();
      lane.log->take_back(head.fetched.position);
      return;
    case Head::From::requeued:
      (void)lane.requeued.take_front(head.fetched.record.body.size());
      lane.log->take_back(head.fetched.position);
      return;
    case Head::From::fresh:
      lane.log->take();
      return;
  }
}

void QueueActor::ask_gate() {
  if (gate_asked_) return;
  gate_asked_ = true;
  store_.when_durable([weak = weak_from_this()] {
    if (auto actor = weak.lock()) {
      actor->gate_asked_ = false;
      actor->schedule();
    }
  });
}

}  // namespace tarry
