// Consumers come and go; the queue's own end (auto-delete, x-expires, delete).
#include <algorithm>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/storage/store.h"

namespace tarry {

void QueueActor::consume(ConsumeRequest request, uint64_t token) {
  const Requester from = request.from;
  QueueReply reply;
  // With a single active consumer there is nothing to be exclusive about, and RabbitMQ refuses it
  // with these words.
  const bool taken = consumers_.count() > 0 || identity_.single_active_consumer;
  if (consumers_.exclusive() || (request.exclusive && taken)) {
    reply.error = PeerError::access_refused(text_of(" in exclusive use"));
  } else if (gone_) {
    reply.error = gone_error();
  } else {
    use();
    consumers_.add(std::move(request));
  }
  answer_later(from, token, std::move(reply));
}

void QueueActor::cancel(ConsumerId consumer, Requester from, uint64_t token, bool last_deliveries) {
  if (!last_deliveries) {
    leave(consumer);
    return answer_later(from, token, {});
  }
  Op op;
  op.kind = Op::Kind::cancel;
  op.from = from;
  op.token = token;
  op.consumer = consumer;
  late_ops_.push_back(std::move(op));
  schedule();
}

void QueueActor::leave(ConsumerId id) {
  Consumer* consumer = consumers_.find(id);
  if (!consumer) return;
  if (!consumer->batch.empty()) {
    std::vector<SettleRun> runs;
    append_runs(runs, id, consumer->batch);
    settle(Outcome::not_delivered, runs);
  }
  consumers_.remove(id);
  use();
  if (consumers_.count() == 0) {
    if (identity_.auto_delete) removing_ = true;
    check_unused();
  }
  schedule();
}

void QueueActor::use() { last_use_ = shard_.steady_now(); }

void QueueActor::check_unused() {
  if (gone_ || !settings_.expires_ms || consumers_.count() > 0) return;
  const SteadyTime due = last_use_.plus_ms(
      static_cast<int64_t>(std::min<uint64_t>(*settings_.expires_ms, INT64_MAX / 4'000'000)));
  if (shard_.steady_now() >= due) {
    removing_ = true;
    schedule();
  } else {
    shard_.timers().schedule(made(unused_timer_, &QueueActor::check_unused), due);
  }
}

PeerError QueueActor::gone_error() const { return PeerError::not_found("no " + text_of("")); }

void QueueActor::end_of_life() {
  gone_ = true;
  handle_->gone_.store(true, std::memory_order_release);
  std::vector<std::pair<Requester, ConsumerId>> cancelled;
  for (const auto& consumer : consumers_.all()) {
    cancelled.emplace_back(consumer->request.from, consumer->id());
  }
  for (const auto& [to, id] : cancelled) {
    consumers_.remove(id);
    note(to, RemoteBatch::Note::cancelled, id, 0);
  }
  served_.clear();

  // What was promised for after a barrier will never be more durable than now.
  for (DurableBatch& batch : durable_) finish_durable(batch, true);
  durable_.clear();
  DurableBatch next = std::move(next_durable_);
  next_durable_ = {};
  finish_durable(next, true);

  end_errands();
  if (companion_) companion_->clear();
  if (expiries_) expiries_->clear();
  if (held_) held_->clear();
  companion_.reset();
  expiries_.reset();
  held_.reset();
  found_dying_.clear();
  cancel_timers();
  expiry_checks_.clear();
  for (const LateReject& late : late_rejects_) {
    if (late.word) owe_confirm(*late.word, true);
  }
  late_rejects_.clear();
  next_durable_.replies.insert(next_durable_.replies.end(), late_syncs_.begin(), late_syncs_.end());
  late_syncs_.clear();
  dying_.clear();
  dying_count_ = purge_delayed_left_ = 0;
  unacked_ = unacked_bytes_ = 0;
  // Deliveries of this turn still point into the logs. A durable queue's files go once the removal
  // of its definition is durable: the broker's part.
  auto lanes = std::make_shared<std::vector<std::unique_ptr<Lane>>>(std::move(lanes_));
  lanes_.clear();
  for (auto& lane : *lanes) {
    if (!lane) continue;
    lane->log->set_waker([] {});
    lane->log->set_size_watcher({});
  }
  // The task may never run: then they must not outlive the store.
  home_.impl().ended.push_back(lanes);
  shard_.post([impl = &home_.impl(), lanes = std::weak_ptr(lanes), durable = identity_.durable] {
    auto kept = lanes.lock();
    if (!kept) return;
    for (auto& lane : *kept) {
      if (lane && !durable) lane->log->destroy();
    }
    std::erase(impl->ended, kept);
  });
  if (DeadLetterSink* sink = sink_of_letters()) sink->queue_removed(*handle_);
  answer_gone();
}

/// Most queues never wait for anything.
Timer& QueueActor::made(std::unique_ptr<Timer>& timer, void (QueueActor::*on_due)()) {
  if (!timer) timer = std::make_unique<Timer>([this, on_due] { (this->*on_due)(); });
  return *timer;
}

void QueueActor::cancel_timers() {
  for (auto* timer : {&expiry_timer_, &unused_timer_, &purge_timer_, &held_timer_}) {
    if (*timer) (*timer)->cancel();
  }
}

void QueueActor::answer_gone() {
  QueueReply reply;
  reply.error = gone_error();
  for (Fifo<Op>* ops : {&ops_, &gets_, &late_ops_}) {
    while (!ops->empty()) {
      Op op = std::move(ops->front());
      ops->pop_front();
      // An answer that was ready before the end stands.
      answer(op.from, op.token, op.kind == Op::Kind::answer ? *op.reply : reply);
    }
  }
  for (const PendingReply& pending : next_durable_.replies) {
    answer(pending.from, pending.token, reply);
  }
  next_durable_ = {};
  std::vector<PendingConfirm> confirms;
  confirms.swap(confirms_);
  send_confirms(confirms);
}

std::vector<ConsumerInfo> QueueActor::consumer_infos() const {
  std::vector<ConsumerInfo> infos;
  for (const auto& consumer : consumers_.all()) {
    const ConsumeRequest& request = consumer->request;
    infos.push_back({request.consumer, request.tag, request.description, request.from.connection,
                     request.channel, request.no_ack, request.exclusive, consumer->active,
                     request.priority, request.prefetch, request.arguments});
  }
  return infos;
}

QueueLook QueueActor::look() {
  QueueLook out;
  out.consumers = consumer_infos();
  if (gone_) return out;
  Lane* lane = highest_ready();
  Head head;
  if (!lane || head_of(*lane, head) != Fetch::ok) return out;
  if (auto view = PropertiesView::parse(head.fetched.record.header))
    out.head_timestamp_s = view->timestamp;
  return out;
}

}  // namespace tarry
