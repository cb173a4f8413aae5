#include "storage/segment_index.h"

#include <cstring>

namespace tarry {
namespace {

constexpr char kTrailerMagic[8] = {'T', 'M', 'Q', 'F', 'O', 'O', 'T', '\n'};

void put_varint(std::vector<std::byte>& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<std::byte>(v | 0x80));
  out.push_back(static_cast<std::byte>(v));
}

bool take_varint(ByteSpan& in, uint64_t& v) {
  v = 0;
  for (size_t i = 0; i < in.size() && i < 10; ++i) {
    v |= (static_cast<uint64_t>(in[i]) & 0x7f) << (7 * i);
    if ((in[i] & std::byte{0x80}) == std::byte{0}) {
      in = in.subspan(i + 1);
      return true;
    }
  }
  return false;
}

}  // namespace

void SegmentIndex::append(const IndexRun& run) {
  if (run_.count && !run.skipped && !run_.skipped && run_.bytes == run.bytes &&
      run_.body_bytes == run.body_bytes && run_.persistent == run.persistent &&
      run_.origin == run.origin) {
    run_.count += run.count;
    return;
  }
  flush();
  run_ = run;
}

void SegmentIndex::flush() {
  if (!run_.count) return;
  put_varint(encoded_, run_.count);
  put_varint(encoded_, run_.bytes);
  uint64_t flags = (run_.skipped ? 1 : 0) | (run_.persistent ? 2 : 0) | (run_.origin ? 4 : 0);
  put_varint(encoded_, uint64_t{run_.body_bytes} << 3 | flags);
  run_ = {};
}

void SegmentIndex::add(const RecordHead& head) {
  bool persistent = head.flags & kFlagPersistent, origin = head.flags & kFlagOrigin;
  ++summary_.count;
  summary_.persistent += persistent;
  summary_.origins += origin;
  summary_.body_bytes += head.body_bytes();
  summary_.last_published_ms = head.published_ms;
  append({1, head.length, head.body_bytes(), false, persistent, origin});
}

void SegmentIndex::add_skip(uint32_t ordinals, uint32_t bytes) {
  summary_.count += ordinals;
  summary_.skipped += ordinals;
  append({ordinals, bytes, 0, true, false, false});
}

std::vector<std::byte> SegmentIndex::footer(uint32_t offset, uint64_t incarnation) {
  const uint32_t seed = checksum_seed(incarnation);
  flush();
  summary_.footer_offset = offset;
  summary_.index_bytes = static_cast<uint32_t>(encoded_.size());
  std::vector<std::byte> out(kHeadBytes + encoded_.size() + kTrailerBytes);
  auto length = static_cast<uint32_t>(out.size());
  store_le<uint32_t>(out.data() + 4, length);
  store_le<uint32_t>(out.data() + 8, summary_.count);
  out[12] = static_cast<std::byte>(RecordKind::footer);
  if (!encoded_.empty()) std::memcpy(out.data() + kHeadBytes, encoded_.data(), encoded_.size());
  std::byte* t = out.data() + kHeadBytes + encoded_.size();
  std::memcpy(t, kTrailerMagic, 8);
  store_le<uint32_t>(t + 8, summary_.footer_offset);
  store_le<uint32_t>(t + 12, summary_.count);
  store_le<uint32_t>(t + 16, summary_.skipped);
  store_le<uint32_t>(t + 20, summary_.persistent);
  store_le<uint32_t>(t + 24, summary_.origins);
  store_le<uint32_t>(t + 28, summary_.index_bytes);
  store_le<uint64_t>(t + 32, summary_.body_bytes);
  store_le<uint64_t>(t + 40, summary_.last_published_ms);
  store_le<uint64_t>(t + 48, incarnation);
  store_le<uint32_t>(t + 60, checksum(t, 60, seed));
  seal_record(out.data(), length, seed);
  return out;
}

std::optional<IndexRun> IndexReader::next() {
  uint64_t count, bytes, body;
  if (!take_varint(rest_, count) || !take_varint(rest_, bytes) || !take_varint(rest_, body))
    return {};
  if (count == 0 || count > UINT32_MAX || bytes > UINT32_MAX || body >> 3 > UINT32_MAX) return {};
  return IndexRun{static_cast<uint32_t>(count),
                  static_cast<uint32_t>(bytes),
                  static_cast<uint32_t>(body >> 3),
                  (body & 1) != 0,
                  (body & 2) != 0,
                  (body & 4) != 0};
}

std::optional<uint64_t> trailer_incarnation(ByteSpan bytes) {
  if (bytes.size() != kTrailerBytes) return {};
  const auto incarnation = load_le<uint64_t>(bytes.data() + 48);
  if (!decode_trailer(bytes, checksum_seed(incarnation))) return {};
  return incarnation;
}

std::optional<SegmentSummary> decode_trailer(ByteSpan bytes, uint32_t seed) {
  if (bytes.size() != kTrailerBytes) return {};
  const std::byte* t = bytes.data();
  if (std::memcmp(t, kTrailerMagic, 8) != 0) return {};
  if (load_le<uint32_t>(t + 60) != checksum(t, 60, seed)) return {};
  SegmentSummary s;
  s.footer_offset = load_le<uint32_t>(t + 8);
  s.count = load_le<uint32_t>(t + 12);
  s.skipped = load_le<uint32_t>(t + 16);
  s.persistent = load_le<uint32_t>(t + 20);
  s.origins = load_le<uint32_t>(t + 24);
  s.index_bytes = load_le<uint32_t>(t + 28);
  s.body_bytes = load_le<uint64_t>(t + 32);
  s.last_published_ms = load_le<uint64_t>(t + 40);
  // More ordinals than the bytes before it can hold: else recovery would look at each of them.
  if (s.count > s.footer_offset / kHeadBytes) return {};
  return s;
}

}  // namespace tarry
