#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "queue/consumers.h"
#include "queue/dead_letter.h"
#include "queue/fifo.h"
#include "queue/lane.h"
#include "queue/remote_batch.h"
#include "tarrymq/queue/consumer_use.h"
#include "tarrymq/queue/dead_letter_sink.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/queue/redrive.h"
#include "tarrymq/queue/waiting.h"
#include "tarrymq/retry/companion.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/due_index.h"

namespace tarry {

class QueueErrand;
class QueueShard;

/// One queue. Commands change its state at once; what follows from them (answers, deliveries,
/// limits, dead letters, confirms) happens once a turn, in on_turn_end(), in the order that is
/// written there. Own shard only.
///
/// A message is in one place at a time:
///   fresh     behind a lane's cursor
///   requeued  Lane::requeued
///   returned  Lane::returns (its delay is over)
///   waiting   in the companion (parked), or on its way into it (late_rejects_)
///   out       with a consumer (unacked), or dying (deaths_, moves_)
/// ready = fresh + requeued + returned.
class QueueActor final : public TurnHook, public std::enable_shared_from_this<QueueActor> {
 public:
  QueueActor(QueueShard& home, QueueId id, QueueIdentity identity, QueueSettings settings,
             std::shared_ptr<QueueFigures> figures);
  ~QueueActor() override;
  void attach(const std::shared_ptr<QueueHandle>& handle) {
    handle_ = handle.get();
    weak_handle_ = handle;
  }
  /// It is new, and its definition not yet given to the store. Before anybody knows of it.
  void owe_definition() { definition_owed_ = identity_.durable; }
  /// Arms what runs from creation on (x-expires). On the shard.
  void start();
  void recover(std::vector<std::pair<Origin, QueueId>>& origins);
  /// Lets go of logs, timers and indexes: the shard's queue room is closing.
  void close();

  QueueShard& home() { return home_; }

  // -- Commands (queue_handle.h)
  void publish(const PublishRequest& request);
  void settle(Outcome outcome, std::span<const SettleRun> runs);
  void settle_by_word(OwnWord word);
  void consume(ConsumeRequest request, uint64_t token);
  void cancel(ConsumerId consumer, Requester from, uint64_t token, bool last_deliveries);
  void get(bool no_ack, Requester from, uint64_t token);
  void stat(bool is_use, Requester from, uint64_t token);
  void purge(Requester from, uint64_t token);
  void sync(Requester from, uint64_t token);
  void remove(bool if_unused, bool if_empty, Requester from, uint64_t token);
  void close_move(const Origin& origin);
  void set_paused(ConsumerId consumer, bool paused);
  void set_channel_limited(ConsumerId consumer, bool limited);
  void grant(ConsumerId consumer, uint32_t credits);
  void arrived(ConsumerId consumer, uint64_t bytes);
  void apply(QueueSettings settings);
  void purge_delayed();
  std::vector<ConsumerInfo> consumer_infos() const;
  QueueLook look();
  void list_waiting(WaitingQuery query, std::function<void(WaitingPage)> done);
  void act_on_waiting(WaitingOrder order, std::function<void(WaitingOutcome)> done);
  void park_given(std::span<const GivenMessage> messages, std::function<void(WaitingOutcome)> done);
  void redrive(RedriveOrder order, std::shared_ptr<RedriveProgress> progress, RedriveEvents events);
  void go_redrive(uint64_t id);
  void cancel_redrive(uint64_t id);
  bool finish_move(const Origin& origin, std::vector<QueueId> holders);
  void dead_letter_done(uint64_t token, DeadLetterResult result);
  void hand_over_all();

  void on_turn_end() override;

 private:
  friend class QueueErrand;
  friend class WaitingListing;
  friend class WaitingActing;
  friend class Redriving;

