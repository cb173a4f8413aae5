#include "tarrymq/queue/queue_handle.h"

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/queue/redrive.h"
#include "tarrymq/queue/waiting.h"

namespace tarry {
namespace {

/// Runs `command` on the actor: at once on its own shard, else in this turn's batch for its shard
/// (from a thread that is no shard's: on its way now).
template <class Command>
void tell(QueueShard& home, const std::shared_ptr<QueueActor>& actor, Command command) {
  QueueShard* here = QueueShard::current();
  if (here == &home) {
    command(*actor);
    return;
  }
  Task task([to = actor.get(), command = std::move(command)]() mutable { command(*to); });
  if (here) {
    here->impl().batches.to(home).call(actor, std::move(task));
    return;
  }
  auto batch = std::make_unique<RemoteBatch>(home, nullptr);
  batch->call(actor, std::move(task));
  send_batch(std::move(batch));
}

}  // namespace

QueueHandle::QueueHandle(QueueId queue_id, QueueIdentity queue_identity, QueueShard& home)
    : id(queue_id),
      identity(std::move(queue_identity)),
      home_(home),
      figures_(std::make_shared<QueueFigures>()) {}

Shard& QueueHandle::shard() const { return home_.shard(); }

void QueueHandle::publish(const PublishRequest& request) {
  QueueShard* here = QueueShard::current();
  if (here == &home_) [[likely]] {
    actor_->publish(request);
  } else if (here) {
    here->impl().batches.publish(home_, actor_, request);
  } else {
    auto batch = std::make_unique<RemoteBatch>(home_, nullptr);
    batch->publish(actor_, request);
    send_batch(std::move(batch));
  }
}

void QueueHandle::settle(Outcome outcome, std::span<const SettleRun> runs) {
  QueueShard* here = QueueShard::current();
  if (here == &home_) [[likely]] {
    actor_->settle(outcome, runs);
  } else if (here) {
    here->impl().batches.to(home_).settle(actor_, outcome, runs);
  } else {
    auto batch = std::make_unique<RemoteBatch>(home_, nullptr);
    batch->settle(actor_, outcome, runs);
    send_batch(std::move(batch));
  }
}

void QueueHandle::settle_by_word(OwnWord word) {
  tell(home_, actor_, [word = std::move(word)](QueueActor& actor) mutable {
    actor.settle_by_word(std::move(word));
  });
}

void QueueHandle::consume(ConsumeRequest request, uint64_t token) {
  tell(home_, actor_, [request = std::move(request), token](QueueActor& actor) mutable {
    actor.consume(std::move(request), token);
  });
}

void QueueHandle::cancel(ConsumerId consumer, Requester from, uint64_t token,
                         bool last_deliveries) {
  tell(home_, actor_,
       [=](QueueActor& actor) { actor.cancel(consumer, from, token, last_deliveries); });
}

void QueueHandle::get(bool no_ack, Requester from, uint64_t token) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.get(no_ack, from, token); });
}

void QueueHandle::stat(bool is_use, Requester from, uint64_t token) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.stat(is_use, from, token); });
}

void QueueHandle::purge(Requester from, uint64_t token) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.purge(from, token); });
}

void QueueHandle::sync(Requester from, uint64_t token) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.sync(from, token); });
}

void QueueHandle::remove(bool if_unused, bool if_empty, Requester from, uint64_t token) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.remove(if_unused, if_empty, from, token); });
}

void QueueHandle::close_move(const Origin& origin) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.close_move(origin); });
}

void QueueHandle::set_paused(ConsumerId consumer, bool paused) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.set_paused(consumer, paused); });
}

void QueueHandle::set_channel_limited(ConsumerId consumer, bool limited) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.set_channel_limited(consumer, limited); });
}

void QueueHandle::grant(ConsumerId consumer, uint32_t credits) {
  tell(home_, actor_, [=](QueueActor& actor) { actor.grant(consumer, credits); });
}

void QueueHandle::apply(QueueSettings settings) {
  tell(home_, actor_, [settings = std::move(settings)](QueueActor& actor) mutable {
    actor.apply(std::move(settings));
  });
}

void QueueHandle::purge_delayed() {
  tell(home_, actor_, [](QueueActor& actor) { actor.purge_delayed(); });
}

void QueueHandle::consumers(std::function<void(std::vector<ConsumerInfo>)> done) {
  tell(home_, actor_,
       [done = std::move(done)](QueueActor& actor) { done(actor.consumer_infos()); });
}

void QueueHandle::look(std::function<void(QueueLook)> done) {
  tell(home_, actor_, [done = std::move(done)](QueueActor& actor) { done(actor.look()); });
}

void QueueHandle::list_waiting(WaitingQuery query, std::function<void(WaitingPage)> done) {
  tell(home_, actor_, [query, done = std::move(done)](QueueActor& actor) mutable {
    actor.list_waiting(query, std::move(done));
  });
}

void QueueHandle::act_on_waiting(WaitingOrder order, std::function<void(WaitingOutcome)> done) {
  tell(home_, actor_,
       [order = std::move(order), done = std::move(done)](QueueActor& actor) mutable {
         actor.act_on_waiting(std::move(order), std::move(done));
       });
}

void QueueHandle::park_given(std::vector<GivenMessage> messages,
                             std::function<void(WaitingOutcome)> done) {
  tell(home_, actor_,
       [messages = std::move(messages), done = std::move(done)](QueueActor& actor) mutable {
         actor.park_given(messages, std::move(done));
       });
}

void QueueHandle::redrive(RedriveOrder order, std::shared_ptr<RedriveProgress> progress,
                          RedriveEvents events) {
  tell(home_, actor_,
       [order = std::move(order), progress = std::move(progress),
        events = std::move(events)](QueueActor& actor) mutable {
         actor.redrive(std::move(order), std::move(progress), std::move(events));
       });
}

void QueueHandle::go_redrive(uint64_t redrive) {
  tell(home_, actor_, [redrive](QueueActor& actor) { actor.go_redrive(redrive); });
}

void QueueHandle::cancel_redrive(uint64_t redrive) {
  tell(home_, actor_, [redrive](QueueActor& actor) { actor.cancel_redrive(redrive); });
}

}  // namespace tarry
