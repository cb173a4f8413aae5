#include "sim/sim_topology.h"
#include "sim/sim_world.h"
#include "tarrymq/broker/management.h"

// What operators do meanwhile: with what waits (retry-spec 37), and redrives (retry-spec 38).

namespace tarry::sim {

void SimWorld::operate() {
  RetryOperations& operations = *broker_->management().retry_operations();
  if (!random_.one_in(3)) return act_on_waiting(operations);
  if (model_.redriving(kDeadA)) return;
  RedriveRequest request;
  request.target = model_.queues()[kRevived].name;
  if (random_.one_in(2)) request.limit = random_.between(1, 10);
  if (random_.one_in(3)) request.rate = static_cast<double>(random_.between(1, 200));
  trace("operator redrives");
  redrive_asked_ = true;
  model_.redrive_sent(kDeadA);
  operations.start_redrive(Login{"guest"}, "/", model_.queues()[kDeadA].name, request,
                           [this, boot = boot_](auto answer) {
                             if (boot != boot_) return;
                             redrive_asked_ = false;
                             if (!answer) model_.fault("no redrive: " + answer.error().text);
                           });
}

/// It goes on over a crash, if it was durable before.
void SimWorld::look_at_redrive() {
  if (!model_.redriving(kDeadA) || redrive_asked_) return;
  for (const RedriveInfo& info : broker_->management().retry_operations()->redrives()) {
    if (info.state == "running") return;
  }
  model_.redrive_ended(kDeadA);
}

void SimWorld::act_on_waiting(RetryOperations& operations) {
  const size_t queue = random_.below(kQueueCount);
  const QueueSpec& spec = model_.queues()[queue];
  if (spec.retry_min == 0 || model_.acting(queue)) return;
  const uint64_t drawn = random_.below(8);
  const Model::Act act = drawn < 5   ? Model::Act::redeliver
                         : drawn < 7 ? Model::Act::dead_letter
                                     : Model::Act::drop;
  static const char* const kWords[] = {"redelivers", "dead-letters", "drops"};
  static const WaitingAct kActs[] = {WaitingAct::redeliver, WaitingAct::dead_letter,
                                     WaitingAct::drop};
  const auto index = static_cast<size_t>(act);
  trace(std::string("operator ") + kWords[index] + " what waits in " + spec.name);
  model_.act_sent(queue, act);
  WaitingOrder order;
  order.act = kActs[index];
  operations.act_on_waiting(Login{"guest"}, "/", spec.name, order,
                            [this, queue, boot = boot_](auto) {
                              if (boot == boot_) model_.act_done(queue);
                            });
}

}  // namespace tarry::sim
