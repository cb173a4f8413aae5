#include "tarrymq/retry/due_histogram.h"

#include <algorithm>

#include "tarrymq/runtime/invariant.h"

namespace tarry {

void DueHistogram::add(uint64_t due_ms) {
  ++count_;
  const uint64_t bucket = due_ms >> shift_;
  if (last_ == buckets_.end() || last_->first != bucket)
    last_ = buckets_.try_emplace(bucket, 0).first;
  ++last_->second;
  while (buckets_.size() > kBucketsMax) widen();
}

void DueHistogram::remove(uint64_t due_ms) {
  auto at = buckets_.begin();  // where what comes due is
  const uint64_t bucket = due_ms >> shift_;
  if (at == buckets_.end() || at->first != bucket) at = buckets_.lower_bound(bucket);
  TARRY_INVARIANT(!buckets_.empty());
  // One whose due time was damaged on disk after it was counted comes at another one: then a
  // neighbour's place is given up, so that the sum stays right.
  if (at == buckets_.end()) at = std::prev(at);
  --count_;
  if (--at->second > 0) return;
  if (at == last_) last_ = buckets_.end();
  buckets_.erase(at);
  if (count_ == 0) shift_ = 0;
}

void DueHistogram::clear() {
  buckets_.clear();
  last_ = buckets_.end();
  shift_ = 0;
  count_ = 0;
}

void DueHistogram::widen() {
  Buckets wider;
  for (const auto& [bucket, count] : buckets_) wider[bucket >> 1] += count;
  buckets_ = std::move(wider);
  last_ = buckets_.end();
  ++shift_;
}

DueHistogram::Place DueHistogram::find(uint64_t rank) const {
  TARRY_INVARIANT(rank < count_);
  for (const auto& [bucket, count] : buckets_) {
    if (rank < count) return {bucket << shift_, rank};
    rank -= count;
  }
  return {};
}

DueHistogram::Below DueHistogram::below(uint64_t due_ms) const {
  const uint64_t wanted = due_ms >> shift_;
  Below out{0, wanted << shift_, 0};
  for (const auto& [bucket, count] : buckets_) {
    if (bucket >= wanted) {
      if (bucket == wanted) out.count = count;
      break;
    }
    out.before += count;
  }
  return out;
}

std::vector<DueHistogram::Row> DueHistogram::rows(size_t most) const {
  std::vector<Row> out;
  if (count_ == 0 || most == 0) return out;
  const uint64_t first = buckets_.begin()->first, last = buckets_.rbegin()->first;
  uint32_t wider = 0;
  while (wider < 63 && (last >> wider) - (first >> wider) >= most) ++wider;
  const uint32_t shift = shift_ + wider;
  for (const auto& [bucket, count] : buckets_) {
    const uint64_t from_ms = (bucket >> wider) << shift;
    if (out.empty() || out.back().from_ms != from_ms)
      out.push_back({from_ms, from_ms + (uint64_t{1} << shift), 0});
    out.back().count += count;
  }
  return out;
}

}  // namespace tarry
