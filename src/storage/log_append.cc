#include <algorithm>
#include <random>

#include "storage/log_state.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

// A segment of which nothing was ever written costs no disk: it may go on longer before its number
// is used up.
constexpr uint32_t kUnwrittenSegmentBytesMax = 64u << 20;
constexpr uint64_t kUnhandedBytesMax = 1u << 20;

uint64_t random_incarnation() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  for (;;) {
    uint64_t value = engine();
    if (checksum_seed(value) != 0) return value;
  }
}

}  // namespace

LogState::LogState(ShardStore& shard, MessageLog::Options o, uint64_t& fresh_count,
                   uint64_t& fresh_bytes)
    : options(std::move(o)),
      shard_(shard),
      fresh_count_(fresh_count),
      fresh_bytes_(fresh_bytes),
      segment_bytes_(shard.impl().segment_bytes_min) {}

Segment* LogState::new_segment(uint32_t number, uint64_t incarnation) {
  auto segment = std::make_unique<Segment>();
  segment->log = this;
  segment->number = number;
  SegmentFiles::Identity identity{options.directory, number, incarnation, options.queue_id,
                                  options.lane};
  Store::Impl& impl = shard_.impl();
  segment->files = std::make_shared<SegmentFiles>(impl.files, impl.barrier->open_files(), identity);
  segment->files->durable = options.durable;
  segments.push_back(std::move(segment));
  return segments.back().get();
}

/// The segment that takes the next record; closes the last one if it is full.
Segment& LogState::open_segment(uint32_t bytes) {
  Segment* last = segments.empty() ? nullptr : segments.back().get();
  if (last && !last->sealed) {
    uint64_t end = uint64_t{last->end} + bytes;
    uint32_t limit = last->has_files ? last->target_bytes : kUnwrittenSegmentBytesMax;
    if (end <= limit || last->count == 0) return *last;
    last->sealed = true;
    touch(*last, false);
    shard_.list_sweep(*this);
    segment_bytes_ = std::min(segment_bytes_ * 4, shard_.impl().segment_bytes_max);
  }
  Segment* segment = new_segment(next_number_++, random_incarnation());
  segment->target_bytes = segment_bytes_;
  // Where nobody waits for fdatasync, there is nothing to be had from it.
  if (options.durable && shard_.store().options().durability == Durability::fsync &&
      segment_bytes_ == shard_.impl().segment_bytes_max)
    segment->files->records().use_pool(shard_.impl().pool);
  return *segment;
}

Chunk& LogState::chunk_for(Segment& segment, uint32_t bytes) {
  Chunk* chunk = shard_.new_chunk(std::max(chunk_bytes_, bytes));
  chunk_bytes_ = std::min(chunk_bytes_ * 2, ChunkPool::kLargest);
  shard_.list_lazy(*this);
  chunk->segment = &segment;
  chunk->start = segment.end;
  chunk->first_ordinal = chunk->end_ordinal = segment.count;
  segment.chunks.push_back(chunk);
  return *chunk;
}

Result<Position> LogState::append(const RecordParts& parts) {
  if (options.durable && shard_.store().refuses_appends()) [[unlikely]] {
    return make_error_code(StoreError::disk_full);
  }
  uint32_t bytes = record_bytes(parts);
  if (bytes == 0) return boost::system::errc::make_error_code(boost::system::errc::message_size);
  Segment* segment = segments.empty() ? nullptr : segments.back().get();
  if (!segment || segment->sealed || segment->target_bytes < segment->end + uint64_t{bytes})
      [[unlikely]] {
    segment = &open_segment(bytes);
  }
  Chunk* chunk = segment->chunks.empty() ? nullptr : segment->chunks.back();
  if (!chunk || !chunk->data || chunk->start + chunk->used != segment->end ||
      chunk->capacity - chunk->used < bytes) [[unlikely]] {
    chunk = &chunk_for(*segment, bytes);
  }
  last_published_ms_ = std::max(last_published_ms_, parts.published_ms);
  Position position{segment->number, segment->count, segment->end};
  encode_record(chunk->data + chunk->used, parts, position.ordinal, last_published_ms_, bytes);
  chunk->used += bytes;
  chunk->end_ordinal = ++segment->count;
  segment->end += bytes;
  ++fresh_count_;
  fresh_bytes_ += parts.body.size();
  unhanded_bytes += bytes;
  if (parts.origin) [[unlikely]] {
    ++segment->open_moves;
    segment->unhanded_origins.push_back(position.ordinal);
    open_moves_[*parts.origin] = position;
  }
  if (!segment->dirty) touch(*segment, false);
  if (options.durable) {
    urgent |= unhanded_bytes >= kUnhandedBytesMax;
    if (parts.persistent || urgent) {
      shard_.list_dirty(*this, parts.persistent);
    } else {
      shard_.list_spillable(*this);
    }
  } else {
    shard_.list_spillable(*this);
  }
  return position;
}

Segment* LogState::find(uint32_t number) const {
  if (segments.empty()) return nullptr;
  if (segments.back()->number == number) return segments.back().get();
  if (segments.front()->number == number) return segments.front().get();
  auto it = std::lower_bound(segments.begin(), segments.end(), number,
                             [](const auto& s, uint32_t n) { return s->number < n; });
  return it != segments.end() && (*it)->number == number ? it->get() : nullptr;
}

