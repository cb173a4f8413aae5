#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "storage/due_store.h"

namespace tarry {

/// A 4-ary heap of entries, earliest on top: half the levels of a binary one, and the four children
/// lie together.
class DueHeap {
 public:
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  const DueItem& top() const { return items_.front(); }

  void push(const DueItem& item) {
    items_.push_back(item);
    sift_up(items_.size() - 1);
  }

  void pop() {
    items_.front() = items_.back();
    items_.pop_back();
    if (!items_.empty()) sift_down(0);
    if (items_.size() * 4 < items_.capacity() && items_.capacity() > kKeepCount)
      items_.shrink_to_fit();
  }

  /// Moves the later half of the entries to `out`, but none with due_ms <= `bound_ms`. O(size).
  void take_later_half(uint64_t bound_ms, std::vector<DueItem>& out) {
    auto less = [](const DueItem& a, const DueItem& b) { return a.key() < b.key(); };
    auto middle = items_.begin() + static_cast<ptrdiff_t>(items_.size() / 2);
    std::nth_element(items_.begin(), middle, items_.end(), less);
    auto from = std::partition(middle, items_.end(),
                               [&](const DueItem& item) { return item.due_ms <= bound_ms; });
    out.assign(from, items_.end());
    items_.erase(from, items_.end());
    items_.shrink_to_fit();
    for (size_t i = items_.size() / 4 + 1; i-- > 0;) {
      if (i < items_.size()) sift_down(i);
    }
  }

  void clear() { std::vector<DueItem>().swap(items_); }

  /// In no order. Only DueItem::kill() may be done to them.
  std::vector<DueItem>& items() { return items_; }

 private:
  static constexpr size_t kKeepCount = 1024;

  void sift_up(size_t at) {
    const DueItem item = items_[at];
    while (at > 0) {
      const size_t parent = (at - 1) / 4;
      if (items_[parent].key() < item.key()) break;
      items_[at] = items_[parent];
      at = parent;
    }
    items_[at] = item;
  }

  void sift_down(size_t at) {
    const DueItem item = items_[at];
    for (;;) {
      const size_t first = at * 4 + 1;
      if (first >= items_.size()) break;
      const size_t last = std::min(first + 4, items_.size());
      size_t least = first;
      for (size_t i = first + 1; i < last; ++i) {
        if (items_[i].key() < items_[least].key()) least = i;
      }
      if (item.key() < items_[least].key()) break;
      items_[at] = items_[least];
      at = least;
    }
    items_[at] = item;
  }

  std::vector<DueItem> items_;
};

}  // namespace tarry
