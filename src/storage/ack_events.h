#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/record_codec.h"

namespace tarry {

/// The events of an ack log (FORMAT.md). Applying them in order, from any earlier one on, gives the
/// same end.
enum class AckKind : uint8_t {
  gone = 1,         // ordinals `first`, `count`
  park = 2,         // one record
  raise = 3,        // ordinals `first`, `count`: the counter is now `counter`
  delivered = 4,    // everything below ordinal `first` was delivered at least once
  all_gone = 5,     // everything below ordinal `first` is gone but the runs listed
  move_closed = 6,  // the record `first` came from another queue, whose copy is gone for good
  dying = 7,        // the record `first` goes through the dead-letter stage, whatever happens
  error = 8,        // the last error text of the record `first`
};

struct AckPark {
  uint32_t ordinal = 0, offset = 0;
  uint64_t due_ms = 0, rejected_ms = 0;
  uint32_t counter = 0, delay_ms = 0;
  bool no_ttl = false;        // the record has no time to live of its own
  bool body_counted = false;  // `body_bytes` is what the owner counted, not the record's own
  bool shape_known = false;   // the next three are filled in
  uint64_t published_ms = 0;
  uint32_t ttl_ms = 0, body_bytes = 0;
  std::string_view error;
};

struct AckDying {
  uint8_t reason = 0;  // the owner's word
  uint32_t delivery_count = 0;
  uint64_t died_ms = 0;
};

struct OrdinalRun {
  uint32_t first = 0, count = 0;
};

struct AckEvent {
  AckKind kind{};
  uint32_t bytes = 0;  // of the whole event
  uint32_t first = 0, count = 0, counter = 0;
  AckPark park;    // kind park
  AckDying dying;  // kind dying
  uint32_t error_at = 0,
           error_bytes = 0;  // where in the event its error text is; none: an earlier one holds on
  std::vector<OrdinalRun> spared;  // kind all_gone
};

inline constexpr uint32_t kEventHeadBytes = 12;
inline constexpr uint32_t kGoneEventBytes = kEventHeadBytes + 8;
inline constexpr uint32_t kParkFixedBytes = kEventHeadBytes + 52;
inline constexpr uint32_t kDyingFixedBytes = kEventHeadBytes + 24;
inline constexpr uint32_t kErrorFixedBytes = kEventHeadBytes + 8;
inline constexpr size_t kErrorTextBytesMax = 4096;

/// Append an event without its checksum; the barrier's thread seals it.
void put_gone(std::vector<std::byte>& out, OrdinalRun run);
void put_raise(std::vector<std::byte>& out, OrdinalRun run, uint32_t counter);
void put_delivered(std::vector<std::byte>& out, uint32_t up_to);
void put_move_closed(std::vector<std::byte>& out, uint32_t ordinal);
void put_all_gone(std::vector<std::byte>& out, uint32_t up_to,
                  const std::vector<OrdinalRun>& spared);
void put_park(std::vector<std::byte>& out, const AckPark& park);
void put_dying(std::vector<std::byte>& out, uint32_t ordinal, const AckDying& dying,
               std::string_view error);
void put_error(std::vector<std::byte>& out, uint32_t ordinal, std::string_view error);
/// The text that starts with its length (4 bytes); "" if it is cut.
std::string text_behind_length(ByteSpan bytes);
/// Sets the checksums of all events in `events`.
void seal_events(std::span<std::byte> events, uint32_t seed);
/// A park event whose checksum and shape were found good.
AckPark load_park(const std::byte* event);
/// The event at the start of `bytes`; none if it is cut, or its checksum or shape is wrong.
std::optional<AckEvent> decode_event(ByteSpan bytes, uint32_t seed);

}  // namespace tarry