uint32_t LogState::delivered_in(const Segment& segment) const {
  // At recovery the cursor begins behind what is gone or parked.
  if (!cursor_.segment || segment.number > cursor_.segment->number) return segment.first_ordinal;
  return &segment == cursor_.segment ? cursor_.ordinal : segment.count;
}

void LogState::fill(const Segment& segment, uint32_t ordinal, uint32_t offset, const Located& at,
                    Fetched& out) const {
  out.record = decode_record(at.bytes, at.head);
  out.position = {segment.number, ordinal, offset};
  out.counter = out.record.counter;
  if (!segment.counters.empty()) out.counter = std::max(out.counter, segment.counters.get(ordinal));
  out.redelivered = out.counter > 0 || ordinal < segment.redelivered_below;
  out.has_error = !segment.errors.empty() && segment.errors.has(ordinal);
}

Fetch LogState::peeked(Segment& segment, const Fetched& found) {
  const Fetch fetch = with_error(segment, found);
  if (fetch != Fetch::ok) [[unlikely]]
    peeked_bytes_ = 0;
  return fetch;
}

Fetch LogState::peek(Fetched& out) {
  const Chunk* chunk = cursor_.chunk;
  if (!chunk || cursor_.offset - chunk->start >= chunk->used) [[unlikely]]
    return peek_slow(out);
  Segment& segment = *cursor_.segment;
  Located at;
  at.bytes = chunk->data + (cursor_.offset - chunk->start);
  at.head = load_head(at.bytes);
  fill(segment, cursor_.ordinal, cursor_.offset, at, out);
  peeked_bytes_ = at.head.length;
  peeked_body_ = at.head.body_bytes();
  return peeked(segment, out);
}

/// What a skip record covers is gone for good, whatever the ack log says (its events may be what is
/// damaged).
void LogState::pass_over_skip(Segment& segment, OrdinalRun run) {
  const uint32_t end = std::min(run.first + run.count, segment.count);
  uint32_t lost = 0;
  for (uint32_t i = std::max(run.first, segment.gone_prefix); i < end; ++i) {
    if (segment.is_gone(i) || segment.not_fresh.test(i)) continue;
    gone(segment, {i, 1});
    ++lost;
  }
  fresh_count_ -= std::min<uint64_t>(fresh_count_, lost);
  if (fresh_count_ == 0) fresh_bytes_ = 0;
}

/// The cursor came to the end though there should be more: damaged files disagree with each other.
Fetch LogState::lost_count() {
  ++damaged;
  log_for("storage")->error("{}: {} messages that {} should hold are not there", options.label,
                            fresh_count_, options.directory);
  fresh_count_ = fresh_bytes_ = 0;
  return Fetch::none;
}

Fetch LogState::peek_slow(Fetched& out) {
  peeked_bytes_ = 0;
  while (fresh_count_ > 0) {
    if (!cursor_.segment) enter(*segments.front());
    Segment& segment = *cursor_.segment;
    if (cursor_.ordinal >= segment.count) {
      auto it = std::upper_bound(segments.begin(), segments.end(), segment.number,
                                 [](uint32_t n, const auto& s) { return n < s->number; });
      if (it == segments.end()) return lost_count();
      enter(**it);
      shard_.list_sweep(*this);
      continue;
    }
    Located at;
    Fetch result = locate(segment, cursor_.ordinal, cursor_.offset, true, at);
    if (result == Fetch::pending) return result;
    if (result == Fetch::none) {
      if (skip_damage() == Fetch::pending) return Fetch::pending;
      continue;
    }
    if (at.head.kind == RecordKind::skip) {
      pass_over_skip(segment, {cursor_.ordinal, at.head.ttl_ms});
      cursor_.ordinal += at.head.ttl_ms;
      cursor_.offset += at.head.header_bytes;
      continue;
    }
    if (segment.not_fresh.test(cursor_.ordinal)) {
      ++cursor_.ordinal;
      cursor_.offset += at.head.length;
      continue;
    }
    if (segment.not_fresh.empty()) cursor_.chunk = segment.find_chunk(cursor_.offset);
    fill(segment, cursor_.ordinal, cursor_.offset, at, out);
    peeked_bytes_ = at.head.length;
    peeked_body_ = at.head.body_bytes();
    return peeked(segment, out);
  }
  return Fetch::none;
}

void LogState::take() {
  TARRY_INVARIANT(peeked_bytes_ != 0);
  ++cursor_.ordinal;
  cursor_.offset += peeked_bytes_;
  --fresh_count_;
  fresh_bytes_ -= std::min<uint64_t>(fresh_bytes_, peeked_body_);
  peeked_bytes_ = 0;
  ++activity_;
  const Chunk* chunk = cursor_.chunk;
  if (!chunk || cursor_.offset - chunk->start >= chunk->used) [[unlikely]] {
    // Next record elsewhere: the chunk may be done with. When the cursor just caught up, that is
    // cheap to find out.
    if (fresh_count_ > 0) shard_.list_sweep(*this);
    shard_.list_lazy(*this);
  }
}

}  // namespace tarry
