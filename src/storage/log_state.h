#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "storage/segment.h"
#include "storage/shard_store.h"
#include "tarrymq/storage/message_log.h"

namespace tarry {

class Compaction;
class ReadRequest;
class ParkedReading;
class ErrorReading;

/// Bytes of a segment read back from disk.
struct ReadWindow {
  std::unique_ptr<std::byte[]> data;
  uint32_t segment = 0, start = 0, bytes = 0;
  bool covers(uint32_t number, uint32_t offset, uint32_t needed) const {
    return data && number == segment && offset >= start && offset - start < bytes &&
           bytes - (offset - start) >= needed;
  }
};

/// The inside of a MessageLog. Files: log_append.cc (append, cursor), log_settle.cc (state
/// changes), log_read.cc (windows, damage), log_errors.cc (error texts), log_hand_over.cc (what
/// goes to the barrier, memory), log_recovery.cc (open).
class LogState {
 public:
  LogState(ShardStore& shard, MessageLog::Options options, uint64_t& fresh_count,
           uint64_t& fresh_bytes);
  ~LogState();

  // -- log_append.cc
  Result<Position> append(const RecordParts& parts);
  Fetch peek(Fetched& out);
  void take();

  // -- log_lookup.cc
  bool take_fresh(const Position& position, uint32_t body_bytes);
  Fetch next_fresh(const Position& from, Fetched& out);

  // -- log_read.cc
  Fetch read(const Position& position, Fetched& out);
  std::string park_error(const Position& position);
  void read_done(ReadRequest& request);

  // -- log_settle.cc
  void take_back(const Position& position);
  void settle(const Run& run);
  void requeue(const Run& run, uint32_t counter, bool counter_raised);
  void park(const Position& position, const ParkEvent& event);
  void note_error(const Position& position, std::string_view error);
  void mark_dying(const Position& position, const DyingEvent& event);
  bool live(const Position& position) const;
  void purge();
  void close_move(const Origin& origin);
  bool holds_move(const Origin& origin) const { return open_moves_.contains(origin); }
  void destroy();

  // -- log_hand_over.cc
  /// Adds what is not handed over yet. Returns true if it owes durability.
  bool hand_over(Submission& submission);
  void sweep();
  /// Writes delivered marks, closes what is idle. Returns false when there is nothing more to come.
  bool lazy_tick();
  void release_all_chunks();
  void hand_over_all();
  uint64_t memory_bytes() const;
  uint64_t disk_bytes() const;

  // -- parked.cc
  bool keep_parked(uint32_t number, std::span<const uint32_t> ordinals, uint64_t last_due_ms);
  void read_parked(uint32_t number, size_t at_most, std::function<void(ParkedRead)> done);
  void parked_read(ParkedReading& work);

  // -- log_compact.cc
  void compacted(Compaction& work, const Result<uint64_t>& punched);

  // -- log_recovery.cc
  FileError recover();

  const MessageLog::Options options;
  uint64_t unhanded_bytes = 0;
  bool listed_dirty = false, listed_spillable = false, listed_sweep = false, listed_lazy = false;
  bool urgent = false;  // so much is unhanded that it goes at this turn's end
  bool destroyed = false;
  uint64_t damaged = 0;
  std::string failed_path;  // why recover() gave up
  std::function<void()> waker, size_watcher;
  std::vector<RecoveredPark> recovered_parked;
  std::vector<ParkedBatch> recovered_batches;
  std::vector<RecoveredOrigin> recovered_origins;
  std::vector<RecoveredDying> recovered_dying;
  std::vector<std::unique_ptr<Segment>> segments;  // ascending numbers; the last may be open

 private:
  friend class LogRecovery;
  struct Cursor {
    Segment* segment = nullptr;
    uint32_t ordinal = 0, offset = kFileHeaderBytes;
    const Chunk* chunk = nullptr;  // holds `offset`, if known
  };
  struct Located {
    const std::byte* bytes = nullptr;
    RecordHead head{};
  };

