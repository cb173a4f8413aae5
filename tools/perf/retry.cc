// Scenario `retry`: every message is rejected k times, then acknowledged; how late (and whether
// ever early) it comes back. The delay of each rejection is reckoned here, from the moment before
// the rejection is sent.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "perf/histogram.h"
#include "perf/ledger.h"
#include "perf/link.h"
#include "perf/process_stats.h"
#include "perf/publisher.h"
#include "perf/report.h"
#include "perf/wire.h"

namespace tarry::perf {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr useconds_t kPublisherNapUs = 200;

/// Retry-spec 1: linear without a multiplier; else min * multiplier^(n-1); capped.
int64_t delay_ns(const Options& options, uint32_t rejections) {
  constexpr uint64_t kDelayMaxMs = UINT32_MAX;
  double ms = static_cast<double>(options.retry_min_ms);
  if (options.retry_multiplier == 0) {
    ms *= rejections;
  } else {
    for (uint32_t i = 1; i < rejections && ms <= static_cast<double>(kDelayMaxMs); ++i) {
      ms *= static_cast<double>(options.retry_multiplier);
    }
  }
  uint64_t cap =
      options.retry_max_ms > 0 ? std::min(options.retry_max_ms, kDelayMaxMs) : kDelayMaxMs;
  return static_cast<int64_t>(std::min(ms, static_cast<double>(cap))) * kMs;
}

struct MessageState {
  int64_t due_ns = 0;  // of the next delivery; 0 before the first rejection
  uint32_t rejections = 0;
  bool done = false;
};

/// All consumers on one thread, with poll: the pace is set by the delays.
class Rejector {
 public:
  Rejector(const Options& options, uint64_t per_publisher)
      : options_(options), states_(options.publishers, std::vector<MessageState>(per_publisher)) {
    for (uint32_t i = 0; i < options.consumers; ++i) {
      links_.push_back(std::make_unique<Link>(options));
      start_consuming(*links_.back(), options, i % options.queues, false);
      links_.back()->make_asynchronous();
      polled_.push_back({links_.back()->fd(), POLLIN, 0});
    }
  }

  void run(uint64_t messages, std::atomic<bool>& stop) {
    while (completed < messages && !stop) {
      for (size_t i = 0; i < links_.size(); ++i)
        polled_[i].events = POLLIN | (links_[i]->out.empty() ? 0 : POLLOUT);
      ::poll(polled_.data(), polled_.size(), 20);
      for (auto& link : links_) {
        while (link->receive() > 0) {
          arrived_ns_ = now_ns();
          each_frame(*link, [&](uint8_t type, std::string_view payload) {
            on_frame(*link, type, payload);
          });
        }
        (void)link->flush();  // the rest waits for POLLOUT
      }
    }
    // Acknowledgements that are still in the buffer.
    for (int i = 0; i < 100; ++i) {
      bool all = true;
      for (auto& link : links_) all = link->flush() && all;
      if (all) break;
      ::poll(nullptr, 0, 10);
    }
  }

  std::atomic<uint64_t> completed{0}, rejected{0};
  uint64_t early = 0, doubled = 0;
  double early_worst_ms = 0;
  Histogram lags;  // behind the due time, of all returns

 private:
  void on_frame(Link& link, uint8_t type, std::string_view payload) {
    if (type == kMethodFrame) {
      uint32_t key = load32(payload.data());
      if (key != kBasicDeliver) return Link::check_close(key, payload.substr(4));
      tag_ = load64(payload.data() + 5 + static_cast<uint8_t>(payload[4]));
    } else if (type == kHeaderFrame) {
      body_bytes_ = body_left_ = load64(payload.data() + 4);
    } else if (type == kBodyFrame) {
      if (body_left_ == body_bytes_) number_ = load64(payload.data());
      body_left_ -= payload.size();
      if (body_left_ == 0) on_message(link);
    }
  }
  void on_message(Link& link) {
    uint32_t publisher = MessageNumber::publisher(number_);
    uint64_t sequence = MessageNumber::sequence(number_);
    if (publisher >= states_.size() || sequence >= states_[publisher].size())
      die("a message that was never sent");
    MessageState& state = states_[publisher][sequence];
    if (state.due_ns != 0) {
      int64_t lag = arrived_ns_ - state.due_ns;
      lags.record(lag);
      if (lag < 0) {
        ++early;
        early_worst_ms = std::max(early_worst_ms, static_cast<double>(-lag) / kMs);
      }
    }
    if (state.done) ++doubled;
    if (state.rejections >= options_.rejects) {
      link.out += method_frame(1, 60, 80, Encoder().u64(tag_).u8(0).bytes);
      if (!state.done) completed.fetch_add(1, std::memory_order_relaxed);
      state.done = true;
    } else {
      // A rejection; by the wait-queue pattern one without requeue, which dead-letters to the queue
      // that waits.
      link.out +=
          method_frame(1, 60, 90, Encoder().u64(tag_).u8(options_.wait_queue ? 0 : 1).bytes);
      state.due_ns = now_ns() + delay_ns(options_, ++state.rejections);
      rejected.fetch_add(1, std::memory_order_relaxed);
    }
  }

