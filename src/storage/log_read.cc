#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/ack_events.h"
#include "storage/compaction.h"
#include "storage/log_state.h"
#include "storage/read_request.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr uint32_t kCursorWindowBytes = 256u << 10;
constexpr uint32_t kOtherWindowBytes = 64u << 10;
constexpr size_t kOtherWindows = 8;
constexpr uint32_t kPageBytes = 4096;

}  // namespace

/// Reads what can be read; pages that cannot are left zero, so that their records fail the checksum
/// and are skipped.
void read_with_holes(File& file, std::span<std::byte> out, uint64_t offset) {
  auto whole = file.pread(out, offset);
  if (whole) return;
  for (size_t at = 0; at < out.size();) {
    size_t n = std::min<size_t>(kPageBytes - (offset + at) % kPageBytes, out.size() - at);
    auto page = file.pread(out.subspan(at, n), offset + at);
    if (!page) std::memset(out.data() + at, 0, n);
    at += n;
  }
}

void ReadRequest::run() {
  data = std::make_unique<std::byte[]>(bytes);
  if (!reader.file) {
    auto file = store_files.open(reader.path, FileSystem::Open::write);
    if (!file) return;  // all zero: reported as damage
    reader.file = std::move(*file);
    files->records().keep(reader);
  }
  read_with_holes(*reader.file, {data.get(), bytes}, start);
}

/// A window with `needed` bytes from `offset` on: one that ends inside the record must not hide one
/// that holds it.
ReadWindow* LogState::window_for(Segment& segment, uint32_t offset, uint32_t needed,
                                 bool at_cursor) {
  if (window_.covers(segment.number, offset, needed)) return &window_;
  if (at_cursor) return nullptr;
  for (ReadWindow& window : windows_) {
    if (window.covers(segment.number, offset, needed)) return &window;
  }
  return nullptr;
}

/// Finds a record in memory, or reads it. `none`: damaged (or not there).
Fetch LogState::locate(Segment& segment, uint32_t ordinal, uint32_t offset, bool at_cursor,
                       Located& out) {
  if (const Chunk* chunk = segment.find_chunk(offset)) {
    out.bytes = chunk->data + (offset - chunk->start);
    out.head = load_head(out.bytes);
    return out.head.ordinal == ordinal ? Fetch::ok : Fetch::none;
  }
  return locate_on_disk(segment, ordinal, offset, at_cursor, out);
}

Fetch LogState::locate_on_disk(Segment& segment, uint32_t ordinal, uint32_t offset, bool at_cursor,
                               Located& out) {
  if (offset < kFileHeaderBytes || offset >= segment.published_offset) return Fetch::none;
  uint32_t needed = kHeadBytes;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (ReadWindow* window = window_for(segment, offset, needed, at_cursor)) {
      const uint32_t there = window->bytes - (offset - window->start);
      const std::byte* p = window->data.get() + (offset - window->start);
      RecordHead head = load_head(p);
      bool sensible = head_makes_sense(head) && head.ordinal == ordinal &&
                      head.kind != RecordKind::footer &&
                      head.length <= segment.published_offset - offset;
      if (!sensible) return Fetch::none;
      if (there >= head.length) {
        if (!check_record({p, head.length}, segment.files->seed())) return Fetch::none;
        out = {p, head};
        return Fetch::ok;
      }
      needed = head.length;
    }
    ReadWindow fresh;
    uint32_t bytes = std::max(needed, at_cursor ? kCursorWindowBytes : kOtherWindowBytes);
    Fetch result = load(segment, offset, bytes, fresh);
    if (result != Fetch::ok) return result;
    if (at_cursor) {
      if (window_.data) lent_.push_back(std::move(window_));
      window_ = std::move(fresh);
    } else {
      windows_.push_back(std::move(fresh));
      // Older ones that cover the same bytes must not answer first.
      std::rotate(windows_.begin(), windows_.end() - 1, windows_.end());
    }
    shard_.list_sweep(*this);
    shard_.list_lazy(*this);  // at rest there is no window
  }
  return Fetch::none;
}

