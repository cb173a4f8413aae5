#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/ack_events.h"
#include "storage/bitmap.h"
#include "storage/log_stream.h"
#include "storage/segment_index.h"
#include "tarrymq/storage/message_log.h"

namespace tarry {

class LogState;

/// Where in its ack log a segment says of each record that it is parked: 4 bytes a record.
class ParkPlaces {
 public:
  void set(uint32_t ordinal, uint32_t offset);
  void erase(OrdinalRun run);
  uint32_t get(uint32_t ordinal) const { return ordinal < at_.size() ? at_[ordinal] : 0; }  // 0: no
  size_t count() const { return count_; }

 private:
  std::vector<uint32_t> at_;
  size_t count_ = 0;
};

/// A stream as its parts lie on disk, each with an open file.
struct OpenStream {
  std::vector<LogStream::Part> parts;
  std::vector<std::unique_ptr<File>> files;
};
/// Its bytes up to `size` at their offsets, each from the part that rules there; zeros where there
/// are none.
std::vector<std::byte> read_stream(const OpenStream& stream, uint64_t size);

/// Pieces of a stream, for the most part in ascending order.
class StreamWindow {
 public:
  /// False: there are not so many bytes before `end`.
  bool read(const OpenStream& stream, uint64_t end, uint32_t offset, std::span<std::byte> out);
  void clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
  uint32_t start_ = 0;
};

/// What recovery keeps of a segment's batch of parked records instead of a list. What lies in the
/// ack log before `ack_end` was durable when it was found and never changes, so that it can be read
/// again for as long as the segment is there; the bits say which records are meant.
struct ParkedKept {
  std::string base;  // of the segment's files
  std::vector<LogStream::Part> record_parts, ack_parts;
  uint32_t ack_end = 0, records_end = 0;
  uint32_t seed = 0;
  uint64_t queue_ttl_ms = UINT64_MAX;
  uint64_t last_due_ms = 0;
  bool live = false;   // kept while running: the ends are those at the time of a read
  Bitmap ordinals;     // still to be read
  uint32_t count = 0;  // of these
};

/// Reads the first of them. Made by the shard, run once by the store's thread, back at the shard
/// then; `log` is the shard's (null: the log is gone).
class ParkedReading {
 public:
  ParkedReading(FileSystem& files, const ParkedKept& kept, size_t at_most)
      : files_(files), kept_(kept), at_most_(at_most) {}
  void run();  // store's thread

  LogState* log = nullptr;
  uint32_t segment = 0;
  ParkedRead read;
  uint32_t unreadable = 0;  // their events are damaged by now
  std::function<void(ParkedRead)> done;

 private:
  bool open(bool ack_log, const std::vector<LogStream::Part>& parts, OpenStream& out);
  void find_places(ByteSpan acks);
  void gather(ByteSpan index, ByteSpan acks);
  void gather_live(ByteSpan acks);
  void take_first();
  RecoveredPark describe(uint32_t ordinal, uint32_t offset, const IndexRun& run, ByteSpan acks);

  FileSystem& files_;
  const ParkedKept kept_;
  const size_t at_most_;
  OpenStream records_;
  StreamWindow window_;
  ParkPlaces places_;
  struct Found {
    uint64_t ends_ms;
    RecoveredPark park;
    bool operator<(const Found& other) const {
      return ends_ms != other.ends_ms ? ends_ms < other.ends_ms
                                      : park.position.ordinal < other.park.position.ordinal;
    }
  };
  std::vector<Found> all_;
};

/// What a park event says of the record at `offset`, of which the index says `run`. `read_head`
/// reads the record's head when the event does not say all that is asked for.
template <class ReadHead>
RecoveredPark park_of(const AckPark& park, Position position, const IndexRun& run,
                      uint64_t queue_ttl_ms, ReadHead&& read_head) {
  RecoveredPark out{};
  out.position = position;
  out.due_ms = park.due_ms;
  out.rejected_ms = park.rejected_ms;
  out.counter = park.counter;
  out.delay_ms = park.delay_ms;
  out.body_bytes = run.body_bytes;
  out.published_ms = park.published_ms;
  out.ttl_ms = park.ttl_ms;
  if (park.shape_known) return out;
  out.ttl_ms = kNoTtl;
  if (park.no_ttl && queue_ttl_ms == UINT64_MAX) return out;
  std::byte bytes[kHeadBytes];
  if (read_head(position.offset, std::span<std::byte>(bytes))) {
    const RecordHead head = load_head(bytes);
    out.published_ms = head.published_ms;
    out.ttl_ms = head.ttl_ms;
  }
  return out;
}

}  // namespace tarry
