// Scenarios `throughput`, `fanout` and `topic`: publishers and consumers at full speed (or at
// --rate).

#include <algorithm>

#include "perf/link.h"
#include "perf/load.h"
#include "perf/report.h"

namespace tarry::perf {

int run_throughput(const Options& options) {
  if (!options.keep_queues) declare_queues(options, {});
  Load load(options, options.publishers, options.consumers);
  load.run(options.publishers == 0 ? options.count : 0);
  uint64_t sent = load.counters.sent, received = load.counters.received;
  Report(options)
      .number("sent", sent)
      .number("confirmed", load.counters.confirmed)
      .number("refused", load.counters.refused)
      .number("received", received)
      .number("lost", load.lost())
      .number("doubled", load.findings.doubled)
      .number("out_of_order", load.findings.out_of_order)
      .number("redelivered", load.findings.redelivered)
      .rate("sent_per_s", sent, load.publish_seconds())
      .rate("received_per_s", received, load.receive_seconds())
      .real("seconds", std::max(load.publish_seconds(), load.receive_seconds()), 3)
      .costs(load.before, load.after, std::max(sent, received))
      .print();
  if (!options.keep_queues) delete_queues(options);
  return load.well() ? 0 : 1;
}

}  // namespace tarry::perf
