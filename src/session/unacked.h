#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "session/queue_refs.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/runtime/clock.h"

namespace tarry {

/// Deliveries with consecutive tags that are consecutive records of one queue, with one counter, to
/// one consumer (or by basic.get): what a client acknowledges at once costs one entry, however many
/// messages it is.
struct UnackedRun {
  uint64_t first_tag = 0;
  QueueRef* queue = nullptr;
  SettleRun settle;
  SteadyTime since;  // when its first was delivered

  uint32_t count() const { return settle.run.count; }
  uint64_t end_tag() const { return first_tag + settle.run.count; }
};

/// The part of a run: `skip` deliveries left out at the front, `count` taken. Where a part behind
/// the front lies in its segment is not known (offset 0: the log looks it up); its bytes are an
/// even share.
inline UnackedRun part_of(const UnackedRun& run, uint32_t skip, uint32_t count) {
  UnackedRun part = run;
  part.first_tag += skip;
  part.settle.run.first.ordinal += skip;
  if (skip > 0) part.settle.run.first.offset = 0;
  part.settle.run.count = count;
  part.settle.body_bytes = run.count() == 0 ? 0 : run.settle.body_bytes * count / run.count();
  return part;
}

/// What a channel has delivered and not heard of, in the order of delivery tags. O(1) at both ends,
/// O(log n) to find a tag; a single tag out of the middle of a run splits it. Runs hold no use of
/// their queue by themselves.
class Unacked {
 public:
  /// Deliveries that are further apart are not joined, so that `since` is right for all of a run
  /// within this.
  static constexpr int64_t kSameTimeNs = 1'000'000'000;

  uint64_t count() const { return count_; }

  /// `one`: a run of a single delivery, its tag above all others. True if it became a run of its
  /// own.
  bool push(const UnackedRun& one) {
    ++count_;
    if (head_ < runs_.size()) {
      UnackedRun& last = runs_.back();
      if (last.count() > 0 && last.end_tag() == one.first_tag && last.queue == one.queue &&
          last.settle.lane == one.settle.lane && last.settle.counter == one.settle.counter &&
          last.settle.consumer == one.settle.consumer &&
          one.since.ns - last.since.ns < kSameTimeNs &&
          last.settle.run.first.segment == one.settle.run.first.segment &&
          last.settle.run.first.ordinal + last.count() == one.settle.run.first.ordinal) {
        ++last.settle.run.count;
        last.settle.body_bytes += one.settle.body_bytes;
        return false;
      }
    }
    runs_.push_back(one);
    return true;
  }

  bool contains(uint64_t tag) const {
    const size_t i = find(tag);
    return i < runs_.size() && tag < runs_[i].end_tag();
  }

  /// The run that holds the tag; null if it is not outstanding. Until the next change.
  const UnackedRun* find_run(uint64_t tag) const {
    const size_t i = find(tag);
    return i < runs_.size() && tag < runs_[i].end_tag() ? &runs_[i] : nullptr;
  }

  /// Everything up to and including `tag`, oldest first. `taken(run, whole)`: `whole` says that the
  /// entry is gone.
  template <class F>
  void take_through(uint64_t tag, F&& taken) {
    while (head_ < runs_.size()) {
      UnackedRun& run = runs_[head_];
      if (run.count() == 0) {
        --dead_;
        ++head_;
        continue;
      }
      if (run.first_tag > tag) break;
      if (run.end_tag() - 1 <= tag) {
        count_ -= run.count();
        const UnackedRun whole = run;
        ++head_;
        taken(whole, true);
        continue;
      }
      const auto n = static_cast<uint32_t>(tag + 1 - run.first_tag);
      const UnackedRun front = part_of(run, 0, n);
      run = part_of(run, n, run.count() - n);
      count_ -= n;
      taken(front, false);
      break;
    }
    tidy();
  }
  template <class F>
  void take_all(F&& taken) {
    take_through(UINT64_MAX, std::forward<F>(taken));
  }

  /// One delivery. False if the tag is not outstanding. `taken(run, entries)`: by how many the
  /// entries changed.
  template <class F>
  bool take_one(uint64_t tag, F&& taken) {
    const size_t i = find(tag);
    if (i >= runs_.size() || tag >= runs_[i].end_tag()) return false;
    UnackedRun& run = runs_[i];
    const auto skip = static_cast<uint32_t>(tag - run.first_tag);
    const UnackedRun one = part_of(run, skip, 1);
    const uint32_t behind = run.count() - skip - 1;
    --count_;
    int entries = 0;
    if (run.count() == 1) {
      entries = -1;
      run.settle.run.count = 0;
      ++dead_;
    } else if (skip == 0) {
      run = part_of(run, 1, behind);
    } else if (behind == 0) {
      run = part_of(run, 0, skip);
    } else {
      entries = 1;
      const UnackedRun tail = part_of(run, skip + 1, behind);
      run = part_of(run, 0, skip);
      runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(i) + 1, tail);
    }
    tidy();
    taken(one, entries);
    return true;
  }

  template <class F>
  void each(F&& f) const {
    for (size_t i = head_; i < runs_.size(); ++i) {
      if (runs_[i].count() > 0) f(runs_[i]);
    }
  }

  /// Takes back what take_* gave, at its old place (tx.rollback). Always an entry of its own.
  void put_back(const UnackedRun& run) {
    auto at = std::upper_bound(
        runs_.begin() + static_cast<std::ptrdiff_t>(head_), runs_.end(), run.first_tag,
        [](uint64_t tag, const UnackedRun& other) { return tag < other.first_tag; });
    runs_.insert(at, run);
    count_ += run.count();
  }

 private:
  /// The last entry that begins at or before `tag`; size() if there is none. Dead entries keep
  /// their first tag (and a run that was put back lies behind a dead one of the same tag).
  size_t find(uint64_t tag) const {
    auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(head_);
    auto at = std::upper_bound(begin, runs_.end(), tag,
                               [](uint64_t t, const UnackedRun& run) { return t < run.first_tag; });
    return at == begin ? runs_.size() : static_cast<size_t>(at - 1 - runs_.begin());
  }

  void tidy() {
    while (head_ < runs_.size() && runs_[head_].count() == 0) {
      --dead_;
      ++head_;
    }
    while (runs_.size() > head_ && runs_.back().count() == 0) {
      --dead_;
      runs_.pop_back();
    }
    if (head_ == runs_.size()) {
      runs_.clear();
      head_ = 0;
      return;
    }
    const size_t left = runs_.size() - head_;
    const bool many_dead = dead_ > 64 && dead_ > left / 2;
    if (many_dead || (head_ > 64 && head_ > left)) {
      runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    if (many_dead) {
      std::erase_if(runs_, [](const UnackedRun& run) { return run.count() == 0; });
      dead_ = 0;
    }
  }

  std::vector<UnackedRun> runs_;  // from head_ on; sorted by first_tag; count 0: dead
  size_t head_ = 0;
  size_t dead_ = 0;  // from head_ on
  uint64_t count_ = 0;
};

}  // namespace tarry
