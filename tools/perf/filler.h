#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "perf/ledger.h"
#include "perf/link.h"
#include "perf/publisher.h"

namespace tarry::perf {

/// Publishes options.count messages from options.publishers connections on a thread of its own.
class Filler {
 public:
  explicit Filler(const Options& options);
  ~Filler();
  bool done() const { return done_; }
  /// Waits until everything is sent and, with a confirm window, confirmed; false when that takes
  /// longer than `seconds`.
  bool wait(double seconds) const;
  Counters counters;

 private:
  void run();
  std::vector<std::unique_ptr<Publisher>> publishers_;
  std::atomic<bool> done_{false}, stop_{false};
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tarry::perf
