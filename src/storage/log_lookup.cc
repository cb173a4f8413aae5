// Records out of their turn: by ordinal alone, or fresh ones from behind the cursor.
#include <algorithm>

#include "storage/log_state.h"
#include "storage/read_request.h"

namespace tarry {

/// Finds where a record starts when only its ordinal is known: walks from the nearest place known
/// to be at or before it (a chunk in memory, an earlier look-up, the cursor, the segment's first
/// record). One look-up after the other in ascending order costs one step each.
Fetch LogState::resolve(Segment& segment, uint32_t ordinal, uint32_t& offset) {
  uint32_t at_ordinal = segment.first_ordinal, at_offset = segment.first_offset;
  const auto start_from = [&](uint32_t from_ordinal, uint32_t from_offset) {
    if (from_ordinal <= ordinal && from_ordinal >= at_ordinal && from_offset >= kFileHeaderBytes) {
      at_ordinal = from_ordinal;
      at_offset = from_offset;
    }
  };
  if (at_ordinal > ordinal || segment.compacted_gone > 0) {  // it may have become a hole
    at_ordinal = 0;
    at_offset = kFileHeaderBytes;
  }
  auto behind = std::upper_bound(segment.chunks.begin(), segment.chunks.end(), ordinal,
                                 [](uint32_t o, const Chunk* c) { return o < c->first_ordinal; });
  if (behind != segment.chunks.begin()) {
    const Chunk& chunk = **(behind - 1);
    start_from(chunk.first_ordinal, chunk.start);
  }
  const LookUps::Place place = segment.look_ups.before(ordinal);
  start_from(place.ordinal, place.offset);
  if (&segment == cursor_.segment) start_from(cursor_.ordinal, cursor_.offset);
  bool on_disk = false;
  while (at_ordinal < ordinal) {
    Located at;
    const bool written = on_disk && at_offset < segment.published_offset;
    Fetch result = written ? locate_on_disk(segment, at_ordinal, at_offset, false, at)
                           : locate(segment, at_ordinal, at_offset, false, at);
    // A chunk still has what on disk is the beginning of one long skip record: a walk that comes
    // out of it ends up inside of that. As it was written, the segment can be walked from its
    // start.
    if (result == Fetch::none && !on_disk) {
      on_disk = true;
      at_ordinal = 0;
      at_offset = kFileHeaderBytes;
      continue;
    }
    if (result == Fetch::none && at_offset < segment.published_offset) {
      result = pass_gap(segment, at_ordinal, at_offset);
      if (result == Fetch::ok) continue;
    }
    // The next try goes on from here.
    if (result == Fetch::pending) segment.look_ups.keep(place, {at_ordinal, at_offset});
    if (result != Fetch::ok) return result;
    if (at.head.kind == RecordKind::skip) {
      at_ordinal += at.head.ttl_ms;
      at_offset += at.head.header_bytes;
    } else {
      ++at_ordinal;
      at_offset += at.head.length;
    }
  }
  if (at_ordinal != ordinal) return Fetch::none;  // inside of what was never written
  segment.look_ups.keep(place, {at_ordinal, at_offset});
  offset = at_offset;
  return Fetch::ok;
}

/// What is not whole at this place may be records that were settled and never came to the disk, or
/// damage: either is no reason to give up those behind it. Goes to the next whole one, which the
/// store's thread looks for once.
Fetch LogState::pass_gap(Segment& segment, uint32_t& ordinal, uint32_t& offset) {
  if (!segment.gaps) segment.gaps = std::make_unique<std::map<uint32_t, LookUps::Place>>();
  if (auto known = segment.gaps->find(offset); known != segment.gaps->end()) {
    ordinal = known->second.ordinal;
    offset = known->second.offset;
    return Fetch::ok;
  }
  for (auto& request : reading_) {
    if (request->finds_gap && request->segment == segment.number && request->start == offset)
      return Fetch::pending;
  }
  look_behind_damage(segment, ordinal, offset, true);
  return Fetch::pending;
}

void LogState::found_gap(ReadRequest& request) {
  Segment* segment = find(request.segment);
  if (segment && segment->gaps) {
    const bool found = request.next < request.count;
    (*segment->gaps)[request.start] = found ? LookUps::Place{request.next, request.next_offset}
                                            : LookUps::Place{segment->count, segment->end};
  }
  std::erase_if(reading_, [&](const auto& r) { return r.get() == &request; });
  if (waker) waker();
}

bool LogState::take_fresh(const Position& position, uint32_t body_bytes) {
  Segment* segment = find(position.segment);
  const uint32_t ordinal = position.ordinal;
  if (!segment || ordinal >= segment->count || ordinal < delivered_in(*segment)) return false;
  if (segment->is_gone(ordinal) || segment->not_fresh.test(ordinal)) return false;
  segment->not_fresh.set(ordinal);
  // The quick way of the cursor looks at no bits.
  if (segment == cursor_.segment) cursor_.chunk = nullptr;
  peeked_bytes_ = 0;
  const uint64_t bytes = body_bytes == UINT32_MAX ? fresh_bytes_ / fresh_count_ : body_bytes;
  --fresh_count_;
  fresh_bytes_ = fresh_count_ == 0 ? 0 : fresh_bytes_ - std::min(fresh_bytes_, bytes);
  ++activity_;
  return true;
}

Fetch LogState::next_fresh(const Position& from, Fetched& out) {
  for (auto& owned : segments) {
    Segment& segment = *owned;
    if (segment.number < from.segment || segment.all_gone()) continue;
    uint32_t ordinal = delivered_in(segment);
    if (segment.number == from.segment) ordinal = std::max(ordinal, from.ordinal);
    for (; ordinal < segment.count; ++ordinal) {
      if (segment.is_gone(ordinal) || segment.not_fresh.test(ordinal)) continue;
      uint32_t offset = 0;
      Fetch result = resolve(segment, ordinal, offset);
      Located at;
      if (result == Fetch::ok) result = locate(segment, ordinal, offset, false, at);
      if (result == Fetch::none) continue;  // the cursor will report it
      if (result == Fetch::ok) fill(segment, ordinal, offset, at, out);
      return result;
    }
  }
  return Fetch::none;
}

Fetch MessageLog::next_fresh(const Position& from, Fetched& out) {
  return state_->next_fresh(from, out);
}

bool MessageLog::take_fresh(const Position& position, uint32_t body_bytes) {
  return state_->take_fresh(position, body_bytes);
}

}  // namespace tarry