/// Reads a window without blocking, or has the store's thread do it.
Fetch LogState::load(Segment& segment, uint32_t offset, uint32_t bytes, ReadWindow& into) {
  for (auto& request : reading_) {
    if (request->segment == segment.number && !request->outdated && offset >= request->start &&
        offset - request->start < request->bytes) {
      return Fetch::pending;
    }
  }
  LogStream::Reader reader = segment.files->records().reader(offset);
  uint64_t end = std::min<uint64_t>(segment.published_offset, reader.end);
  if (end <= offset) return Fetch::none;
  bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, end - offset));
  if (reader.file) {
    auto data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    auto n = reader.file->pread_nowait({data.get(), bytes}, offset);
    // A part of it will do if that holds the head and is no mere scrap.
    if (n && (*n == bytes || *n >= kPageBytes)) {
      into = {std::move(data), segment.number, offset, static_cast<uint32_t>(*n)};
      RecordHead head = load_head(into.data.get());
      if (*n == bytes || head.length <= *n) return Fetch::ok;
    }
  }
  auto request = std::make_shared<ReadRequest>(shard_.impl().files);
  request->log = this;
  request->files = segment.files;
  request->reader = std::move(reader);
  request->segment = segment.number;
  request->start = offset;
  request->bytes = bytes;
  reading_.push_back(request);
  Shard& shard = shard_.shard();
  shard_.store().on_store_thread([request, &shard] {
    request->run();
    shard.post([request] {
      if (request->log) request->log->read_done(*request);
    });
  });
  return Fetch::pending;
}

void LogState::read_done(ReadRequest& request) {
  ReadWindow window{std::move(request.data), request.segment, request.start, request.bytes};
  if (!window.data) {
    window.data = std::make_unique<std::byte[]>(window.bytes);  // zeros: damage
  }
  bool at_cursor = cursor_.segment && cursor_.segment->number == window.segment &&
                   window.covers(window.segment, cursor_.offset, 1);
  if (request.outdated) {
    // Whoever waits for it asks again.
  } else if (at_cursor) {
    if (window_.data) lent_.push_back(std::move(window_));
    window_ = std::move(window);
  } else {
    windows_.insert(windows_.begin(), std::move(window));
  }
  std::erase_if(reading_, [&](const auto& r) { return r.get() == &request; });
  shard_.list_sweep(*this);
  if (waker) waker();
}

Fetch LogState::find_record(Segment& segment, const Position& position, uint32_t& offset,
                            Located& at) {
  offset = position.offset;
  const Fetch result = offset == 0 ? resolve(segment, position.ordinal, offset) : Fetch::ok;
  return result == Fetch::ok ? locate(segment, position.ordinal, offset, false, at) : result;
}

/// What was read of the segment is no longer to be relied on.
void LogState::forget_windows(Segment& segment) {
  if (window_.data && window_.segment == segment.number)
    lent_.push_back(std::exchange(window_, {}));
  for (ReadWindow& window : windows_) {
    if (window.segment == segment.number) lent_.push_back(std::move(window));
  }
  std::erase_if(windows_, [](const ReadWindow& window) { return !window.data; });
  for (auto& request : reading_)
    request->outdated |= request->segment == segment.number && !request->resyncs;
  segment.look_ups.clear();
  segment.gaps.reset();
  shard_.list_sweep(*this);
}

/// A record is given up only after a second look that goes to the disk: giving up loses a message.
Fetch LogState::read(const Position& position, Fetched& out) {
  Segment* segment = find(position.segment);
  if (!segment || position.ordinal >= segment->count || segment->is_gone(position.ordinal))
    return Fetch::none;
  uint32_t offset = 0;
  Located at;
  Fetch result = find_record(*segment, position, offset, at);
  if (result == Fetch::none && segment->compaction && segment->compaction->running)
    return Fetch::pending;
  const auto doubt = std::find(doubted_.begin(), doubted_.end(), position);
  if (result == Fetch::none && doubt == doubted_.end()) {
    doubted_.push_back(position);
    forget_windows(*segment);
    return read(position, out);
  }
  if (result != Fetch::pending && doubt != doubted_.end()) doubted_.erase(doubt);
  if (result == Fetch::none) {
    report_damage(*segment, offset, 1);
    gone(*segment, {position.ordinal, 1});
    if (segment->all_gone()) shard_.list_sweep(*this);
  }
  if (result != Fetch::ok) return result;
  fill(*segment, position.ordinal, offset, at, out);
  return with_error(*segment, out);
}

void LogState::report_damage(const Segment& segment, uint32_t offset, uint32_t records) {
  damaged += records;
  log_for("storage")->error("{}: segment {:08x} of {} is damaged at byte {}: {} messages skipped",
                            options.label, segment.number, options.directory, offset, records);
}