  // log_append.cc
  Segment& open_segment(uint32_t record_bytes);
  Segment* new_segment(uint32_t number, uint64_t incarnation);
  Chunk& chunk_for(Segment& segment, uint32_t bytes);
  void enter(Segment& segment) {
    cursor_ = {&segment, segment.first_ordinal, segment.first_offset, nullptr};
  }
  Fetch peek_slow(Fetched& out);
  Fetch peeked(Segment& segment, const Fetched& found);
  void pass_over_skip(Segment& segment, OrdinalRun run);
  Fetch lost_count();
  void fill(const Segment& segment, uint32_t ordinal, uint32_t offset, const Located& at,
            Fetched& out) const;
  Segment* find(uint32_t number) const;
  uint32_t delivered_in(const Segment& segment) const;  // ordinals the cursor has passed

  // log_lookup.cc
  Fetch resolve(Segment& segment, uint32_t ordinal, uint32_t& offset);
  Fetch pass_gap(Segment& segment, uint32_t& ordinal, uint32_t& offset);
  void found_gap(ReadRequest& request);

  // log_read.cc
  Fetch locate(Segment& segment, uint32_t ordinal, uint32_t offset, bool at_cursor, Located& out);
  Fetch locate_on_disk(Segment& segment, uint32_t ordinal, uint32_t offset, bool at_cursor,
                       Located& out);
  Fetch load(Segment& segment, uint32_t offset, uint32_t bytes, ReadWindow& into);
  ReadWindow* window_for(Segment& segment, uint32_t offset, uint32_t needed, bool at_cursor);
  Fetch find_record(Segment& segment, const Position& position, uint32_t& offset, Located& at);
  void forget_windows(Segment& segment);
  Fetch skip_damage();
  void look_behind_damage(Segment& segment, uint32_t ordinal, uint32_t offset, bool finds_gap);
  void skipped_damage(ReadRequest& request);
  void pass_over_damage(Segment& segment, uint32_t next, uint32_t next_offset);
  void report_damage(const Segment& segment, uint32_t offset, uint32_t records);

  // log_errors.cc
  uint32_t error_place(const Segment& segment, uint32_t ordinal, std::string& text) const;
  Fetch with_error(Segment& segment, const Fetched& found);
  void error_read(ErrorReading& reading);
  void keep_read_error(uint32_t segment, uint32_t place, std::string text);

  // log_settle.cc
  bool writes_events() const { return options.durable; }
  void touch(Segment& segment, bool owes);
  void keep_error(Segment& segment, uint32_t ordinal, std::string_view error);
  void gone(Segment& segment, OrdinalRun run);
  std::vector<OrdinalRun> out_runs(const Segment& segment) const;

  // log_hand_over.cc
  bool hand_over_segment(Segment& segment, Submission& submission);
  void hand_over_records(Segment& segment, Submission& submission);
  void tell_dead(Segment& segment, Submission& submission);
  void put_mark(Segment& segment);
  bool note_dead(Segment& segment, Chunk& chunk);
  bool sweep_segment(Segment& segment, uint64_t& kept);
  void remove_files(Segment& segment);
  void free_chunk(Segment& segment, size_t index);
  bool chunk_dead(const Segment& segment, const Chunk& chunk) const;

  // log_compact.cc
  bool may_compact(const Segment& segment) const;
  bool compact(Segment& segment);
  std::vector<OrdinalRun> gone_runs(const Segment& segment) const;

  ShardStore& shard_;
  uint64_t& fresh_count_;
  uint64_t& fresh_bytes_;
  Cursor cursor_;
  uint32_t peeked_bytes_ = 0, peeked_body_ = 0;
  uint64_t last_published_ms_ = 0;
  uint32_t next_number_ = 1;
  uint32_t segment_bytes_;
  uint32_t chunk_bytes_ = ChunkPool::kSmallest;
  uint64_t activity_ = 0, activity_at_tick_ = 0;
  std::vector<Segment*> dirty_segments_;
  std::map<Origin, Position> open_moves_;

  ReadWindow window_;                // at the cursor
  std::vector<ReadWindow> windows_;  // elsewhere, newest last
  std::vector<ReadWindow> lent_;     // replaced, but lent out until the turn's end
  std::vector<Position> doubted_;    // not found at the first look
  std::vector<std::shared_ptr<ReadRequest>> reading_;
  std::vector<std::shared_ptr<ParkedReading>> parked_readings_;
  std::vector<std::shared_ptr<ErrorReading>> error_readings_;
  std::map<std::pair<uint32_t, uint32_t>, std::string> read_errors_;  // by segment and place
};

struct MessageLog::State : LogState {
  using LogState::LogState;
};

}  // namespace tarry
