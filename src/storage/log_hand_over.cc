#include <algorithm>

#include "storage/log_state.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

// What was written stays in memory for a cursor that is close behind, up to this much a log.
constexpr uint64_t kKeptBytesMax = 1u << 20;
constexpr size_t kOtherWindowsKept = 8;
constexpr size_t kErrorTextsKept = 16;

}  // namespace

/// What is gone already is told in one call before the next thing that is written behind it.
void LogState::tell_dead(Segment& segment, Submission& submission) {
  if (!segment.dead.bytes) return;
  BarrierCall call;
  call.kind = BarrierCall::Kind::dead;
  call.files = segment.files;
  call.offset = segment.dead.offset;
  call.dead_bytes = segment.dead.bytes;
  call.ordinals = segment.dead.ordinals;
  submission.calls.push_back(std::move(call));
  segment.dead = {};
}

void LogState::hand_over_records(Segment& segment, Submission& submission) {
  for (size_t i = 0; i < segment.chunks.size() && segment.handed_ordinal < segment.count; ++i) {
    Chunk& chunk = *segment.chunks[i];
    if (chunk.end_ordinal <= segment.handed_ordinal) continue;
    uint32_t from = segment.handed_offset, bytes = chunk.start + chunk.used - from;
    uint32_t first = segment.handed_ordinal, count = chunk.end_ordinal - first;
    std::vector<OrdinalRun> dead = segment.elidable(first, chunk.end_ordinal);
    if (!chunk.data || (dead.size() == 1 && dead[0].count == count)) {
      note_dead(segment, chunk);
      shard_.list_sweep(*this);
      continue;
    }
    tell_dead(segment, submission);
    segment.handed_offset += bytes;
    segment.handed_ordinal += count;
    unhanded_bytes -= bytes;
    BarrierCall call;
    call.kind = BarrierCall::Kind::records;
    call.files = segment.files;
    call.offset = from;
    call.bytes = {chunk.data + (from - chunk.start), bytes};
    call.elided = std::move(dead);
    call.chunk = &chunk;
    ++chunk.barrier_refs;
    shard_.impl().unsynced_bytes.fetch_add(bytes, std::memory_order_relaxed);
    submission.calls.push_back(std::move(call));
    segment.has_files = true;
  }
  segment.unhanded_origins.clear();
}

/// Says how far the cursor is, if something below is still out, so that a restart marks it as
/// redelivered.
void LogState::put_mark(Segment& segment) {
  uint32_t delivered = std::min(delivered_in(segment), segment.handed_ordinal);
  if (delivered <= segment.marked || segment.gone_prefix >= delivered || segment.all_gone()) return;
  segment.marked = delivered;
  segment.last_gone = SIZE_MAX;
  put_delivered(segment.events, delivered);
}

bool LogState::hand_over_segment(Segment& segment, Submission& submission) {
  segment.dirty = false;
  hand_over_records(segment, submission);
  if (segment.done_with()) {
    shard_.list_sweep(*this);  // its files go; there is nothing to add to them
    return false;
  }
  if (!segment.has_files) {
    segment.events.clear();  // about records that were never written
    segment.last_gone = SIZE_MAX;
    segment.errors.clear();
    return false;
  }
  if (writes_events()) put_mark(segment);
  if (!segment.events.empty()) {
    BarrierCall call;
    call.kind = BarrierCall::Kind::events;
    call.files = segment.files;
    call.events_offset = segment.events_offset;
    segment.events_offset += static_cast<uint32_t>(segment.events.size());
    call.events = std::make_shared<std::vector<std::byte>>(std::move(segment.events));
    segment.events.clear();
    segment.last_gone = SIZE_MAX;
    submission.calls.push_back(std::move(call));
  }
  if (segment.sealed && !segment.seal_handed) {
    tell_dead(segment, submission);
    BarrierCall call;
    call.kind = BarrierCall::Kind::seal;
    call.files = segment.files;
    call.offset = segment.end;
    submission.calls.push_back(std::move(call));
    segment.seal_handed = true;
  }
  return true;
}

bool LogState::hand_over(Submission& submission) {
  urgent = false;
  std::vector<Segment*> batch;
  batch.swap(dirty_segments_);
  bool any = false;
  for (Segment* segment : batch) any |= hand_over_segment(*segment, submission);
  batch.clear();
  if (dirty_segments_.empty()) batch.swap(dirty_segments_);  // keeps the memory for the next time
  return any && options.durable;
}

bool LogState::chunk_dead(const Segment& segment, const Chunk& chunk) const {
  if (chunk.end_ordinal <= segment.gone_prefix) return true;
  if (segment.gone.empty()) return false;
  return segment.gone.find(std::max(chunk.first_ordinal, segment.gone_prefix), chunk.end_ordinal,
                           false) == chunk.end_ordinal;
}

void LogState::free_chunk(Segment& segment, size_t index) {
  Chunk* chunk = segment.chunks[index];
  if (cursor_.chunk == chunk) cursor_.chunk = nullptr;
  segment.chunks.erase(segment.chunks.begin() + static_cast<ptrdiff_t>(index));
  shard_.drop_chunk(chunk);
}

void LogState::remove_files(Segment& segment) {
  if (!segment.has_files) return;
  BarrierCall call;
  call.kind = BarrierCall::Kind::remove;
  call.files = segment.files;
  // Space of it that is being given back: the store's thread may punch holes into the file yet.
  call.recycle = !segment.compaction && segment.compacted_gone == 0;
  shard_.add_call(std::move(call), options.durable);
}

