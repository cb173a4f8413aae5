#include <algorithm>
#include <utility>

#include "storage/due_index_impl.h"
#include "tarrymq/runtime/invariant.h"

// Entries that are stored elsewhere and are read when they come due.

namespace tarry {
namespace {

constexpr uint64_t kColdAheadMs = 1000;
constexpr uint64_t kColdRetryMs = 1000;
// Of one read, which costs a look at all that is stored with what is read: not few, and with many
// overlapping ones not so many that they leave memory for the table at once.
constexpr size_t kColdReadMin = 4096, kColdReadMax = 64 * 1024;
// Worth to be made cold: so many at once of a segment (fewer if the budget is tiny), and not due
// soon.
constexpr size_t kColdKeepMin = kDuePageCount / 4;
constexpr uint64_t kColdKeepAheadMs = 3000;
// More than a segment has ordinals.
constexpr uint64_t kColdRanksMax = uint64_t{1} << 22;

}  // namespace

void DueIndexImpl::add_cold(ColdEntries entries) {
  if (entries.count == 0) return;
  last_due_ms_ = size_ == 0 ? entries.last_due_ms : std::max(last_due_ms_, entries.last_due_ms);
  size_ += entries.count;
  const uint64_t base = std::exchange(sequence_, sequence_ + entries.ranks);
  cold_min_ms_ = std::min(cold_min_ms_, entries.first_due_ms);
  cold_.push_back({std::move(entries), ++cold_id_, base, false, 0, 0});
  tend_cold(now_ms());
}

/// Entries of one delay that leave memory lie together in their segments, and come due together:
/// they need no place in the table. `items` are in any order; what is kept is taken out of them.
void DueIndexImpl::keep_cold(std::vector<DueItem>& items) {
  if (!keeper_) return;
  std::vector<DueItem> rest;
  for (size_t at = 0, end; at < items.size(); at = end) {
    end = at + 1;
    while (end < items.size() && items[end].segment == items[at].segment &&
           items[end].lane == items[at].lane && items[end].stored()) {
      ++end;
    }
    const std::span<const DueItem> group(items.data() + at, end - at);
    if (!keep_group(group)) rest.insert(rest.end(), group.begin(), group.end());
  }
  core_->count(static_cast<int64_t>(rest.size()) - static_cast<int64_t>(items.size()));
  items = std::move(rest);
}

bool DueIndexImpl::keep_group(std::span<const DueItem> group) {
  const size_t least = std::clamp<size_t>(core_->budget() / 64, 1, kColdKeepMin);
  if (group.size() < least || !group[0].stored()) return false;
  uint64_t first_ms = UINT64_MAX, last_ms = 0;
  for (const DueItem& item : group) {
    first_ms = std::min(first_ms, item.due_ms);
    last_ms = std::max(last_ms, item.due_ms);
  }
  if (first_ms < now_ms() + kColdKeepAheadMs) return false;
  const uint8_t lane = group[0].lane;
  const uint32_t segment = group[0].segment;
  auto at = std::find_if(cold_.begin(), cold_.end(), [&](const Cold& cold) {
    return cold.kept && cold.segment == segment && cold.lane == lane;
  });
  // While it is being read nothing is added to it.
  if (at != cold_.end() && at->id == reading_cold_) return false;
  std::vector<DueEntry> entries;
  entries.reserve(group.size());
  for (const DueItem& item : group) entries.push_back(item.unpack());
  ColdReader reader = keeper_(lane, segment, entries);
  if (!reader) return false;
  if (at == cold_.end()) {
    const uint64_t base = std::exchange(sequence_, sequence_ + kColdRanksMax);
    cold_.push_back({{}, ++cold_id_, base, true, lane, segment});
    at = std::prev(cold_.end());
    at->entries.read = std::move(reader);
    at->entries.first_due_ms = UINT64_MAX;
  }
  at->entries.count += group.size();
  at->entries.first_due_ms = std::min(at->entries.first_due_ms, first_ms);
  at->entries.last_due_ms = std::max(at->entries.last_due_ms, last_ms);
  cold_min_ms_ = std::min(cold_min_ms_, first_ms);
  tend_cold(now_ms());
  return true;
}

/// Reads ahead what comes due, as long as nothing that is in memory comes before it: what nobody
/// takes costs no memory.
void DueIndexImpl::tend_cold(uint64_t now_ms) {
  if (cold_.empty() || reading_cold_ != 0) return;
  if (cold_min_ms_ > kColdAheadMs && cold_min_ms_ - kColdAheadMs > now_ms) {
    const uint64_t wait_ms = cold_min_ms_ - kColdAheadMs - now_ms;
    shard_.timers().schedule(
        cold_timer_,
        shard_.steady_now().plus_ms(static_cast<int64_t>(std::min<uint64_t>(wait_ms, UINT32_MAX))));
    return;
  }
  if (first_held_ms() < cold_min_ms_) return;  // taking that comes by here again
  read_cold(*std::min_element(cold_.begin(), cold_.end(), [](const Cold& a, const Cold& b) {
    return a.entries.first_due_ms < b.entries.first_due_ms;
  }));
}

void DueIndexImpl::read_cold(Cold& cold) {
  TARRY_INVARIANT(reading_cold_ == 0);
  reading_cold_ = cold.id;
  // What comes due together has to be in memory together.
  const auto meanwhile = std::count_if(cold_.begin(), cold_.end(), [&](const Cold& other) {
    return other.entries.first_due_ms <= cold.entries.last_due_ms;
  });
  const size_t share = core_->budget() / 2 / static_cast<size_t>(std::max<ptrdiff_t>(meanwhile, 1));
  const size_t least = std::clamp<size_t>(core_->budget() / 2, 16, kColdReadMin);
  cold.entries.read(std::clamp(share, least, kColdReadMax),
                    [self = self_, id = cold.id](ColdRead read) {
                      if (*self) (*self)->cold_read(id, read);
                    });
}

void DueIndexImpl::cold_read(uint64_t id, ColdRead& read) {
  if (reading_cold_ != id) return;  // cleared meanwhile
  reading_cold_ = 0;
  const auto at =
      std::find_if(cold_.begin(), cold_.end(), [&](const Cold& cold) { return cold.id == id; });
  const auto waiting = std::exchange(after_cold_, {});
  if (read.good) {
    // Some may have vanished with where they were stored.
    size_ -= at->entries.count - read.entries.size() - read.left;
    const uint64_t first_sequence = at->sequence_base + 1;
    at->entries.count = read.left;
    at->entries.first_due_ms = read.next_due_ms;
    if (read.left == 0) cold_.erase(at);
    find_cold_min();
    for (const ColdRead::One& one : read.entries) {
      add_to_memory(DueItem::pack(one.entry, first_sequence + one.rank));
      count_change(1);
    }
    tend_cold(now_ms());
  } else {
    shard_.timers().schedule(cold_timer_, shard_.steady_now().plus_ms(kColdRetryMs));
  }
  for (const auto& task : waiting) task(read.good);
  if (read.good && std::exchange(wake_wanted_, false) && waker_) waker_();
}

void DueIndexImpl::find_cold_min() {
  cold_min_ms_ = UINT64_MAX;
  for (const Cold& cold : cold_) cold_min_ms_ = std::min(cold_min_ms_, cold.entries.first_due_ms);
}

void DueIndexImpl::end_cold() {
  cold_.clear();
  cold_min_ms_ = UINT64_MAX;
  reading_cold_ = 0;
  cold_timer_.cancel();
  for (auto& task : std::exchange(after_cold_, {})) shard_.post([task] { task(true); });
}

// -- Scanning

/// The first of those that may have entries at or behind `from`.
DueIndexImpl::Cold* DueIndexImpl::cold_at(DueKey from) {
  Cold* first = nullptr;
  for (Cold& cold : cold_) {
    if (cold.entries.last_due_ms < from.due_ms) continue;
    if (!first || cold.entries.first_due_ms < first->entries.first_due_ms) first = &cold;
  }
  return first;
}

/// What comes before the end of what was found is read, until nothing is missing.
void DueIndexImpl::scan_with_cold(DueKey from, size_t skip, size_t count, Scanned done) {
  scan_held(
      from, 0, skip + count,
      [this, from, skip, count, done = std::move(done)](std::vector<DueFound> found,
                                                        bool whole) mutable {
        const bool full = found.size() == skip + count;
        const uint64_t last_ms = found.empty() ? 0 : found.back().entry.due_ms;
        Cold* cold = cold_at(from);
        const bool misses_some = cold && !(full && cold->entries.first_due_ms > last_ms);
        if (!misses_some || !whole) {
          const auto skipped = static_cast<ptrdiff_t>(std::min(skip, found.size()));
          found.erase(found.begin(), found.begin() + skipped);
          return done(std::move(found), whole);
        }
        after_cold_.push_back([self = self_, from, skip, count, done = std::move(done)](bool good) {
          if (!*self) return;
          if (good) return (*self)->scan_with_cold(from, skip, count, done);
          (*self)->scan_held(from, skip, count, [done](std::vector<DueFound> some, bool) {
            done(std::move(some), false);
          });
        });
        if (reading_cold_ == 0) read_cold(*cold);
      });
}

}  // namespace tarry