void ReadRequest::resync() {
  std::vector<std::byte> rest(bytes);
  const uint32_t end = start + bytes;
  for (uint32_t at = start; at < end;) {
    LogStream::Reader part = files->records().reader(at);
    const auto part_end = static_cast<uint32_t>(std::min<uint64_t>(part.end, end));
    if (!part.file) {
      auto file = store_files.open(part.path, FileSystem::Open::read);
      if (file) part.file = std::move(*file);
    }
    if (part.file) read_with_holes(*part.file, {rest.data() + (at - start), part_end - at}, at);
    at = part_end;
  }
  next = count;
  for (size_t at = 1; at + kHeadBytes <= rest.size(); ++at) {
    RecordHead head = load_head(rest.data() + at);
    if (head.ordinal <= ordinal || head.ordinal >= count || !head_makes_sense(head)) continue;
    if (head.kind == RecordKind::footer) continue;
    if (!check_record({rest.data() + at, rest.size() - at}, files->seed())) continue;
    next = head.ordinal;
    next_offset = start + static_cast<uint32_t>(at);
    return;
  }
}

/// The record at the cursor is damaged: goes to the next whole one, which the store's thread looks
/// for.
Fetch LogState::skip_damage() {
  Segment& segment = *cursor_.segment;
  if (cursor_.offset >= segment.published_offset) {
    pass_over_damage(segment, segment.count, segment.end);
    return Fetch::ok;
  }
  for (auto& request : reading_) {
    if (request->resyncs && !request->finds_gap && request->segment == segment.number &&
        request->ordinal == cursor_.ordinal) {
      return Fetch::pending;
    }
  }
  look_behind_damage(segment, cursor_.ordinal, cursor_.offset, false);
  return Fetch::pending;
}

void LogState::look_behind_damage(Segment& segment, uint32_t ordinal, uint32_t offset,
                                  bool finds_gap) {
  auto request = std::make_shared<ReadRequest>(shard_.impl().files);
  request->log = this;
  request->files = segment.files;
  request->resyncs = true;
  request->finds_gap = finds_gap;
  request->segment = segment.number;
  request->start = offset;
  request->bytes = segment.published_offset - offset;
  request->ordinal = ordinal;
  request->count = segment.count;
  reading_.push_back(request);
  Shard& shard = shard_.shard();
  shard_.store().on_store_thread([request, &shard] {
    request->resync();
    shard.post([request] {
      if (!request->log) return;
      if (request->finds_gap)
        request->log->found_gap(*request);
      else
        request->log->skipped_damage(*request);
    });
  });
}

void LogState::skipped_damage(ReadRequest& request) {
  const std::shared_ptr<ReadRequest> keep = *std::find_if(
      reading_.begin(), reading_.end(), [&](const auto& r) { return r.get() == &request; });
  std::erase(reading_, keep);
  // A purge may have taken the cursor elsewhere.
  const bool there = cursor_.segment && cursor_.segment->number == request.segment &&
                     cursor_.ordinal == request.ordinal && cursor_.offset == request.start;
  const bool found = request.next < request.count;
  // What was written meanwhile has not been looked at: the next peek asks again.
  const bool grown =
      there && !found && cursor_.segment->published_offset > request.start + request.bytes;
  if (there && !grown) {
    pass_over_damage(*cursor_.segment, found ? request.next : cursor_.segment->count,
                     found ? request.next_offset : cursor_.segment->end);
  }
  if (waker) waker();
}

void LogState::pass_over_damage(Segment& segment, uint32_t next, uint32_t next_offset) {
  const uint32_t from = cursor_.ordinal, start = cursor_.offset;
  if (next == segment.count && segment.published_offset < segment.end) {
    // What follows is still in memory, perhaps in a chunk the beginning of which is written.
    for (const Chunk* chunk : segment.chunks) {
      if (chunk->first_ordinal < from || !chunk->data) continue;
      next = chunk->first_ordinal;
      next_offset = chunk->start;
      break;
    }
  }
  uint32_t lost = 0;
  for (uint32_t i = from; i < next; ++i) {
    if (segment.is_gone(i) || segment.not_fresh.test(i)) continue;
    ++lost;
    gone(segment, {i, 1});
  }
  if (lost > 0) report_damage(segment, start, lost);  // else what is damaged had been settled
  fresh_count_ -= std::min<uint64_t>(fresh_count_, lost);
  if (fresh_count_ == 0) fresh_bytes_ = 0;
  cursor_.ordinal = next;
  cursor_.offset = next_offset;
  cursor_.chunk = nullptr;
  shard_.list_sweep(*this);
}

}  // namespace tarry
