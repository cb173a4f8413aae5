// Answers to commands: replies, gets, confirms, and what waits for the barrier.
#include <algorithm>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"

namespace tarry {

void QueueActor::answer(Requester to, uint64_t token, const QueueReply& reply) {
  if (!to.home) return;
  if (to.home != &home_) {
    // Of a queue that is gone nobody may hold on to this any more: it ends later in the turn
    // (EndActor).
    home_.impl().batches.to(*to.home).reply(weak_from_this().lock(), to.connection, token, reply);
  } else if (DeliverySink* sink = home_.find_sink(to.connection)) {
    sink->on_reply(token, reply);
  } else if (reply.got) {
    std::vector<SettleRun> runs;
    append_runs(runs, ConsumerId{}, std::span(reply.got, 1));
    settle(Outcome::not_delivered, runs);
  }
}

void QueueActor::answer_later(Requester to, uint64_t token, QueueReply reply) {
  Op op;
  op.kind = Op::Kind::answer;
  op.from = to;
  op.token = token;
  op.reply = std::make_unique<QueueReply>(std::move(reply));
  ops_.push_back(std::move(op));
  schedule();
}

void QueueActor::note(Requester to, RemoteBatch::Note what, ConsumerId consumer, uint32_t count) {
  if (to.home != &home_) {
    home_.impl().batches.to(*to.home).note(to.connection, what, consumer, count);
    return;
  }
  DeliverySink* sink = home_.find_sink(to.connection);
  if (!sink) return;
  switch (what) {
    case RemoteBatch::Note::cancelled:
      return sink->on_cancelled(consumer);
    case RemoteBatch::Note::credit_wanted:
      return sink->on_credit_wanted(consumer);
    case RemoteBatch::Note::credit_returned:
      return sink->on_credit_returned(consumer, count);
  }
}

void QueueActor::get(bool no_ack, Requester from, uint64_t token) {
  use();
  Op op;
  op.kind = Op::Kind::get;
  op.from = from;
  op.token = token;
  op.no_ack = no_ack;
  gets_.push_back(std::move(op));
  schedule();
}

void QueueActor::stat(bool is_use, Requester from, uint64_t token) {
  if (is_use) use();
  Op op;
  op.kind = Op::Kind::stat;
  op.from = from;
  op.token = token;
  late_ops_.push_back(std::move(op));
  schedule();
}

void QueueActor::remove(bool if_unused, bool if_empty, Requester from, uint64_t token) {
  Op op;
  op.kind = Op::Kind::remove;
  op.from = from;
  op.token = token;
  op.if_unused = if_unused;
  op.if_empty = if_empty;
  late_ops_.push_back(std::move(op));
  schedule();
}

void QueueActor::sync(Requester from, uint64_t token) {
  (late_rejects_.empty() ? next_durable_.replies : late_syncs_).push_back({from, token, 0});
  schedule();
}

void QueueActor::purge(Requester from, uint64_t token) {
  const uint64_t taken = ready() + delayed();
  for (auto& lane : lanes_) {
    if (!lane) continue;
    lane->log->purge();
    lane->requeued.clear();
    lane->returns.clear();
  }
  if (companion_) companion_->clear();
  if (expiries_) expiries_->clear();
  expiry_checks_.clear();
  for (const LateReject& late : late_rejects_) {
    find_lane(late.lane)->log->settle({late.position, 1});
    if (late.word) owe_confirm(*late.word);
  }
  late_rejects_.clear();
  purge_delayed_left_ = 0;
  next_durable_.replies.push_back({from, token, taken});
  schedule();
}

void QueueActor::run_ops() {
  while (!ops_.empty()) {
    Op op = std::move(ops_.front());
    ops_.pop_front();
    answer(op.from, op.token, *op.reply);
  }
}

void QueueActor::run_gets() {
  deliver();
  tend_credit();
  expire();
  enforce_limits();
  while (!gets_.empty() && run_get(gets_.front())) gets_.pop_front();
}

bool QueueActor::run_get(const Op& op) {
  QueueReply reply;
  Lane* lane;
  while ((lane = highest_ready()) != nullptr) {
    Head head;
    const Fetch fetch = head_of(*lane, head);
    if (fetch == Fetch::pending) return false;
    if (fetch == Fetch::none) break;
    if (expired(head.fetched.record, head.redelivered)) {
      if (!death_room()) return false;
      kill_head(*lane, head);
      continue;
    }
    take_head(*lane, head);
    ++unacked_;
    unacked_bytes_ += head.fetched.record.body.size();
    ++(op.no_ack ? counts_.got_no_ack : counts_.got);
    counts_.redelivered += head.redelivered;
    const std::string error =
        head.fetched.has_error ? lane->log->park_error(head.fetched.position) : std::string();
    const Delivery delivery{head.fetched.record,
                            head.fetched.position,
                            lane->number,
                            head.counter,
                            head.redelivered,
                            counting_,
                            error};
    reply.got = &delivery;
    reply.message_count = ready();
    answer(op.from, op.token, reply);
    return true;
  }
  answer(op.from, op.token, reply);
  return true;
}

void QueueActor::run_late_ops() {
  while (!late_ops_.empty() && !gone_) {
    Op op = std::move(late_ops_.front());
    late_ops_.pop_front();
    QueueReply reply;
    switch (op.kind) {
      case Op::Kind::stat:
        reply.message_count = ready();
        reply.consumer_count = consumers_.count();
        answer(op.from, op.token, reply);
        break;
      case Op::Kind::cancel:
        leave(op.consumer);
        answer(op.from, op.token, reply);
        break;
      default:
        run_remove(op);
    }
  }
}

void QueueActor::run_remove(const Op& op) {
  QueueReply reply;
  if (op.if_unused && consumers_.count() > 0) {
    reply.error = PeerError::precondition_failed(text_of(" in use"));
  } else if (op.if_empty && ready() + delayed() + (holds() ? dead_lettering() : 0) > 0) {
    reply.error = PeerError::precondition_failed(text_of(" not empty"));
  } else {
    reply.message_count = ready() + delayed();
    end_of_life();
  }
  answer(op.from, op.token, reply);
}

void QueueActor::add_confirm(std::vector<PendingConfirm>& to, const PublishRequest& request,
                             bool refused, bool no_room) {
  if (!to.empty()) {
    PendingConfirm& last = to.back();
    if (last.range.last + 1 == request.publish_number && last.range.channel == request.channel &&
        last.range.channel_serial == request.channel_serial && last.range.refused == refused &&
        last.range.no_room == no_room && last.from == request.from) {
      ++last.range.last;
      return;
    }
  }
  to.push_back({request.from,
                {request.channel, request.channel_serial, request.publish_number,
                 request.publish_number, refused, no_room}});
}

void QueueActor::send_confirms(std::span<const PendingConfirm> confirms) {
  std::vector<ConfirmRange>& ranges = confirm_ranges_;
  for (size_t i = 0; i < confirms.size();) {
    const Requester to = confirms[i].from;
    ranges.clear();
    for (; i < confirms.size() && confirms[i].from == to; ++i) {
      const ConfirmRange& range = confirms[i].range;
      ranges.push_back(range);
      if (!range.refused) counts_.confirmed += range.last - range.first + 1;
    }
    if (to.home != &home_) {
      home_.impl().batches.to(*to.home).confirm(to.connection, ranges);
    } else if (DeliverySink* sink = home_.find_sink(to.connection)) {
      sink->on_confirm(ranges);
    }
  }
}

void QueueActor::ask_barrier() {
  if (next_durable_.empty()) return;
  durable_.push_back(std::move(next_durable_));
  next_durable_ = {};
  store_.when_durable([weak = weak_from_this()] {
    if (auto actor = weak.lock()) actor->durable_batch_passed();
  });
}

void QueueActor::durable_batch_passed() {
  if (durable_.empty()) return;  // the queue has ended and answered for itself
  if (definition_owed_) [[unlikely]]
    return wait_for_definition();
  DurableBatch batch = std::move(durable_.front());
  durable_.pop_front();
  finish_durable(batch, false);
  schedule();  // figures
}

/// Without its definition a queue's messages would be found by nobody after a crash. Asked for
/// once, when the first promise is due: by then it is durable as a rule. Each batch that comes
/// meanwhile waits by itself, and they pass in order.
void QueueActor::wait_for_definition() {
  DeadLetterSink* sink = sink_of_letters();
  auto then = [weak = weak_from_this()] {
    auto actor = weak.lock();
    if (!actor) return;
    actor->definition_owed_ = false;
    actor->durable_batch_passed();
  };
  if (sink)
    sink->when_definitions_stored(std::move(then));
  else
    then();
}

void QueueActor::finish_durable(DurableBatch& batch, bool refused) {
  if (refused) {
    for (PendingConfirm& confirm : batch.confirms) confirm.range.refused = true;
  }
  send_confirms(batch.confirms);
  for (const PendingReply& pending : batch.replies) {
    QueueReply reply;
    reply.message_count = pending.message_count;
    answer(pending.from, pending.token, reply);
  }
  if (DeadLetterSink* sink = sink_of_letters()) {
    for (uint64_t token : batch.dropped_moves) sink->source_dropped(*handle_, token);
  }
}

}  // namespace tarry
