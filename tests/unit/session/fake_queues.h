#pragma once

// In place of the queue room: records what it is told, and answers as the test says. Include it in
// exactly one file of a program (queue_fakes_test.cc): it defines QueueHandle and QueueShard.

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tarrymq/amqp/properties.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {

class QueueActor {
 public:
  struct Published {
    std::string route, header, body;
    bool persistent;
    uint8_t priority;
    uint32_t ttl_ms;
    bool has_delivery_count;
    uint64_t number;
    uint16_t channel;
    uint32_t channel_serial;
    Requester from;
  };
  struct Settled {
    Outcome outcome;
    SettleRun run;
  };
  std::vector<Published> published;
  std::vector<Settled> settled;
  std::vector<OwnWord> words;  // by amq.retry
  std::vector<ConsumeRequest> consumers;
  std::vector<ConsumerId> cancelled;
  std::vector<std::pair<ConsumerId, bool>> paused, limited;
  std::vector<std::pair<ConsumerId, uint32_t>> granted;
  std::deque<std::string> ready;   // bodies, for basic.get
  std::vector<std::string> order;  // what came, one word each
  uint32_t next_ordinal = 0;       // every one below it went to a sink that was there
  std::set<ConsumerId> cancel_answered;
  bool confirm_at_once = true;
  bool refuse = false;  // publishes
  std::optional<PeerError> consume_error;
  bool hold_replies = false;
  std::vector<std::function<void()>> held;

  void reply(Requester to, uint64_t token, QueueReply r);
  /// Confirms numbers first..last of the newest publisher.
  void confirm(uint64_t first, uint64_t last, bool refused = false);
  struct Extra {
    uint32_t counter = 0;
    bool show_counter = false;
    std::string header;
    std::string last_error = {};
  };
  /// Delivers one message with the next ordinal to the n-th consumer.
  void deliver(size_t consumer, const std::vector<std::string>& bodies) {
    deliver(consumer, bodies, Extra());
  }
  void deliver(size_t consumer, const std::vector<std::string>& bodies, Extra extra);
  /// A queue delivers until it has answered the cancel.
  bool may_deliver(size_t consumer) const {
    return !cancel_answered.contains(consumers.at(consumer).consumer);
  }
  void cancel_from_queue(size_t consumer);
  void release_held();
};

/// Lets the home say that publishes to other shards are held up, and that there is room again.
void hold_publishes_up(QueueShard& home, bool held_up);
/// What is behind a handle.
QueueActor& fake(const QueueHandle& handle);
void set_timeout_ms(const QueueHandle& handle, uint64_t timeout_ms);
/// `retry_enabled`: as if declared with x-delayed-retry-min.
std::shared_ptr<QueueHandle> make_fake_queue(QueueShard& home, std::string name,
                                             bool retry_enabled = false);
/// For a program that makes them by the million. No handle of one may be there any more.
void forget_fake_queues();

}  // namespace tarry
