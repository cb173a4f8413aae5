#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tarrymq/runtime/bytes.h"
#include "tarrymq/storage/record.h"

namespace tarry {

/// The bytes of segments and their records: storage/FORMAT.md. All little-endian.
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kFileHeaderBytes = 64;
inline constexpr uint32_t kHeadBytes = 32;
inline constexpr uint32_t kOriginBytes = 24;
inline constexpr uint32_t kCounterBytes = 4;
inline constexpr uint32_t kTrailerBytes = 64;

enum class RecordKind : uint8_t { record = 1, skip = 2, footer = 3 };

inline constexpr uint8_t kFlagPersistent = 1;
inline constexpr uint8_t kFlagOrigin = 2;
inline constexpr uint8_t kFlagCounter = 4;

/// The fixed head, without the checksum (which the barrier's thread may be writing while a shard
/// reads the rest).
struct RecordHead {
  uint32_t length;  // of the whole record
  uint32_t ordinal;
  RecordKind kind;
  uint8_t flags, hops;
  uint64_t published_ms;
  uint32_t route_bytes, ttl_ms,
      header_bytes;  // in a skip record: ttl_ms = ordinals, header_bytes = bytes skipped

  uint32_t fixed_bytes() const {
    return kHeadBytes + (flags & kFlagOrigin ? kOriginBytes : 0) +
           (flags & kFlagCounter ? kCounterBytes : 0);
  }
  uint32_t body_bytes() const { return length - fixed_bytes() - route_bytes - header_bytes; }
};

inline RecordHead load_head(const std::byte* p) {
  uint64_t published_and_route = load_le<uint64_t>(p + 16);
  return {.length = load_le<uint32_t>(p + 4),
          .ordinal = load_le<uint32_t>(p + 8),
          .kind = static_cast<RecordKind>(p[12]),
          .flags = static_cast<uint8_t>(p[13]),
          .hops = static_cast<uint8_t>(p[14]),
          .published_ms = published_and_route & 0xffff'ffff'ffffull,
          .route_bytes = static_cast<uint32_t>(published_and_route >> 48),
          .ttl_ms = load_le<uint32_t>(p + 24),
          .header_bytes = load_le<uint32_t>(p + 28)};
}

/// 0 if the parts are too long for a record.
uint32_t record_bytes(const RecordParts& parts);
/// Writes all but the checksum; `out` has record_bytes(parts).
void encode_record(std::byte* out, const RecordParts& parts, uint32_t ordinal,
                   uint64_t published_ms, uint32_t length);
/// The view borrows from `p`.
RecordView decode_record(const std::byte* p, const RecordHead& head);
Origin decode_origin(const std::byte* p);  // Requires: kFlagOrigin

/// What checksums are seeded with, so that bytes of another file can't pass as this one's.
uint32_t checksum_seed(uint64_t incarnation);
uint32_t checksum(const std::byte* p, size_t bytes, uint32_t seed);
/// Sets the checksum of a whole record of head.length bytes.
void seal_record(std::byte* p, uint32_t length, uint32_t seed);
void encode_skip(std::byte* out, uint32_t first_ordinal, uint32_t ordinals, uint32_t bytes,
                 uint32_t seed);
/// The head of the record at the start of `bytes` if it is whole, makes sense and its checksum is
/// right.
std::optional<RecordHead> check_record(ByteSpan bytes, uint32_t seed);
/// True if the lengths in the head agree with each other.
bool head_makes_sense(const RecordHead& head);

/// The first 64 bytes of a segment or ack log file.
struct FileHeader {
  bool ack_log = false;
  uint32_t number = 0;
  uint32_t part = 0;         // 0, or the how manieth continuation after a failed write or sync
  uint64_t incarnation = 0;  // the same in all files of a segment
  uint64_t start = kFileHeaderBytes;  // from which offset on this part rules
  uint64_t queue_id = 0;
  uint8_t lane = 0;
  bool written_over = false;  // what follows its last record may be of the file's former life
};
void encode_file_header(std::byte* out, const FileHeader& header);
/// Of a file that may be written over (segment_pool.h): no segment, whatever is behind it.
void encode_unused_header(std::byte* out);
enum class HeaderCheck : uint8_t { good, bad, other_version, unused };
HeaderCheck decode_file_header(ByteSpan bytes, FileHeader& out);
/// Of a header whose checksum is wrong: puts right the one byte whose change would make it right.
/// False: there is none.
bool repair_file_header(std::span<std::byte, kFileHeaderBytes> bytes);

}  // namespace tarry