/// A dead chunk whose turn to be handed over it is needs no place any longer. False: earlier ones
/// come first.
bool LogState::note_dead(Segment& segment, Chunk& chunk) {
  uint32_t end = chunk.start + chunk.used;
  if (segment.handed_offset < chunk.start || segment.handed_offset >= end) return false;
  uint32_t bytes = end - segment.handed_offset, count = chunk.end_ordinal - segment.handed_ordinal;
  if (!segment.dead.bytes) segment.dead = {segment.handed_offset, 0, {segment.handed_ordinal, 0}};
  segment.dead.bytes += bytes;
  segment.dead.ordinals.count += count;
  segment.handed_offset += bytes;
  segment.handed_ordinal += count;
  unhanded_bytes -= bytes;
  chunk.published = chunk.used;
  return true;
}

/// Frees what is no longer needed in memory; returns true if the whole segment is done with.
/// `kept`: bytes that are kept for the cursor in the segments before it, and with this one.
bool LogState::sweep_segment(Segment& segment, uint64_t& kept) {
  if (segment.done_with()) return true;
  uint32_t delivered = delivered_in(segment);
  bool open = &segment == segments.back().get() && !segment.sealed;
  for (size_t i = 0; i < segment.chunks.size();) {
    Chunk& chunk = *segment.chunks[i];
    bool tail = open && i + 1 == segment.chunks.size();
    bool written = chunk.published == chunk.used && chunk.barrier_refs == 0;
    bool behind = chunk.end_ordinal <= delivered;
    if (!chunk.data) {
      if (written)
        free_chunk(segment, i);
      else
        ++i;
      continue;
    }
    if (written && !tail) {
      if (!behind) kept += chunk.capacity;
      if (behind || kept > kKeptBytesMax || shard_.memory_short()) {
        free_chunk(segment, i);
        continue;
      }
    } else if (!tail && chunk.barrier_refs == 0 && behind && segment.unhanded_origins.empty() &&
               chunk_dead(segment, chunk)) {
      if (cursor_.chunk == &chunk) cursor_.chunk = nullptr;
      shard_.free_chunk_data(
          chunk);  // the range is told to the barrier when what follows is written
      if (note_dead(segment, chunk)) continue;
    }
    ++i;
  }
  return false;
}

void LogState::sweep() {
  lent_.clear();
  if (read_errors_.size() > kErrorTextsKept) read_errors_.clear();
  if (windows_.size() > kOtherWindowsKept) windows_.resize(kOtherWindowsKept);
  uint64_t kept = 0;
  const size_t before_it = segments.size();
  for (size_t i = 0; i < segments.size();) {
    Segment& segment = *segments[i];
    if (!sweep_segment(segment, kept)) {
      ++i;
      continue;
    }
    if (cursor_.segment == &segment) {
      TARRY_INVARIANT(i + 1 < segments.size() || fresh_count_ == 0);
      cursor_ = {};
      if (i + 1 < segments.size()) {
        enter(*segments[i + 1]);
      } else if (i > 0) {
        // What is left was passed long ago (parked or out): it must not be served as fresh again.
        Segment& before = *segments[i - 1];
        cursor_ = {&before, before.count, before.end, nullptr};
      }
    }
    if (segment.handed_offset < segment.end) unhanded_bytes -= segment.end - segment.handed_offset;
    remove_files(segment);
    while (!segment.chunks.empty()) free_chunk(segment, segment.chunks.size() - 1);
    std::erase(dirty_segments_, &segment);
    segments.erase(segments.begin() + static_cast<ptrdiff_t>(i));
  }
  if (size_watcher && segments.size() != before_it) size_watcher();
}

bool LogState::lazy_tick() {
  bool idle = activity_ == activity_at_tick_;
  activity_at_tick_ = activity_;
  bool more = !idle;
  for (auto& segment : segments) {
    if (writes_events() && segment->has_files && segment->marked < delivered_in(*segment) &&
        segment->gone_prefix < delivered_in(*segment)) {
      touch(*segment, false);
      shard_.list_dirty(*this, false);
    }
    more |= compact(*segment);
  }
  if (idle) {
    window_ = {};
    windows_.clear();
    read_errors_.clear();
    chunk_bytes_ = ChunkPool::kSmallest;
    if (!segments.empty()) {
      Segment& last = *segments.back();
      // An empty queue at rest keeps neither file nor memory.
      if (!last.sealed && last.count > 0 && last.all_gone() && last.open_moves == 0) {
        last.sealed = true;
        segment_bytes_ = shard_.impl().segment_bytes_min;
      }
      Chunk* tail = last.chunks.empty() ? nullptr : last.chunks.back();
      bool written = tail && tail->published == tail->used && tail->barrier_refs == 0;
      if (written) free_chunk(last, last.chunks.size() - 1);
      more |= tail && !written && tail->barrier_refs > 0;  // the disk takes its time
    }
  }
  shard_.list_sweep(*this);
  if (size_watcher) size_watcher();
  return more;
}

void LogState::release_all_chunks() {
  for (auto& segment : segments) {
    while (!segment->chunks.empty()) free_chunk(*segment, segment->chunks.size() - 1);
  }
}

void LogState::hand_over_all() {
  if (!options.durable) return;
  sweep();
  for (auto& segment : segments) touch(*segment, false);
  shard_.hand_over_now(*this);
  shard_.send_calls();
}

uint64_t LogState::memory_bytes() const {
  uint64_t bytes = sizeof *this + window_.bytes;
  for (const ReadWindow& window : windows_) bytes += window.bytes;
  for (const auto& segment : segments) bytes += segment->memory_bytes();
  return bytes;
}

uint64_t LogState::disk_bytes() const {
  uint64_t bytes = 0;
  for (const auto& segment : segments) {
    if (segment->has_files)
      bytes += segment->published_offset - segment->hole_bytes + segment->events_offset;
  }
  return bytes;
}

}  // namespace tarry