  // What the due and expiry indexes' entries mean (DueEntry::kind).
  enum Kind : uint8_t {
    kDue,            // companion: the delay ends
    kExpiresParked,  // companion: it expires before that; its due time is due_ms + delay_ms
    kExpiresFresh,   // expiry index: behind others that expire later or never
    kExpiresRequeued,
    kExpiresReturned,  // its due time is due_ms - delay_ms
  };
  /// A command that is answered at the turn's end: `answer` before deliveries, the others after
  /// them (what came before them is for the consumers first, and under the limits). Nobody has two
  /// of them on their way.
  struct Op {
    enum class Kind : uint8_t { answer, get, cancel, stat, remove } kind{};
    Requester from;
    uint64_t token = 0;
    ConsumerId consumer;  // of a cancel
    bool no_ack = false, if_unused = false, if_empty = false;
    std::unique_ptr<QueueReply> reply;  // of an answer
  };
  struct PendingConfirm {
    Requester from;
    ConfirmRange range;
  };
  struct PendingReply {
    Requester from;
    uint64_t token;
    uint64_t message_count;
  };
  /// What waits for one barrier.
  struct DurableBatch {
    std::vector<PendingConfirm> confirms;
    std::vector<PendingReply> replies;
    std::vector<uint64_t> dropped_moves;
    bool empty() const { return confirms.empty() && replies.empty() && dropped_moves.empty(); }
  };
  /// Records that are out and go through the dead-letter stage when it has room.
  struct DyingRun {
    uint8_t lane;
    Run run;
    DeathReason reason;
    uint32_t delivery_count;            // that the last delivery carried
    std::vector<QueueId> holders = {};  // of a move that a crash interrupted
    bool guessed = false;               // such a one of which nothing says why it died
    bool marked = false;                // the log knows that it is dying
    uint32_t held_ms = 0;               // how long it was held before this try; 0: the first
    Ticket ticket = 0;                  // it does not go on before this has passed; 0: at once
  };
  struct Move {
    uint8_t lane;
    Position position;
    DeathReason reason;
    uint64_t bytes;
    bool has_source;  // false: a refused publish, which is in no log
    bool marked = false;
    uint32_t held_ms = 0, delivery_count = 0, body_bytes = 0;
  };
  /// A rejection whose record had to be read from disk to see when it expires.
  struct LateReject {
    uint8_t lane;
    Position position;
    uint32_t counter;
    uint32_t body_bytes;
    uint64_t rejected_ms;
    std::unique_ptr<OwnWord> word = nullptr;  // what the consumer said of it, if it did
  };
  /// A record that came back and whose expiry is not known yet.
  struct ExpiryCheck {
    uint8_t lane;
    Position position;
    Kind kind;
    uint64_t due_ms;  // of a return
  };
  /// The next message of a lane.
  struct Head {
    enum class From : uint8_t { returned, requeued, fresh } from;
    Fetched fetched;
    uint32_t counter;
    bool redelivered;
  };
  struct Counts {
    uint64_t published = 0, delivered = 0, delivered_no_ack = 0, got = 0, got_no_ack = 0, acked = 0,
             redelivered = 0, rejected = 0, confirmed = 0;
    uint64_t retries_scheduled = 0, retries_redelivered = 0, retries_postponed = 0;
    uint64_t dead_lettered[6] = {}, dropped[6] = {};
    uint64_t lag[kRetryLagBoundsMs.size() + 1] = {}, lag_sum_ms = 0;
  };

  // recover.cc
  void recover_lane(uint8_t number, std::unique_ptr<MessageLog> opened,
                    std::vector<std::pair<Origin, QueueId>>& origins);
  void park_batch(uint8_t lane, const ParkedBatch& batch);
  ColdKeeper keeper();
  ColdReader reader_of(uint8_t lane, uint32_t segment, uint64_t queue_ttl_ms, bool stored);
  static DueEntry entry_of(const RecoveredPark& park, uint8_t lane, uint64_t queue_ttl_ms);

  // queue_actor.cc
  void schedule();
  void refresh_time();
  void adopt_settings();
  void publish_figures();
  uint64_t steps_taken() const;
  void publish_consumer_use();
  void publish_sizes();
  void forget_if_empty();
  bool is_duplicate(const PublishRequest& request);
  void forget_seen(const PublishRequest& request);
  std::string text_of(std::string_view rest) const;  // "queue 'q' in vhost '/' <rest>"
  uint64_t ready() const;
  uint64_t ready_bytes() const;
  uint64_t delayed() const;

