// Scenario `backlog`: fills the queues while nobody consumes, then drains or purges them.

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "perf/link.h"
#include "perf/load.h"
#include "perf/report.h"
#include "perf/wire.h"

namespace tarry::perf {
namespace {

uint64_t grown(uint64_t before, uint64_t after) { return after - std::min(before, after); }

double per_message_ns(const ProcessStats& before, const ProcessStats& after, uint64_t messages) {
  return (after.cpu_seconds - before.cpu_seconds) * 1e9 /
         static_cast<double>(std::max<uint64_t>(1, messages));
}

/// Seconds it took, and how many went.
std::pair<double, uint64_t> purge(const Options& options) {
  Link link(options);
  uint64_t purged = 0;
  int64_t began = now_ns();
  for (uint32_t i = 0; i < options.queues; ++i) {
    purged += load32(
        link.call(50, 30, Encoder().u16(0).short_string(queue_name(options, i)).u8(0).bytes, 31)
            .data());
  }
  return {static_cast<double>(now_ns() - began) * 1e-9, purged};
}

/// Waits until the queues have all that was sent, which without confirms nobody says; false when
/// they never do.
bool wait_until_filled(const Options& options) {
  Link link(options);
  int64_t last_move = now_ns(), patience = static_cast<int64_t>(options.drain_seconds * 1e9);
  for (uint64_t last = 0;;) {
    uint64_t ready = 0;
    for (uint32_t i = 0; i < options.queues; ++i) {
      constexpr uint8_t kPassive = 1;
      std::string name = queue_name(options, i);
      Encoder declare;
      declare.u16(0)
          .short_string(name)
          .u8(kPassive | (options.durable ? 2 : 0))
          .raw(encode_table({}));
      ready += load32(link.call(50, 10, declare.bytes, 11).data() + 1 + name.size());
    }
    if (ready >= options.count) return true;
    if (ready != last) last_move = now_ns();
    last = ready;
    if (now_ns() - last_move > patience) return false;
    ::usleep(1000);
  }
}

}  // namespace

int run_backlog(const Options& options) {
  if (!options.keep_queues && !options.drain_only) declare_queues(options, {});
  Report report(options);
  report.number("messages", options.count);
  ProcessStats first = process_stats(options.broker_pid);
  bool well = true;
  if (!options.drain_only) {
    Load fill(options, options.publishers, 0);
    fill.run();
    well = fill.well() && wait_until_filled(options);
    fill.after = process_stats(options.broker_pid);
    double seconds = static_cast<double>(now_ns() - fill.began) * 1e-9;
    report.number("confirmed", fill.counters.confirmed)
        .rate("fill_per_s", fill.counters.sent, seconds)
        .real("fill_cpu_ns_per_message", per_message_ns(fill.before, fill.after, options.count), 0)
        .number("heap_growth_bytes", grown(first.heap_bytes, fill.after.heap_bytes));
  }
  ProcessStats filled = process_stats(options.broker_pid), last = filled;
  if (options.purge) {
    auto [seconds, purged] = purge(options);
    last = process_stats(options.broker_pid);
    report.number("purged", purged)
        .real("purge_ms", seconds * 1e3, 1)
        .real("purge_cpu_ns_per_message", per_message_ns(filled, last, purged), 1);
    well = well && purged == options.count;
  } else if (!options.fill_only) {
    Load drain(options, 0, options.consumers);
    drain.run(options.count);
    last = drain.after;
    report.number("received", drain.counters.received)
        .number("lost", drain.lost())
        .number("doubled", drain.findings.doubled)
        .number("out_of_order", drain.findings.out_of_order)
        .rate("drain_per_s", drain.counters.received, drain.receive_seconds())
        .real("drain_cpu_ns_per_message", per_message_ns(drain.before, drain.after, options.count),
              0)
        .number("heap_growth_drained_bytes", grown(first.heap_bytes, drain.after.heap_bytes));
    well = well && drain.well();
  }
  report.costs(first, last, options.count).print();
  if (!options.keep_queues && !options.fill_only) delete_queues(options);
  return well ? 0 : 1;
}

}  // namespace tarry::perf
