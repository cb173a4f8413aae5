// Disk space of what is gone in a segment that something keeps (a parked message, one that is out
// for days).
//
// The records of a sealed segment stay where they are, so that no position changes and nothing has
// to be moved and told to others. Of each range of gone records, the first one's head is written
// over by a skip record, and the blocks behind it are given back to the file system as a hole.
// Order: the events that say "gone" are durable; the skip records are; only then come the holes. So
// a crash anywhere leaves gone records, skip records, or holes behind them.
#include <algorithm>

#include "storage/compaction.h"
#include "storage/log_state.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr uint32_t kHoleBlockBytes = 4096;
constexpr uint64_t kWorthBytes = 16u << 10;  // less is not given back

struct DeadRange {
  uint32_t offset = 0, end = 0;
  OrdinalRun ordinals;
  uint64_t hole_start() const {
    return (uint64_t{offset} + kHeadBytes + kHoleBlockBytes - 1) / kHoleBlockBytes *
           kHoleBlockBytes;
  }
  uint64_t hole_end() const { return uint64_t{end} / kHoleBlockBytes * kHoleBlockBytes; }
  bool holds_a_block() const { return hole_start() < hole_end(); }
};

/// Where the gone ordinals lie, by the segment's index; neighbours as one range.
std::vector<DeadRange> dead_ranges(ByteSpan index_bytes, const std::vector<OrdinalRun>& gone) {
  std::vector<DeadRange> ranges;
  const auto add = [&](uint32_t ordinal, uint32_t count, uint64_t offset, uint64_t bytes) {
    if (!ranges.empty() && ranges.back().end == offset) {
      ranges.back().end += static_cast<uint32_t>(bytes);
      ranges.back().ordinals.count += count;
    } else {
      ranges.push_back(
          {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset + bytes), {ordinal, count}});
    }
  };
  IndexReader index(index_bytes);
  uint32_t ordinal = 0;
  uint64_t offset = kFileHeaderBytes;
  size_t next = 0;
  while (auto run = index.next()) {
    const uint32_t end = ordinal + run->count;
    if (run->skipped) {
      add(ordinal, run->count, offset, run->bytes);
      offset += run->bytes;
    } else {
      while (next < gone.size() && gone[next].first + gone[next].count <= ordinal) ++next;
      for (size_t i = next; i < gone.size() && gone[i].first < end; ++i) {
        const uint32_t first = std::max(gone[i].first, ordinal);
        const uint32_t last = std::min(gone[i].first + gone[i].count, end);
        add(first, last - first, offset + uint64_t{first - ordinal} * run->bytes,
            uint64_t{last - first} * run->bytes);
      }
      offset += uint64_t{run->count} * run->bytes;
    }
    ordinal = end;
  }
  std::erase_if(ranges, [](const DeadRange& r) { return !r.holds_a_block(); });
  return ranges;
}

}  // namespace

Result<uint64_t> Compaction::punch() {
  if (sync_acks) {
    auto acks = store_files.open(ack_path, FileSystem::Open::write);
    if (!acks) return acks.error();
    if (FileError error = (*acks)->sync_data()) return error;
  }
  auto file = store_files.open(path, FileSystem::Open::write);
  if (!file) return file.error();
  auto size = (*file)->size();
  if (!size) return size.error();
  std::vector<std::byte> footer(*size > end ? *size - end : 0);
  auto read = (*file)->pread(footer, end);
  if (!read) return read.error();
  if (footer.size() < kHeadBytes + kTrailerBytes || !check_record(footer, files->seed()))
    return uint64_t{0};
  const ByteSpan index =
      ByteSpan(footer).subspan(kHeadBytes, footer.size() - kHeadBytes - kTrailerBytes);
  const std::vector<DeadRange> ranges = dead_ranges(index, gone);
  uint64_t bytes = 0;
  for (const DeadRange& range : ranges) bytes += range.hole_end() - range.hole_start();
  if (bytes < kWorthBytes) return uint64_t{0};
  for (const DeadRange& range : ranges) {
    std::byte head[kHeadBytes];
    encode_skip(head, range.ordinals.first, range.ordinals.count, range.end - range.offset,
                files->seed());
    const ByteSpan piece(head);
    if (FileError error = (*file)->pwritev({&piece, 1}, range.offset)) return error;
  }
  if (FileError error = (*file)->sync_data()) return error;
  for (const DeadRange& range : ranges) {
    if (FileError error = (*file)->punch(range.hole_start(), range.hole_end() - range.hole_start()))
      return error;
  }
  return bytes;
}

