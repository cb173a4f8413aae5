#include <algorithm>

#include "storage/log_state.h"
#include "storage/parked.h"
#include "storage/store_impl.h"

namespace tarry {

/// The segment has something to hand over; `owes`: that somebody may wait for.
void LogState::touch(Segment& segment, bool owes) {
  if (!segment.dirty) {
    segment.dirty = true;
    dirty_segments_.push_back(&segment);
  }
  if (owes) shard_.list_dirty(*this, true);
}

void LogState::gone(Segment& segment, OrdinalRun run) {
  segment.mark_gone(run);
  if (!segment.held.empty()) {
    for (uint32_t i = 0; i < run.count; ++i) segment.held.reset(run.first + i);
  }
  if (!segment.counters.empty()) segment.counters.erase(run);
  if (!segment.errors.empty()) segment.errors.erase(run);
}

void LogState::settle(const Run& run) {
  Segment* segment = find(run.first.segment);
  if (!segment) return;
  uint32_t first = run.first.ordinal;
  if (first >= segment->count) return;
  uint32_t end = first + std::min(run.count, segment->count - first);
  gone(*segment, {first, end - first});
  ++activity_;
  if (writes_events()) {
    // What was not handed over yet is simply not written, unless it was moved here.
    if (first < segment->handed_ordinal) {
      segment->put_gone_event({first, std::min(end, segment->handed_ordinal) - first});
      touch(*segment, true);
    }
    for (uint32_t origin : segment->unhanded_origins) {
      if (origin < first || origin >= end) continue;
      segment->put_gone_event({origin, 1});
      touch(*segment, true);
    }
  }
  bool chunk_done =
      !segment->chunks.empty() && segment->gone_prefix >= segment->chunks.front()->end_ordinal;
  if ((segment->sealed && segment->all_gone()) || (chunk_done && segment->chunks.size() > 1)) {
    shard_.list_sweep(*this);
  } else if (!listed_lazy) {
    shard_.list_lazy(*this);
  }
}

void LogState::take_back(const Position& position) {
  if (Segment* segment = find(position.segment)) segment->held.reset(position.ordinal);
}

void LogState::requeue(const Run& run, uint32_t counter, bool counter_raised) {
  Segment* segment = find(run.first.segment);
  if (!segment) return;
  for (uint32_t i = 0; i < run.count; ++i) {
    if (!segment->is_gone(run.first.ordinal + i)) segment->held.set(run.first.ordinal + i);
  }
  if (!counter_raised) return;
  segment->counters.set({run.first.ordinal, run.count}, counter);
  if (!writes_events()) return;
  segment->last_gone = SIZE_MAX;
  put_raise(segment->events, {run.first.ordinal, run.count}, counter);
  touch(*segment, true);
}

void LogState::park(const Position& position, const ParkEvent& event) {
  Segment* segment = find(position.segment);
  if (!segment || segment->is_gone(position.ordinal)) return;
  segment->held.set(position.ordinal);
  // From now on the companion's entry carries the counter, or a million parked records would cost
  // memory here.
  if (!segment->counters.empty()) segment->counters.erase({position.ordinal, 1});
  std::string_view error = event.error.substr(0, kErrorTextBytesMax);
  if (!writes_events()) return keep_error(*segment, position.ordinal, error);
  AckPark park;
  park.ordinal = position.ordinal;
  park.offset = position.offset;
  park.due_ms = event.due_ms;
  park.rejected_ms = event.rejected_ms;
  park.counter = event.counter;
  park.delay_ms = event.delay_ms;
  park.error = error;
  // Saves recovery a look at the record.
  park.no_ttl = event.no_ttl;
  if (event.published_ms != 0) {
    park.shape_known = true;
    park.published_ms = event.published_ms;
    park.ttl_ms = event.ttl_ms;
    park.body_bytes = event.body_bytes;
  } else if (Chunk* chunk = segment->find_chunk(position.offset)) {
    RecordHead head = load_head(chunk->data + (position.offset - chunk->start));
    park.shape_known = true;
    park.no_ttl = head.ttl_ms == kNoTtl;
    park.published_ms = head.published_ms;
    park.ttl_ms = head.ttl_ms;
    park.body_bytes = head.body_bytes();
  }
  if (event.entry_body_bytes) {
    park.body_counted = true;
    park.body_bytes = *event.entry_body_bytes;
  }
  segment->last_gone = SIZE_MAX;
  put_park(segment->events, park);
  keep_error(*segment, position.ordinal, error);
  touch(*segment, true);
}

/// The event that holds `error` at its end was put last. No text: the one before holds on.
void LogState::keep_error(Segment& segment, uint32_t ordinal, std::string_view error) {
  if (error.empty()) return;
  if (!writes_events()) return segment.errors.keep(ordinal, std::string(error));
  segment.errors.set(
      ordinal, static_cast<uint32_t>(segment.events_offset + segment.events.size() - error.size()));
}

void LogState::note_error(const Position& position, std::string_view error) {
  Segment* segment = find(position.segment);
  if (!segment || error.empty() || segment->is_gone(position.ordinal)) return;
  error = error.substr(0, kErrorTextBytesMax);
  if (writes_events()) {
    segment->last_gone = SIZE_MAX;
    put_error(segment->events, position.ordinal, error);
    touch(*segment, true);
  }
  keep_error(*segment, position.ordinal, error);
}

void LogState::mark_dying(const Position& position, const DyingEvent& event) {
  Segment* segment = find(position.segment);
  if (!segment || segment->is_gone(position.ordinal)) return;
  std::string_view error = event.error.substr(0, kErrorTextBytesMax);
  if (writes_events()) {
    segment->last_gone = SIZE_MAX;
    put_dying(segment->events, position.ordinal,
              {event.reason, event.delivery_count, event.died_ms}, error);
    touch(*segment, true);
  }
  keep_error(*segment, position.ordinal, error);
}

bool LogState::live(const Position& position) const {
  Segment* segment = find(position.segment);
  return segment && position.ordinal < segment->count && !segment->is_gone(position.ordinal);
}

/// What is out with consumers or in moves: delivered (or passed over at recovery), neither gone nor
/// held.
std::vector<OrdinalRun> LogState::out_runs(const Segment& segment) const {
  std::vector<OrdinalRun> runs;
  uint32_t delivered = delivered_in(segment);
  auto is_out = [&](uint32_t i) {
    return !segment.is_gone(i) && !segment.held.test(i) &&
           (i < delivered || segment.not_fresh.test(i));
  };
  uint32_t end = segment.not_fresh.empty() ? delivered : segment.count;
  for (uint32_t i = segment.gone_prefix; i < end; ++i) {
    if (segment.gone.empty() && segment.held.empty() && i < delivered) {
      runs.push_back({i, delivered - i});  // the usual case: all of them
      i = delivered - 1;
      continue;
    }
    if (!is_out(i)) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == i) {
      ++runs.back().count;
    } else {
      runs.push_back({i, 1});
    }
  }
  return runs;
}