  // lanes.cc
  Lane* lane_for(uint8_t priority);  // null: the log could not be opened (logged)
  Lane* find_lane(uint8_t number) {
    return number < lanes_.size() ? lanes_[number].get() : nullptr;
  }
  Result<std::unique_ptr<MessageLog>> open_log(uint8_t number, bool recovering = false);
  void adopt_lane(uint8_t number, std::unique_ptr<MessageLog> log);
  Lane* highest_ready();
  Fetch head_of(Lane& lane, Head& out);
  void take_head(Lane& lane, Head& head);
  void ask_gate();
  bool may_expire(const Lane& lane) const {
    return queue_ttl_ms_ != UINT64_MAX || lane.own_ttl_seen;
  }
  bool expired(const RecordView& record, bool came_back = false) const;
  /// What x-delivery-count the delivery before carried, for a record whose counter is now
  /// `counter`.
  uint32_t last_shown(uint32_t counter) const { return counting_ && counter > 0 ? counter - 1 : 0; }

  // deliver.cc
  void deliver();
  bool deliver_to(Consumer& consumer);
  uint32_t deliver_fresh(Lane& lane, Consumer& consumer, uint32_t most);
  bool deliver_one(Lane& lane, Consumer& consumer);
  void kill_head(Lane& lane, Head& head);
  void flush_batches();
  void tend_credit();

  // answers.cc
  void run_ops();
  void run_gets();
  void run_late_ops();
  bool run_get(const Op& op);
  void run_remove(const Op& op);
  void answer(Requester to, uint64_t token, const QueueReply& reply);
  void answer_later(Requester to, uint64_t token, QueueReply reply);
  void note(Requester to, RemoteBatch::Note what, ConsumerId consumer, uint32_t count);
  void add_confirm(std::vector<PendingConfirm>& to, const PublishRequest& request, bool refused,
                   bool no_room = false);
  void send_confirms(std::span<const PendingConfirm> confirms);
  void ask_barrier();
  void durable_batch_passed();
  void wait_for_definition();
  void finish_durable(DurableBatch& batch, bool refused);

  // settle.cc
  Lane& take_settled(const SettleRun& settled);
  void forget_returns_out(Lane& lane, const SettleRun& settled);
  void settle_run(Outcome outcome, const SettleRun& run);
  void requeue_counted(Lane& lane, const SettleRun& run);
  void put_back(Lane& lane, const SettleRun& run);
  void add_requeued(Lane& lane, RequeuedRuns::Entry entry, bool gated);

  // retries.cc
  bool waits(Outcome outcome) const;
  void reject(Lane& lane, const SettleRun& run);
  void reject_one(Lane& lane, LateReject rejected);
  void kill_rejected(Lane& lane, const LateReject& rejected, DeathReason reason);
  void note_no_backoff();
  void park(Lane& lane, const LateReject& rejected, const RecordView* record);
  uint64_t delay_of(const LateReject& rejected, uint32_t counter);
  void run_late_rejects();
  void drain_companion();
  void drain_entry(DueEntry entry);
  void count_lag(uint64_t due_ms);
  void postpone(Lane& lane, const DueEntry& entry);
  void add_parked(const DueEntry& entry);
  Companion& companion();
  size_t returns_count() const;
  void resume_draining();
  void run_purge_delayed();
  void go_on_purging();

  // own_word.cc
  void requeue_by_word(Lane& lane, const OwnWord& word);
  void mark_dying(Lane& lane, const Position& position, DeathReason reason, uint32_t delivery_count,
                  std::string_view error);
  void owe_confirm(const OwnWord& word, bool refused = false);
  std::string_view error_of(Lane& lane, const Fetched& fetched);

  // held.cc
  bool holds() const { return settings_.dead_letter_at_least_once; }
  void hold(const Move& move, const char* why);
  bool must_hold(DeadLetterResult result) const;
  void add_held(const DueEntry& entry);
  void adopt_found_dying();
  void try_held();
  void note_held_try(const Move& move, bool stored);
  uint64_t held_count() const { return (held_ ? held_->size() : 0) + found_dying_.size(); }
  uint64_t dead_lettering() const { return held_count() + dying_count_ + moves_.size(); }

