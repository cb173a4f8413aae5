#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tarry::sim {

/// What `x-delayed-retry-type` says.
enum class RetryOn : uint8_t { rejections, failed, returned, all };
/// How a delivery comes back without being settled for good.
enum class Return : uint8_t { reject, nack, word, closed, recovered };

/// A queue of the simulated topology. Every queue has at most one queue that dead-letters into it,
/// and those are published to by nobody else: so (queue, message number) names one copy.
struct QueueSpec {
  std::string name;
  bool published = false;  // clients publish to it; else it is a dead-letter target
  uint64_t retry_min = 0;  // 0: no retries
  std::optional<uint64_t> multiplier, retry_max, limit, max_age_ms;
  uint64_t jitter_percent = 0;
  RetryOn retry_type = RetryOn::rejections;
  std::string dead_letter_exchange, dead_letter_key;
  std::vector<size_t> dead_letters_to;  // empty: what dies is dropped
  std::optional<size_t> parent;         // who dead-letters into it, or is redriven into it
  std::optional<size_t> redriven_to;    // where operators move what is in it
  bool quorum = false;
  bool transient = false;  // not durable: a restart takes it with all that it holds
  uint64_t max_length = 0;
  bool reject_publish = false;
  bool at_least_once = false;  // a dead letter that its target refuses is held (retry-spec 41)
  uint8_t max_priority = 0;
  bool shows_counter() const { return retry_min > 0 || limit || quorum; }
  /// As retry-spec 1 and 2 say, on purpose not by the broker's own function.
  uint64_t delay_ms(uint64_t n) const;
  /// With jitter (retry-spec 33).
  uint64_t shortest_ms(uint64_t n) const;
  uint64_t longest_ms(uint64_t n) const;
  /// Whether such a return is delayed (retry-spec 2 and 39).
  bool waits(Return how) const;
  uint64_t capped(double delay) const;
};

inline constexpr uint64_t kOwnDelayMaxMs = 3000;  // that a client asks for with x-retry-delay

struct CopyKey {
  size_t queue = 0;
  uint32_t number = 0;
  friend auto operator<=>(const CopyKey&, const CopyKey&) = default;
};

struct Seen {
  std::optional<int64_t> counter;  // the header
  bool redelivered = false, no_ack = false;
  uint64_t at_ms = 0;                     // when the broker's socket took it
  std::string death_queue, death_reason;  // the newest entry of x-death
  std::string error;                      // x-last-error
};

enum class Verdict : uint8_t { ack, requeue, reject };
struct Settlement {
  Verdict verdict = Verdict::ack;
  Return how = Return::reject;  // requeue
  // By a publish to amq.retry (retry-spec 35); reject then means x-retry-permanent.
  bool word = false;
  std::optional<uint64_t> delay_ms = {};
  std::string error = {};
};

/// What may be seen, from the clients' side alone: where each copy of a message can be, and with
/// which counter. A copy is in one place; after a crash it may be back in any place it was in since
/// the last moment that is known to be durable.
class Model {
 public:
  explicit Model(std::vector<QueueSpec> specs) : queues_(std::move(specs)) {}

  const std::vector<QueueSpec>& queues() const { return queues_; }
  const std::vector<std::string>& faults() const { return faults_; }
  void fault(std::string text) { faults_.push_back(std::move(text)); }

  // -- Publishes

  struct Publish {
    std::vector<CopyKey> copies;
    bool persistent = true;
    std::optional<uint64_t> ttl_ms;
    bool fanned_out = false;  // by the exchange whose bindings change
  };
  /// The broker has taken it. `open`: it may or may not have effect (a transaction under way).
  void published(const Publish& publish, uint64_t now_ms, bool open);
  void confirmed(const Publish& publish);
  void refused(const Publish& publish);

  // -- Deliveries

