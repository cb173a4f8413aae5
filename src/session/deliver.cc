#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {

/// The header to send: as it was published, with the counter spliced in where the queue shows it
/// (retry-spec 14), and what the consumer before said was wrong (35). Valid until the next call.
ByteSpan Channel::header_of(const Delivery& delivery) {
  const int64_t count = delivery.show_counter ? delivery.counter : 0;
  if (count == 0 && delivery.last_error.empty()) return delivery.record.header;
  auto view = PropertiesView::parse(delivery.record.header);
  if (!view)
    return delivery.record.header;  // was checked at publish; an old record is served as it is
  rewritten_header_.clear();
  // A content header must fit into one frame: the end of the text goes before anything else does.
  constexpr size_t kOtherBytes = 64;
  const size_t room = connection_.frame_max() - kFrameOverheadBytes;
  const size_t used = delivery.record.header.size() + kOtherBytes;
  const std::string_view error = delivery.last_error.substr(0, room > used ? room - used : 0);
  if (!error.empty()) {
    append_with_last_error(rewritten_header_, delivery.record.header, *view, count, error);
  } else if (count > 0) {
    append_with_delivery_count(rewritten_header_, delivery.record.header, *view, count);
  } else {
    return delivery.record.header;
  }
  return as_bytes(rewritten_header_);
}

void Channel::deliver(Consumer& consumer, std::span<const Delivery> batch) {
  OutboundBuffer& out = connection_.outbound();
  const uint32_t frame_max = connection_.frame_max();
  const SteadyTime now = connection_.shard().steady_now();
  for (const Delivery& d : batch) {
    const uint64_t tag = ++delivery_tag_;
    redelivered_ += d.redelivered;
    consumer.frames.append(out, tag, d.redelivered, d.record.route, header_of(d), d.record.body,
                           frame_max);
    const SettleRun one{Run{d.position, 1}, d.lane, d.counter, consumer.id, d.record.body.size()};
    if (consumer.no_ack) {
      connection_.settle_when_sent(consumer.queue, one);
    } else {
      hold({tag, &consumer.queue, one, now});
    }
  }
  (consumer.no_ack ? delivered_no_ack_ : delivered_) += batch.size();
  if (!consumer.no_ack) limited_out_ += batch.size();
  if (consumer.granted > 0) {
    const uint32_t used = static_cast<uint32_t>(std::min<size_t>(consumer.granted, batch.size()));
    consumer.granted -= used;
    granted_out_ -= std::min<uint64_t>(granted_out_, used);
  }
  connection_.touch(*this);
}

void Channel::pause_consumers() {
  const bool pause = connection_.outbound_full() || !flow_active_;
  if (pause == paused_) return;  // there may be many of them, and this is asked in each turn
  paused_ = pause;
  for (auto& [tag, consumer] : consumers_) pause_consumer(*consumer);
}

void Channel::pause_consumer(Consumer& consumer) {
  if (!consumer.running || consumer.paused == paused_) return;
  consumer.paused = paused_;
  consumer.queue.handle->set_paused(consumer.id, paused_);
}

// The connection's part.

void ConnectionImpl::on_deliver(ConsumerId id, std::span<const Delivery> batch) {
  affine_.check();
  Consumer* consumer = find_consumer(id);
  if (!consumer) return;  // gone with its queue
  flush_later();
  if (consumer->channel) {
    consumer->channel->deliver(*consumer, batch);
    delivered_up_to_ = port_.outbound().appended();
    return;
  }
  for (const Delivery& d : batch) {
    queues_.settle(consumer->queue, Outcome::not_delivered,
                   {Run{d.position, 1}, d.lane, d.counter, id, d.record.body.size()});
  }
}

void ConnectionImpl::settle_when_sent(QueueRef& queue, const SettleRun& one) {
  const uint64_t end = port_.outbound().appended();
  if (auto_ack_open_ && !auto_acks_.empty()) {
    AutoAck& last = auto_acks_.back();
    SettleRun& run = last.run;
    if (last.queue == &queue && run.lane == one.lane && run.counter == one.counter &&
        run.consumer == one.consumer && run.run.first.segment == one.run.first.segment &&
        run.run.first.ordinal + run.run.count == one.run.first.ordinal) {
      ++run.run.count;
      run.body_bytes += one.body_bytes;
      last.end = end;
      return;
    }
  }
  ++queue.uses;
  auto_acks_.push_back({end, &queue, one});
  auto_ack_open_ = true;
}

void ConnectionImpl::on_sent() {
  affine_.check();
  const uint64_t sent = port_.outbound().sent();
  auto_ack_open_ = false;  // what is partly out must not grow
  while (!auto_acks_.empty() && auto_acks_.front().end <= sent) {
    AutoAck& first = auto_acks_.front();
    queues_.settle(*first.queue, Outcome::ack, first.run);
    queues_.release(*first.queue);
    auto_acks_.pop_front();
  }
  queues_.flush();
  ++sends_;
  if (figures_) {
    figures_->bytes_out.store(sent, std::memory_order_relaxed);
    figures_->sends.store(sends_, std::memory_order_relaxed);
    figures_->unsent_bytes.store(port_.outbound().unsent_bytes(), std::memory_order_relaxed);
  }
  if (outbound_full_) flush_later();
  if (unread_ && port_.outbound().appended() <= unread_from() + unread_bytes_max() / 2) {
    unread_ = false;
    update_reading();
  }
}

/// At the turn's end, not from within a delivery: a queue would be in the middle of its work.
void ConnectionImpl::check_outbound() {
  const size_t unsent = port_.outbound().unsent_bytes();
  const bool full = outbound_full_ ? unsent >= settings_.outbound_high_bytes / 2
                                   : unsent > settings_.outbound_high_bytes;
  if (full == outbound_full_) return;
  outbound_full_ = full;
  channels_.for_each([](Channel& c) {
    if (c.open()) c.pause_consumers();
  });
}

}  // namespace tarry
