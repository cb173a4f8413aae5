#pragma once

#include <cstdint>
#include <vector>

namespace tarry {

/// The publish numbers of a confirm channel: how many queues each still waits for, and what the
/// client was told. A number is settled when every queue has answered; it is refused when any of
/// them refused it. What was settled leaves by flush(): `multiple` only over a contiguous prefix of
/// settled numbers, and never again once a number was nacked, since clients read it as "all from 1"
/// (a cumulative ack must not span a nack). O(1) per publish, 4 bytes per outstanding number.
class Confirms {
 public:
  /// The next number (from 1). `queues` it waits for; 0: settled at once.
  uint64_t add(uint32_t queues) {
    if (next_ - base_ == slots_.size()) grow();
    slots_[next_ & mask_] = queues;
    if (queues == 0) settled_at(next_);
    return next_++;
  }
  /// One queue has answered for these numbers. Those that are not outstanding are ignored.
  void settle(uint64_t first, uint64_t last, bool refused);
  /// True if flush() has something to tell.
  bool dirty() const { return dirty_; }
  uint64_t outstanding() const { return next_ - base_ - out_of_order_; }
  uint64_t next_number() const { return next_; }

  /// `tell(tag, multiple, ack)` in the order to send.
  template <class F>
  void flush(F&& tell) {
    if (!dirty_) return;
    dirty_ = false;
    uint64_t acked_to = 0;
    bool several = false;
    while (base_ < next_) {
      const uint32_t slot = slots_[base_ & mask_];
      if ((slot & kWaiting) != 0) break;
      const bool told = (slot & kTold) != 0;
      if (told) {
        --out_of_order_;
      } else if ((slot & kRefused) != 0) {
        if (acked_to != 0) tell(acked_to, several, true);
        acked_to = 0;
        nacked_ = true;
        tell(base_, false, false);
      } else if (nacked_) {
        tell(base_, false, true);
      } else {
        several = acked_to != 0;
        acked_to = base_;
      }
      ++base_;
    }
    if (acked_to != 0) tell(acked_to, several, true);
    for (const Range& range : early_) {
      for (uint64_t n = range.first < base_ ? base_ : range.first; n <= range.last; ++n) {
        uint32_t& slot = slots_[n & mask_];
        if ((slot & (kWaiting | kTold)) != 0) continue;
        slot |= kTold;
        ++out_of_order_;
        if ((slot & kRefused) != 0) nacked_ = true;
        tell(n, false, (slot & kRefused) == 0);
      }
    }
    early_.clear();
  }

 private:
  static constexpr uint32_t kTold = 1u << 31, kRefused = 1u << 30, kWaiting = kRefused - 1;
  struct Range {
    uint64_t first, last;
  };

  void settled_at(uint64_t number) {
    dirty_ = true;
    if (number == base_) return;  // the prefix walk finds it
    if (!early_.empty() && early_.back().last + 1 == number) {
      ++early_.back().last;
    } else {
      early_.push_back({number, number});
    }
  }
  void grow();

  std::vector<uint32_t> slots_;  // for base_..next_-1, a power of two of them
  uint64_t mask_ = 0;
  uint64_t base_ = 1;  // the lowest number that the client was not told of
  uint64_t next_ = 1;
  uint64_t out_of_order_ = 0;  // told, above base_
  std::vector<Range> early_;   // settled since the last flush, maybe above base_
  bool dirty_ = false;
  bool nacked_ = false;
};

}  // namespace tarry
