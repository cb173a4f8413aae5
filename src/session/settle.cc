#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {

void Channel::hold(const UnackedRun& one) {
  if (unacked_.push(one)) ++one.queue->uses;
  if (consumer_timeouts_ ||
      one.queue->handle->figures().consumer_timeout_ms.load(std::memory_order_relaxed) != 0) {
    connection_.watch_timeouts(*this, one);
  }
}

void Channel::give_back(const UnackedRun& run, Outcome outcome) {
  if (run.settle.consumer.value != 0) limited_out_ -= std::min<uint64_t>(limited_out_, run.count());
  settled_ += run.count();
  connection_.queues().settle(*run.queue, outcome, run.settle);
}

/// basic.ack, nack and reject. Under tx they wait for the commit, and are no longer outstanding
/// meanwhile. An unknown tag is refused before anything is settled, as RabbitMQ does for `multiple`
/// too.
void Channel::settle_tag(uint64_t tag, bool multiple, Outcome outcome) {
  auto settle = [this, outcome](const UnackedRun& run, bool owns_use) {
    if (tx_) {
      if (!owns_use) ++run.queue->uses;
      tx_->settlements.push_back({run, outcome});
      return;
    }
    give_back(run, outcome);
    if (owns_use) connection_.queues().release(*run.queue);
  };
  connection_.touch(*this);
  if (multiple && tag == 0) return unacked_.take_all(settle);
  if (multiple && unacked_.contains(tag)) return unacked_.take_through(tag, settle);
  const bool known =
      !multiple && unacked_.take_one(tag, [&settle](const UnackedRun& run, int entries) {
        if (entries > 0) ++run.queue->uses;
        settle(run, entries < 0);
      });
  if (!known) {
    connection_.fail(this,
                     PeerError::precondition_failed("unknown delivery tag " + std::to_string(tag)));
  }
}

void Channel::recover() {
  unacked_.take_all([this](const UnackedRun& run, bool whole) {
    give_back(run, Outcome::recovered);
    if (whole) connection_.queues().release(*run.queue);
  });
  connection_.touch(*this);
}

void Channel::on(const method::BasicRecover& m) {
  if (!m.requeue) {
    return connection_.fail(nullptr,
                            PeerError::connection(reply::not_implemented, "requeue=false"));
  }
  recover();
  connection_.send(number, method::BasicRecoverOk{});
}

void Channel::on(const method::BasicRecoverAsync& m) {
  if (!m.requeue) {
    return connection_.fail(nullptr,
                            PeerError::connection(reply::not_implemented, "requeue=false"));
  }
  recover();
}

}  // namespace tarry
