#include "storage/log_recovery.h"

#include <algorithm>

#include "storage/read_request.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr uint64_t kTriesAFile = 16;  // times its bytes, in checksums

}  // namespace

LogRecovery::LogRecovery(LogState& log, ShardStore& shard)
    : log_(log),
      shard_(shard),
      files_(shard.impl().files),
      inventory_(shard.impl().inventory.of(log.options.directory)) {}

FileError LogState::recover() { return LogRecovery(*this, shard_).run(); }

FileError LogRecovery::run() {
  std::map<uint32_t, Found> found;
  if (FileError error = list(found)) return error;
  for (auto& [number, files] : found) {
    std::sort(files.record_parts.begin(), files.record_parts.end());
    std::sort(files.ack_parts.begin(), files.ack_parts.end());
    if (files.retired || files.record_parts.empty()) {
      if (FileError error =
              files.retired ? finish_removal(number, files) : put_aside_acks(number, files))
        return error;
      continue;
    }
    if (FileError error = recover_segment(number, files)) return error;
  }
  if (!log_.segments.empty()) shard_.list_sweep(log_);
  return {};
}

/// All bytes of a stream at their offsets, each from the part that rules there; zeros where there
/// are none.
std::vector<std::byte> LogRecovery::read_all(Stream& stream) {
  uint64_t size = stream.size;
  if (stream.parts.size() > 1) size = std::max(size, stream.parts.back().start);
  return read_stream(stream, size);
}

FileError LogRecovery::recover_segment(uint32_t number, const Found& found) {
  Opening opening;
  opening.number = number;
  if (FileError error = open_stream(number, false, found.record_parts,
                                    incarnation_of_acks(number, found), opening.records)) {
    return error;
  }
  if (opening.records.parts.empty()) return quarantine(number, found);
  opening.segment = log_.new_segment(number, opening.records.incarnation);
  window_.clear();
  if (read_trailer(opening)) {
    report_open_ends();
  } else {
    scan(opening);
  }
  Segment& segment = *opening.segment;
  segment.count = segment.handed_ordinal = opening.summary.count;
  segment.end = segment.handed_offset = segment.published_offset = opening.summary.footer_offset;
  segment.sealed = segment.seal_handed = segment.has_files = true;
  segment.files->records().restore(opening.records.parts, segment.end, false);
  if (FileError error = read_acks(opening, found)) return error;
  take_stock(opening);
  log_.last_published_ms_ = std::max(log_.last_published_ms_, opening.summary.last_published_ms);
  return {};
}

bool LogRecovery::read_trailer(Opening& opening) {
  Stream& stream = opening.records;
  if (stream.size < kFileHeaderBytes + kHeadBytes + kTrailerBytes) return false;
  std::byte bytes[kTrailerBytes];
  read_with_holes(*stream.files.back(), bytes, stream.size - kTrailerBytes);
  auto summary = decode_trailer(bytes, opening.segment->files->seed());
  if (!summary) return false;
  uint64_t end =
      uint64_t{summary->footer_offset} + kHeadBytes + summary->index_bytes + kTrailerBytes;
  if (end != stream.size || summary->footer_offset < stream.parts.back().start) return false;
  opening.summary = *summary;
  opening.sealed = true;
  return true;
}

