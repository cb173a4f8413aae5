#include "storage/segment_files.h"

#include <cstdio>

#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

FileHeader header_of(const SegmentFiles::Identity& id, bool ack_log) {
  FileHeader header;
  header.ack_log = ack_log;
  header.number = id.number;
  header.incarnation = id.incarnation;
  header.queue_id = id.queue_id;
  header.lane = id.lane;
  return header;
}

}  // namespace

std::string segment_base_name(const std::string& directory, uint32_t number) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "/%08x", number);
  return directory + digits;
}

SegmentFiles::SegmentFiles(FileSystem& files, const std::shared_ptr<OpenFiles>& open_files,
                           const Identity& identity)
    : directory_(identity.directory),
      incarnation_(identity.incarnation),
      seed_(checksum_seed(identity.incarnation)),
      records_(files, open_files, segment_base_name(identity.directory, identity.number),
               header_of(identity, false)),
      acks_(files, open_files, segment_base_name(identity.directory, identity.number),
            header_of(identity, true)) {}

void SegmentFiles::write_pending_skip() {
  if (!skip_.bytes) return;
  std::vector<std::byte> head(kHeadBytes);
  encode_skip(head.data(), skip_.ordinals.first, skip_.ordinals.count, skip_.bytes, seed_);
  records_.add_owned(skip_.offset, std::move(head));
  index_.add_skip(skip_.ordinals.count, skip_.bytes);
  skip_ = {};
}

void SegmentFiles::add_dead(uint32_t offset, uint32_t bytes, OrdinalRun ordinals) {
  if (dropped_) return;
  if (!skip_.bytes) {
    skip_ = {offset, bytes, ordinals};
    return;
  }
  TARRY_INVARIANT(skip_.offset + skip_.bytes == offset);
  skip_.bytes += bytes;
  skip_.ordinals.count += ordinals.count;
}

uint32_t SegmentFiles::add_records(uint32_t offset, std::span<std::byte> bytes,
                                   std::span<const OrdinalRun> dead) {
  const uint32_t end = offset + static_cast<uint32_t>(bytes.size());
  if (dropped_) return end;
  size_t at = 0, live_from = 0, next_dead = 0;
  auto write_live = [&](size_t to) {
    if (to > live_from) {
      records_.add(offset + live_from, {bytes.data() + live_from, to - live_from});
    }
  };
  while (at < bytes.size()) {
    std::byte* p = bytes.data() + at;
    RecordHead head = load_head(p);
    TARRY_INVARIANT(head.length >= kHeadBytes && head.length <= bytes.size() - at);
    while (next_dead < dead.size() &&
           head.ordinal >= dead[next_dead].first + dead[next_dead].count) {
      ++next_dead;
    }
    if (next_dead < dead.size() && head.ordinal >= dead[next_dead].first) {
      write_live(at);
      add_dead(static_cast<uint32_t>(offset + at), head.length, {head.ordinal, 1});
      live_from = at + head.length;
    } else {
      write_pending_skip();
      seal_record(p, head.length, seed_);
      index_.add(head);
    }
    at += head.length;
  }
  write_live(at);
  return skip_.bytes ? skip_.offset : end;
}

void SegmentFiles::add_events(std::span<std::byte> events) {
  if (dropped_) return;
  seal_events(events, seed_);
  acks_.add(acks_.end(), events);
}

void SegmentFiles::seal(uint32_t end_offset) {
  if (dropped_) return;
  write_pending_skip();  // a scan must not take what needs no place for what is lost
  records_.add_owned(end_offset, index_.footer(end_offset, incarnation_));
  records_.end_here();
  index_ = {};
}

void SegmentFiles::drop() {
  dropped_ = true;
  records_.drop_pieces();
  acks_.drop_pieces();
  index_ = {};
}

}  // namespace tarry
