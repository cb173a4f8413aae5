// Delivery acknowledgement timeout (x-consumer-timeout of the queue, or of the consumer, which goes
// first; retry-spec 12): the channel is closed with 406.
#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {

uint64_t Channel::timeout_ms_of(const UnackedRun& run) const {
  if (consumer_timeouts_ && run.settle.consumer.value != 0) {
    const Consumer* consumer = connection_.find_consumer(run.settle.consumer);
    if (consumer && consumer->timeout_ms) return *consumer->timeout_ms;
  }
  return run.queue->handle->figures().consumer_timeout_ms.load(std::memory_order_relaxed);
}

std::optional<SteadyTime> Channel::timeout_of(const UnackedRun& run) const {
  const uint64_t timeout_ms = timeout_ms_of(run);
  constexpr uint64_t kLongestMs = 365ull * 24 * 3600 * 1000;  // longer is never
  if (timeout_ms == 0 || timeout_ms > kLongestMs) return std::nullopt;
  // A run may hold deliveries that are younger than its first: never early for any of them.
  return SteadyTime{run.since.ns + Unacked::kSameTimeNs}.plus_ms(static_cast<int64_t>(timeout_ms));
}

std::optional<SteadyTime> Channel::next_timeout() const {
  std::optional<SteadyTime> next;
  unacked_.each([this, &next](const UnackedRun& run) {
    const auto at = timeout_of(run);
    if (at && (!next || *at < *next)) next = at;
  });
  return next;
}

void Channel::check_timeouts(SteadyTime now) {
  uint64_t used_ms = 0;
  unacked_.each([&](const UnackedRun& run) {
    const auto at = timeout_of(run);
    if (at && *at <= now) used_ms = timeout_ms_of(run);
  });
  if (used_ms == 0) return;
  timed_out_at_ = now;
  connection_.fail(this,
                   PeerError::precondition_failed(
                       "delivery acknowledgement on channel " + std::to_string(number) +
                       " timed out. Timeout value used: " + std::to_string(used_ms) +
                       " ms. It is set by x-consumer-timeout or by a policy's consumer-timeout"),
                   0);
}

void ConnectionImpl::watch_timeouts(const Channel& c, const UnackedRun& run) {
  const auto at = c.timeout_of(run);
  if (!at || (timeouts_.scheduled() && timeouts_at_ <= *at)) return;
  timeouts_at_ = *at;
  shard().timers().schedule(timeouts_, *at);
}

/// Looks at what is out, closes what is due, and comes back for the next; at most once a second.
void ConnectionImpl::check_timeouts() {
  const SteadyTime now = shard().steady_now();
  std::optional<SteadyTime> next;
  channels_.for_each([&](Channel& c) {
    if (c.open()) c.check_timeouts(now);
    if (!c.open()) return;
    const auto at = c.next_timeout();
    if (at && (!next || *at < *next)) next = at;
  });
  if (!next) return;
  timeouts_at_ = std::max(*next, now.plus_ms(1'000));
  shard().timers().schedule(timeouts_, timeouts_at_);
}

}  // namespace tarry
