// Scenario `churn`: connections, channels or queues made and ended one after another, on each of
// --publishers threads; with --hold N so many of them are made and then held for --seconds, to see
// what each costs.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "perf/histogram.h"
#include "perf/link.h"
#include "perf/report.h"

namespace tarry::perf {
namespace {

constexpr uint16_t kChurnedChannel = 2;

std::string declare_frame(const Options& options, const std::string& name) {
  Encoder declare;
  declare.u16(0)
      .short_string(name)
      .u8(options.durable ? 2 : 0)
      .raw(encode_table(options.queue_arguments));
  return method_frame(1, 50, 10, declare.bytes);
}

/// Makes one, and ends it unless it is held. `name` is only a queue's.
void once(const Options& options, Link* link, const std::string& name) {
  if (options.churned == "connections") {
    Link made(options);
    made.close();
  } else if (options.churned == "channels") {
    link->call_on(kChurnedChannel, 20, 10, Encoder().short_string("").bytes, 11);
    link->call_on(kChurnedChannel, 20, 40, Encoder().u16(200).short_string("").u16(0).u16(0).bytes,
                  41);
  } else {
    declare_queue(*link, name, options.durable, options.queue_arguments);
    delete_queue(*link, name);
  }
}

int churn(const Options& options) {
  uint32_t threads_wanted = std::max(1u, options.publishers);
  std::vector<Histogram> times(threads_wanted);
  std::atomic<uint64_t> done{0};
  ProcessStats before = process_stats(options.broker_pid);
  int64_t began = now_ns(), end = options.seconds > 0
                                      ? began + static_cast<int64_t>(options.seconds * 1e9)
                                      : INT64_MAX;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < threads_wanted; ++i) {
    threads.emplace_back([&, i] {
      auto link = options.churned == "connections" ? nullptr : std::make_unique<Link>(options);
      for (uint64_t n = i; (options.count == 0 || n < options.count) && now_ns() < end;
           n += threads_wanted) {
        int64_t start = now_ns();
        once(options, link.get(), options.queue_prefix + ".churn." + std::to_string(n));
        times[i].record(now_ns() - start);
        ++done;
      }
    });
  }
  std::atomic<bool> stop{false};
  std::thread printer([&] {
    uint64_t last = 0;
    for (int second = 1; !stop; ++second) {
      while (!stop && now_ns() < began + second * 1'000'000'000ll) ::usleep(10'000);
      if (!stop && !options.json_only) std::printf("%4d s  %lu/s\n", second, done - last);
      std::fflush(stdout);
      last = done;
    }
  });
  for (auto& thread : threads) thread.join();
  double seconds = static_cast<double>(now_ns() - began) * 1e-9;
  stop = true;
  printer.join();
  ProcessStats after = options.broker_pid > 0 ? process_stats(options.broker_pid) : before;
  Histogram all;
  for (auto& each : times) all.merge(each);
  Report(options)
      .text("what", options.churned)
      .number("done", all.count())
      .rate("done_per_s", all.count(), seconds)
      .real("seconds", seconds, 3)
      .quantiles("", all)
      .costs(before, after, all.count())
      .print();
  return 0;
}

/// Methods of one connection that are answered by `answer_id`: up to kAhead are under way at a time
/// if they are pipelined, else one.
template <class FrameOf>
void run_queue_methods(const Options& options, Link& link, uint16_t answer_id, FrameOf&& frame_of) {
  constexpr uint32_t kAhead = 1000, kBatch = 100;
  const uint32_t ahead = options.pipelined ? kAhead : 1, batch = options.pipelined ? kBatch : 1;
  uint32_t sent = 0;
  for (uint32_t answered = 0; answered < options.hold; ++answered) {
    std::string frames;
    while (sent < options.hold && sent - answered < ahead &&
           (!frames.empty() || sent - answered + batch <= ahead)) {
      frames += frame_of(options.queue_prefix + ".held." + std::to_string(sent++));
    }
    if (!frames.empty()) link.tell(frames);
    link.await(50, answer_id);
  }
}

void make_queues(const Options& options, Link& link) {
  run_queue_methods(options, link, 11,
                    [&](const std::string& name) { return declare_frame(options, name); });
}

void end_queues(const Options& options, Link& link) {
  run_queue_methods(options, link, 41, [](const std::string& name) {
    return method_frame(1, 50, 40, Encoder().u16(0).short_string(name).u8(0).bytes);
  });
}

int hold(const Options& options) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  Link first(options);
  std::vector<std::unique_ptr<Link>> links;
  ProcessStats before = process_stats(options.broker_pid);
  int64_t began = now_ns();
  for (uint32_t i = 0; options.churned == "connections" && i < options.hold; ++i) {
    links.push_back(std::make_unique<Link>(options, Link::Idle{}));
  }
  for (uint32_t i = 0; options.churned == "channels" && i < options.hold; ++i) {
    first.call_on(static_cast<uint16_t>(i + 2), 20, 10, Encoder().short_string("").bytes, 11);
  }
  if (options.churned == "queues") make_queues(options, first);
  double seconds = static_cast<double>(now_ns() - began) * 1e-9;
  ::usleep(static_cast<useconds_t>(std::max(0.2, options.seconds) * 1e6));
  ProcessStats held = process_stats(options.broker_pid);
  double end_seconds = 0;
  if (options.churned == "queues" && !options.keep_queues) {
    const int64_t end_began = now_ns();
    end_queues(options, first);
    end_seconds = static_cast<double>(now_ns() - end_began) * 1e-9;
  }
  uint64_t grown = held.heap_bytes - std::min(held.heap_bytes, before.heap_bytes);
  Report report(options);
  report.text("what", options.churned)
      .number("held", options.hold)
      .rate("made_per_s", options.hold, seconds);
  if (end_seconds > 0) report.rate("ended_per_s", options.hold, end_seconds);
  report.number("heap_growth_bytes", grown)
      .real("heap_bytes_each", static_cast<double>(grown) / std::max(1u, options.hold), 0)
      .costs(before, held, options.hold)
      .print();
  return 0;
}

}  // namespace

int run_churn(const Options& options) { return options.hold > 0 ? hold(options) : churn(options); }

}  // namespace tarry::perf
