#include "tarrymq/storage/due_index.h"

#include <algorithm>
#include <utility>

#include "storage/due_index_impl.h"
#include "tarrymq/runtime/invariant.h"

// Memory: adding, taking in order, and what leaves memory when the budget is used up.
// due_index_table.cc: the disk; due_index_cold.cc: what is read from elsewhere; due_index_scan.cc:
// looking without taking, and taking out of turn.

namespace tarry {
namespace {

constexpr size_t kLanesMax = 16;
constexpr size_t kEvictCountMax = 32;  // a lane with more is in use: the odd delay goes to the heap
constexpr int64_t kFarOverBudget = 3;
constexpr uint64_t kKeepMs = 3000;  // what is due sooner would be read back at once

}  // namespace

std::unique_ptr<DueIndex> DueIndex::create(DueStore& store, Shard& shard, QueueId, uint8_t) {
  return std::make_unique<DueIndexImpl>(static_cast<DueStoreImpl&>(store).core(), shard);
}

/// The source whose head comes first, and the key at which another source takes over. Sources:
/// lanes by their index, then the heap, then the page.
struct DueIndexImpl::Heads {
  std::optional<size_t> best;
  DueKey first = kDueKeyMax;
  DueKey second = kDueKeyMax;

  void offer(size_t source, DueKey key) {
    if (!best || key < first) {
      if (best) second = first;
      best = source;
      first = key;
    } else if (key < second) {
      second = key;
    }
  }
};

DueIndexImpl::DueIndexImpl(std::shared_ptr<DueStoreCore> core, Shard& shard)
    : core_(std::move(core)),
      shard_(shard),
      self_(std::make_shared<DueIndexImpl*>(this)),
      generation_(core_->new_generation()),
      timer_([this] { on_timer(); }),
      cold_timer_([this] { tend_cold(now_ms()); }) {}

DueIndexImpl::~DueIndexImpl() {
  clear();
  core_->count(uncounted_);
  *self_ = nullptr;
}

// -- Adding

void DueIndexImpl::add(const DueEntry& entry) {
  last_due_ms_ = size_ == 0 ? entry.due_ms : std::max(last_due_ms_, entry.due_ms);
  ++size_;
  add_to_memory(DueItem::pack(entry, ++sequence_));
  count_change(1);
}

void DueIndexImpl::add_to_memory(const DueItem& item) {
  Lane* lane = lane_for(item.delay_ms);
  if (lane && (lane->fifo.empty() || lane->fifo.back().key() < item.key())) {
    lane->fifo.push_back(item);
  } else {
    heap_.push(item);
  }
}

DueIndexImpl::Lane* DueIndexImpl::lane_for(uint32_t delay_ms) {
  if (last_lane_ < lanes_.size() && lanes_[last_lane_].delay_ms == delay_ms)
    return &lanes_[last_lane_];
  size_t least = 0;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].delay_ms == delay_ms) {
      last_lane_ = i;
      return &lanes_[i];
    }
    if (lanes_[i].fifo.size() < lanes_[least].fifo.size()) least = i;
  }
  if (lanes_.size() < kLanesMax) {
    lanes_.push_back({delay_ms, {}});
    last_lane_ = lanes_.size() - 1;
    return &lanes_.back();
  }
  Lane& victim = lanes_[least];
  if (victim.fifo.size() > kEvictCountMax) return nullptr;
  for (const auto& item : victim.fifo) {
    if (item.dead())
      count_change(-1);
    else
      heap_.push(item);
  }
  victim.fifo.clear();
  victim.delay_ms = delay_ms;
  last_lane_ = least;
  return &victim;
}

// -- Taking

const DueItem& DueIndexImpl::head(size_t source) const {
  if (source < lanes_.size()) return lanes_[source].fifo.front();
  return source == lanes_.size() ? heap_.top() : page_.front();
}

bool DueIndexImpl::nothing_in(size_t source) const {
  return source < lanes_.size()    ? lanes_[source].fifo.empty()
         : source == lanes_.size() ? heap_.empty()
                                   : page_.empty();
}

void DueIndexImpl::pop(size_t source) {
  if (source < lanes_.size()) {
    lanes_[source].fifo.pop_front();
  } else if (source == lanes_.size()) {
    heap_.pop();
  } else {
    page_.pop_front();
  }
  if (!nothing_in(source) && head(source).dead()) [[unlikely]]
    drop_dead(source);
}

DueIndexImpl::Heads DueIndexImpl::find_heads() const {
  Heads heads;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i].fifo.empty()) heads.offer(i, lanes_[i].fifo.front().key());
  }
  if (!heap_.empty()) heads.offer(lanes_.size(), heap_.top().key());
  if (!page_.empty()) heads.offer(lanes_.size() + 1, page_.front().key());
  return heads;
}

uint64_t DueIndexImpl::first_held_ms() const { return find_heads().first.due_ms; }

bool DueIndexImpl::takeable(const DueItem& item, uint64_t now_ms) const {
  if (item.due_ms > now_ms) return false;
  if (!cold_.empty() && item.due_ms >= cold_min_ms_) return false;
  return table_count_ == 0 || item.due_ms < table_min_ms_ || item.key() < cursor_;
}

