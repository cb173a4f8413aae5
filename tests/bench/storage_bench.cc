// What a message costs in the log. Workloads: append, append+take+settle in bursts (nothing is
// written), the same with a barrier a burst, append with confirms one by one, opening a million.
// Environment: TARRY_BENCH_MESSAGES.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "storage/store_impl.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store_shard.h"

namespace {

using namespace tarry;
using Steady = std::chrono::steady_clock;

/// CPU time of this thread, so that a busy machine does not show.
double cpu_ns() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double wall_ns_since(Steady::time_point start) {
  return std::chrono::duration<double, std::nano>(Steady::now() - start).count();
}

struct Bench {
  explicit Bench(const std::string& dir, bool threads) {
    StoreOptions options;
    options.data_dir = dir;
    options.disk_free_min_bytes = 0;
    auto opened = threads ? Store::open(options, posix_file_system())
                          : open_manual_store(options, posix_file_system());
    if (!opened) std::abort();
    store = std::move(*opened);
    shard = std::make_unique<Shard>(ShardId{0}, clock);
    store_shard = std::make_unique<StoreShard>(*store, *shard);
    reopen();
  }
  void reopen(bool durable = true) {
    log.reset();
    MessageLog::Options o;
    o.directory = store->queue_directory(QueueId{1}) + (durable ? "/0" : "/1");
    o.durable = durable;
    o.label = "bench";
    auto opened_log = MessageLog::open(*store_shard, o);
    if (!opened_log) std::abort();
    log = std::move(*opened_log);
  }
  void append() {
    RecordParts parts;
    parts.published_ms = 1000;
    parts.persistent = true;
    parts.route = as_bytes(std::string_view("\0\4work", 6));
    parts.header = as_bytes("0123456789abcdef");
    parts.body = as_bytes("a 16-byte body..");
    if (!log->append(parts)) std::abort();
  }
  /// Takes and settles up to `count`; adds to the hash, so that nothing is optimised away.
  void consume(int count) {
    Fetched fetched;
    Run run;
    while (run.count < static_cast<uint32_t>(count) && log->peek(fetched) == Fetch::ok) {
      hash = hash * 31 + static_cast<uint64_t>(fetched.record.body[0]) + fetched.position.ordinal;
      log->take();
      if (run.count == 0) run.first = fetched.position;
      if (fetched.position.segment != run.first.segment) {
        log->settle(run);
        run = {fetched.position, 0};
      }
      ++run.count;
    }
    log->settle(run);
  }
  void turn() { shard->run_turn_for_test(); }

  SystemClock clock;
  std::unique_ptr<Store> store;
  std::unique_ptr<Shard> shard;
  std::unique_ptr<StoreShard> store_shard;
  std::unique_ptr<MessageLog> log;
  uint64_t hash = 0;
};

void report(const char* name, double ns, uint64_t count) {
  std::printf("%-44s %10.1f ns a message (%llu)\n", name, ns / static_cast<double>(count),
              static_cast<unsigned long long>(count));
}

}  // namespace

int main() {
  const char* wanted = std::getenv("TARRY_BENCH_MESSAGES");
  const uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 20'000;
  std::string pattern = (std::filesystem::temp_directory_path() / "tarry-bench-XXXXXX").string();
  std::string dir = ::mkdtemp(pattern.data());
  {
    Bench b(dir + "/a", true);
    constexpr int kBurst = 700;
    for (bool durable : {false, true}) {
      b.reopen(durable);
      double append_ns = 0, consume_ns = 0;
      double whole = cpu_ns();
      for (uint64_t done = 0; done < count; done += kBurst) {
        double start = cpu_ns();
        for (int i = 0; i < kBurst; ++i) b.append();
        append_ns += cpu_ns() - start;
        start = cpu_ns();
        b.consume(kBurst);
        consume_ns += cpu_ns() - start;
        b.turn();
      }
      report(durable ? "durable: append" : "transient: append", append_ns, count);
      report(durable ? "durable: peek, take, settle a run" : "transient: peek, take, settle a run",
             consume_ns, count);
      report(durable ? "durable: all, with turns" : "transient: all, with turns", cpu_ns() - whole,
             count);
      std::printf("  on disk: %llu bytes\n", static_cast<unsigned long long>(b.log->disk_bytes()));
    }
    b.reopen();
    auto start = Steady::now();
    uint64_t confirmed = 0;
    const uint64_t confirms = std::min<uint64_t>(count / 100 + 1, 1000);
    for (uint64_t i = 0; i < confirms; ++i) {
      b.append();
      bool done = false;
      b.store_shard->when_durable([&] { done = true; });
      while (!done) b.turn();
      ++confirmed;
    }
    report("durable: one confirm at a time (wall)", wall_ns_since(start), confirmed);
    b.log->purge();
    double backlog = cpu_ns();
    for (uint64_t i = 0; i < count; ++i) {
      b.append();
      if (i % kBurst == 0) b.turn();
    }
    report("durable: append a backlog", cpu_ns() - backlog, count);
    b.log->hand_over_all();
    b.log.reset();
    for (int i = 0; i < 10; ++i) b.turn();
    std::printf("hash %llx\n", static_cast<unsigned long long>(b.hash));
  }
  {
    Bench b(dir + "/a", true);
    b.log.reset();
    auto start = Steady::now();
    b.reopen();
    double opened = wall_ns_since(start);
    std::printf("open with %llu ready: %.1f ms\n",
                static_cast<unsigned long long>(b.log->fresh_count()), opened / 1e6);
    double reading = cpu_ns();
    uint64_t n = b.log->fresh_count();
    Fetched fetched;
    while (b.log->fresh_count() > 0) {
      if (b.log->peek(fetched) == Fetch::ok)
        b.log->take();
      else
        b.turn();
    }
    report("read back from disk", cpu_ns() - reading, n ? n : 1);
  }
  std::filesystem::remove_all(dir);
  return 0;
}
