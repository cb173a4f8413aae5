#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "storage/bitmap.h"
#include "storage/chunk.h"
#include "storage/look_ups.h"
#include "storage/segment_files.h"

namespace tarry {

class Compaction;
class LogState;
struct ParkedKept;

/// Raised counters of records, as runs.
class CounterMap {
 public:
  void set(OrdinalRun run, uint32_t counter);
  void erase(OrdinalRun run);
  uint32_t get(uint32_t ordinal) const;  // 0 if none
  bool empty() const { return runs_.empty(); }
  size_t memory_bytes() const { return runs_.size() * 64; }

 private:
  struct Value {
    uint32_t count, counter;
  };
  std::map<uint32_t, Value> runs_;
};

/// Where the last error text of a record is: in the ack log, 4 bytes a record of a segment that has
/// any, since a million may wait with one. Logs without ack events keep the texts themselves.
class ErrorPlaces {
 public:
  void set(uint32_t ordinal,
           uint32_t ack_offset);  // where the text begins; its length is in the 4 bytes before it
  void keep(uint32_t ordinal, std::string text) { texts_[ordinal] = std::move(text); }
  void erase(OrdinalRun run);
  void clear();
  bool empty() const { return count_ == 0 && texts_.empty(); }
  bool has(uint32_t ordinal) const { return place(ordinal) != 0 || texts_.contains(ordinal); }
  uint32_t place(uint32_t ordinal) const {
    return ordinal < at_.size() ? at_[ordinal] : 0;
  }  // 0: none
  const std::string* text(uint32_t ordinal) const;
  size_t memory_bytes() const { return at_.capacity() * sizeof at_[0] + texts_.size() * 96; }

 private:
  std::vector<uint32_t> at_;  // by ordinal
  size_t count_ = 0;          // of those that are not 0
  std::unordered_map<uint32_t, std::string> texts_;
};

/// A segment as its shard knows it: what was appended, handed over, delivered and settled. Bitmaps
/// are made only when something happens out of order.
struct Segment {
  Segment();
  ~Segment();  // a compaction that is under way comes back to nobody
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  LogState* log = nullptr;
  uint32_t number = 0;
  uint32_t target_bytes = 0;
  std::shared_ptr<SegmentFiles> files;

  // Appended so far; handed over to the barrier; on disk. What is below published_offset never
  // changes, so that a window that was read from there may be kept.
  uint32_t end = kFileHeaderBytes, count = 0;
  uint32_t handed_offset = kFileHeaderBytes, handed_ordinal = 0;
  uint32_t published_offset = kFileHeaderBytes;
  std::vector<Chunk*> chunks;  // ascending; the last one may grow
  struct {
    uint32_t offset = 0, bytes = 0;
    OrdinalRun ordinals;
  } dead;               // handed over as gone, but the barrier was not told yet
  bool sealed = false;  // nothing is appended any more
  bool seal_handed = false;
  bool has_files = false;      // the barrier was told to write something
  uint32_t first_ordinal = 0;  // where a cursor that comes in begins
  uint32_t first_offset = kFileHeaderBytes;
  LookUps look_ups;
  /// Where records are not whole, by offset, and where the next whole one is. Asked for only by who
  /// comes by there.
  std::unique_ptr<std::map<uint32_t, LookUps::Place>> gaps;
  bool dirty = false;  // in the log's list of segments to hand over

  // States of records. gone: below the watermark, or in the set.
  uint32_t gone_prefix = 0, gone_count = 0;
  Bitmap gone;
  Bitmap held;                         // waiting or parked
  std::unique_ptr<ParkedKept> parked;  // what recovery found so and did not list
  Bitmap not_fresh;     // at recovery: gone or parked, so that the cursor passes them over
  uint32_t marked = 0;  // the delivered-up-to mark on disk
  uint32_t redelivered_below = 0;  // that mark as it was found at recovery
  CounterMap counters;
  ErrorPlaces errors;

  // Space given back of what is gone (log_compact.cc).
  std::shared_ptr<Compaction> compaction;  // under way
  uint32_t compacted_gone = 0;             // how many were gone the last time
  uint64_t hole_bytes = 0;

  // Records that came from another queue and may not be forgotten yet.
  uint32_t open_moves = 0;
  std::vector<uint32_t> unhanded_origins;  // never elided

  // Ack events not handed over yet, and where in the ack log they begin.
  std::vector<std::byte> events;
  uint32_t events_offset = kFileHeaderBytes;
  size_t last_gone = SIZE_MAX;  // the last event in `events`, if it is a gone range

  bool is_gone(uint32_t ordinal) const { return ordinal < gone_prefix || gone.test(ordinal); }
  bool all_gone() const { return gone_count == count; }
  /// Its files may go: nobody asks for anything in it any more.
  bool done_with() const { return sealed && all_gone() && open_moves == 0 && !parked; }
  /// Marks as gone; returns how many were not yet.
  uint32_t mark_gone(OrdinalRun run);
  /// The gone ordinals in [from, to) as runs, without those in unhanded_origins.
  std::vector<OrdinalRun> elidable(uint32_t from, uint32_t to) const;
  void put_gone_event(OrdinalRun run);
  Chunk* find_chunk(uint32_t offset) const;
  size_t memory_bytes() const;
};

}  // namespace tarry
