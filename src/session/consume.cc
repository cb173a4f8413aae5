#include <sys/random.h>

#include "session/channel.h"
#include "session/connection_impl.h"
#include "tarrymq/amqp/table_view.h"

namespace tarry {
namespace {

/// `amq.ctag-` and 22 url-safe characters: 132 bits that nobody guesses.
std::string random_consumer_tag() {
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  unsigned char bytes[22];
  TARRY_INVARIANT(::getrandom(bytes, sizeof bytes, 0) == static_cast<ssize_t>(sizeof bytes));
  std::string tag = "amq.ctag-";
  for (unsigned char b : bytes) tag += kAlphabet[b & 63];
  return tag;
}

}  // namespace

void Channel::on(const method::BasicConsume& m) {
  std::string name;
  if (!resolve_queue(m.queue, name)) return;
  auto bad_argument = [this, &name](const FieldView& field, const char* allowed) {
    const FieldValue value = field_value(field);
    connection_.fail(
        this,
        PeerError::precondition_failed(
            "invalid arg '" + std::string(field.name) + "' for queue '" + name + "' in vhost '" +
            connection_.vhost().name() + "': a consumer came with the value '" + value.to_text() +
            "' of type '" + std::string(value.type_name()) + "', " + allowed + " is allowed"));
  };
  int32_t priority = 0;
  if (auto field = find_field(m.arguments, "x-priority")) {
    auto value = field_integer(*field);
    if (!value) return bad_argument(*field, "an integer");
    priority = static_cast<int32_t>(std::clamp<int64_t>(*value, INT32_MIN, INT32_MAX));
  }
  std::optional<uint64_t> timeout_ms;
  if (auto field = find_field(m.arguments, "x-consumer-timeout")) {
    auto value = field_integer(*field);
    if (!value || *value < 0) return bad_argument(*field, "an integer of at least 0 (ms)");
    timeout_ms = static_cast<uint64_t>(*value);
  }
  std::string tag = m.consumer_tag.empty() ? random_consumer_tag() : std::string(m.consumer_tag);
  if (consumers_.contains(tag) || (replies_ && replies_->tag == tag)) {
    return connection_.fail(
        nullptr,
        PeerError::connection(reply::not_allowed, "attempt to reuse consumer tag '" + tag + "'"));
  }
  if (is_reply_name(name)) return consume_replies(m, name, std::move(tag));
  auto queue = connection_.vhost().open_queue(connection_.actor(), name);
  if (!queue) return connection_.fail(this, queue.error());

  Consumer& consumer = connection_.add_consumer(*this, tag, *queue);
  consumers_.emplace(tag, &consumer);
  consumer.no_ack = m.no_ack;
  consumer.timeout_ms = timeout_ms;
  consumer_timeouts_ = consumer_timeouts_ || timeout_ms;
  consumer.limited = global_limit_ != 0;
  ConsumeRequest request;
  request.consumer = consumer.id;
  request.tag = tag;
  request.from = connection_.requester();
  request.channel = number;
  request.no_ack = m.no_ack;
  request.exclusive = m.exclusive;
  request.priority = priority;
  request.prefetch = m.no_ack ? 0 : prefetch_;
  request.channel_limited = consumer.limited;
  constexpr size_t kEmptyTable = 4, kShownBytes = 4096;
  if (m.arguments.size() > kEmptyTable && m.arguments.size() <= kShownBytes)
    request.arguments = as_text(m.arguments);
  request.description = connection_.name() + " (" + std::to_string(number) + ")";
  connection_.queues().flush();
  const uint64_t token = connection_.expect_reply(
      *this, true,
      [id = consumer.id, no_wait = m.no_wait](Channel* channel, const QueueReply& reply) {
        if (channel) channel->consume_answered(id, reply, no_wait);
      });
  (*queue)->consume(std::move(request), token);
}

void Channel::consume_answered(ConsumerId id, const QueueReply& reply, bool no_wait) {
  Consumer* consumer = connection_.find_consumer(id);
  if (!consumer || consumer->channel != this) return;
  if (reply.error) {
    end_consumer(*consumer, false);
    connection_.drop_consumer(id);
    return connection_.fail(this, *reply.error, method_id::basic_consume);
  }
  consumer->running = true;
  pause_consumer(*consumer);
  if (!no_wait) connection_.send(number, method::BasicConsumeOk{consumer->tag});
  connection_.touch(*this);
}

void Channel::on(const method::BasicCancel& m) {
  auto it = consumers_.find(std::string(m.consumer_tag));
  if (it == consumers_.end()) {
    if (replies_ && replies_->tag == m.consumer_tag) replies_.reset();
    if (!m.no_wait) connection_.send(number, method::BasicCancelOk{m.consumer_tag});
    return;
  }
  // It stays one until the answer: what was published before this is still for it.
  Consumer& consumer = *it->second;
  const ConsumerId id = consumer.id;
  connection_.queues().flush();
  const uint64_t token =
      connection_.expect_reply(*this, true,
                               [id, no_wait = m.no_wait, connection = &connection_,
                                tag = consumer.tag](Channel* channel, const QueueReply&) {
                                 Consumer* left = connection->find_consumer(id);
                                 if (left && left->channel)
                                   left->channel->end_consumer(*left, false);
                                 connection->drop_consumer(id);
                                 if (channel && !no_wait)
                                   connection->send(channel->number, method::BasicCancelOk{tag});
                               });
  consumer.queue.handle->cancel(id, connection_.requester(), token, true);
}

/// From here on nothing is delivered to it: what still comes is given back. The connection keeps it
/// until the queue has confirmed the cancel (tell_queue: asked for here).
void Channel::end_consumer(Consumer& consumer, bool tell_queue) {
  granted_out_ -= std::min<uint64_t>(granted_out_, consumer.granted);
  consumer.granted = 0;
  consumer.channel = nullptr;
  std::erase(waiting_, consumer.id);
  consumers_.erase(consumer.tag);
  connection_.touch(*this);
  if (!tell_queue) return;
  const uint64_t token =
      connection_.expect_reply([id = consumer.id, connection = &connection_](const QueueReply&) {
        connection->drop_consumer(id);
      });
  consumer.queue.handle->cancel(consumer.id, connection_.requester(), token);
}

void Channel::on_cancelled(Consumer& consumer) {
  const ConsumerId id = consumer.id;
  if (connection_.client_takes_cancel()) {
    connection_.send(number, method::BasicCancel{consumer.tag, true});
  }
  end_consumer(consumer, false);
  connection_.drop_consumer(id);
}

void Channel::on(const method::BasicGet& m) {
  std::string name;
  if (!resolve_queue(m.queue, name)) return;
  auto queue = connection_.vhost().open_queue(connection_.actor(), name);
  if (!queue) return connection_.fail(this, queue.error());
  connection_.queues().flush();
  const uint64_t token = connection_.expect_reply(
      *this, true,
      [queue = *queue, no_ack = m.no_ack, connection = &connection_](Channel* channel,
                                                                     const QueueReply& reply) {
        if (channel) return channel->get_answered(queue, reply, no_ack);
        if (!reply.got || no_ack) return;
        // The channel is gone: the message never reached anyone.
        QueueRef& ref = connection->queues().hold(queue);
        connection->queues().settle(
            ref, Outcome::not_delivered,
            {Run{reply.got->position, 1}, reply.got->lane, reply.got->counter, {}, 0});
        connection->queues().release(ref);
        connection->flush_later();
      });
  (*queue)->get(m.no_ack, connection_.requester(), token);
}

void Channel::get_answered(const std::shared_ptr<QueueHandle>& queue, const QueueReply& reply,
                           bool no_ack) {
  if (reply.error) return connection_.fail(this, *reply.error, method_id::basic_get);
  connection_.touch(*this);
  if (!reply.got) {
    ++got_empty_;
    return connection_.send(number, method::BasicGetEmpty{});
  }
  const Delivery& d = *reply.got;
  ++(no_ack ? got_no_ack_ : got_);
  redelivered_ += d.redelivered;
  const RouteNames names = split_route(d.record.route);
  const uint64_t tag = ++delivery_tag_;
  connection_.send(number, method::BasicGetOk{tag, d.redelivered, names.exchange, names.routing_key,
                                              static_cast<uint32_t>(std::min<uint64_t>(
                                                  reply.message_count, UINT32_MAX))});
  append_content(connection_.outbound(), number, header_of(d), d.record.body,
                 connection_.frame_max());
  const SettleRun one{Run{d.position, 1}, d.lane, d.counter, {}, d.record.body.size()};
  QueueRef& ref = connection_.queues().hold(queue);
  if (no_ack) {
    connection_.settle_when_sent(ref, one);
  } else {
    hold({tag, &ref, one, connection_.shard().steady_now()});
  }
  connection_.queues().release(ref);
}

}  // namespace tarry
