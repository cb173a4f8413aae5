// Scenario `dead-letter`: every message is rejected until it dies, and must come out of the
// dead-letter queue once.
// --rejects 0: rejected without requeue, which any broker understands; else the delivery limit is
// --rejects.

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "perf/delivery_reader.h"
#include "perf/filler.h"
#include "perf/report.h"

namespace tarry::perf {
namespace {

std::string dead_name(const Options& options) { return options.queue_prefix + ".dead"; }

void declare_dying(const Options& options) {
  Link link(options);
  delete_queue(link, dead_name(options));
  declare_queue(link, dead_name(options), options.durable, {});
  Arguments arguments = {{"x-dead-letter-exchange", ""},
                         {"x-dead-letter-routing-key", dead_name(options)}};
  if (options.rejects > 0) {
    arguments.insert(arguments.end(),
                     {{"x-delayed-retry-min", std::to_string(options.retry_min_ms)},
                      {"x-delayed-retry-multiplier", "1"},
                      {"x-delivery-limit", std::to_string(options.rejects)}});
  }
  declare_queues(options, arguments);
}

/// Rejects what comes from the queues and counts what comes from the dead-letter queue; one thread.
class Undertaker {
 public:
  explicit Undertaker(const Options& options) : options_(options), ledger_(options.publishers) {
    auto add = [&] {
      links_.push_back(std::make_unique<Link>(options));
      return links_.back().get();
    };
    for (uint32_t i = 0; i < options.consumers; ++i)
      start_consuming(*add(), options, i % options.queues, false);
    consume(*add(), dead_name(options), true);
    for (auto& link : links_) {
      link->make_asynchronous();
      polled_.push_back({link->fd(), POLLIN, 0});
    }
    readers_.resize(links_.size());
  }
  void run(const std::atomic<bool>& stop) {
    const std::string reject =
        method_frame(1, 60, 90, std::string(8, '\0') + (options_.rejects > 0 ? '\1' : '\0'));
    while (!stop) {
      for (size_t i = 0; i < links_.size(); ++i)
        polled_[i].events = POLLIN | (links_[i]->out.empty() ? 0 : POLLOUT);
      ::poll(polled_.data(), polled_.size(), 20);
      for (size_t i = 0; i < links_.size(); ++i) {
        Link& link = *links_[i];
        bool dead = i + 1 == links_.size();
        readers_[i].read(link, [&](const Delivery& delivery) {
          if (dead) {
            if (!ledger_.note(delivery.number))
              ++doubled;
            else
              buried.fetch_add(1, std::memory_order_relaxed);
            return;
          }
          size_t at = link.out.size();
          link.out += reject;
          store64(link.out.data() + at + kFrameHead + 4, delivery.tag);
          rejected.fetch_add(1, std::memory_order_relaxed);
        });
        (void)link.flush();
      }
    }
  }
  std::atomic<uint64_t> rejected{0}, buried{0};
  uint64_t doubled = 0;

 private:
  const Options& options_;
  Ledger ledger_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<DeliveryReader> readers_;
  std::vector<pollfd> polled_;
};

}  // namespace

int run_dead_letter(const Options& options) {
  declare_dying(options);
  Undertaker undertaker(options);
  ProcessStats before = process_stats(options.broker_pid);
  int64_t began = now_ns(), last_move = began,
          patience = static_cast<int64_t>(options.drain_seconds * 1e9);
  std::atomic<bool> stop{false};
  std::thread rejecting([&] { undertaker.run(stop); });
  auto filler = std::make_unique<Filler>(options);
  uint64_t last = 0;
  for (int64_t second = 1; undertaker.buried < options.count && now_ns() - last_move < patience;) {
    ::poll(nullptr, 0, 2);
    uint64_t moved = undertaker.rejected + undertaker.buried;
    if (moved != last) last_move = now_ns();
    last = moved;
    if (now_ns() < began + second * 1'000'000'000ll) continue;
    if (!options.json_only) {
      std::printf("%4ld s  sent %lu  rejected %lu  dead %lu\n", second,
                  filler->counters.sent.load(), undertaker.rejected.load(),
                  undertaker.buried.load());
      std::fflush(stdout);
    }
    ++second;
  }
  double seconds = static_cast<double>(now_ns() - began) * 1e-9;
  stop = true;
  rejecting.join();
  ProcessStats after = options.broker_pid > 0 ? process_stats(options.broker_pid) : before;
  uint64_t buried = undertaker.buried, rejections = options.count * (options.rejects + 1ull);
  Report(options)
      .number("messages", options.count)
      .number("dead", buried)
      .number("lost", options.count - buried)
      .number("doubled", undertaker.doubled)
      .number("rejected", undertaker.rejected)
      .number("rejections_expected", rejections)
      .rate("dead_per_s", buried, seconds)
      .real("seconds", seconds, 3)
      .costs(before, after, options.count)
      .print();
  filler.reset();
  if (!options.keep_queues) {
    delete_queues(options);
    Link link(options);
    delete_queue(link, dead_name(options));
  }
  return buried == options.count && undertaker.doubled == 0 && undertaker.rejected == rejections
             ? 0
             : 1;
}

}  // namespace tarry::perf
