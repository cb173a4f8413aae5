// Scenarios `latency` (from a publish to its delivery, at a rate) and `confirm-latency` (from a
// publish to its confirm, one at a time).

#include <poll.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "perf/consumer.h"
#include "perf/delivery_reader.h"
#include "perf/histogram.h"
#include "perf/report.h"

namespace tarry::perf {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLongestNap = 1'000'000;

void sleep_until(int64_t ns) {
  timespec t{ns / kSecond, ns % kSecond};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
}

/// The kernel may else put off each of a thread's wake-ups by 50 us.
void wake_on_time() { ::prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); }

/// Consumers that take the time of each delivery, on one thread.
class Timekeeper {
 public:
  Timekeeper(const Options& options) : ledger_(options.publishers), ack_batch_(options.ack_batch) {
    if (options.prefetch > 0) ack_batch_ = std::min(ack_batch_, options.prefetch);
    for (uint32_t i = 0; i < options.consumers; ++i) {
      links_.push_back(std::make_unique<Link>(options));
      start_consuming(*links_.back(), options, i % options.queues, ack_batch_ == 0);
      links_.back()->make_asynchronous();
      polled_.push_back({links_.back()->fd(), POLLIN, 0});
    }
    readers_.resize(links_.size());
    unacked_.resize(links_.size());
  }
  void run(const std::atomic<bool>& stop) {
    wake_on_time();
    while (!stop) {
      ::poll(polled_.data(), polled_.size(), 20);
      for (size_t i = 0; i < links_.size(); ++i) {
        readers_[i].read(*links_[i], [&](const Delivery& delivery) { note(i, delivery); });
        (void)links_[i]->flush();
      }
    }
  }
  std::atomic<uint64_t> received{0};
  uint64_t doubled = 0;
  Histogram times;

 private:
  void note(size_t at, const Delivery& delivery) {
    times.record(now_ns() - static_cast<int64_t>(delivery.stamp));
    if (!ledger_.note(delivery.number)) ++doubled;
    if (ack_batch_ > 0 && ++unacked_[at] >= ack_batch_) {
      links_[at]->out += method_frame(1, 60, 80, Encoder().u64(delivery.tag).u8(1).bytes);
      unacked_[at] = 0;
    }
    received.fetch_add(1, std::memory_order_relaxed);
  }
  Ledger ledger_;
  uint32_t ack_batch_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<DeliveryReader> readers_;
  std::vector<uint32_t> unacked_;
  std::vector<pollfd> polled_;
};

/// Publishes at the rate until the time or the count is over.
void publish_paced(const Options& options, std::vector<std::unique_ptr<Publisher>>& publishers) {
  wake_on_time();
  int64_t end =
      options.seconds > 0 ? now_ns() + static_cast<int64_t>(options.seconds * 1e9) : INT64_MAX;
  for (;;) {
    int64_t now = now_ns(), next = now + kLongestNap;
    bool open = false;
    for (auto& publisher : publishers) {
      publisher->pump(now, now < end);
      bool sending = now < end ? !publisher->sent_all() : !publisher->between_batches();
      open = open || sending || !publisher->all_confirmed();
      if (sending && publisher->between_batches()) next = std::min(next, publisher->next_due());
    }
    if (!open) return;
    sleep_until(next);
  }
}

}  // namespace

int run_latency(const Options& given) {
  Options options = given;
  options.stamped = true;
  if (!options.keep_queues) declare_queues(options, {});
  Timekeeper keeper(options);
  Counters counters;
  std::vector<std::unique_ptr<Publisher>> publishers;
  for (uint32_t i = 0; i < options.publishers; ++i) {
    uint64_t share = options.count / options.publishers + (i < options.count % options.publishers);
    publishers.push_back(
        std::make_unique<Publisher>(options, i, options.count > 0 ? share : UINT64_MAX, counters));
  }
  ProcessStats before = process_stats(options.broker_pid);
  int64_t began = now_ns();
  std::atomic<bool> stop{false}, sent_all{false};
  std::thread receiving([&] { keeper.run(stop); });
  std::thread sending([&] {
    publish_paced(options, publishers);
    sent_all = true;
  });
  uint64_t last = 0;
  int64_t last_move = began, patience = static_cast<int64_t>(options.drain_seconds * 1e9);
  for (int64_t second = 1; !stop;) {
    ::poll(nullptr, 0, 10);
    uint64_t received = keeper.received;
    if (received != last) last_move = now_ns();
    last = received;
    if (sent_all &&
        (received >= counters.sent - counters.refused || now_ns() - last_move > patience))
      stop = true;
    if (now_ns() < began + second * kSecond || stop) continue;
    if (!options.json_only)
      std::printf("%4ld s  sent %lu  received %lu\n", second, counters.sent.load(), received);
    std::fflush(stdout);
    ++second;
  }
  sending.join();
  receiving.join();
  double seconds = static_cast<double>(now_ns() - began) * 1e-9;
  ProcessStats after = options.broker_pid > 0 ? process_stats(options.broker_pid) : before;
  uint64_t expected = counters.sent - counters.refused, received = keeper.received - keeper.doubled;
  uint64_t lost = expected - std::min(expected, received);
  Report(options)
      .number("sent", counters.sent)
      .number("received", keeper.received)
      .number("lost", lost)
      .number("doubled", keeper.doubled)
      .rate("received_per_s", keeper.received, seconds)
      .real("seconds", seconds, 3)
      .quantiles("", keeper.times)
      .costs(before, after, expected)
      .print();
  publishers.clear();
  if (!options.keep_queues) delete_queues(options);
  return lost == 0 && keeper.doubled == 0 ? 0 : 1;
}

int run_confirm_latency(const Options& options) {
  if (!options.keep_queues) declare_queues(options, {});
  ProcessStats before = process_stats(options.broker_pid);
  int64_t began = now_ns(), end = options.seconds > 0
                                      ? began + static_cast<int64_t>(options.seconds * 1e9)
                                      : INT64_MAX;
  uint64_t share = options.count > 0
                       ? std::max<uint64_t>(1, options.count / std::max(1u, options.publishers))
                       : UINT64_MAX;
  std::vector<Histogram> times(options.publishers);
  std::atomic<uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < options.publishers; ++i) {
    threads.emplace_back([&, i] {
      Link link(options);
      link.call(85, 10, std::string(1, '\0'), 11);
      auto message = encode_publish(exchange_name(options),
                                    routing_key(options, i % options.queues), options.persistent,
                                    std::string(options.size_bytes, 'x'), link.frame_max());
      for (uint64_t n = 0; n < share && now_ns() < end; ++n) {
        int64_t start = now_ns();
        link.tell(message.bytes);
        if (!link.confirmed()) ++refused;
        times[i].record(now_ns() - start);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  double seconds = static_cast<double>(now_ns() - began) * 1e-9;
  ProcessStats after = options.broker_pid > 0 ? process_stats(options.broker_pid) : before;
  Histogram all;
  for (auto& each : times) all.merge(each);
  Report(options)
      .number("confirmed", all.count() - refused)
      .number("refused", refused)
      .rate("confirmed_per_s", all.count(), seconds)
      .real("seconds", seconds, 3)
      .quantiles("", all)
      .costs(before, after, all.count())
      .print();
  if (!options.keep_queues) delete_queues(options);
  return refused == 0 ? 0 : 1;
}

}  // namespace tarry::perf