void LogRecovery::scan(Opening& opening) {
  std::vector<std::byte> bytes = read_all(opening.records);
  uint32_t seed = opening.segment->files->seed();
  // What a whole trailer says of count and end stands: ordinals are in use by it.
  const uint32_t count_max = opening.sealed ? opening.summary.count : UINT32_MAX;
  if (opening.sealed) bytes.resize(opening.summary.footer_offset);
  SegmentIndex index;
  size_t at = kFileHeaderBytes;
  auto rest = [&](size_t from) { return ByteSpan(bytes).subspan(std::min(from, bytes.size())); };
  for (;;) {
    uint32_t expected = index.summary().count;
    if (expected == count_max) break;
    auto head = check_record(rest(at), seed);
    if (head && head->kind == RecordKind::footer && head->ordinal == expected)
      break;  // written again below
    if (head && head->ordinal == expected && head->kind == RecordKind::record) {
      index.add(*head);
      at += head->length;
      continue;
    }
    const size_t skip_end_max = opening.sealed ? bytes.size() : bytes.size() - 1;
    if (head && head->ordinal == expected && head->kind == RecordKind::skip &&
        head->ttl_ms <= count_max - expected && at + head->header_bytes <= skip_end_max) {
      index.add_skip(head->ttl_ms, head->header_bytes);
      at += head->header_bytes;
      continue;
    }
    // Torn, unless a whole record follows: then it is damage. Of a file that was written over, what
    // follows is another segment's: no whole record of that is whole by this one's seed. But bodies
    // in it may look like heads of long records, and there must be an end to trying those.
    const uint64_t tries_bytes_max = kTriesAFile * bytes.size();
    uint64_t tried_bytes = 0;
    size_t next = at + 1;
    for (; next + kHeadBytes <= bytes.size(); ++next) {
      RecordHead candidate = load_head(bytes.data() + next);
      // As in decode_trailer(): each ordinal before it takes a head's bytes.
      if (candidate.ordinal <= expected || candidate.ordinal >= count_max ||
          candidate.ordinal > (next - kFileHeaderBytes) / kHeadBytes) {
        continue;
      }
      if (candidate.kind == RecordKind::footer || !head_makes_sense(candidate)) continue;
      if (candidate.length > bytes.size() - next) continue;
      if (check_record(rest(next), seed)) break;
      tried_bytes += candidate.length;
      if (tried_bytes > tries_bytes_max) next = bytes.size();
    }
    if (next + kHeadBytes > bytes.size()) {
      if (!opening.sealed) note_open_end(opening, at, bytes.size());
      break;
    }
    uint32_t lost = load_head(bytes.data() + next).ordinal - expected;
    log_.report_damage(*opening.segment, static_cast<uint32_t>(at), lost);
    index.add_skip(lost, static_cast<uint32_t>(next - at));
    at = next;
  }
  if (opening.sealed) {
    if (const uint32_t lost = count_max - index.summary().count; lost > 0) {
      log_.report_damage(*opening.segment, static_cast<uint32_t>(at), lost);
      index.add_skip(lost, static_cast<uint32_t>(bytes.size() - at));
    }
    at = bytes.size();
  }
  seal(opening, index, static_cast<uint32_t>(at));
}

void LogRecovery::note_open_end(const Opening& opening, size_t from, size_t to) {
  const std::string path =
      LogStream::part_name(segment_base_name(log_.options.directory, opening.number), false,
                           opening.records.parts.back().index);
  if (!size_at_stop(path)) {
    open_ends_.push_back(path);
  } else if (from < to) {
    report_file(path,
                "is damaged from byte " + std::to_string(from) + " to its end, which is cut off");
  }
}

void LogRecovery::report_open_ends() {
  for (const std::string& path : open_ends_) {
    report_file(path,
                "has lost its end, for later segments are complete; what is whole of it is kept");
  }
  open_ends_.clear();
}

/// Cuts the tail off and writes the footer, durably: a recovered segment is never appended to.
void LogRecovery::seal(Opening& opening, SegmentIndex& index, uint32_t end) {
  std::vector<std::byte> footer = index.footer(end, opening.segment->files->incarnation());
  opening.summary = index.summary();
  opening.index.assign(index.encoded().begin(), index.encoded().end());
  opening.index_known = true;
  if (opening.summary.count == 0) return;  // nothing in it: its files go
  File& file = *opening.records.files.back();
  ByteSpan piece(footer);
  FileError error = file.truncate(end);
  if (!error) error = file.sync_data();
  if (!error) error = file.pwritev({&piece, 1}, end);
  if (!error) error = file.sync_data();
  opening.index_written = !error;
  if (error) {
    log_for("storage")->warn("could not seal a segment in {}: {}; the next start does it",
                             log_.options.directory, error.message());
  }
}

void LogRecovery::load_index(Opening& opening) {
  if (opening.index_known) return;
  std::vector<std::byte> footer(kHeadBytes + opening.summary.index_bytes + kTrailerBytes);
  read_with_holes(*opening.records.files.back(), footer, opening.summary.footer_offset);
  if (check_record(footer, opening.segment->files->seed())) {
    opening.index.assign(footer.begin() + kHeadBytes, footer.end() - kTrailerBytes);
    opening.index_known = opening.index_written = true;
    return;
  }
  log_for("storage")->error("{}: the index of segment {:08x} of {} is damaged; made anew",
                            log_.options.label, opening.number, log_.options.directory);
  ++log_.damaged;
  scan(opening);
}

}  // namespace tarry
