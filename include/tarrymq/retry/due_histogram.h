#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tarry {

/// How many of a companion's entries come due when: exact counts in buckets of equal width, so that
/// the n-th entry is found without walking to it, and an operator sees the shape of what waits
/// (retry-spec 37). A bucket is 1 ms wide until more than kBucketsMax are in use, then twice as
/// wide, and so on; 1 ms again once nothing waits. Pure. A few ns an entry in the common flow,
/// where one comes behind or near the one before.
class DueHistogram {
 public:
  static constexpr size_t kBucketsMax = 4096;

  void add(uint64_t due_ms);
  /// One that was added; if none is left of its time, the next one.
  void remove(uint64_t due_ms);
  void clear();

  uint64_t count() const { return count_; }
  uint64_t width_ms() const { return uint64_t{1} << shift_; }

  /// Where to look for the entry before which `rank` others are due: it is the one behind `skip`
  /// others of those due at or after `due_ms`. Requires: rank < count().
  struct Place {
    uint64_t due_ms = 0;
    uint64_t skip = 0;
  };
  Place find(uint64_t rank) const;
  /// How many are due before the bucket of `due_ms`, which starts at `start_ms` and has `count`.
  struct Below {
    uint64_t before = 0, start_ms = 0, count = 0;
  };
  Below below(uint64_t due_ms) const;

  struct Row {
    uint64_t from_ms = 0, to_ms = 0, count = 0;  // due in [from_ms, to_ms)
  };
  /// At most `most` rows of one width that hold all entries, in order, without empty ones.
  std::vector<Row> rows(size_t most) const;

 private:
  using Buckets = std::map<uint64_t, uint64_t>;  // due time >> shift_ to count
  void widen();

  Buckets buckets_;
  Buckets::iterator last_ = buckets_.end();  // of the latest add()
  uint32_t shift_ = 0;
  uint64_t count_ = 0;
};

}  // namespace tarry
