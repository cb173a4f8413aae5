#include "perf/load.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace tarry::perf {
namespace {

constexpr int kIdleWaitMs = 20;

/// Watches sockets for both directions, edge by edge: whoever waits has tried everything before.
class Watch {
 public:
  Watch() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Watch() { ::close(fd_); }
  void add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    ::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event);
  }
  void wait(int timeout_ms) {
    epoll_event events[64];
    ::epoll_wait(fd_, events, 64, timeout_ms);
  }

 private:
  int fd_;
};

void publish_all(Load& load, std::vector<std::unique_ptr<Publisher>>& publishers) {
  Watch watch;
  for (auto& publisher : publishers) watch.add(publisher->fd());
  int64_t end = load.options.seconds > 0
                    ? load.began + static_cast<int64_t>(load.options.seconds * 1e9)
                    : INT64_MAX;
  auto patience = static_cast<int64_t>(load.options.drain_seconds * 1e9);
  int64_t last_move = load.began;
  for (;;) {
    int64_t now = now_ns();
    bool in_time = now < end, moved = false, sending = false, waiting = false;
    for (auto& publisher : publishers) {
      moved = publisher->pump(now, in_time) || moved;
      sending = sending || (in_time ? !publisher->sent_all() : !publisher->between_batches());
      waiting = waiting || !publisher->all_confirmed();
    }
    if (!sending && load.publishing_ended == 0) load.publishing_ended = now_ns();
    if (!sending && !waiting) break;
    if (moved) last_move = now;
    if (now - last_move > patience) {
      load.confirms_missing = true;
      break;
    }
    if (!moved) watch.wait(load.options.rate > 0 ? 1 : kIdleWaitMs);
  }
  if (load.publishing_ended == 0) load.publishing_ended = now_ns();
  load.counters.publishing_done = true;
}

void consume_all(Load& load, std::vector<std::unique_ptr<Consumer>>& consumers) {
  Watch watch;
  for (auto& consumer : consumers) watch.add(consumer->fd());
  auto patience = static_cast<int64_t>(load.options.drain_seconds * 1e9);
  int64_t last_move = now_ns();
  const auto& counters = load.counters;
  for (;;) {
    bool moved = false;
    for (auto& consumer : consumers) moved = consumer->pump() || moved;
    uint64_t expected = load.already + (counters.sent - counters.refused) * load.copies();
    if (counters.publishing_done && counters.received >= expected) break;
    if (moved) {
      last_move = now_ns();
      continue;
    }
    for (auto& consumer : consumers) consumer->finish_batch();
    if (counters.publishing_done && now_ns() - last_move > patience) break;
    watch.wait(kIdleWaitMs);
  }
  for (auto& consumer : consumers) consumer->finish_batch();
}

void print_seconds(Load& load, std::atomic<bool>& stop) {
  uint64_t sent = 0, received = 0;
  for (int second = 1; !stop; ++second) {
    int64_t due = load.began + second * 1'000'000'000ll;
    while (!stop && now_ns() < due) ::usleep(10'000);
    if (stop || load.options.json_only) continue;
    uint64_t s = load.counters.sent, r = load.counters.received,
             all = load.already + s * load.copies();
    std::printf("%4d s  sent %9lu/s  received %9lu/s  behind %lu\n", second, s - sent, r - received,
                all - std::min(all, r));
    std::fflush(stdout);
    sent = s;
    received = r;
  }
}

}  // namespace

Load::Load(const Options& the_options, uint32_t the_publishers, uint32_t the_consumers)
    : options(the_options),
      publishers(the_publishers),
      consumers(the_consumers),
      findings(static_cast<uint32_t>(copies()), the_options.publishers) {}

uint64_t Load::lost() const {
  if (consumers == 0) return 0;
  uint64_t expected = already + (counters.sent - counters.refused) * copies();
  return expected - std::min<uint64_t>(expected, counters.received - findings.doubled);
}

bool Load::well() const {
  if (confirms_missing) std::fprintf(stderr, "tarrymqperf: confirms are missing\n");
  bool order_counts = findings.redelivered == 0;
  return lost() == 0 && findings.doubled == 0 && !confirms_missing &&
         (!order_counts || findings.out_of_order == 0);
}

void Load::run(uint64_t messages_already) {
  already = messages_already;
  std::vector<std::unique_ptr<Publisher>> publishing;
  std::vector<std::unique_ptr<Consumer>> consuming;
  before = process_stats(options.broker_pid);
  began = now_ns();
  for (uint32_t i = 0; i < consumers; ++i) {
    consuming.push_back(
        std::make_unique<Consumer>(options, i, options.publishers, counters, findings));
  }
  for (uint32_t i = 0; i < publishers; ++i) {
    // The count is over all of them.
    uint64_t share = options.count / publishers + (i < options.count % publishers);
    publishing.push_back(
        std::make_unique<Publisher>(options, i, options.count > 0 ? share : UINT64_MAX, counters));
  }
  // Time runs from the first message on; what already lies there begins to flow when the consumers
  // log in.
  if (publishers > 0) {
    before = process_stats(options.broker_pid);
    began = now_ns();
  }
  std::atomic<bool> stop{false};
  std::thread printer([&] { print_seconds(*this, stop); });
  std::thread receiver([&] {
    if (!consuming.empty()) consume_all(*this, consuming);
  });
  std::thread sender([&] { publish_all(*this, publishing); });
  sender.join();
  receiver.join();
  stop = true;
  printer.join();
  after = process_stats(options.broker_pid);
  if (options.broker_pid == 0) after = before;
}

}  // namespace tarry::perf
