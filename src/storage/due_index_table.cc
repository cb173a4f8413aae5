#include <algorithm>
#include <utility>

#include "storage/due_index_impl.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/log.h"

// The table's side of a due index: batches to it, pages back from it.

namespace tarry {
namespace {

constexpr uint64_t kReadAheadMs = 1000;  // a page is read this long before it falls due
constexpr uint64_t kPageMs = 2000;       // and reaches this far from now
constexpr size_t kPageLowCount = 1024;   // the next one is read when so few are left
constexpr uint64_t kReadRetryMs = 100;
constexpr uint64_t kPutRetryMs = 500;
constexpr uint32_t kPagesPerErase = 16;  // each range deletion slows reads a little

void sort_by_key(std::vector<DueItem>& items) {
  std::sort(items.begin(), items.end(),
            [](const DueItem& a, const DueItem& b) { return a.key() < b.key(); });
}

}  // namespace

/// Nothing here waits for a disk but in the worst case. While the store thread keeps pace it does
/// the work; when the budget is used up the calling shard puts a batch itself (into RocksDB's
/// memory), so whoever adds faster than can be written pays for it; and far above the budget the
/// shard waits for flushes, since memory must stay bounded.
void DueIndexImpl::spill_items(std::vector<DueItem>& items, Pressure pressure) {
  const size_t before = items.size();
  std::erase_if(items, [](const DueItem& item) { return item.dead(); });
  if (items.size() < before) count_change(-static_cast<int64_t>(before - items.size()));
  keep_cold(items);
  if (items.empty()) return;
  uint64_t min_ms = UINT64_MAX;
  for (const auto& item : items) min_ms = std::min(min_ms, item.due_ms);
  TARRY_INVARIANT(min_ms > read_until_ms_);
  table_min_ms_ = table_count_ == 0 ? min_ms : std::min(table_min_ms_, min_ms);
  table_count_ += items.size();
  if (reading_) put_min_ms_ = std::min(put_min_ms_, min_ms);
  for (size_t at = 0; at < items.size(); at += kDuePageCount) {
    const size_t end = std::min(at + kDuePageCount, items.size());
    std::vector<DueItem> batch(items.begin() + static_cast<ptrdiff_t>(at),
                               items.begin() + static_cast<ptrdiff_t>(end));
    const bool here = pressure == Pressure::far_over || (pressure == Pressure::over && at == 0);
    if (!here || !put_here(batch, pressure == Pressure::far_over)) put_later(std::move(batch));
  }
  if (!reading_ && table_count_ > 0)
    arm(table_min_ms_ > kReadAheadMs ? table_min_ms_ - kReadAheadMs : 0);
}

bool DueIndexImpl::put_here(std::vector<DueItem>& batch, bool may_wait) {
  sort_by_key(batch);
  if (!core_->table().put(generation_, batch, may_wait)) return false;
  core_->count(-static_cast<int64_t>(batch.size()));
  return true;
}

void DueIndexImpl::put_later(std::vector<DueItem> batch) {
  core_->run([core = core_, self = self_, shard = &shard_, generation = generation_,
              moved = std::move(batch)]() mutable {
    sort_by_key(moved);
    if (core->table().put(generation, moved, true)) {
      core->count(-static_cast<int64_t>(moved.size()));
      return;
    }
    shard->post([core, self, generation, kept = std::move(moved)] {
      if (*self) {
        (*self)->put_back(generation, kept);
      } else {
        core->count(-static_cast<int64_t>(kept.size()));
      }
    });
  });
}

/// The table failed to take them: they stay in memory for now.
void DueIndexImpl::put_back(uint64_t generation, const std::vector<DueItem>& items) {
  if (generation != generation_) {  // cleared meanwhile
    core_->count(-static_cast<int64_t>(items.size()));
    return;
  }
  for (const auto& item : items) {
    if (erasing_.erase(item.key().sequence) > 0) {
      core_->count(-1);
      continue;
    }
    heap_.push(item);
    --table_count_;
  }
  no_spill_before_ms_ = now_ms() + kPutRetryMs;
  if (table_count_ == 0 && !reading_) end_generation();
  if (wake_wanted_) arm(now_ms());  // not from here: this may be the owner's call
}

void DueIndexImpl::on_timer() {
  read_or_arm();
  if (!reading_ && std::exchange(wake_wanted_, false) && waker_) waker_();
}

void DueIndexImpl::arm(uint64_t at_ms) {
  const uint64_t now = now_ms();
  const uint64_t wait_ms = at_ms > now ? std::min<uint64_t>(at_ms - now, UINT32_MAX) : 0;
  shard_.timers().schedule(timer_, shard_.steady_now().plus_ms(static_cast<int64_t>(wait_ms)));
}

/// `now_ms` is later than now when somebody takes what is not due yet.
void DueIndexImpl::read_or_arm(uint64_t now_ms) {
  if (reading_ || table_count_ == 0) return;
  if (table_min_ms_ > kReadAheadMs && table_min_ms_ - kReadAheadMs > now_ms) {
    arm(table_min_ms_ - kReadAheadMs);
  } else if (page_.size() <= kPageLowCount) {
    read_page(now_ms);
  }
}

void DueIndexImpl::read_page(uint64_t now_ms) {
  reading_ = true;
  reading_until_ms_ =
      std::max(now_ms > UINT64_MAX - kPageMs ? UINT64_MAX : now_ms + kPageMs, table_min_ms_);
  put_min_ms_ = UINT64_MAX;
  timer_.cancel();
  core_->run([core = core_, self = self_, shard = &shard_, generation = generation_, from = cursor_,
              until_ms = reading_until_ms_] {
    DuePage page;
    const bool good = core->table().read(generation, from, until_ms, kDuePageCount, page);
    core->count(static_cast<int64_t>(page.items.size()));
    shard->post([core, self, generation, good, read = std::move(page)]() mutable {
      if (*self) {
        (*self)->page_read(generation, good, read);
      } else {
        core->count(-static_cast<int64_t>(read.items.size()));
      }
    });
  });
}

void DueIndexImpl::page_read(uint64_t generation, bool good, DuePage& page) {
  const size_t count = page.items.size();
  if (generation != generation_ || !good) {
    core_->count(-static_cast<int64_t>(count));
    if (generation != generation_) return;  // cleared meanwhile
    reading_ = false;
    if (table_count_ == 0) {  // all that was on its way came back
      end_generation();
      if (wake_wanted_) arm(now_ms());
    } else {
      arm(now_ms() + kReadRetryMs);
    }
    return;
  }
  reading_ = false;
  size_t erased = 0;
  for (const DueItem& item : page.items) {
    if (!erasing_.empty() && erasing_.contains(item.key().sequence))
      ++erased;
    else
      page_.push_back(item);
  }
  core_->count(-static_cast<int64_t>(erased));
  TARRY_INVARIANT(count - erased <= table_count_);
  table_count_ -= count - erased;
  if (count > 0) {
    cursor_ = page.items.back().key();
    ++cursor_.sequence;
  }
  const bool full = count == kDuePageCount;
  read_until_ms_ = std::max(read_until_ms_, full ? page.items.back().due_ms : reading_until_ms_);
  if (table_count_ == 0) {
    end_generation();
  } else {
    table_min_ms_ = std::min(page.next_due_ms.value_or(UINT64_MAX), put_min_ms_);
    if (table_min_ms_ == UINT64_MAX) {
      // Puts that were promised are not there. It goes on without them; a restart finds them in the
      // ack logs.
      log_for("storage")->critical(
          "due index: {} waiting entries are missing in RocksDB; a restart recovers them",
          table_count_);
      size_ -= table_count_;
      end_generation();
    } else if (++pages_to_erase_ >= kPagesPerErase) {
      pages_to_erase_ = 0;
      core_->erase_later(generation_, cursor_);
    }
  }
  read_or_arm();
  if (std::exchange(wake_wanted_, false) && waker_) waker_();
}

void DueIndexImpl::end_generation() {
  core_->erase_later(generation_, kDueKeyMax);
  generation_ = core_->new_generation();
  table_count_ = 0;
  table_min_ms_ = 0;
  cursor_ = {};
  read_until_ms_ =
      page_.empty() ? 0 : page_.back().due_ms;  // so that the next page goes behind this one
  pages_to_erase_ = 0;
  reading_ = false;
  erasing_.clear();
  timer_.cancel();
}

}  // namespace tarry