void LogState::purge() {
  for (auto& owned : segments) {
    Segment& segment = *owned;
    segment.parked.reset();
    if (segment.all_gone()) continue;
    std::vector<OrdinalRun> spared = out_runs(segment);
    uint32_t spared_count = 0;
    Bitmap gone_set;
    uint32_t at = segment.gone_prefix;
    if (!spared.empty()) {
      for (const OrdinalRun& run : spared) {
        for (; at < run.first; ++at) gone_set.set(at);
        at = run.first + run.count;
        spared_count += run.count;
      }
      for (; at < segment.count; ++at) gone_set.set(at);
      segment.gone_prefix = spared.front().first;
    } else {
      segment.gone_prefix = segment.count;
      segment.counters = {};
      segment.errors.clear();
    }
    segment.gone = std::move(gone_set);
    segment.gone_count = segment.count - spared_count;
    segment.held.clear();
    if (writes_events() && (segment.handed_ordinal > 0 || !segment.unhanded_origins.empty())) {
      segment.last_gone = SIZE_MAX;
      put_all_gone(segment.events, segment.count, spared);
      touch(segment, true);
    }
  }
  if (!segments.empty()) {
    Segment& last = *segments.back();
    cursor_ = {&last, last.count, last.end, nullptr};
  }
  peeked_bytes_ = 0;
  fresh_count_ = fresh_bytes_ = 0;
  shard_.list_sweep(*this);
  shard_.list_lazy(*this);
}

void LogState::close_move(const Origin& origin) {
  auto it = open_moves_.find(origin);
  if (it == open_moves_.end()) return;
  Position position = it->second;
  open_moves_.erase(it);
  Segment* segment = find(position.segment);
  if (!segment) return;
  --segment->open_moves;
  if (writes_events()) {
    segment->last_gone = SIZE_MAX;
    put_move_closed(segment->events, position.ordinal);
    touch(*segment, true);
  }
  if (segment->all_gone()) shard_.list_sweep(*this);
}

}  // namespace tarry
