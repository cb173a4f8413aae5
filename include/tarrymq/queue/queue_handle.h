#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tarrymq/queue/delivery_sink.h"
#include "tarrymq/queue/queue_settings.h"
#include "tarrymq/runtime/ids.h"
#include "tarrymq/storage/record.h"

namespace tarry {

class Shard;
class QueueShard;
class QueueActor;
struct GivenMessage;
struct RedriveEvents;
struct RedriveOrder;
struct RedriveProgress;
struct WaitingOrder;
struct WaitingOutcome;
struct WaitingPage;
struct WaitingQuery;

/// Who asks, and where answers go: a sink registered under `connection` at the queue-shard `home`.
struct Requester {
  QueueShard* home = nullptr;
  ConnectionId
      connection;  // the routers of all shards share ConnectionId 0: the home tells them apart
  friend bool operator==(const Requester&, const Requester&) = default;
};

/// One message for one queue. Everything borrowed lives for the call.
struct PublishRequest {
  ByteSpan route;   // exchange and routing key as short strings
  ByteSpan header;  // content header payload (BCC already removed)
  ByteSpan body;
  bool persistent = false;
  uint8_t priority = 0;
  uint8_t hops = 0;
  uint32_t counter = 0;      // deliveries before, of a redrive that keeps its budget
  uint32_t ttl_ms = kNoTtl;  // from the expiration property
  bool has_delivery_count =
      false;  // the header table holds x-delivery-count: a counting queue removes it (rule 15)
  const Origin* origin = nullptr;  // of a move
  // Confirm wanted? Then these are non-zero and `from` is set.
  uint64_t publish_number = 0;
  uint16_t channel = 0;
  uint32_t channel_serial = 0;
  Requester from;
};

struct ConsumeRequest {
  ConsumerId consumer;
  std::string tag;
  Requester from;
  uint16_t channel = 0;
  bool no_ack = false;
  bool exclusive = false;
  int32_t priority = 0;
  uint32_t prefetch = 0;         // per consumer; 0: no limit
  bool channel_limited = false;  // deliveries only against granted credit
  std::string description;       // connection and channel, for listings
  std::string arguments{};       // the field table as it came, for listings; "": none
};

enum class Outcome : uint8_t {
  ack,
  reject_requeue,  // basic.reject requeue=true
  nack_requeue,    // basic.nack requeue=true
  drop,            // either with requeue=false: dead-letter (rejected)
  channel_closed,  // channel or connection went away: counter + 1, requeued at once
  recovered,       // basic.recover: the same
  timed_out,       // consumer timeout: the same
  not_delivered,   // never reached the client: back to its place, counter untouched
  put_back,        // HTTP peek (retry-spec 42): back to its place, counter untouched
};

/// Every delivery and get is settled exactly once, those without acknowledgement too: with `ack`
/// when the socket took the last byte (design-notes 3), else with channel_closed or not_delivered.
/// Consecutive deliveries of one lane with one counter to one consumer, as settled together.
struct SettleRun {
  Run run;
  uint8_t lane = 0;
  uint32_t counter = 0;     // as delivered
  ConsumerId consumer;      // none (0) for basic.get
  uint64_t body_bytes = 0;  // sum; may be an estimate when a run was split
};

/// What a consumer says of one delivery by a publish to `amq.retry` (retry-spec 35).
struct OwnWord {
  SettleRun delivery;                // of one message
  std::optional<uint64_t> delay_ms;  // instead of the computed one; only for a queue with retries
  std::string error;                 // "": nothing said. Kept to 4 KiB
  bool permanent = false;            // no more retries: dead-letter, reason rejected
  // Confirm wanted, once the settlement is durable? Then non-zero and `from` is set. Refused: the
  // queue is gone.
  uint64_t publish_number = 0;
  uint16_t channel = 0;
  uint32_t channel_serial = 0;
  Requester from;
};

/// Upper bounds in ms of the classes that retry lag is counted in (retry-spec 40); one more class
/// is above the last.
inline constexpr std::array<uint64_t, 12> kRetryLagBoundsMs{1,   5,   10,   25,   50,     100,
                                                            250, 500, 1000, 5000, 30'000, 300'000};

/// Figures of a queue that any thread may read at any time; written by its shard, exact after a
/// turn.
struct QueueFigures {
  std::atomic<uint64_t> ready{0}, ready_bytes{0}, unacked{0}, unacked_bytes{0}, persistent{0};
  std::atomic<uint64_t> delayed{0}, delayed_bytes{0}, next_due_ms{0},
      last_due_ms{0};  // next_due_ms 0: nothing waits
  // Since when the queue owes the return that is due first: its due time, or when there was room
  // for it again, if that is later. 0: nothing waits, or what is due waits for consumers to make
  // room.
  std::atomic<uint64_t> owed_since_ms{0};
  std::atomic<uint64_t> consumers{0};
  std::atomic<bool> consumers_able{false};  // these three: a ConsumerUse; nothing without consumers
  std::atomic<int64_t> consumers_able_since_ns{0};
  std::atomic<double> consumers_able_share{0};
  std::atomic<int64_t> active_at_ns{0};          // broker time of its last turn
  std::atomic<uint64_t> consumer_timeout_ms{0};  // the effective setting; 0: none
  std::atomic<uint64_t> published{0}, delivered{0}, delivered_no_ack{0}, got{0}, got_no_ack{0},
      acked{0}, redelivered{0}, rejected{0}, confirmed{0};
  std::atomic<uint64_t> retries_scheduled{0}, retries_redelivered{0}, retries_postponed{0};
  // By reason, in the order of DeathReason; dropped: no exchange, no route, refused, cycle.
  std::atomic<uint64_t> dead_lettered[6]{}, dropped[6]{};
  std::atomic<uint64_t> dead_lettering{
      0};  // in the dead-letter stage now: on their way, or held (retry-spec 41)
  // How long after its due time a return was let in: counts by class of kRetryLagBoundsMs, and the
  // sum of all. Where consumers had left no room for it: after there was some.
  std::atomic<uint64_t> retry_lag[kRetryLagBoundsMs.size() + 1]{}, retry_lag_sum_ms{0};
  std::atomic<uint64_t> disk_bytes{0}, memory_bytes{0}, segments{0};
};

enum class DeathReason : uint8_t { rejected, expired, maxlen, delivery_limit, max_age, unused };
const char* death_reason_name(DeathReason reason);

/// One consumer as a listing shows it.
struct ConsumerInfo {
  ConsumerId id;
  std::string tag, description;
  ConnectionId connection;
  uint16_t channel = 0;
  bool no_ack = false, exclusive = false, active = false;
  int32_t priority = 0;
  uint32_t prefetch = 0;
  std::string arguments{};  // as in ConsumeRequest
};

/// What only the queue itself can tell, for one that is looked at.
struct QueueLook {
  std::vector<ConsumerInfo> consumers{};
  /// The timestamp property (s since 1970) of the message that is served next. None: nothing is
  /// ready, it has none, or it lies on the disk and is being read (then the next look has it).
  std::optional<uint64_t> head_timestamp_s{};
};

/// All that others may do with a queue: each call enqueues a command to the actor (on the queue's
/// own shard it is a plain call). Commands from one shard arrive in the order they were given. May
/// be called from any shard's thread; those marked "any thread" also from elsewhere. Held by
/// shared_ptr; the actor ends with the last holder. Answers go to the requester's sink with the
/// given token. After the queue is gone every command is answered: publishes refused, the rest with
/// 404.
class QueueHandle {
 public:
  const QueueId id;
  const QueueIdentity identity;
  Shard& shard() const;
  const QueueFigures& figures() const { return *figures_; }            // any thread
  bool gone() const { return gone_.load(std::memory_order_acquire); }  // any thread

