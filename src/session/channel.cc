#include "session/channel.h"

#include "session/connection_impl.h"

namespace tarry {

Channel::Channel(ConnectionImpl& connection, uint16_t n, uint32_t s)
    : number(n), serial(s), connection_(connection), figures_(std::make_shared<ChannelFigures>(n)) {
  figures_->active_at_ns.store(connection_.shard().now().ns, std::memory_order_relaxed);
}

Channel::~Channel() = default;

void Channel::on_method(const Method& m) {
  std::visit(
      [this](const auto& known) {
        if constexpr (requires { on(known); }) {
          on(known);
        } else {  // only a server sends these
          connection_.fail(nullptr, PeerError::connection(
                                        reply::command_invalid,
                                        "unexpected method " + method_name(connection_.method()) +
                                            " on channel " + std::to_string(number)));
        }
      },
      m);
}

/// AMQP 0-9-1 channel.flow: active=false stops deliveries on this channel (RabbitMQ refuses it with
/// 540; decided here to honour it, as the specification asks).
void Channel::on(const method::ChannelFlow& m) {
  flow_active_ = m.active;
  figures_->flow_active.store(m.active, std::memory_order_relaxed);
  pause_consumers();
  connection_.send(number, method::ChannelFlowOk{m.active});
}

void Channel::on(const method::ChannelFlowOk&) {}  // nobody asked, and it does no harm

void Channel::on(const method::BasicCancelOk&) {}  // the answer to a basic.cancel of ours

/// Obsolete; RabbitMQ and old clients agree on ticket 1.
void Channel::on(const method::AccessRequest&) {
  connection_.send(number, method::AccessRequestOk{1});
}

void Channel::shut(const std::shared_ptr<Farewell>& farewell) {
  if (closing_) return;
  closing_ = true;
  content_ = {};
  connection_.forget_owed(*this, owed_.count());
  owed_.drop();
  replies_.reset();
  // First no more deliveries, then what is out goes back.
  while (!consumers_.empty()) {
    Consumer& consumer = *consumers_.begin()->second;
    if (farewell) {
      consumer.farewell = farewell;
      ++farewell->left;
    }
    end_consumer(consumer, true);
  }
  if (tx_) {
    if (tx_->committing) connection_.end_wait();
    rollback_settlements();
    tx_.reset();
  }
  unacked_.take_all([this](const UnackedRun& run, bool whole) {
    const auto timeout = timed_out_at_ ? timeout_of(run) : std::nullopt;
    give_back(run,
              timeout && *timeout <= *timed_out_at_ ? Outcome::timed_out : Outcome::channel_closed);
    if (whole) connection_.queues().release(*run.queue);
  });
  connection_.queues().flush();
  connection_.touch(*this);
}

void Channel::end_turn() {
  touched_ = false;
  routes_.flush_counts();
  if (!closing_) {
    pause_consumers();
    share_credit();
    continue_commit();
    flush_confirms();
  }
  const auto relaxed = std::memory_order_relaxed;
  ChannelFigures& f = *figures_;
  f.consumers.store(static_cast<uint32_t>(consumers_.size()), relaxed);
  f.unacked.store(unacked_.count(), relaxed);
  f.unconfirmed.store(confirms_ ? confirms_->outstanding() : 0, relaxed);
  f.uncommitted.store(tx_ ? tx_->publishes.size() : 0, relaxed);
  f.published.store(published_, relaxed);
  f.confirmed.store(confirmed_, relaxed);
  f.returned.store(returned_, relaxed);
  f.unroutable.store(unroutable_, relaxed);
  f.delivered.store(delivered_, relaxed);
  f.delivered_no_ack.store(delivered_no_ack_, relaxed);
  f.got.store(got_, relaxed);
  f.got_no_ack.store(got_no_ack_, relaxed);
  f.got_empty.store(got_empty_, relaxed);
  f.redelivered.store(redelivered_, relaxed);
  f.settled.store(settled_, relaxed);
  f.active_at_ns.store(connection_.shard().now().ns, relaxed);
}

}  // namespace tarry
