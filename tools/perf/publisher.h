#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>

#include "perf/link.h"

namespace tarry::perf {

/// What both sides count, read by the printing thread.
struct Counters {
  std::atomic<uint64_t> sent{0}, confirmed{0}, refused{0}, received{0};
  std::atomic<bool> publishing_done{false};
};

/// One connection that publishes as fast as its window, its rate and the socket allow. The messages
/// of a batch are encoded once; only their numbers are written anew before each send. The publisher
/// thread's own.
class Publisher {
 public:
  Publisher(const Options& options, uint32_t index, uint64_t count, Counters& counters);
  int fd() const { return link_.fd(); }
  /// Sends until the socket is full or nothing may be sent; reads confirms. True if anything moved.
  bool pump(int64_t now, bool may_begin_batches);
  bool sent_all() const { return sequence_ >= count_ && batch_at_ == batch_end_; }
  /// When the rate allows the next message, ns; 0 before the first.
  int64_t next_due() const {
    return began_ +
           static_cast<int64_t>(static_cast<double>(sequence_) * 1e9 / static_cast<double>(rate_));
  }
  bool between_batches() const { return batch_at_ == batch_end_; }
  bool all_confirmed() const {
    return window_ == 0 || settled_to_ + settled_ahead_.size() >= sequence_;
  }

 private:
  bool begin_batch(int64_t now);
  void read_confirms();
  void settle(uint64_t tag, bool multiple, bool well);

  Link link_;
  Counters& counters_;
  const uint32_t index_, window_;
  const uint64_t count_, rate_;
  std::string batch_;  // of kept messages, each `stride_` long
  size_t stride_ = 0, body_offset_ = 0;
  bool numbered_ = false, stamped_ = false;
  uint64_t batch_messages_ = 1;
  size_t batch_at_ = 0, batch_end_ = 0;
  uint64_t sequence_ = 0;  // of the next message; also how many were begun
  int64_t began_ = 0;
  // Confirms: tags run from 1. All up to settled_to_ are settled, and those in the set.
  uint64_t settled_to_ = 0;
  std::set<uint64_t> settled_ahead_;
};

}  // namespace tarry::perf
