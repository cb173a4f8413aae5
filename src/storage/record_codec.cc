#include "storage/record_codec.h"

#include <isa-l/crc.h>

#include <cstring>

namespace tarry {
namespace {

constexpr char kSegmentMagic[8] = {'T', 'M', 'Q', 'S', 'E', 'G', 'M', '\n'};
constexpr char kUnusedMagic[8] = {'T', 'M', 'Q', 'F', 'R', 'E', 'E', '\n'};
constexpr char kAckMagic[8] = {'T', 'M', 'Q', 'A', 'C', 'K', 'L', '\n'};
constexpr uint32_t kHeaderSeed = 0x7461'7272;
// A record has to fit a segment file, whose offsets are 32 bits.
constexpr uint64_t kRecordBytesMax = 1u << 31;

}  // namespace

uint32_t record_bytes(const RecordParts& parts) {
  uint64_t bytes =
      kHeadBytes + (parts.origin ? kOriginBytes : 0) + (parts.counter ? kCounterBytes : 0);
  bytes += parts.route.size() + parts.header.size() + parts.body.size();
  if (bytes > kRecordBytesMax || parts.route.size() > UINT16_MAX) return 0;
  return static_cast<uint32_t>(bytes);
}

void encode_record(std::byte* out, const RecordParts& parts, uint32_t ordinal,
                   uint64_t published_ms, uint32_t length) {
  uint8_t flags = parts.persistent ? kFlagPersistent : 0;
  if (parts.origin) flags |= kFlagOrigin;
  if (parts.counter) flags |= kFlagCounter;
  store_le<uint32_t>(out, 0);
  store_le<uint32_t>(out + 4, length);
  store_le<uint32_t>(out + 8, ordinal);
  store_le<uint32_t>(out + 12, static_cast<uint32_t>(RecordKind::record) | uint32_t{flags} << 8 |
                                   uint32_t{parts.hops} << 16);
  store_le<uint64_t>(out + 16,
                     (published_ms & 0xffff'ffff'ffffull) | uint64_t{parts.route.size()} << 48);
  store_le<uint32_t>(out + 24, parts.ttl_ms);
  store_le<uint32_t>(out + 28, static_cast<uint32_t>(parts.header.size()));
  out += kHeadBytes;
  if (parts.origin) [[unlikely]] {
    store_le<uint64_t>(out, parts.origin->queue.value);
    store_le<uint32_t>(out + 8, parts.origin->segment);
    store_le<uint32_t>(out + 12, parts.origin->ordinal);
    store_le<uint64_t>(out + 16, parts.origin->lane);
    out += kOriginBytes;
  }
  if (parts.counter) [[unlikely]] {
    store_le<uint32_t>(out, parts.counter);
    out += kCounterBytes;
  }
  for (ByteSpan piece : {parts.route, parts.header, parts.body}) {
    if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

RecordView decode_record(const std::byte* p, const RecordHead& head) {
  RecordView view;
  view.published_ms = head.published_ms;
  view.ttl_ms = head.ttl_ms;
  view.persistent = head.flags & kFlagPersistent;
  view.hops = head.hops;
  const std::byte* at = p + head.fixed_bytes();
  if (head.flags & kFlagCounter) view.counter = load_le<uint32_t>(at - kCounterBytes);
  view.route = {at, head.route_bytes};
  at += head.route_bytes;
  view.header = {at, head.header_bytes};
  at += head.header_bytes;
  view.body = {at, head.body_bytes()};
  return view;
}

Origin decode_origin(const std::byte* p) {
  p += kHeadBytes;
  return {.queue = QueueId{load_le<uint64_t>(p)},
          .lane = static_cast<uint8_t>(p[16]),
          .segment = load_le<uint32_t>(p + 8),
          .ordinal = load_le<uint32_t>(p + 12)};
}

uint32_t checksum_seed(uint64_t incarnation) {
  return static_cast<uint32_t>(incarnation) ^ static_cast<uint32_t>(incarnation >> 32);
}

uint32_t checksum(const std::byte* p, size_t bytes, uint32_t seed) {
  // ISA-L takes its buffer without const and does not write to it.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(p));
  constexpr size_t kPart = 1u << 30;  // its length is an int
  while (bytes > kPart) {
    seed = crc32_iscsi(data, static_cast<int>(kPart), seed);
    data += kPart;
    bytes -= kPart;
  }
  return crc32_iscsi(data, static_cast<int>(bytes), seed);
}

void seal_record(std::byte* p, uint32_t length, uint32_t seed) {
  store_le<uint32_t>(p, checksum(p + 4, length - 4, seed));
}

void encode_skip(std::byte* out, uint32_t first_ordinal, uint32_t ordinals, uint32_t bytes,
                 uint32_t seed) {
  std::memset(out, 0, kHeadBytes);
  store_le<uint32_t>(out + 4, kHeadBytes);
  store_le<uint32_t>(out + 8, first_ordinal);
  out[12] = static_cast<std::byte>(RecordKind::skip);
  store_le<uint32_t>(out + 24, ordinals);
  store_le<uint32_t>(out + 28, bytes);
  seal_record(out, kHeadBytes, seed);
}

bool head_makes_sense(const RecordHead& head) {
  switch (head.kind) {
    case RecordKind::record:
      return uint64_t{head.fixed_bytes()} + head.route_bytes + head.header_bytes <= head.length &&
             head.length <= kRecordBytesMax;
    case RecordKind::skip:
      // How many ordinals, in how many bytes: else 32 bytes could keep a start busy for seconds.
      return head.length == kHeadBytes && head.ttl_ms > 0 &&
             head.ttl_ms <= head.header_bytes / kHeadBytes;
    case RecordKind::footer:
      return head.length >= kHeadBytes + kTrailerBytes;
  }
  return false;
}

std::optional<RecordHead> check_record(ByteSpan bytes, uint32_t seed) {
  if (bytes.size() < kHeadBytes) return {};
  RecordHead head = load_head(bytes.data());
  if (!head_makes_sense(head) || head.length > bytes.size()) return {};
  if (load_le<uint32_t>(bytes.data()) != checksum(bytes.data() + 4, head.length - 4, seed))
    return {};
  return head;
}

void encode_file_header(std::byte* out, const FileHeader& header) {
  std::memset(out, 0, kFileHeaderBytes);
  std::memcpy(out, header.ack_log ? kAckMagic : kSegmentMagic, 8);
  store_le<uint32_t>(out + 8, kFormatVersion);
  store_le<uint32_t>(out + 12, header.number);
  store_le<uint64_t>(out + 16, header.incarnation);
  store_le<uint64_t>(out + 24, header.start);
  store_le<uint64_t>(out + 32, header.queue_id);
  store_le<uint32_t>(out + 40, header.part);
  out[44] = static_cast<std::byte>(header.lane);
  out[45] = static_cast<std::byte>(header.written_over);
  store_le<uint32_t>(out + 60, checksum(out, 60, kHeaderSeed));
}

void encode_unused_header(std::byte* out) {
  std::memset(out, 0, kFileHeaderBytes);
  std::memcpy(out, kUnusedMagic, 8);
  store_le<uint32_t>(out + 8, kFormatVersion);
  store_le<uint32_t>(out + 60, checksum(out, 60, kHeaderSeed));
}

bool repair_file_header(std::span<std::byte, kFileHeaderBytes> bytes) {
  FileHeader header;
  for (std::byte& byte : bytes) {
    const std::byte found = byte;
    for (int other = 1; other < 256; ++other) {
      byte = found ^ static_cast<std::byte>(other);
      if (decode_file_header(bytes, header) != HeaderCheck::bad) return true;
    }
    byte = found;
  }
  return false;
}

HeaderCheck decode_file_header(ByteSpan bytes, FileHeader& out) {
  if (bytes.size() < kFileHeaderBytes) return HeaderCheck::bad;
  const std::byte* p = bytes.data();
  bool ack = std::memcmp(p, kAckMagic, 8) == 0;
  const bool unused = std::memcmp(p, kUnusedMagic, 8) == 0;
  if (!ack && !unused && std::memcmp(p, kSegmentMagic, 8) != 0) return HeaderCheck::bad;
  if (load_le<uint32_t>(p + 60) != checksum(p, 60, kHeaderSeed)) return HeaderCheck::bad;
  if (unused) return HeaderCheck::unused;
  if (load_le<uint32_t>(p + 8) != kFormatVersion) return HeaderCheck::other_version;
  out = {.ack_log = ack,
         .number = load_le<uint32_t>(p + 12),
         .part = load_le<uint32_t>(p + 40),
         .incarnation = load_le<uint64_t>(p + 16),
         .start = load_le<uint64_t>(p + 24),
         .queue_id = load_le<uint64_t>(p + 32),
         .lane = static_cast<uint8_t>(p[44]),
         .written_over = p[45] != std::byte{0}};
  return HeaderCheck::good;
}

}  // namespace tarry
