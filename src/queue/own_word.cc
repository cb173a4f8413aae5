// Settlements by a publish to amq.retry (retry-spec 35), and the error texts that they leave.
#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"

namespace tarry {

void QueueActor::settle_by_word(OwnWord word) {
  if (gone_) {
    owe_confirm(word, true);
    return schedule();
  }
  refresh_time();
  const SettleRun& settled = word.delivery;
  Lane& lane = take_settled(settled);
  forget_returns_out(lane, settled);
  ++counts_.rejected;
  schedule();
  if (word.permanent) {
    mark_dying(lane, settled.run.first, DeathReason::rejected, counting_ ? settled.counter : 0,
               word.error);
    return owe_confirm(word);
  }
  if (!identity_.retry_enabled) return requeue_by_word(lane, word);
  // Whatever x-delayed-retry-type lists: who speaks of this very message means it.
  LateReject rejected{lane.number,     settled.run.first,
                      settled.counter, static_cast<uint32_t>(settled.body_bytes),
                      now_ceil_ms_,    std::make_unique<OwnWord>(std::move(word))};
  reject_one(lane, std::move(rejected));
}

/// Without retries there is nothing to wait for: like basic.nack with requeue.
void QueueActor::requeue_by_word(Lane& lane, const OwnWord& word) {
  const SettleRun& settled = word.delivery;
  if (counting_ && settings_.delivery_limit &&
      uint64_t{settled.counter} + 1 > *settings_.delivery_limit) {
    mark_dying(lane, settled.run.first, DeathReason::delivery_limit, settled.counter, word.error);
  } else {
    lane.log->note_error(settled.run.first, word.error);
    requeue_counted(lane, settled);
  }
  owe_confirm(word);
}

/// kill() of one message, with an event that makes it final before the dead letter is stored: the
/// confirm of the settlement must not wait for the targets.
void QueueActor::mark_dying(Lane& lane, const Position& position, DeathReason reason,
                            uint32_t delivery_count, std::string_view error) {
  if (!settings_.dead_letter_exchange || !sink_of_letters())
    return kill(lane, {position, 1}, reason, delivery_count);
  lane.log->mark_dying(position,
                       {static_cast<uint8_t>(reason), delivery_count, now_floor_ms_, error});
  DyingRun dying{lane.number, {position, 1}, reason, delivery_count};
  dying.marked = true;
  add_dying(std::move(dying));
  schedule();
}

void QueueActor::owe_confirm(const OwnWord& word, bool refused) {
  if (word.publish_number == 0) return;
  PublishRequest as_published;
  as_published.publish_number = word.publish_number;
  as_published.channel = word.channel;
  as_published.channel_serial = word.channel_serial;
  as_published.from = word.from;
  const bool owes_barrier = identity_.durable && !refused;
  add_confirm(owes_barrier ? next_durable_.confirms : confirms_, as_published, refused);
}

/// Lives until the batches of this pass were handed out.
std::string_view QueueActor::error_of(Lane& lane, const Fetched& fetched) {
  if (!fetched.has_error) [[likely]]
    return {};
  return error_texts_.emplace_back(lane.log->park_error(fetched.position));
}

}  // namespace tarry
