#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {
namespace {

uint32_t as_count(uint64_t n) { return static_cast<uint32_t>(std::min<uint64_t>(n, UINT32_MAX)); }

/// Tables in parsed methods were checked, so they decode.
FieldTable arguments_of(ByteSpan table) {
  auto decoded = FieldTable::decode(table);
  return decoded ? std::move(*decoded) : FieldTable{};
}

}  // namespace

/// What becomes of an answer of the vhost: `then(channel, stored, value)`, or the error on the
/// channel. Until it comes, which is when the change has taken effect, no input is taken, so that
/// the order on each channel holds. The answer may come after the channel or the connection is
/// gone.
template <class T, class F>
VhostAnswer<T> Channel::answer(F then) {
  connection_.queues().flush();
  connection_.begin_wait();
  return [home = &connection_.home(), id = connection_.id(), channel = number, serial_then = serial,
          method = connection_.method(),
          then = std::move(then)](Result<T, PeerError> result, Stored stored) mutable {
    ConnectionImpl* connection = ConnectionImpl::find(*home, id);
    if (!connection) return;
    if (Channel* c = connection->open_channel(channel, serial_then)) {
      if (!result) {
        connection->fail(c, result.error(), method);
      } else if constexpr (std::is_void_v<T>) {
        then(*c, stored);
      } else {
        then(*c, stored, *result);
      }
    }
    connection->end_wait();
  };
}

template <class Ok>
VhostAnswer<void> Channel::plain_answer(bool no_wait) {
  return answer<void>([no_wait](Channel& c, Stored stored) { c.reply(stored, no_wait, Ok{}); });
}

template <class Ok>
void Channel::reply(Stored stored, bool no_wait, const Ok& ok) {
  if (no_wait) return owe_silently(stored);
  if (stored == Stored::yes && owed_.empty()) return connection_.send(number, ok);
  const bool first = owed_.empty();
  owed_.add(stored == Stored::yes ? 0 : connection_.number_change(), number, ok);
  connection_.note_owed(*this, first);
}

bool Channel::resolve_queue(std::string_view name, std::string& out) {
  if (!name.empty()) {
    out = name;
    return true;
  }
  if (last_queue_.empty()) {
    connection_.fail(this, PeerError::not_found("no previously declared queue"));
    return false;
  }
  out = last_queue_;
  return true;
}

void Channel::on(const method::ExchangeDeclare& m) {
  ExchangeDeclare declare;
  declare.name = m.exchange;
  declare.type = m.type;
  declare.passive = m.passive;
  declare.durable = m.durable;
  declare.auto_delete = m.auto_delete;
  declare.internal = m.internal;
  declare.arguments = arguments_of(m.arguments);
  connection_.vhost().declare_exchange(connection_.actor(), std::move(declare),
                                       plain_answer<method::ExchangeDeclareOk>(m.no_wait));
}

void Channel::on(const method::ExchangeDelete& m) {
  connection_.vhost().delete_exchange(connection_.actor(), std::string(m.exchange), m.if_unused,
                                      plain_answer<method::ExchangeDeleteOk>(m.no_wait));
}

void Channel::on(const method::ExchangeBind& m) {
  BindingSpec spec{std::string(m.source), std::string(m.destination), std::string(m.routing_key),
                   false, arguments_of(m.arguments)};
  connection_.vhost().bind(connection_.actor(), std::move(spec),
                           plain_answer<method::ExchangeBindOk>(m.no_wait));
}

void Channel::on(const method::ExchangeUnbind& m) {
  BindingSpec spec{std::string(m.source), std::string(m.destination), std::string(m.routing_key),
                   false, arguments_of(m.arguments)};
  connection_.vhost().unbind(connection_.actor(), std::move(spec),
                             plain_answer<method::ExchangeUnbindOk>(m.no_wait));
}

void Channel::on(const method::QueueDeclare& m) {
  QueueDeclare declare;
  declare.name = m.queue;
  if (is_reply_name(declare.name) || is_reply_address(declare.name)) {
    if (!connection_.reply_name_known(declare.name)) {
      return connection_.fail(this,
                              PeerError::not_found("no queue '" + declare.name + "' in vhost '" +
                                                   connection_.vhost().name() + "'"));
    }
    return reply(Stored::yes, m.no_wait, method::QueueDeclareOk{declare.name, 0, 1});
  }
  declare.passive = m.passive;
  declare.durable = m.durable;
  declare.exclusive = m.exclusive;
  declare.auto_delete = m.auto_delete;
  declare.arguments = arguments_of(m.arguments);
  connection_.vhost().declare_queue(
      connection_.actor(), std::move(declare),
      answer<QueueDeclared>(
          [no_wait = m.no_wait](Channel& c, Stored stored, const QueueDeclared& declared) {
            c.last_queue_ = declared.name;
            c.reply(stored, no_wait,
                    method::QueueDeclareOk{declared.name, as_count(declared.message_count),
                                           as_count(declared.consumer_count)});
          }));
}

void Channel::on(const method::QueueDelete& m) {
  std::string name;
  if (!resolve_queue(m.queue, name)) return;
  connection_.vhost().delete_queue(
      connection_.actor(), std::move(name), m.if_unused, m.if_empty,
      answer<uint64_t>([no_wait = m.no_wait](Channel& c, Stored stored, uint64_t count) {
        c.reply(stored, no_wait, method::QueueDeleteOk{as_count(count)});
      }));
}

void Channel::on(const method::QueuePurge& m) {
  std::string name;
  if (!resolve_queue(m.queue, name)) return;
  connection_.vhost().purge_queue(
      connection_.actor(), std::move(name),
      answer<uint64_t>([no_wait = m.no_wait](Channel& c, Stored stored, uint64_t count) {
        c.reply(stored, no_wait, method::QueuePurgeOk{as_count(count)});
      }));
}

void Channel::on(const method::QueueBind& m) {
  BindingSpec spec;
  if (!resolve_queue(m.queue, spec.destination)) return;
  spec.source = m.exchange;
  // AMQP 0-9-1 queue.bind: with both names empty the queue's name is the key.
  spec.routing_key =
      m.queue.empty() && m.routing_key.empty() ? spec.destination : std::string(m.routing_key);
  spec.arguments = arguments_of(m.arguments);
  connection_.vhost().bind(connection_.actor(), std::move(spec),
                           plain_answer<method::QueueBindOk>(m.no_wait));
}

void Channel::on(const method::QueueUnbind& m) {
  BindingSpec spec;
  if (!resolve_queue(m.queue, spec.destination)) return;
  spec.source = m.exchange;
  spec.routing_key =
      m.queue.empty() && m.routing_key.empty() ? spec.destination : std::string(m.routing_key);
  spec.arguments = arguments_of(m.arguments);
  connection_.vhost().unbind(connection_.actor(), std::move(spec),
                             plain_answer<method::QueueUnbindOk>(false));
}

}  // namespace tarry