  void publish(const PublishRequest& request);
  void settle(Outcome outcome, std::span<const SettleRun> runs);

  void settle_by_word(OwnWord word);

  void consume(ConsumeRequest request, uint64_t token);
  /// `last_deliveries`: what is ready by then, and the consumer would take, still goes to it, ahead
  /// of the answer.
  void cancel(ConsumerId consumer, Requester from, uint64_t token, bool last_deliveries = false);
  /// Behind the consumers: what they would take is theirs.
  void get(bool no_ack, Requester from, uint64_t token);
  /// Counts as use of the queue (x-expires) when `is_use`.
  void stat(bool is_use, Requester from, uint64_t token);
  void purge(Requester from, uint64_t token);  // answered when durable
  /// Answered once everything before it, from this shard, is durable.
  void sync(Requester from, uint64_t token);
  /// if_unused, if_empty: 406 and nothing happens. Else consumers are cancelled, messages taken,
  /// and `removed` of the QueueShard's port told; the reply comes with the number of messages
  /// (ready and delayed), before the removal of the definition is durable: the broker sees to that.
  void remove(bool if_unused, bool if_empty, Requester from, uint64_t token);

  /// The source of a move into this queue has dropped its copy durably.
  void close_move(const Origin& origin);

  void set_paused(ConsumerId consumer, bool paused);  // the connection cannot take more for now
  void set_channel_limited(ConsumerId consumer, bool limited);
  void grant(ConsumerId consumer, uint32_t credits);

  // -- Any thread
  void apply(QueueSettings settings);  // policies changed
  void purge_delayed();                // the operator empties or deletes the companion
  /// `done` runs on the queue's shard.
  void consumers(std::function<void(std::vector<ConsumerInfo>)> done);
  void look(std::function<void(QueueLook)> done);

  // -- Any thread: what waits (waiting.h), and dead letters back (redrive.h). `done` runs on the
  // queue's shard, once.
  void list_waiting(WaitingQuery query, std::function<void(WaitingPage)> done);
  void act_on_waiting(WaitingOrder order, std::function<void(WaitingOutcome)> done);
  /// Answered once they are durable; the error of the outcome says why none is here.
  void park_given(std::vector<GivenMessage> messages, std::function<void(WaitingOutcome)> done);
  void redrive(RedriveOrder order, std::shared_ptr<RedriveProgress> progress, RedriveEvents events);
  void go_redrive(uint64_t redrive);
  void cancel_redrive(uint64_t redrive);

 private:
  friend class QueueShard;
  friend class QueueActor;
  QueueHandle(QueueId id, QueueIdentity identity, QueueShard& home);

  QueueShard& home_;
  std::shared_ptr<QueueFigures> figures_;
  std::shared_ptr<QueueActor> actor_;  // touched on its shard only
  std::atomic<bool> gone_{false};
};

}  // namespace tarry
