#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/ack_events.h"
#include "storage/record_codec.h"
#include "tarrymq/storage/file_system.h"

namespace tarry {

/// A record as its files show it.
struct InspectedRecord {
  enum class State : uint8_t { fresh, parked, dying, gone };
  uint32_t ordinal = 0, offset = 0;
  State state = State::fresh;
  RecordHead head{};
  uint32_t counter = 0;    // the latest
  bool delivered = false;  // below the delivered mark
  bool has_origin = false;
  Origin origin;
  uint64_t due_ms = 0;           // parked
  std::string error;             // the last text, ""
  std::vector<std::byte> bytes;  // the whole record
};

/// One segment with its ack log.
struct InspectedSegment {
  uint32_t number = 0;
  uint64_t queue_id = 0, incarnation = 0;
  uint8_t lane = 0;
  bool sealed = false;
  uint64_t file_bytes = 0, ack_bytes = 0, ack_events = 0;
  uint32_t ordinals = 0, skipped = 0;
  std::vector<InspectedRecord> records;  // those whose bytes are whole
  std::vector<std::string> damage;       // a line each: which file, where, what
};

/// Reads a lane's directory as FORMAT.md says, and changes nothing; for tools and tests. Blocks,
/// holds a segment's files in memory. Ascending by number. A directory that cannot be read is one
/// segment with a line of damage.
std::vector<InspectedSegment> inspect_log(FileSystem& files, const std::string& directory);

/// The definitions of a store, key and value as DefinitionStore has them; the database is not
/// changed and may be open elsewhere. `error` is set if they cannot be read in full.
std::vector<std::pair<std::string, std::string>> inspect_definitions(const std::string& data_dir,
                                                                     std::string& error);

}  // namespace tarry
