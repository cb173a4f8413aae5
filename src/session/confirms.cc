#include "session/confirms.h"

#include <algorithm>

namespace tarry {

void Confirms::settle(uint64_t first, uint64_t last, bool refused) {
  first = std::max(first, base_);
  last = std::min(last, next_ - 1);
  for (uint64_t n = first; n <= last; ++n) {
    uint32_t& slot = slots_[n & mask_];
    if ((slot & kWaiting) == 0) continue;
    if (refused) slot |= kRefused;
    if ((--slot & kWaiting) == 0) settled_at(n);
  }
}

void Confirms::grow() {
  const size_t capacity = std::max<size_t>(64, slots_.size() * 2);
  std::vector<uint32_t> bigger(capacity);
  for (uint64_t n = base_; n < next_; ++n) bigger[n & (capacity - 1)] = slots_[n & mask_];
  slots_ = std::move(bigger);
  mask_ = capacity - 1;
}

}  // namespace tarry
