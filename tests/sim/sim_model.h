#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tarry::sim {

/// A queue of the simulated topology. Every queue has at most one queue that dead-letters into it,
/// and those are published to by nobody else: so (queue, message number) names one copy.
struct QueueSpec {
  std::string name;
  bool published = false;  // clients publish to it; else it is a dead-letter target
  uint64_t retry_min = 0;  // 0: no retries
  std::optional<uint64_t> multiplier, retry_max, limit;
  std::string dead_letter_exchange, dead_letter_key;
  std::vector<size_t> dead_letters_to;  // empty: what dies is dropped
  std::optional<size_t> parent;         // who dead-letters into it
  bool quorum = false;
  uint64_t max_length = 0;
  bool reject_publish = false;
  uint8_t max_priority = 0;
  bool shows_counter() const { return retry_min > 0 || limit || quorum; }
  /// As retry-spec 1 and 2 say, on purpose not by the broker's own function.
  uint64_t delay_ms(uint64_t n) const;
};

struct CopyKey {
  size_t queue = 0;
  uint32_t number = 0;
  friend auto operator<=>(const CopyKey&, const CopyKey&) = default;
};

struct Seen {
  std::optional<int64_t> counter;  // the header
  bool redelivered = false, no_ack = false;
  uint64_t at_ms = 0;  // when the broker's socket took it
  bool has_death = false;
};

enum class Verdict : uint8_t { ack, requeue, reject };

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
  };
  /// The broker has taken it. `open`: it may or may not have effect (a transaction under way).
  void published(const Publish& publish, uint64_t now_ms, bool open);
  void confirmed(const Publish& publish);
  void refused(const Publish& publish);

  // -- Deliveries

  void delivered(const CopyKey& copy, const Seen& seen, uint64_t holder);
  /// `open`: it takes effect with a transaction that is not known to be through.
  void settled(const CopyKey& copy, Verdict verdict, uint64_t now_ms, bool open);
  /// The transaction is through: what it settled is durable.
  void settlement_durable(const CopyKey& copy);
  /// The transaction may have had effect or not.
  void settlement_unknown(const CopyKey& copy);
  /// Sent to a consumer without acknowledgement whose connection ended before its socket took all
  /// that was sent with it.
  void maybe_not_taken(const CopyKey& copy);
  /// Given back by a close or basic.recover.
  void returned(const CopyKey& copy);
  /// Whether it may have been with a consumer that never saw it.
  bool untouched(const CopyKey& copy) {
    auto it = copies_.find(copy);
    return it != copies_.end() && unseen_since(copy, it->second) == 0;
  }
  /// What was on its way to a consumer of this queue may come back once more than was seen.
  void unseen_return(size_t queue) { ++unseen_[queue]; }

  // -- Queues

  void purge_sent(size_t queue);
  void purge_done(size_t queue);
  void delete_sent(size_t queue);
  void delete_done(size_t queue);
  void declared(size_t queue);

  // -- The world

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
  size_t copies() const { return copies_.size(); }
  uint64_t deliveries() const { return deliveries_; }
  uint64_t retries() const { return retries_; }
  uint64_t deaths() const { return deaths_; }

 private:
  struct Place {
    enum class Kind : uint8_t { ready, waiting, gone, dead } kind = Kind::ready;
    uint32_t lowest = 0, highest = 0;  // counters of the next delivery
    uint64_t earliest_ms = 0;          // waiting: not before
  };
  struct Copy {
    std::vector<Place> places{
        Place{}};            // the last is where it is; the others where a crash may put it back
    bool uncertain = false;  // any of the places
    bool certain = true;     // its publish had effect
    bool may_vanish = false;
    bool persistent = true;
    bool was_delivered = false, crashed_since = false, confirmed = false;
    bool maybe_unrouted = false;  // its queue may have been missing when it came
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
  Copy* child_of_dead(const CopyKey& key, const Seen& seen);
  void check_not_with_children(const CopyKey& key);
  void check_not_with_parent(const CopyKey& key, uint64_t now_ms);
  void go(Copy& copy, Place place) {
    copy.places.push_back(place);
    copy.touched = ++events_;
  }
  Place after_return(const CopyKey& key, uint32_t counter) const;
  void end_purge(size_t queue);
  void take_purged();
  void check_children(const CopyKey& key, bool must);
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
  std::set<size_t> purging_;                                            // no answer yet
  std::vector<std::pair<CopyKey, uint64_t>> purged_for_good_;  // as above, the purge was answered
  std::vector<std::string> faults_;
  bool draining_ = false;
  uint64_t boot_ = 1;
  uint64_t events_ = 0, checkpoint_event_ = 0, deliveries_ = 0, retries_ = 0, deaths_ = 0;
};

}  // namespace tarry::sim
