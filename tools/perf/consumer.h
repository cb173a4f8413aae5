#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "perf/ledger.h"
#include "perf/link.h"
#include "perf/publisher.h"

namespace tarry::perf {

/// What the consumers found, all on their one thread.
struct Findings {
  /// A ledger for each queue if each gets a copy of every message, else one for all.
  Findings(uint32_t ledger_count, uint32_t publishers)
      : ledgers(ledger_count, Ledger(publishers)) {}
  std::vector<Ledger> ledgers;
  uint64_t doubled = 0, out_of_order = 0, redelivered = 0;
  int64_t first_ns = 0, last_ns = 0;
};

/// One connection that consumes and checks. The consumer thread's own.
class Consumer {
 public:
  /// `publishers`: how many there are or were.
  Consumer(const Options& options, uint32_t index, uint32_t publishers, Counters& counters,
           Findings& findings);
  int fd() const { return link_.fd(); }
  /// Reads what is there and acknowledges. True if anything came.
  bool pump();
  /// Acknowledges what is left of a batch.
  void finish_batch();

 private:
  void on_frame(uint8_t type, std::string_view payload);
  void note(uint64_t number);
  void on_message();
  void acknowledge();

  Link link_;
  Counters& counters_;
  Findings& findings_;
  Ledger& ledger_;
  const uint64_t size_bytes_;
  uint32_t ack_batch_ = 0, unacked_ = 0;
  uint64_t delivery_tag_ = 0, whole_tag_ = 0;  // of the last delivery that began, that came whole
  uint64_t body_bytes_ = 0, body_left_ = 0, received_ = 0;
  bool redelivered_ = false;
  std::vector<int64_t> last_;  // by publisher
};

}  // namespace tarry::perf
