#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tarrymq/queue/dead_letter_sink.h"
#include "tarrymq/queue/delivery_sink.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/routing/route_walk.h"
#include "tarrymq/runtime/timer_wheel.h"

namespace tarry {

struct Core;

/// The broker's own sink on one shard (ConnectionId 0): answers to its queue commands and confirms
/// of what it publishes (dead letters, publishes over HTTP), and the shard's dead-letter router.
/// Own shard only.
class ShardDesk final : public DeliverySink, public DeadLetterSink {
 public:
  /// Registers itself; before the shard runs.
  ShardDesk(Core& core, QueueShard& home);
  ~ShardDesk() override;

  QueueShard& home() { return home_; }
  Requester me() { return {&home_, ConnectionId{0}}; }

  /// The token for a queue command; `answer` is called once with the reply.
  uint64_t expect(std::function<void(const QueueReply&)> answer);
  /// Publishes to each target; `answer` says whether at least one has stored it (durably where that
  /// is owed).
  void publish(PublishRequest request, const std::vector<std::shared_ptr<QueueHandle>>& targets,
               std::function<void(bool)> answer);
  void run_later(uint32_t delay_ms, std::function<void()> work);

  void on_deliver(ConsumerId, std::span<const Delivery>) override {}
  void on_confirm(std::span<const ConfirmRange> ranges) override;
  void on_reply(uint64_t token, const QueueReply& reply) override;
  void on_cancelled(ConsumerId) override {}
  void on_credit_wanted(ConsumerId) override {}
  void on_credit_returned(ConsumerId, uint32_t) override {}

  void route(const DeadLetter& letter) override;
  void source_dropped(QueueHandle& source, uint64_t token) override;
  void queue_removed(QueueHandle& queue) override;
  void when_definitions_stored(Task then) override;

 private:
  /// A publish whose confirms are counted down.
  struct Pending {
    uint32_t left = 0;
    bool stored = false, no_room = false;
    std::shared_ptr<QueueHandle> source;  // a dead letter's
    uint64_t token = 0;
    std::function<void(bool)> answer;  // a publish over HTTP
  };
  /// A dead letter that its targets hold: they are told when the source has dropped its copy.
  struct Move {
    std::shared_ptr<QueueHandle> source;  // must outlive the answer
    Origin origin;
    std::vector<std::shared_ptr<QueueHandle>> targets;
  };
  struct Delayed {
    explicit Delayed(std::function<void()> work) : timer(std::move(work)) {}
    Timer timer;
  };
  struct Targets {
    std::shared_ptr<QueueHandle> source;
    std::vector<std::shared_ptr<QueueHandle>> to_publish, all;
    bool exchange_missing = false, cycle = false;
  };
  using MoveKey = std::pair<uint64_t, uint64_t>;  // source queue, token
  struct MoveKeyHash {
    size_t operator()(const MoveKey& k) const { return k.first * 0x9E3779B97F4A7C15ull ^ k.second; }
  };

  uint64_t add_pending(Pending pending);
  void count_down(uint64_t number, const ConfirmRange& range);
  void finish(Pending& pending);
  void find_targets(const DeadLetter& letter, Targets& out);

  Core& core_;
  QueueShard& home_;
  uint64_t next_token_ = 1;
  std::unordered_map<uint64_t, std::function<void(const QueueReply&)>> replies_;
  uint64_t first_number_ = 1;  // publish number of pending_.front()
  std::deque<Pending> pending_;
  std::unordered_map<MoveKey, Move, MoveKeyHash> moves_;
  std::list<Delayed> delayed_;
  RouteResult walked_;
};

}  // namespace tarry
