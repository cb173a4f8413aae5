#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

/// (segment, ordinal) in one word, in the order of the log.
constexpr uint64_t position_key(const Position& p) { return uint64_t{p.segment} << 32 | p.ordinal; }
constexpr Position nth_of(const Run& run, uint32_t n) {
  return {run.first.segment, run.first.ordinal + n, n == 0 ? run.first.offset : 0};
}

/// What was moved into a queue that is not durable, until its source has dropped its own copy for
/// good. Pure.
class OpenArrivals {
 public:
  void add(const Origin& origin, uint64_t key) {
    keys_.insert(key);
    by_origin_[origin] = key;
  }
  /// False: it is none of these.
  bool close(const Origin& origin) {
    const auto it = by_origin_.find(origin);
    if (it == by_origin_.end()) return false;
    keys_.erase(it->second);
    by_origin_.erase(it);
    return true;
  }
  bool contains(uint64_t key) const { return !keys_.empty() && keys_.contains(key); }
  std::optional<uint64_t> first() const {
    if (keys_.empty()) return std::nullopt;
    return *keys_.begin();
  }

 private:
  std::set<uint64_t> keys_;  // position_key
  std::map<Origin, uint64_t> by_origin_;
};

/// Runs that were requeued at once, in their old order (retry-spec 24). Pure.
class RequeuedRuns {
 public:
  struct Entry {
    Run run;
    uint32_t counter = 0;
    bool redelivered = false;
    uint64_t body_bytes = 0;  // of what is left of it; may be an estimate
    Ticket ticket = 0;  // its raised counter is durable once this has passed; 0: no need to wait
  };

  uint64_t count() const { return count_; }
  uint64_t body_bytes() const { return body_bytes_; }
  bool empty() const { return count_ == 0; }
  void add(const Entry& entry);
  const Entry& front() const { return by_position_.begin()->second; }
  /// Takes the first record of front(); `body_bytes` is what it turned out to have (none: unknown).
  /// Returns the bytes by which body_bytes() fell.
  uint64_t take_front(std::optional<uint64_t> body_bytes);
  /// Takes one record from wherever it stands; none if it is not here.
  std::optional<Entry> take(const Position& position);
  template <class F>
  void for_each(F&& see) const {
    for (const auto& [key, entry] : by_position_) see(entry);
  }
  void clear();

 private:
  std::map<uint64_t, Entry> by_position_;  // key: first of the run; runs don't overlap
  uint64_t count_ = 0;
  uint64_t body_bytes_ = 0;
};

/// Returns whose delay is over, in due order (retry-spec 24). Pure.
class DueReturns {
 public:
  struct Key {
    uint64_t due_ms = 0;
    uint64_t position = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    Position position;
    uint32_t counter = 0;
    uint32_t body_bytes = 0;
  };

  size_t count() const { return by_due_.size(); }
  uint64_t body_bytes() const { return body_bytes_; }
  bool empty() const { return by_due_.empty(); }
  void add(uint64_t due_ms, const Entry& entry);
  const Entry& front() const { return by_due_.begin()->second; }
  uint64_t front_due_ms() const { return by_due_.begin()->first.due_ms; }
  void take_front();
  std::optional<Entry> take(uint64_t due_ms, const Position& position);
  template <class F>
  void for_each(F&& see) const {
    for (const auto& [key, entry] : by_due_) see(key.due_ms, entry);
  }
  void clear();

 private:
  std::map<Key, Entry> by_due_;
  uint64_t body_bytes_ = 0;
};

/// One priority of a queue: its log, and what stands before the log's cursor.
struct Lane {
  uint8_t number = 0;
  std::unique_ptr<MessageLog> log;
  RequeuedRuns requeued;
  DueReturns returns;
  /// Due times of returns that are out, so that one that is put back finds its place (by
  /// position_key).
  std::unordered_map<uint64_t, uint64_t> returns_out;

  // Messages with their own expiration (design-notes 7, "TTL").
  bool own_ttl_seen = false;  // since it was last empty
  uint64_t greatest_own_expiry =
      0;  // of all that was appended since then; UINT64_MAX: one without an end

  // Moves into this lane: the first whose arrival may not be durable yet (position_key), and the
  // ticket of the last.
  uint64_t arrivals_from = 0;
  Ticket arrivals_ticket = 0;  // 0: all are durable
  OpenArrivals open_arrivals;  // the same of a queue that is not durable

  uint64_t ready() const { return log->fresh_count() + requeued.count() + returns.count(); }
  uint64_t ready_bytes() const {
    return log->fresh_bytes() + requeued.body_bytes() + returns.body_bytes();
  }
};

}  // namespace tarry
