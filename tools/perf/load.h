#pragma once

#include "perf/consumer.h"
#include "perf/options.h"
#include "perf/process_stats.h"
#include "perf/publisher.h"

namespace tarry::perf {

/// One run of publishers and consumers, each side on a thread of its own, with a line a second.
struct Load {
  /// `publishers` and `consumers` of this run; options.publishers is how many ever numbered
  /// messages.
  Load(const Options& options, uint32_t publishers, uint32_t consumers);
  /// Declares nothing. `already` messages are in the queues and wait for the consumers too.
  void run(uint64_t already = 0);

  /// Copies that consumers should get of each message.
  uint64_t copies() const { return options.exchange_type == "fanout" ? options.queues : 1; }
  uint64_t lost() const;
  double publish_seconds() const { return static_cast<double>(publishing_ended - began) * 1e-9; }
  double receive_seconds() const {
    return findings.last_ns == 0 ? 0 : static_cast<double>(findings.last_ns - began) * 1e-9;
  }
  /// Nothing lost, doubled, out of order, unconfirmed.
  bool well() const;

  const Options& options;
  const uint32_t publishers, consumers;
  Counters counters;
  Findings findings;
  ProcessStats before, after;
  int64_t began = 0, publishing_ended = 0;
  uint64_t already = 0;
  bool confirms_missing = false;
};

}  // namespace tarry::perf
