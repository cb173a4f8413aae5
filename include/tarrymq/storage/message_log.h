#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/runtime/result.h"
#include "tarrymq/storage/record.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

/// A record handed out by a log, with what the log knows about its past.
struct Fetched {
  /// The spans stay valid until the storage stage of this turn's end (TurnStage::storage), or
  /// purge() or destroy() of the log, whichever is first: a batch of deliveries may hold many at
  /// once. The caller bounds the bytes it takes in a turn, since the log keeps what it lent.
  RecordView record;
  Position position;
  uint32_t counter = 0;      // latest that the log knows (recovered ones included)
  bool redelivered = false;  // recovered with a counter above 0, or from below the delivered mark
  bool has_error = false;    // park_error() has a text for it
};

enum class Fetch : uint8_t {
  ok,
  none,     // nothing there (any more)
  pending,  // being read from disk; the log's waker is called when it is worth asking again
};

/// What a rejection leaves behind (retry-spec 19, FORMAT.md "park").
struct ParkEvent {
  uint64_t due_ms = 0;  // broker time
  uint64_t rejected_ms = 0;
  uint32_t counter = 0;    // after this rejection
  uint32_t delay_ms = 0;   // the period, for a postponement by overflow (retry-spec 25)
  std::string_view error;  // kept to 4 KiB; empty: the one before holds on
  // Of the record, as far as the caller knows it: saves recovery a look at each.
  bool no_ttl = false;        // it has no time to live of its own
  uint64_t published_ms = 0;  // 0: not known; else `ttl_ms` is given, too
  uint32_t ttl_ms = kNoTtl, body_bytes = 0;
  /// What the owner counts for its body, also if that is a guess; for keep_parked().
  std::optional<uint32_t> entry_body_bytes = {};
};

/// A record that goes through the dead-letter stage, also when a crash comes between (retry-spec
/// 35, 41).
struct DyingEvent {
  uint8_t reason = 0;           // the owner's word
  uint32_t delivery_count = 0;  // that its last delivery carried
  uint64_t died_ms = 0;         // broker time
  std::string_view error;       // as above
};
struct RecoveredDying {
  Position position;
  uint8_t reason;
  uint32_t delivery_count;
  uint64_t died_ms;
  uint32_t body_bytes;
};

/// A record found parked when a log was opened.
struct RecoveredPark {
  Position position;
  uint64_t due_ms, rejected_ms;
  uint32_t counter, delay_ms;
  uint64_t published_ms;  // 0: not known, and nothing that asks for it (Options::queue_ttl_ms)
  uint32_t ttl_ms;
  uint32_t body_bytes;

  uint64_t expires_ms(uint64_t queue_ttl_ms) const {  // UINT64_MAX: never
    RecordView life;
    life.published_ms = published_ms;
    life.ttl_ms = ttl_ms;
    return life.expires_ms(queue_ttl_ms);
  }
  /// When its wait ends: the earlier of due time and expiry.
  uint64_t ends_ms(uint64_t queue_ttl_ms) const {
    return std::min(due_ms, expires_ms(queue_ttl_ms));
  }
};

/// The parked records of one segment, counted when the log was opened, to be read by
/// MessageLog::read_parked().
struct ParkedBatch {
  uint32_t segment = 0;
  uint32_t ordinals = 0;  // the segment's: those of the batch are below it
  uint64_t count = 0, body_bytes = 0;
  uint64_t first_ms = UINT64_MAX, last_ms = 0;  // when the first and the last wait ends
};

/// Some of a batch.
struct ParkedRead {
  bool good = true;  // false: they cannot be read now, e.g. for want of a file descriptor
  std::vector<RecoveredPark> records;  // in the order in which their waits end, then of the log
  uint64_t left = 0;                   // how many are still to be read,
  uint64_t next_ms = UINT64_MAX;       // and when the first of those ends
};

/// A record found in a log that came from another queue and whose move may be unfinished.
struct RecoveredOrigin {
  Origin origin;
  Position position;
};

/// One ordered, durable log of records: a queue's, or one priority's of it ("lane"). Owned and
/// called by one shard. A record is in exactly one state:
///   fresh    at or behind the cursor; served in order by peek/take
///   out      with a consumer, or in a move; only in memory: after a crash it is fresh again
///   waiting  requeued at once; served by read(); in memory (its raised counter is an event on
///   disk) parked   rejected with a delay; due and counter are an event on disk. Out again while
///   delivered dying    out, and an event on disk says that it goes through the dead-letter stage
///   gone     settled for good
/// Nothing here blocks. On return a change is in memory, in order; it is durable when the shard's
/// ticket taken after it has passed (store_shard.h). Appends to a non-durable log and
/// non-persistent records owe no durability. Bytes on disk: storage/FORMAT.md. Crash rules:
/// design-notes 2 and 3.
class MessageLog {
 public:
  struct Options {
    std::string directory;  // created with the first file
    bool durable = true;    // false: files only when memory asks for it, and removed at open
    uint64_t queue_id = 0;  // for log lines
    uint8_t lane = 0;
    std::string label;                   // vhost and queue, for log lines
    uint64_t queue_ttl_ms = UINT64_MAX;  // of the queue, for when waits end that recovery finds
    /// If given, segments with many parked records (StoreOptions::parked_listed_max) are told as
    /// batches, each of their records once to this while the log is opened.
    std::function<void(const RecoveredPark&)> in_batch;
  };