  // expiry.cc
  void note_own_ttl(Lane& lane, const Position& position, const PublishRequest& request,
                    bool alone);
  void check_expiry_later(Lane& lane, const Run& run, Kind kind, uint64_t due_ms);
  void expire();
  bool expire_heads(Lane& lane, bool ttl_zero_too);
  void check_all_that_came_back();  // a policy has changed the queue's TTL
  void retime_companion();          // likewise
  static uint64_t due_of(const DueEntry& entry);
  uint32_t period_of(const DueEntry& entry) const;
  static void end_by_expiry(DueEntry& entry, uint64_t expires_ms);
  DueEntry retimed(const DueEntry& entry, const RecordView& record) const;
  bool retime_ended(Lane& lane, DueEntry& entry);
  void run_expiry_checks();
  void expire_entry(const DueEntry& entry);
  DueIndex& expiry_index();
  void arm_expiry_timer();
  void arm(Timer& timer, uint64_t due_ms);
  Timer& made(std::unique_ptr<Timer>& timer, void (QueueActor::*on_due)());
  void cancel_timers();

  // limits.cc
  bool would_overflow(uint64_t body_bytes) const;
  bool over_limit() const;
  bool refuse_if_full(const PublishRequest& request, bool& passes_on);
  void enforce_limits();
  Fetch drop_victim();

  // delayed.cc
  bool is_holding() const { return !identity_.holds_for.empty(); }
  void park_delayed();
  void release(Lane& lane, const DueEntry& entry);
  void send_delayed(Lane& lane, Move move, const RecordView& record, std::vector<QueueId> holders);
  void count_released(DeadLetterResult result);

  // moves.cc
  void kill(Lane& lane, const Run& run, DeathReason reason, uint32_t delivery_count);
  bool death_room() const;
  void note_arrival(Lane& lane, const Position& position, const PublishRequest& request) const;
  Ticket arrival_of(Lane& lane, const Run& run) const;
  void add_dying(DyingRun dying);
  void pump_moves();
  bool has_come_before(const PublishRequest& request);
  bool start_move();
  void guess_death(DyingRun& dying, const Fetched& fetched) const;
  Rewritten rewrite(const RecordView& record, DeathReason reason, uint32_t delivery_count,
                    std::string_view last_error) const;
  void send_letter(DeadLetter& letter, uint64_t token, DeathReason reason, const RecordView& record,
                   Rewritten& rewritten);
  void dead_letter_refused(const PublishRequest& request);
  void count_drop(DeathReason reason, uint64_t count, const char* why);
  DeadLetterSink* sink_of_letters() const;

  // errands.cc
  void start_errand(std::shared_ptr<QueueErrand> errand);
  void run_errands();
  void end_errands();
  void errand_move_done(uint64_t token, DeadLetterResult result);
  void tidy_companion();
  bool finish_redriven(const Origin& origin, std::vector<QueueId> holders);

  // life.cc
  void leave(ConsumerId consumer);
  void use();
  void check_unused();
  void end_of_life();
  PeerError gone_error() const;
  void answer_gone();

  // -- Constant after construction
  QueueShard& home_;
  Shard& shard_;
  StoreShard& store_;
  const QueueId id_;
  const QueueIdentity identity_;
  const std::shared_ptr<QueueFigures> figures_;
  const std::shared_ptr<std::atomic<bool>> home_open_;
  QueueHandle* handle_ =
      nullptr;  // not to be used once gone, when its holders may have let go of it
  std::weak_ptr<QueueHandle> weak_handle_;
  ShardAffine affine_;

  // -- Settings, and what follows from them
  QueueSettings settings_;
  bool counting_ = false;   // deliveries carry the counter (retry-spec 14)
  bool rejecting_ = false;  // a limit with one of the reject-publish overflows
  bool limited_ = false;
  uint64_t queue_ttl_ms_ = UINT64_MAX;

  // -- State
  bool gone_ = false;
  bool scheduled_ = false;
  bool removing_ = false;  // auto-delete or x-expires has struck; carried out at the turn's end
  WallTime time_{-1};      // the shard's, when these were computed:
  uint64_t now_floor_ms_ = 0, now_ceil_ms_ = 0;

  std::vector<std::unique_ptr<Lane>> lanes_;  // by priority; made at the first message
  Consumers consumers_;
  uint64_t unacked_ = 0, unacked_bytes_ = 0;
  uint64_t transient_seen_ = 0, persistent_seen_ = 0;  // since it was last empty