  void delivered(const CopyKey& copy, const Seen& seen, uint64_t holder);
  /// `open`: it takes effect with a transaction that is not known to be through.
  /// The event's number.
  uint64_t settled(const CopyKey& copy, const Settlement& settlement, uint64_t now_ms, bool open);
  /// The publish to amq.retry that was event `touched` is confirmed: it is durable.
  void word_confirmed(const CopyKey& copy, uint64_t touched);
  /// The transaction is through: what it settled is durable.
  void settlement_durable(const CopyKey& copy);
  /// The transaction may have had effect or not.
  void settlement_unknown(const CopyKey& copy, uint64_t now_ms);
  /// Sent to a consumer without acknowledgement whose connection ended before its socket took all
  /// that was sent with it.
  void maybe_not_taken(const CopyKey& copy);
  /// Sent to a consumer, but not taken by its socket: no purge has taken it.
  void was_on_its_way(const CopyKey& copy) {
    auto it = copies_.find(copy);
    if (it != copies_.end()) it->second.touched = ++events_;
  }
  /// Given back by a close or basic.recover.
  void returned(const CopyKey& copy, Return how, uint64_t now_ms);
  /// Whether it may have been with a consumer that never saw it.
  bool untouched(const CopyKey& copy) {
    auto it = copies_.find(copy);
    return it != copies_.end() && unseen_since(copy, it->second) == 0;
  }
  /// What was on its way to a consumer of this queue may come back once more than was seen.
  void unseen_return(size_t queue) { ++unseen_[queue]; }

  // -- Queues

  /// The binding of a queue to the fanout exchange. Changing: asked for, or left so by a crash.
  enum class Binding : uint8_t { bound, unbound, changing };
  void binding(size_t queue, Binding is) { bindings_[queue] = is; }
  Binding binding(size_t queue) { return bindings_[queue]; }
  void purge_sent(size_t queue);
  void purge_done(size_t queue);
  void delete_sent(size_t queue);
  void delete_done(size_t queue);
  void declared(size_t queue);

  // -- Operators

  /// What waits in a queue is redelivered now, dead-lettered now or dropped (retry-spec 37); until
  /// the answer, also what comes to wait meanwhile.
  enum class Act : uint8_t { redeliver, dead_letter, drop };
  void act_sent(size_t queue, Act act);
  void act_done(size_t queue);
  /// What is in a queue moves to its `redriven_to` (retry-spec 38), until it has ended.
  void redrive_sent(size_t queue);
  void redrive_ended(size_t queue);
  bool acting(size_t queue) const { return acting_.contains(queue); }
  bool redriving(size_t queue) const { return redriving_.contains(queue); }
  bool ever_redriven(size_t queue) const { return ever_redriven_.contains(queue); }

  // -- The world

  /// The disk takes nothing for a while, or fails: publishes may be refused, and a rejected message
  /// may come back without its delay (retry-spec 28). Over: with the next checkpoint or crash.
  void disk_trouble(bool on);
  void crashed();
  /// Everything is quiet and durable.
  void checkpoint(uint64_t now_ms);
  /// A clean stop and start, after a checkpoint.
  void restarted();
  /// The instant by which everything that waits is due, as far as the model knows.
  uint64_t last_due_ms() const;
  /// From now on nothing may be served that expired before.
  void begin_drain() { draining_ = true; }
  /// Everything was drained and is quiet: what is missing?
  /// `postponed_too`: also where a full queue may have sent a return back for another period
  /// (retry-spec 25).
  void check_end(uint64_t now_ms, bool postponed_too);
  uint64_t longest_postponement_ms() const;
  /// Whether the first look must pass over it: it may still wait for room.
  bool may_be_postponed(const CopyKey& key) const;
  /// For how long a delivery may wait that a close gave back and nobody saw.
  uint64_t longest_unseen_wait_ms() const;
  size_t copies() const { return copies_.size(); }
  uint64_t events() const { return events_; }
  uint64_t deliveries() const { return deliveries_; }
  uint64_t retries() const { return retries_; }
  uint64_t deaths() const { return deaths_; }

