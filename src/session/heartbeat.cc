#include "session/connection_impl.h"
#include "tarrymq/runtime/log.h"

namespace tarry {

/// Every half interval: something was sent since the last time, or a heartbeat is; and a peer that
/// was silent for two intervals while we listened is cut (AMQP 0-9-1, 4.2.7).
void ConnectionImpl::start_heartbeat() {
  if (heartbeat_s_ == 0) return;
  last_heard_ = shard().steady_now();
  sent_at_last_beat_ = port_.outbound().appended();
  shard().timers().schedule(heartbeat_, shard().steady_now().plus_ms(heartbeat_s_ * 500));
}

void ConnectionImpl::on_heartbeat_timer() {
  const SteadyTime now = shard().steady_now();
  if (!reading_) last_heard_ = now;
  if (now >= last_heard_.plus_ms(heartbeat_s_ * 2'000)) {
    log_for("session")->warn("{}: nothing heard for {} s, heartbeat is {} s: cut", name_,
                             (now.ns - last_heard_.ns) / 1'000'000'000, heartbeat_s_);
    return port_.abort();
  }
  OutboundBuffer& out = port_.outbound();
  // Bytes that the socket does not take are no reason to add more: the peer will hear them first.
  if (out.appended() == sent_at_last_beat_ && out.unsent_bytes() == 0) {
    append_heartbeat(out);
    flush_later();
  }
  sent_at_last_beat_ = out.appended();
  shard().timers().schedule(heartbeat_, now.plus_ms(heartbeat_s_ * 500));
}

}  // namespace tarry
