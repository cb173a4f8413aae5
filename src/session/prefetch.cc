#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {

/// AMQP 0-9-1 basic.qos in RabbitMQ's reading: global=false is for consumers made later on this
/// channel, global=true is one limit for all consumers of the channel, at once. The first is kept
/// by the queue, the second here: a consumer under it gets only what it was granted. One without
/// acknowledgements too: it fills nothing up, but waits while the others have the limit full.
void Channel::on(const method::BasicQos& m) {
  if (m.prefetch_size != 0) {
    return connection_.fail(
        nullptr,
        PeerError::connection(reply::not_implemented,
                              "prefetch_size!=0 (" + std::to_string(m.prefetch_size) + ")"));
  }
  if (!m.global && !connection_.qos_is_of_the_channel()) {
    prefetch_ = m.prefetch_count;
  } else {
    global_limit_ = m.prefetch_count;
    const bool limited = global_limit_ != 0;
    for (auto& [tag, consumer] : consumers_) {
      if (consumer->limited == limited) continue;
      consumer->limited = limited;
      granted_out_ -= std::min<uint64_t>(granted_out_, consumer->granted);
      consumer->granted = 0;
      consumer->wants_credit = false;
      consumer->queue.handle->set_channel_limited(consumer->id, limited);
    }
    if (!limited) waiting_.clear();
  }
  figures_->prefetch.store(prefetch_, std::memory_order_relaxed);
  figures_->global_prefetch.store(global_limit_, std::memory_order_relaxed);
  connection_.touch(*this);
  connection_.send(number, method::BasicQosOk{});
}

uint64_t Channel::credit_left() const {
  const uint64_t used = limited_out_ + granted_out_;
  return used >= global_limit_ ? 0 : global_limit_ - used;
}

void Channel::credit_wanted(Consumer& consumer) {
  if (!consumer.limited || consumer.wants_credit) return;
  consumer.wants_credit = true;
  waiting_.push_back(consumer.id);
  connection_.touch(*this);  // granted at the turn's end: a queue is in the middle of its work now
}

void Channel::credit_returned(Consumer& consumer, uint32_t count) {
  count = std::min(count, consumer.granted);
  consumer.granted -= count;
  granted_out_ -= std::min<uint64_t>(granted_out_, count);
  connection_.touch(*this);
}

/// First come first served, in equal shares.
void Channel::share_credit() {
  while (!waiting_.empty() && credit_left() > 0) {
    const uint64_t share = std::max<uint64_t>(1, credit_left() / waiting_.size());
    Consumer* consumer = connection_.find_consumer(waiting_.front());
    waiting_.erase(waiting_.begin());
    if (!consumer || consumer->channel != this || !consumer->limited) continue;
    consumer->wants_credit = false;
    consumer->granted += static_cast<uint32_t>(share);
    granted_out_ += share;
    consumer->queue.handle->grant(consumer->id, static_cast<uint32_t>(share));
  }
}

}  // namespace tarry