  Fifo<Op> ops_, gets_, late_ops_;
  std::vector<ConsumerId> served_;  // have something in their batch
  Fifo<std::string> error_texts_;   // that the batches of this pass point at
  bool blocked_ = false;  // this pass: the next message is being read, or waits for a barrier
  std::vector<PendingConfirm> confirms_;      // owed at this turn's end
  std::vector<ConfirmRange> confirm_ranges_;  // of the connection that is told at the moment
  DurableBatch next_durable_;                 // owed after the next barrier
  Fifo<DurableBatch> durable_;                // oldest first
  bool definition_owed_ = false;  // as far as is known, the queue's own definition is not durable
  bool gate_asked_ = false;       // a requeued run waits for its barrier, and it was asked for

  // For jitter: 8 bytes of state, the low bits are not used. From the clock, so that a simulation
  // that drives it does the same again.
  std::linear_congruential_engine<uint64_t, 6364136223846793005, 1442695040888963407, 0> random_{
      static_cast<uint64_t>(shard_.clock().system_now().ns) ^ (id_.value * 0x9E3779B97F4A7C15)};
  std::unique_ptr<Companion> companion_;  // of a holding queue, too: what waits for its x-delay
  std::unique_ptr<Deduplicator> deduplicator_;
  Fifo<LateReject> late_rejects_;
  std::vector<PendingReply> late_syncs_;  // wait until there are no late rejects
  std::set<std::pair<uint8_t, uint64_t>>
      moving_parked_;  // recovered moves whose entry is still in the companion
  uint64_t purge_delayed_before_ms_ =
      0;  // the operator emptied the companion of what was rejected before; 0: no
  uint64_t purge_delayed_left_ = 0;
  std::unique_ptr<Timer> purge_timer_;  // made when it is needed, as the others are
  bool drain_paused_ = false;
  bool returns_full_ = false;   // that is why: consumers have to make room
  uint64_t room_since_ms_ = 0;  // they did the last time

  std::unique_ptr<DueIndex> expiries_;
  Fifo<ExpiryCheck> expiry_checks_;
  bool expire_ttl_zero_ = false;  // something with a TTL of 0 came in: it goes now or never

  Fifo<DyingRun> dying_;
  uint64_t dying_count_ = 0;
  std::unordered_map<uint64_t, Move> moves_;
  uint64_t moving_bytes_ = 0;
  uint64_t next_token_ = 1;
  uint64_t last_drop_log_ms_ = 0, drops_since_log_ = 0;
  uint64_t last_no_backoff_log_ms_ = 0, no_backoff_since_log_ = 0;

  std::vector<std::shared_ptr<QueueErrand>> errands_;
  /// Moves that belong to errands, by token; null: of a redrive that a crash interrupted, at that
  /// place.
  struct ErrandMove {
    std::shared_ptr<QueueErrand> errand;
    uint8_t lane;
    Position position;
  };
  std::unordered_map<uint64_t, ErrandMove> errand_moves_;
  bool tidying_ = false;
  bool retiming_ = false, retime_again_ = false;

  // Dead letters that no target takes (retry-spec 41), by the time of the next try. DueEntry::kind
  // is the DeathReason, counter the delivery count, delay_ms how long it is held before that try.
  std::unique_ptr<DueIndex> held_;
  std::map<std::pair<uint8_t, uint64_t>, RecoveredDying>
      found_dying_;             // by lane and position; until the first turn's end
  uint32_t held_trying_ = 0;    // of the present batch
  bool held_hurry_ = false;     // one got through: the others are tried at once
  bool held_hurrying_ = false;  // the present batch was begun so
  uint64_t held_tried_ms_ = 0;
  uint64_t last_held_log_ms_ = 0;
  std::unique_ptr<Timer> held_timer_;

  std::unique_ptr<Timer> expiry_timer_, unused_timer_;
  SteadyTime last_use_;
  Counts counts_;
  bool had_consumers_ = false;
  ConsumerUse use_;
  uint64_t steps_published_ = 0;
  uint64_t sizes_published_ms_ = 0, retries_published_ = 0;
  std::string scratch_;
};

}  // namespace tarry
