// Messages to consumers: who gets how much in a pass, and channels' credit.
#include <algorithm>
#include <utility>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"

namespace tarry {
namespace {

// What one consumer gets in a pass before the connections send; at least one message.
constexpr uint64_t kPassBytes = 256 * 1024;
constexpr uint64_t kDeliveryOverheadBytes = 64;
// With several consumers of one priority they are dealt to one by one while little waits, else in
// bursts, or the runs that are settled together would shatter (design-notes 5).
constexpr uint64_t kLargeBacklog = 1000;
constexpr uint32_t kBurst = 16;

uint64_t cost_of(const RecordView& record) {
  return kDeliveryOverheadBytes + record.route.size() + record.header.size() + record.body.size();
}

}  // namespace

void QueueActor::deliver() {
  blocked_ = false;
  for (;;) {
    Consumer* consumer = consumers_.next();
    if (!consumer || !highest_ready()) break;
    if (!deliver_to(*consumer)) break;
  }
  flush_batches();
  if (!blocked_ && consumers_.next() && highest_ready()) schedule();
}

bool QueueActor::deliver_to(Consumer& consumer) {
  uint32_t most = consumer.capacity();
  if (!consumers_.alone(consumer)) most = std::min(most, ready() > kLargeBacklog ? kBurst : 1);
  if (consumer.batch.empty() && most > 0) served_.push_back(consumer.id());

  uint32_t count = 0;
  while (count < most && !blocked_ && consumer.batch_bytes < kPassBytes) {
    Lane* lane = highest_ready();
    if (!lane) break;
    if (lane->returns.empty() && lane->requeued.empty()) {
      count += deliver_fresh(*lane, consumer, most - count);
    } else if (deliver_one(*lane, consumer)) {
      ++count;
    }
  }
  consumer.outstanding += count;
  if (consumer.request.channel_limited) consumer.credit -= count;
  consumers_.refresh(consumer);
  if (consumer.batch_bytes >= kPassBytes) {
    consumers_.set_aside(consumer);
  } else if (consumers_.next() == &consumer) {
    consumers_.rotate(consumer);
  }
  return !blocked_;
}

uint32_t QueueActor::deliver_fresh(Lane& lane, Consumer& consumer, uint32_t most) {
  MessageLog& log = *lane.log;
  const bool check_expiry = may_expire(lane);
  uint32_t count = 0;
  uint64_t bytes = 0, redelivered = 0;
  Fetched fetched;
  while (count < most && consumer.batch_bytes < kPassBytes && log.fresh_count() > 0) {
    if (log.peek(fetched) != Fetch::ok) {
      blocked_ = true;
      break;
    }
    if (check_expiry && expired(fetched.record)) {
      if (!death_room()) {
        blocked_ = true;
        break;
      }
      log.take();
      kill(lane, {fetched.position, 1}, DeathReason::expired, last_shown(fetched.counter));
      continue;
    }
    log.take();
    consumer.batch.push_back({fetched.record,
                              fetched.position,
                              lane.number,
                              fetched.counter,
                              fetched.redelivered,
                              counting_,
                              {}});
    if (fetched.has_error) [[unlikely]]
      consumer.batch.back().last_error = error_of(lane, fetched);
    consumer.batch_bytes += cost_of(fetched.record);
    bytes += fetched.record.body.size();
    redelivered += fetched.redelivered;
    ++count;
  }
  unacked_ += count;
  unacked_bytes_ += bytes;
  (consumer.request.no_ack ? counts_.delivered_no_ack : counts_.delivered) += count;
  counts_.redelivered += redelivered;
  return count;
}

bool QueueActor::deliver_one(Lane& lane, Consumer& consumer) {
  Head head;
  if (head_of(lane, head) != Fetch::ok) {
    // Nothing at all can be a lane whose last records were damaged; the others go on in the next
    // turn.
    blocked_ = true;
    return false;
  }
  if (expired(head.fetched.record, head.redelivered)) {
    if (!death_room()) {
      blocked_ = true;
      return false;
    }
    kill_head(lane, head);
    return false;
  }
  take_head(lane, head);
  const RecordView& record = head.fetched.record;
  consumer.batch.push_back({record, head.fetched.position, lane.number, head.counter,
                            head.redelivered, counting_, error_of(lane, head.fetched)});
  consumer.batch_bytes += cost_of(record);
  ++unacked_;
  unacked_bytes_ += record.body.size();
  ++(consumer.request.no_ack ? counts_.delivered_no_ack : counts_.delivered);
  counts_.redelivered += head.redelivered;
  return true;
}

void QueueActor::kill_head(Lane& lane, Head& head) {
  take_head(lane, head);
  if (head.from == Head::From::returned) {
    lane.returns_out.erase(position_key(head.fetched.position));
  }
  kill(lane, {head.fetched.position, 1}, DeathReason::expired, last_shown(head.counter));
}

void QueueActor::flush_batches() {
  std::vector<ConsumerId> served;
  served.swap(served_);
  std::vector<Delivery> batch;
  for (ConsumerId id : served) {
    Consumer* consumer = consumers_.find(id);
    if (!consumer) continue;  // it left during a delivery to another one, and gave its batch back
    batch.clear();
    batch.swap(consumer->batch);
    const uint64_t bytes = std::exchange(consumer->batch_bytes, 0);
    if (consumer->request.from.home != &home_) consumer->travelling_bytes += bytes;
    consumers_.refresh(*consumer);
    if (batch.empty()) {
      batch.swap(consumer->batch);
      continue;
    }
    const Requester to = consumer->request.from;
    if (to.home != &home_) {
      home_.impl().batches.to(*to.home).deliver(shared_from_this(), to.connection, id, batch,
                                                bytes);
    } else if (DeliverySink* sink = home_.find_sink(to.connection)) {
      sink->on_deliver(id, batch);
    } else {
      std::vector<SettleRun> runs;
      append_runs(runs, id, batch);
      settle(Outcome::not_delivered, runs);
      leave(id);
    }
    // The vector's room is used again.
    if (Consumer* still = consumers_.find(id); still && still->batch.empty()) {
      batch.clear();
      still->batch.swap(batch);
    }
  }
  if (served_.empty()) {
    served.clear();
    served_.swap(served);
    error_texts_.clear();
  }
}

void QueueActor::tend_credit() {
  if (consumers_.channel_limited_count() == 0) return;
  const bool something = highest_ready() != nullptr;
  // By index: a sink may grant, pause or even leave while it is told.
  for (size_t i = 0; i < consumers_.all().size(); ++i) {
    Consumer& consumer = *consumers_.all()[i];
    if (!consumer.request.channel_limited) continue;
    const Requester to = consumer.request.from;
    if (consumer.credit > 0 && (!something || !consumer.would_take())) {
      const uint32_t unused = consumer.credit;
      consumer.credit = 0;
      consumers_.refresh(consumer);
      note(to, RemoteBatch::Note::credit_returned, consumer.id(), unused);
    } else if (something && consumer.credit == 0 && !consumer.credit_wanted &&
               consumer.would_take()) {
      consumer.credit_wanted = true;
      note(to, RemoteBatch::Note::credit_wanted, consumer.id(), 0);
    }
  }
}

void QueueActor::set_paused(ConsumerId id, bool paused) {
  Consumer* consumer = consumers_.find(id);
  if (!consumer || consumer->paused == paused) return;
  consumer->paused = paused;
  consumers_.refresh(*consumer);
  schedule();
}

void QueueActor::arrived(ConsumerId id, uint64_t bytes) {
  Consumer* consumer = consumers_.find(id);
  if (!consumer) return;
  consumer->travelling_bytes -= bytes;
  consumers_.refresh(*consumer);
  schedule();
}

void QueueActor::set_channel_limited(ConsumerId id, bool limited) {
  if (Consumer* consumer = consumers_.find(id)) {
    consumers_.set_channel_limited(*consumer, limited);
    schedule();
  }
}

void QueueActor::grant(ConsumerId id, uint32_t credits) {
  Consumer* consumer = consumers_.find(id);
  if (!consumer || !consumer->request.channel_limited) return;
  consumer->credit += std::min(credits, UINT32_MAX - consumer->credit);
  consumer->credit_wanted = false;
  consumers_.refresh(*consumer);
  schedule();
}

}  // namespace tarry
