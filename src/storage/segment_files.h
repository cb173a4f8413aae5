#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/ack_events.h"
#include "storage/log_stream.h"
#include "storage/segment_index.h"

namespace tarry {

/// The files of one segment as the barrier's thread writes them: records with what was elided left
/// out, then the footer; and the ack log. Shared with the shard, which reads through the streams
/// (any thread) and calls nothing else.
class SegmentFiles {
 public:
  struct Identity {
    std::string directory;
    uint32_t number = 0;
    uint64_t incarnation = 0;
    uint64_t queue_id = 0;
    uint8_t lane = 0;
  };
  SegmentFiles(FileSystem& files, const std::shared_ptr<OpenFiles>& open_files,
               const Identity& identity);

  /// Records at `offset`, of which the ordinals in `dead` (ascending, disjoint) are gone for good
  /// and are not written. Sets their checksums in place. `bytes` must live until durable. Returns
  /// up to where the file is as it will stay once this is written: a skip over dead records at the
  /// end is written with the next record behind it, or never.
  uint32_t add_records(uint32_t offset, std::span<std::byte> bytes,
                       std::span<const OrdinalRun> dead);
  /// A range that is gone as a whole.
  void add_dead(uint32_t offset, uint32_t bytes, OrdinalRun ordinals);
  /// Sets the checksums in place. `events` must live until durable.
  void add_events(std::span<std::byte> events);
  /// No more records: writes the footer.
  void seal(uint32_t end_offset);
  /// Nothing of it is written from now on.
  void drop();

  const std::string& directory() const { return directory_; }
  uint32_t seed() const { return seed_; }
  uint64_t incarnation() const { return incarnation_; }
  LogStream& records() { return records_; }
  LogStream& acks() { return acks_; }
  bool dropped() const { return dropped_; }

  // The barrier's own notes.
  bool durable = true;                 // false: nobody waits for its syncs
  std::optional<std::string> in_pool;  // the name of its file there, until that is prepared
  bool listed_unwritten = false, listed_unsynced = false;

 private:
  void write_pending_skip();

  const std::string directory_;
  const uint64_t incarnation_;
  const uint32_t seed_;
  LogStream records_;
  LogStream acks_;
  SegmentIndex index_;
  struct Skip {
    uint32_t offset = 0, bytes = 0;
    OrdinalRun ordinals;
  } skip_;  // gone, but not yet said so in the file
  bool dropped_ = false;
};

/// `directory/NNNNNNNN`, in hexadecimal digits.
std::string segment_base_name(const std::string& directory, uint32_t number);

}  // namespace tarry