size_t DueIndexImpl::take_due(uint64_t now_ms, std::span<DueEntry> out) {
  size_t taken = 0;
  while (taken < out.size()) {
    const Heads heads = find_heads();
    if (!heads.best || !takeable(head(*heads.best), now_ms)) break;
    const size_t source = *heads.best;
    bool more = true;
    while (more) {
      scan_taken_ = std::max(scan_taken_, head(source).key());
      out[taken++] = head(source).unpack();
      pop(source);
      more = !nothing_in(source) && taken < out.size() && head(source).key() < heads.second &&
             takeable(head(source), now_ms);
    }
  }
  size_ -= taken;
  if (taken > 0) count_change(-static_cast<int64_t>(taken));
  if (table_count_ > 0) {
    if (taken < out.size() && table_min_ms_ <= now_ms) wake_wanted_ = true;
    read_or_arm(std::max(now_ms, this->now_ms()));
  }
  if (!cold_.empty()) {
    if (taken < out.size() && cold_min_ms_ <= now_ms) wake_wanted_ = true;
    tend_cold(std::max(now_ms, this->now_ms()));
  }
  return taken;
}

std::optional<uint64_t> DueIndexImpl::next_due_ms() const {
  const Heads heads = find_heads();
  if (!heads.best && table_count_ == 0 && cold_.empty()) return std::nullopt;
  const uint64_t stored_ms =
      table_count_ > 0 ? std::min(table_min_ms_, cold_min_ms_) : cold_min_ms_;
  return std::min(stored_ms, heads.first.due_ms);
}

std::optional<uint64_t> DueIndexImpl::last_due_ms() const {
  if (size_ == 0) return std::nullopt;
  return last_due_ms_;
}

// -- Budget

void DueIndexImpl::count_change(int64_t change) {
  uncounted_ += change;
  // Every entry, if the budget is tiny; else every 64th: an atomic addition a message is too dear.
  const size_t interval = std::clamp<size_t>(core_->budget() / 64, 1, 64);
  if (++steps_ < interval) return;
  steps_ = 0;
  core_->count(std::exchange(uncounted_, 0));
  if (change > 0) check_budget();
}

void DueIndexImpl::check_budget() {
  const auto budget = static_cast<int64_t>(core_->budget());
  const int64_t held = core_->in_memory();
  if (held <= budget / 2 || now_ms() < no_spill_before_ms_) return;
  // Small batches are dear, but may be all there is when many queues share the budget.
  size_t count_min = std::clamp<size_t>(static_cast<size_t>(budget) / 128, 1, kDuePageCount);
  if (held > budget) count_min = std::max<size_t>(1, count_min / 16);
  if (held > 2 * budget) count_min = std::max<size_t>(1, count_min / 8);
  // One batch a look keeps pace: looks come every 64 entries at most, and a batch has more.
  spill(held > kFarOverBudget * budget ? Pressure::far_over
        : held > budget                ? Pressure::over
                                       : Pressure::rising,
        count_min);
}

/// Moves the latest entries of the fullest place in memory towards the table.
void DueIndexImpl::spill(Pressure pressure, size_t count_min) {
  uint64_t bound_ms = read_until_ms_;
  if (reading_) bound_ms = std::max(bound_ms, reading_until_ms_);
  if (pressure == Pressure::rising) bound_ms = std::max(bound_ms, now_ms() + kKeepMs);
  Lane* fullest = nullptr;
  for (auto& lane : lanes_) {
    if (lane.fifo.size() < count_min || lane.fifo.back().due_ms <= bound_ms) continue;
    if (!fullest || lane.fifo.size() > fullest->fifo.size()) fullest = &lane;
  }
  std::vector<DueItem> items;
  const size_t lane_size = fullest ? fullest->fifo.size() : 0;
  if (heap_.size() >= std::max(count_min, heap_spill_size_) && heap_.size() > lane_size) {
    const size_t before = heap_.size();
    heap_.take_later_half(bound_ms, items);
    // What is left is kept for good reason: no new attempt before the heap has grown by as much
    // again.
    heap_spill_size_ = items.size() * 4 >= before ? 0 : heap_.size() * 2;
  }
  if (items.empty() && fullest) {
    auto& fifo = fullest->fifo;
    while (items.size() < kDuePageCount && !fifo.empty() && fifo.back().due_ms > bound_ms) {
      items.push_back(fifo.back());
      fifo.pop_back();
    }
  }
  if (!items.empty()) spill_items(items, pressure);
}

void DueIndexImpl::clear() {
  drop_memory();
  if (table_count_ > 0 || reading_) end_generation();
  end_cold();
  read_until_ms_ = 0;
  size_ = 0;
  wake_wanted_ = false;
  scan_taken_ = kDueKeyMax;
}

void DueIndexImpl::drop_memory() {
  size_t dropped = heap_.size() + page_.size();
  for (const auto& lane : lanes_) dropped += lane.fifo.size();
  lanes_.clear();
  last_lane_ = 0;
  heap_.clear();
  heap_spill_size_ = 0;
  std::deque<DueItem>().swap(page_);
  core_->count(std::exchange(uncounted_, 0) - static_cast<int64_t>(dropped));
}

}  // namespace tarry