bool LogState::may_compact(const Segment& segment) const {
  // Below three quarters gone it costs more than it gives; after a first time, when half of the
  // rest went too.
  const uint32_t worth = segment.compacted_gone + (segment.count - segment.compacted_gone) / 4 * 3;
  const uint32_t again = segment.compacted_gone + (segment.count - segment.compacted_gone) / 2;
  return segment.sealed && segment.has_files && segment.open_moves == 0 && !segment.all_gone() &&
         segment.gone_count > (segment.compacted_gone ? again : worth) &&
         segment.end >= kWorthBytes && segment.seal_handed && segment.chunks.empty() &&
         delivered_in(segment) >= segment.count && segment.files->records().single_part();
}

/// Begins, goes on or does nothing; true: it wants to be asked again soon.
bool LogState::compact(Segment& segment) {
  if (segment.compaction) {
    Compaction& begun = *segment.compaction;
    if (begun.running || !shard_.passed(begun.ticket) || shard_.impl().backup_running) return true;
    begun.running = true;
    Shard& shard = shard_.shard();
    shard_.store().on_store_thread([work = segment.compaction, &shard, &impl = shard_.impl()] {
      // A backup that began meanwhile copies these bytes; it is set on this thread, so none begins
      // before the end of this.
      auto punched = impl.backup_running ? Result<uint64_t>(uint64_t{0}) : work->punch();
      shard.post([work, punched] {
        if (work->log) work->log->compacted(*work, punched);
      });
    });
    return true;
  }
  if (!options.durable || !may_compact(segment)) return false;
  auto work = std::make_shared<Compaction>(shard_.impl().files);
  work->log = this;
  work->files = segment.files;
  work->segment = segment.number;
  work->end = segment.end;
  work->ticket = shard_.ticket();
  const std::string base = segment_base_name(options.directory, segment.number);
  work->path = LogStream::part_name(base, false, 0);
  // Level os: what is "gone" may be in the kernel alone, which a power cut would forget, and the
  // holes not.
  if (shard_.store().options().durability == Durability::os) {
    work->sync_acks = segment.files->acks().on_disk();
    work->ack_path = segment.files->acks().reader(UINT64_MAX).path;
  }
  work->gone = gone_runs(segment);
  segment.compaction = std::move(work);
  return true;
}

std::vector<OrdinalRun> LogState::gone_runs(const Segment& segment) const {
  std::vector<OrdinalRun> runs;
  if (segment.gone_prefix) runs.push_back({0, segment.gone_prefix});
  for (uint32_t at = segment.gone_prefix; !segment.gone.empty() && at < segment.count;) {
    at = segment.gone.find(at, segment.count, true);
    const uint32_t end = segment.gone.find(at, segment.count, false);
    if (end > at) runs.push_back({at, end - at});
    at = end;
  }
  return runs;
}

void LogState::compacted(Compaction& work, const Result<uint64_t>& punched) {
  Segment* segment = find(work.segment);
  if (!segment || segment->compaction.get() != &work) return;
  if (!punched) {
    log_for("storage")->warn("{}: could not give back space of {}: {}", options.label, work.path,
                             punched.error().message());
  } else if (*punched > 0) {
    segment->hole_bytes = *punched;
  }
  uint32_t gone = 0;
  for (const OrdinalRun& run : work.gone) gone += run.count;
  // Also if it came to nothing: not tried again for the same.
  segment->compacted_gone = gone;
  forget_windows(*segment);  // they have records where there are holes now, and a walk may go on
                             // from one into the other
  segment->compaction.reset();
  if (waker) waker();
}

}  // namespace tarry
