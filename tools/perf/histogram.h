#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tarry::perf {

/// Counts of durations in buckets less than 1 % wide, as HdrHistogram has them (Debian packages it
/// for Java and Go alone). One thread; merge() brings several together.
class Histogram {
 public:
  Histogram() : counts_(kBuckets) {}
  /// ns; what is negative counts as 0.
  void record(int64_t ns) {
    uint64_t value = ns > 0 ? static_cast<uint64_t>(ns) : 0;
    ++counts_[bucket(value)];
    ++count_;
    max_ = std::max(max_, value);
  }
  void merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }
  uint64_t count() const { return count_; }
  /// The value that the share `quantile` (0 to 1) does not exceed, rounded up to its bucket's end;
  /// 0 when empty.
  uint64_t at(double quantile) const {
    auto wanted = static_cast<uint64_t>(quantile * static_cast<double>(count_));
    wanted = std::clamp<uint64_t>(wanted, 1, std::max<uint64_t>(1, count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen >= wanted) return std::min(max_, bucket_end(i));
    }
    return max_;
  }
  uint64_t max() const { return max_; }

 private:
  // Up to 2^kBits one bucket a value; above, 2^kBits buckets for each power of two.
  static constexpr uint32_t kBits = 7, kPowers = 64 - kBits;
  static constexpr size_t kBuckets = (kPowers + 1) << kBits;
  static size_t bucket(uint64_t value) {
    if (value < (1u << kBits)) return value;
    auto shift = static_cast<uint32_t>(std::bit_width(value)) - kBits - 1;
    return (static_cast<size_t>(shift) << kBits) + (value >> shift);
  }
  static uint64_t bucket_end(size_t at) {
    if (at < (2u << kBits)) return at;
    size_t shift = (at >> kBits) - 1;
    return ((at - (shift << kBits) + 1) << shift) - 1;
  }

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0, max_ = 0;
};

}  // namespace tarry::perf
