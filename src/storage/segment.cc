#include "storage/segment.h"

#include <algorithm>

#include "storage/compaction.h"
#include "storage/parked.h"

namespace tarry {

Segment::Segment() = default;

Segment::~Segment() {
  if (compaction) compaction->log = nullptr;
}

void CounterMap::erase(OrdinalRun run) {
  uint32_t end = run.first + run.count;
  auto it = runs_.upper_bound(run.first);
  if (it != runs_.begin()) --it;
  while (it != runs_.end() && it->first < end) {
    uint32_t first = it->first, last = first + it->second.count, counter = it->second.counter;
    if (last <= run.first) {
      ++it;
      continue;
    }
    it = runs_.erase(it);
    if (first < run.first) runs_[first] = {run.first - first, counter};
    if (last > end) it = runs_.insert({end, {last - end, counter}}).first;
  }
}

void CounterMap::set(OrdinalRun run, uint32_t counter) {
  if (!run.count) return;
  erase(run);
  auto it = runs_.lower_bound(run.first);
  if (it != runs_.begin()) {
    auto before = std::prev(it);
    if (before->first + before->second.count == run.first && before->second.counter == counter) {
      before->second.count += run.count;
      return;
    }
  }
  runs_[run.first] = {run.count, counter};
}

uint32_t CounterMap::get(uint32_t ordinal) const {
  auto it = runs_.upper_bound(ordinal);
  if (it == runs_.begin()) return 0;
  --it;
  return ordinal < it->first + it->second.count ? it->second.counter : 0;
}

uint32_t Segment::mark_gone(OrdinalRun run) {
  if (run.first == gone_prefix && gone.empty()) {
    gone_prefix += run.count;
    gone_count += run.count;
    return run.count;
  }
  uint32_t from = std::max(run.first, gone_prefix), to = run.first + run.count, added = 0;
  if (from >= to) return 0;
  if (from == gone_prefix) {
    while (from < to) {  // the watermark passes over them: the set need not know
      uint32_t next = gone.find(from, to, true);
      added += next - from;
      from = gone.find(next, to, false);
    }
    gone_prefix = gone.find(to, count, false);
    if (gone_prefix == count) gone.clear();
  } else {
    for (uint32_t i = from; i < to; ++i) added += gone.set(i);
  }
  gone_count += added;
  return added;
}

void ErrorPlaces::set(uint32_t ordinal, uint32_t ack_offset) {
  if (ordinal >= at_.size()) at_.resize(size_t{ordinal} + 1);
  if (at_[ordinal] == 0) ++count_;
  at_[ordinal] = ack_offset;
}

void ErrorPlaces::erase(OrdinalRun run) {
  if (!texts_.empty()) {
    for (uint32_t i = 0; i < run.count; ++i) texts_.erase(run.first + i);
  }
  if (count_ == 0) return;
  const size_t end = std::min<size_t>(at_.size(), size_t{run.first} + run.count);
  for (size_t i = run.first; i < end; ++i) {
    if (at_[i] == 0) continue;
    at_[i] = 0;
    --count_;
  }
  if (count_ == 0) std::vector<uint32_t>().swap(at_);
}

void ErrorPlaces::clear() {
  std::vector<uint32_t>().swap(at_);
  count_ = 0;
  texts_.clear();
}

const std::string* ErrorPlaces::text(uint32_t ordinal) const {
  auto it = texts_.find(ordinal);
  return it == texts_.end() ? nullptr : &it->second;
}

std::vector<OrdinalRun> Segment::elidable(uint32_t from, uint32_t to) const {
  std::vector<OrdinalRun> runs;
  auto add = [&](uint32_t first, uint32_t last) {
    for (uint32_t kept : unhanded_origins) {
      if (kept < first || kept >= last) continue;
      if (kept > first) runs.push_back({first, kept - first});
      first = kept + 1;
    }
    if (last > first) runs.push_back({first, last - first});
  };
  if (from < gone_prefix) {
    add(from, std::min(to, gone_prefix));
    from = std::min(to, gone_prefix);
  }
  while (!gone.empty() && from < to) {
    from = gone.find(from, to, true);
    uint32_t next = gone.find(from, to, false);
    if (next > from) add(from, next);
    from = next;
  }
  return runs;
}

void Segment::put_gone_event(OrdinalRun run) {
  if (last_gone != SIZE_MAX) {
    std::byte* p = events.data() + last_gone + kEventHeadBytes;
    uint32_t first = load_le<uint32_t>(p), n = load_le<uint32_t>(p + 4);
    if (first + n == run.first) {
      store_le<uint32_t>(p + 4, n + run.count);
      return;
    }
  }
  last_gone = events.size();
  put_gone(events, run);
}

Chunk* Segment::find_chunk(uint32_t offset) const {
  auto it = std::upper_bound(chunks.begin(), chunks.end(), offset,
                             [](uint32_t at, const Chunk* c) { return at < c->start; });
  if (it == chunks.begin()) return nullptr;
  Chunk* chunk = *--it;
  return chunk->data && offset < chunk->start + chunk->used ? chunk : nullptr;
}

size_t Segment::memory_bytes() const {
  size_t bytes = sizeof *this + gone.memory_bytes() + held.memory_bytes() +
                 not_fresh.memory_bytes() + counters.memory_bytes() + events.capacity() +
                 errors.memory_bytes();
  if (parked) bytes += sizeof *parked + parked->ordinals.memory_bytes();
  for (const Chunk* chunk : chunks) bytes += sizeof *chunk + (chunk->data ? chunk->capacity : 0);
  return bytes;
}

}  // namespace tarry