  /// Opens what is there (nothing: an empty log). Cost: segments and their ack logs, not messages,
  /// except for the unsealed tail. Damage is reported in the log and in damaged_count(), skipped
  /// and never served.
  static Result<std::unique_ptr<MessageLog>> open(StoreShard& shard, Options options);
  ~MessageLog();
  MessageLog(const MessageLog&) = delete;
  MessageLog& operator=(const MessageLog&) = delete;

  // -- Appending

  /// Copies the record behind the others. Errors: StoreError::disk_full while the disk alarm is on.
  Result<Position> append(const RecordParts& parts);

  // -- Fresh records, in order

  uint64_t fresh_count() const { return fresh_count_; }
  uint64_t fresh_bytes() const { return fresh_bytes_; }  // sum of body sizes
  /// The record at the cursor; does not move it.
  Fetch peek(Fetched& out);
  /// Makes what the last peek() gave `out` and moves the cursor behind it. Requires: last call was
  /// a peek() with ok.
  void take();
  /// Any live record by its position, e.g. a waiting or parked one. Does not change its state.
  Fetch read(const Position& position, Fetched& out);
  /// Called (from this shard) when a pending peek or read is worth repeating.
  void set_waker(std::function<void()> waker);

  /// A fresh record anywhere behind the cursor goes out without its turn (it expired behind others,
  /// or recovery finishes its move); the cursor will skip it. `body_bytes`: of its body; UINT32_MAX
  /// if unknown (an even share is taken). False, and nothing happens, unless it is fresh. Ends a
  /// peek() like take() does. `position.offset` may be 0 for "unknown", here and in read().
  bool take_fresh(const Position& position, uint32_t body_bytes);

  /// The first fresh record at or behind `from`, wherever the cursor stands; nothing is moved. One
  /// call after the other in ascending order costs one step each. None: there is no other one.
  /// Damaged ones are passed over.
  Fetch next_fresh(const Position& from, Fetched& out);

  // -- State changes of records that are not fresh

  /// A waiting or parked record goes out with a delivery or a move.
  void take_back(const Position& position);
  /// Out (or waiting, or parked) to gone: acknowledged, or moved and the move is durable.
  void settle(const Run& run);
  /// Out to waiting. `counter`: the raised one, stored if it differs from `stored_counter`.
  void requeue(const Run& run, uint32_t counter, bool counter_raised);
  /// Out to parked, or parked to parked anew (postponed).
  void park(const Position& position, const ParkEvent& event);
  /// Out to dying. A record that is found dying when the log is opened counts as waiting until
  /// take_back().
  void mark_dying(const Position& position, const DyingEvent& event);
  /// A new last error text, without another change. Kept to 4 KiB; empty: nothing happens.
  void note_error(const Position& position, std::string_view error);
  /// The last error text that park(), mark_dying() or note_error() gave a record that is not gone
  /// ("" if none). After a peek() or read() of the record in the same turn nothing is read from
  /// disk for it.
  std::string park_error(const Position& position);
  /// True unless the record is gone (or was never there).
  bool live(const Position& position) const;
  /// Everything but what is out becomes gone: fresh, waiting and parked. O(segments).
  void purge();

  // -- Moves into this log (records appended with an origin)

  /// The source's drop is durable: the record that came from `origin` need not be remembered any
  /// longer. Until then its segment is neither recycled nor forgotten, also when the record itself
  /// was settled. Unknown: ignored.
  void close_move(const Origin& origin);
  /// Whether a record came from `origin` whose move is not closed yet, settled here or not.
  bool holds_move(const Origin& origin) const;

  // -- Recovery (valid until the first append or state change)

  const std::vector<RecoveredPark>& recovered_parked() const;
  const std::vector<ParkedBatch>& recovered_batches() const;
  const std::vector<RecoveredOrigin>& recovered_origins() const;
  const std::vector<RecoveredDying>& recovered_dying() const;
  void forget_recovered();  // frees the lists

  /// The park events of these records, which are durable, will be wanted again: they become part of
  /// the segment's batch, as if recovery had found them so, and `entry_body_bytes` is what is then
  /// said of their bodies. False: not now. `last_due_ms`: of these.
  bool keep_parked(uint32_t segment, std::span<const uint32_t> ordinals, uint64_t last_due_ms);
  /// The `at_most` records of a batch whose waits end first; each is given once, and one may be
  /// gone meanwhile. `done` is called on this shard, later; never once the log has ended. One call
  /// for a batch after the other.
  void read_parked(uint32_t segment, size_t at_most, std::function<void(ParkedRead)> done);

  // -- Figures

  uint64_t damaged_count() const;
  uint64_t segment_count() const;
  uint64_t disk_bytes() const;
  uint64_t memory_bytes() const;
  /// Called (from this shard) when one of these may have changed without a call of the owner's:
  /// something was written, or removed. At rest all of them have been told.
  void set_size_watcher(std::function<void()> watcher);

  /// Removes all files. The log is unusable after it. The caller has made the removal of its owner
  /// durable.
  void destroy();
  /// For a clean stop: hands over everything that is in memory, without waiting.
  void hand_over_all();

 private:
  MessageLog();
  struct State;
  std::unique_ptr<State> state_;
  uint64_t fresh_count_ = 0;
  uint64_t fresh_bytes_ = 0;
};

}  // namespace tarry