  const Options& options_;
  std::vector<std::vector<MessageState>> states_;  // by publisher and sequence
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<pollfd> polled_;
  int64_t arrived_ns_ = 0;
  uint64_t tag_ = 0, number_ = 0, body_bytes_ = 0, body_left_ = 0;
};

std::string wait_queue_name(const Options& options, uint32_t queue) {
  return queue_name(options, queue) + ".wait";
}

/// The wait-queue pattern, with standard arguments alone: dead letters go to a queue whose messages
/// expire back.
void declare_wait_queues(const Options& options) {
  Link link(options);
  for (uint32_t i = 0; i < options.queues; ++i) {
    delete_queue(link, queue_name(options, i));
    delete_queue(link, wait_queue_name(options, i));
    Arguments waiting = {{"x-message-ttl", std::to_string(options.retry_min_ms)},
                         {"x-dead-letter-exchange", ""},
                         {"x-dead-letter-routing-key", queue_name(options, i)}};
    declare_queue(link, wait_queue_name(options, i), options.durable, waiting);
    auto arguments = options.queue_arguments;
    arguments.insert(arguments.end(), {{"x-dead-letter-exchange", ""},
                                       {"x-dead-letter-routing-key", wait_queue_name(options, i)}});
    declare_queue(link, queue_name(options, i), options.durable, arguments);
  }
}

Arguments retry_arguments(const Options& options) {
  std::vector<std::pair<std::string, std::string>> arguments = {
      {"x-delayed-retry-min", std::to_string(options.retry_min_ms)},
      {"x-delivery-limit", std::to_string(options.rejects + 5)}};
  if (options.retry_multiplier > 0) {
    arguments.emplace_back("x-delayed-retry-multiplier", std::to_string(options.retry_multiplier));
  }
  if (options.retry_max_ms > 0)
    arguments.emplace_back("x-delayed-retry-max", std::to_string(options.retry_max_ms));
  return arguments;
}

}  // namespace

int run_retry(const Options& options) {
  if (options.wait_queue)
    declare_wait_queues(options);
  else
    declare_queues(options, retry_arguments(options));
  Counters counters;
  uint64_t share = options.count / options.publishers, messages = share * options.publishers;
  Rejector rejector(options, share);
  std::vector<std::unique_ptr<Publisher>> publishers;
  for (uint32_t i = 0; i < options.publishers; ++i) {
    publishers.push_back(std::make_unique<Publisher>(options, i, share, counters));
  }
  ProcessStats before = process_stats(options.broker_pid);
  int64_t began = now_ns();
  std::atomic<bool> stop{false};
  std::thread rejecting([&] {
    rejector.run(messages, stop);
    stop = true;
  });
  std::thread publishing([&] {
    for (;;) {
      bool open = false, moved = false;
      for (auto& publisher : publishers) {
        moved = publisher->pump(now_ns(), true) || moved;
        open = open || !publisher->sent_all() || !publisher->all_confirmed();
      }
      if (!open || stop) return;
      if (!moved) ::usleep(kPublisherNapUs);
    }
  });
  // The slowest way through: every delay, one after another, and the patience on top of the last
  // sign of life.
  uint64_t last = 0;
  int64_t last_move = began, longest = delay_ns(options, options.rejects) +
                                       static_cast<int64_t>(options.drain_seconds * 1e9);
  for (int second = 1; !stop; ++second) {
    while (!stop && now_ns() < began + second * 1'000 * kMs) ::poll(nullptr, 0, 10);
    uint64_t moved = rejector.completed + rejector.rejected;
    if (!options.json_only && !stop) {
      std::printf("%4d s  sent %lu  rejected %lu  completed %lu\n", second, counters.sent.load(),
                  rejector.rejected.load(), rejector.completed.load());
      std::fflush(stdout);
    }
    if (moved != last) last_move = now_ns();
    last = moved;
    if (now_ns() - last_move > longest) stop = true;
  }
  publishing.join();
  rejecting.join();
  double seconds = static_cast<double>(now_ns() - began) * 1e-9;
  ProcessStats after = options.broker_pid > 0 ? process_stats(options.broker_pid) : before;
  uint64_t completed = rejector.completed;
  const Histogram& lags = rejector.lags;
  auto ms = [](uint64_t ns) { return static_cast<double>(ns) / kMs; };
  Report(options)
      .text("by", options.wait_queue ? "wait-queue" : "retry")
      .number("messages", messages)
      .number("completed", completed)
      .number("lost", messages - completed)
      .number("doubled", rejector.doubled)
      .number("rejected", rejector.rejected)
      .number("early", rejector.early)
      .real("early_worst_ms", rejector.early_worst_ms, 3)
      .real("lag_p50_ms", ms(lags.at(0.5)), 3)
      .real("lag_p99_ms", ms(lags.at(0.99)), 3)
      .real("lag_p999_ms", ms(lags.at(0.999)), 3)
      .real("lag_max_ms", ms(lags.max()), 3)
      .rate("completed_per_s", completed, seconds)
      .real("seconds", seconds, 3)
      .costs(before, after, messages)
      .print();
  publishers.clear();
  if (!options.keep_queues) delete_queues(options);
  if (options.wait_queue) {
    Link link(options);
    for (uint32_t i = 0; i < options.queues; ++i) delete_queue(link, wait_queue_name(options, i));
  }
  return completed == messages && rejector.early == 0 && rejector.doubled == 0 ? 0 : 1;
}

}  // namespace tarry::perf
