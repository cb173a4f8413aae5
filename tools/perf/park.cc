// Scenario `park`: every message is rejected once into a delay (--retry-min) that outlasts the
// rejecting; then nobody consumes until all are due, and they are drained.

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

/// Rejects, or acknowledges, `ack_batch` deliveries at once on each connection. Ends when
/// `messages` came, or when none came for drain_seconds.
class Parker {
 public:
  Parker(const Options& options, bool rejects)
      : options_(options),
        ledger_(options.publishers),
        rejects_(rejects),
        batch_(std::clamp(options.ack_batch, 1u,
                          options.prefetch > 0 ? options.prefetch : UINT32_MAX)) {
    for (uint32_t i = 0; i < options.consumers; ++i) {
      links_.push_back(std::make_unique<Link>(options));
      start_consuming(*links_.back(), options, i % options.queues, false);
      links_.back()->make_asynchronous();
      polled_.push_back({links_.back()->fd(), POLLIN, 0});
    }
    readers_.resize(links_.size());
    open_.resize(links_.size());
  }
  ~Parker() {
    for (auto& link : links_) link->finish();
  }

  void run(uint64_t messages) {
    const std::string nack =
        method_frame(1, 60, 120, std::string(8, '\0') + '\3');  // multiple, requeue
    const std::string ack = method_frame(1, 60, 80, std::string(8, '\0') + '\1');
    int64_t last_move = now_ns(), patience = static_cast<int64_t>(options_.drain_seconds * 1e9);
    bool flushed = false;
    while (received < messages || !flushed) {
      for (size_t i = 0; i < links_.size(); ++i)
        polled_[i].events = POLLIN | (links_[i]->out.empty() ? 0 : POLLOUT);
      if (::poll(polled_.data(), polled_.size(), 20) > 0) last_move = now_ns();
      if (now_ns() - last_move > patience) return;
      flushed = true;
      for (size_t i = 0; i < links_.size(); ++i) {
        Link& link = *links_[i];
        uint64_t tag = 0;
        auto settle = [&](uint64_t to) {
          size_t at = link.out.size();
          link.out += rejects_ ? nack : ack;
          store64(link.out.data() + at + kFrameHead + 4, to);
          open_[i] = 0;
        };
        readers_[i].read(link, [&](const Delivery& delivery) {
          if (!ledger_.note(delivery.number)) ++doubled;
          if (!rejects_ && !delivery.redelivered) ++fresh;
          tag = delivery.tag;
          if (++open_[i] >= batch_) settle(tag);
          received.fetch_add(1, std::memory_order_relaxed);
        });
        if (open_[i] > 0 && tag != 0) settle(tag);
        flushed = link.flush() && flushed;
      }
    }
  }
  std::atomic<uint64_t> received{0};
  uint64_t doubled = 0, fresh = 0;

 private:
  const Options& options_;
  Ledger ledger_;
  const bool rejects_;
  const uint32_t batch_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<DeliveryReader> readers_;
  std::vector<uint32_t> open_;
  std::vector<pollfd> polled_;
};

/// Runs a parker with a line a second; seconds it took.
double work(Parker& parker, const Options& options, const char* verb) {
  int64_t began = now_ns();
  std::atomic<bool> done{false};
  std::thread thread([&] {
    parker.run(options.count);
    done = true;
  });
  uint64_t last = 0;
  for (int64_t second = 1; !done;) {
    ::poll(nullptr, 0, 2);
    if (now_ns() < began + second * 1'000'000'000ll) continue;
    uint64_t received = parker.received;
    if (!options.json_only) std::printf("%4ld s  %s %lu/s\n", second, verb, received - last);
    std::fflush(stdout);
    last = received;
    ++second;
  }
  thread.join();
  return static_cast<double>(now_ns() - began) * 1e-9;
}

uint64_t grown(uint64_t before, uint64_t after) { return after - std::min(before, after); }

}  // namespace

int run_park(const Options& options) {
  if (!options.drain_only) {
    declare_queues(options, {{"x-delayed-retry-min", std::to_string(options.retry_min_ms)},
                             {"x-delayed-retry-multiplier", "1"}});
  }
  Report report(options);
  ProcessStats before = process_stats(options.broker_pid);
  bool well = true;
  if (!options.drain_only) {
    Parker rejector(options, true);
    Filler filler(options);
    double seconds = work(rejector, options, "rejected");
    ProcessStats parked = process_stats(options.broker_pid);
    // Deliveries do not wait for the disk: what was rejected may still be unconfirmed, and a kill
    // that follows may take it away.
    bool confirmed = filler.wait(options.drain_seconds);
    well = confirmed && rejector.received == options.count && rejector.doubled == 0;
    report.number("messages", options.count)
        .number("rejected", rejector.received)
        .number("early_or_doubled", rejector.doubled)
        .rate("rejected_per_s", rejector.received, seconds)
        .number("rss_growth_bytes", grown(before.rss_bytes, parked.rss_bytes))
        .number("heap_growth_bytes", grown(before.heap_bytes, parked.heap_bytes))
        .real("park_cpu_ns_per_message",
              (parked.cpu_seconds - before.cpu_seconds) * 1e9 / static_cast<double>(options.count),
              0);
  }
  if (!options.fill_only) {
    constexpr uint64_t kGraceMs = 500;
    if (!options.drain_only) ::poll(nullptr, 0, static_cast<int>(options.retry_min_ms + kGraceMs));
    ProcessStats due = process_stats(options.broker_pid);
    Parker drainer(options, false);
    double seconds = work(drainer, options, "drained");
    ProcessStats drained = process_stats(options.broker_pid);
    // What a broker that was killed between two runs had not yet made durable of the rejections,
    // comes as fresh.
    bool fresh_allowed = options.drain_only;
    well = well && drainer.received == options.count && drainer.doubled == 0 &&
           (fresh_allowed || drainer.fresh == 0);
    report.number("drained", drainer.received)
        .number("lost", options.count - std::min<uint64_t>(options.count, drainer.received))
        .number("doubled", drainer.doubled)
        .rate("drained_per_s", drainer.received, seconds)
        .number("rss_growth_drained_bytes", grown(before.rss_bytes, drained.rss_bytes))
        .real("drain_cpu_ns_per_message",
              (drained.cpu_seconds - due.cpu_seconds) * 1e9 / static_cast<double>(options.count),
              0);
  }
  report.costs(before, process_stats(options.broker_pid), options.count).print();
  if (!options.keep_queues && !options.fill_only) delete_queues(options);
  return well ? 0 : 1;
}

}  // namespace tarry::perf