 private:
  struct Place {
    enum class Kind : uint8_t { ready, waiting, gone, dead } kind = Kind::ready;
    uint32_t lowest = 0, highest = 0;  // counters of the next delivery
    uint64_t earliest_ms = 0;          // waiting: not before
    uint64_t latest_ms = 0;            // ... and due by then
    uint64_t longest_ms = 0;           // the longest delay that it may be
    bool maybe_dead = false;           // or it died instead
    bool final = false;                // dead, and its settlement said so durably
    std::string error = {};            // the last that a consumer gave
  };
  struct Copy {
    std::vector<Place> places{
        Place{}};            // the last is where it is; the others where a crash may put it back
    bool uncertain = false;  // any of the places
    bool certain = true;     // its publish had effect
    bool may_vanish = false;
    bool persistent = true;
    bool was_delivered = false, crashed_since = false, confirmed = false;
    bool restarted_since = false, seen_in_trouble = false;
    bool maybe_unrouted = false;  // its queue may have been missing when it came
    uint64_t came_from_ms = 0, came_by_ms = UINT64_MAX;  // it came into its queue between these
    std::optional<uint64_t> ttl_ms;
    std::optional<uint64_t> expires_ms;     // not before
    std::optional<uint64_t> expired_by_ms;  // it was in its queue by a checkpoint, so not after
    uint64_t holder = 0;                    // 0: with nobody
    uint32_t held_counter = 0;
    uint64_t unseen_base = 0;
    uint64_t touched = 0;  // number of the last event
    uint64_t boot = 0;     // the run of the broker in which it was last delivered
    bool durably_gone() const { return places.size() == 1 && places[0].kind == Place::Kind::gone; }
  };
  uint64_t unseen_since(const CopyKey& key, const Copy& copy) {
    return unseen_[key.queue] - copy.unseen_base;
  }
  bool fits(const CopyKey& key, const Copy& copy, const Place& place, const Seen& seen);
  bool may_be_dead(const CopyKey& key, Copy& copy, uint64_t now_ms);
  bool may_have_died_of(const CopyKey& key, const Copy& copy, const Seen& seen);
  void check_death(const CopyKey& key, const CopyKey& from, const Copy& copy, const Seen& seen);
  Copy* child_of_dead(const CopyKey& key, const Seen& seen);
  bool may_forget_errors(const CopyKey& key, const Copy& copy) const;
  bool error_fits(const Copy& copy, const std::string& error) const;
  void check_not_with_children(const CopyKey& key);
  void check_not_with_parent(const CopyKey& key, uint64_t now_ms);
  void go(const CopyKey& key, Copy& copy, Place place) {
    if (place.error.empty()) place.error = copy.places.back().error;
    copy.places.push_back(place);
    copy.touched = ++events_;
    if (auto acting = acting_.find(key.queue); acting != acting_.end())
      acted_on(key, copy, acting->second);
    if (trouble_) copy.places.back().earliest_ms = 0;
    if (redriving_.contains(key.queue)) copy.places.back().maybe_dead = true;
  }
  Place after_return(const CopyKey& key, const Copy& copy, const Settlement& how,
                     uint64_t now_ms) const;
  void lose_transient();
  void may_vanish(const CopyKey& key, Copy& copy);
  void acted_on(const CopyKey& key, Copy& copy, Act act);
  std::vector<size_t> children(size_t queue) const;
  bool is_redriven(size_t queue) const {
    const auto& parent = queues_[queue].parent;
    return parent && queues_[*parent].redriven_to == queue;
  }
  void end_purge(size_t queue);
  void take_purged();
  void check_children(const CopyKey& key);
  std::string name(const CopyKey& key) const {
    return queues_[key.queue].name + "/" + std::to_string(key.number);
  }
  std::string describe(const Copy& copy) const;

  std::vector<QueueSpec> queues_;
  std::map<CopyKey, Copy> copies_;
  std::map<size_t, uint64_t> unseen_;
  std::map<size_t, bool> absent_;                                       // deleted, or on the way
  std::map<size_t, bool> was_deleted_;                                  // once
  std::map<size_t, std::vector<std::pair<CopyKey, uint64_t>>> purged_;  // with `touched`
  std::map<size_t, Binding> bindings_;
  std::map<size_t, Act> acting_;  // not answered yet
  bool trouble_ = false, trouble_ending_ = false, ever_trouble_ = false;
  std::set<size_t> redriving_, ever_redriven_;
  std::set<size_t> purging_;                                   // no answer yet
  std::vector<std::pair<CopyKey, uint64_t>> purged_for_good_;  // as above, the purge was answered
  std::vector<std::string> faults_;
  bool draining_ = false;
  uint64_t boot_ = 1;
  uint64_t events_ = 0, checkpoint_event_ = 0, deliveries_ = 0, retries_ = 0, deaths_ = 0;
};

}  // namespace tarry::sim
