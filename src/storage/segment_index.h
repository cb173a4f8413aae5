#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/record_codec.h"

namespace tarry {

/// Consecutive ordinals of equal shape: what the index of a sealed segment is made of.
struct IndexRun {
  uint32_t count = 0;
  uint32_t bytes = 0;       // of each record; of the whole range if it is skipped
  uint32_t body_bytes = 0;  // of each record
  bool skipped = false, persistent = false, origin = false;
};

/// What the trailer of a sealed segment says. No counters, no acknowledgements: those are the ack
/// log's.
struct SegmentSummary {
  uint32_t footer_offset = 0;  // where the records end
  uint32_t count = 0;          // ordinals, skipped ones included
  uint32_t skipped = 0, persistent = 0, origins = 0;
  uint64_t body_bytes = 0;  // of all that was not skipped
  uint32_t index_bytes = 0;
  uint64_t last_published_ms = 0;
};

/// Gathers the index while records go by, in order, and makes the footer. A few bytes a run of
/// equal records.
class SegmentIndex {
 public:
  void add(const RecordHead& head);
  void add_skip(uint32_t ordinals, uint32_t bytes);
  /// The footer record, to be written at `offset`, where the records end. It ends with the trailer.
  std::vector<std::byte> footer(uint32_t offset, uint64_t incarnation);
  const SegmentSummary& summary() const { return summary_; }
  /// Finishes the present run; then encoded() is complete.
  void flush();
  ByteSpan encoded() const { return encoded_; }
  size_t memory_bytes() const { return encoded_.capacity(); }

 private:
  void append(const IndexRun& run);
  IndexRun run_;
  SegmentSummary summary_;
  std::vector<std::byte> encoded_;
};

/// Walks an encoded index. Stops (returns none) at the end or at bytes that make no sense.
class IndexReader {
 public:
  explicit IndexReader(ByteSpan encoded) : rest_(encoded) {}
  std::optional<IndexRun> next();
  bool at_end() const { return rest_.empty(); }

 private:
  ByteSpan rest_;
};

/// The last kTrailerBytes of a file, if they are a trailer of this incarnation.
std::optional<SegmentSummary> decode_trailer(ByteSpan bytes, uint32_t seed);
/// The incarnation that a whole trailer names, for a segment whose header is damaged.
std::optional<uint64_t> trailer_incarnation(ByteSpan bytes);

}  // namespace tarry
