// The store with all its threads: shards that publish, settle, reject and wait, definitions beside
// them, disk reads. For the thread sanitizer above all; what is durable is counted after a start.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/definition_store.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {
namespace {

class StoreThreads : public testing::Test {
 protected:
  static constexpr size_t kShards = 2,
                          kLogsEach = 40;  // more than get a sync each: one syncfs for all

  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tarry-threads-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override {
    stop();
    std::filesystem::remove_all(dir_);
  }

  struct Worker {
    Worker(uint16_t id, const Clock& clock) : shard(ShardId{id}, clock) {}
    Shard shard;
    std::unique_ptr<StoreShard> store;
    std::vector<std::unique_ptr<MessageLog>> logs;
    std::thread thread;
    uint64_t appended = 0, settled = 0, rounds = 0;
    std::promise<void> finished;
  };

  void start() {
    StoreOptions options;
    options.data_dir = dir_ + "/data";
    options.tail_memory_bytes = 4u << 20;
    auto opened = Store::open(options, posix_file_system());
    ASSERT_TRUE(opened);
    store_ = std::move(*opened);
    for (uint16_t i = 0; i < kShards; ++i) {
      auto worker = std::make_unique<Worker>(i, clock_);
      worker->store = std::make_unique<StoreShard>(*store_, worker->shard);
      for (size_t n = 0; n < kLogsEach; ++n) {
        MessageLog::Options o;
        o.queue_id = i * 1000 + n + 1;
        o.directory = store_->queue_directory(QueueId{o.queue_id}) + "/0";
        o.label = "test";
        auto log = MessageLog::open(*worker->store, o);
        ASSERT_TRUE(log);
        worker->logs.push_back(std::move(*log));
      }
      workers_.push_back(std::move(worker));
    }
  }
  void stop() {
    for (auto& worker : workers_) {
      // As the broker does: logs and the shard's store end on the shard.
      if (worker->thread.joinable()) {
        std::promise<void> ended;
        worker->shard.post([&] {
          for (auto& log : worker->logs) log->hand_over_all();
          worker->logs.clear();
          worker->store.reset();
          ended.set_value();
        });
        ended.get_future().wait();
        worker->shard.stop();
        worker->thread.join();
      }
      worker->logs.clear();
      worker->store.reset();
    }
    workers_.clear();
    store_.reset();
  }

  /// Appends to every log, takes half of what is there, waits for the barrier, and goes on.
  static void play(Worker& w, uint64_t rounds) {
    const std::string body(600, 'b');
    for (auto& log : w.logs) {
      for (int i = 0; i < 6; ++i) {
        RecordParts parts;
        parts.published_ms = 1000;
        parts.persistent = true;
        parts.body = as_bytes(body);
        w.appended += static_cast<bool>(log->append(parts));
      }
      Fetched fetched;
      for (int i = 0; i < 3 && log->peek(fetched) == Fetch::ok; ++i) {
        log->take();
        if (i == 1) {
          log->park(fetched.position, {.due_ms = 1'000'000,
                                       .rejected_ms = 1000,
                                       .counter = 1,
                                       .delay_ms = 5,
                                       .error = "why"});
        } else {
          log->settle({fetched.position, 1});
          ++w.settled;
        }
      }
    }
    w.store->when_durable([&w, rounds] {
      if (++w.rounds < rounds)
        play(w, rounds);
      else
        w.finished.set_value();
    });
  }

  std::string dir_;
  SystemClock clock_;
  std::unique_ptr<Store> store_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_F(StoreThreads, WhatIsDurableIsThereAfterAStart) {
  (void)set_log_level("error");
  start();
  constexpr uint64_t kRounds = 20;
  std::atomic<bool> over{false};
  std::thread definer([&] {
    for (int i = 0; !over; ++i) {
      store_->definitions().write_and_wait(
          {{{"k" + std::to_string(i % 50), std::to_string(i)}}, {}});
      if (!store_->definitions().next_queue_id()) store_->definitions().when_queue_id([] {});
    }
  });
  for (auto& worker : workers_) {
    worker->thread = std::thread([w = worker.get()] { w->shard.run(); });
    worker->shard.post([w = worker.get()] { play(*w, kRounds); });
  }
  uint64_t expected = 0;
  for (auto& worker : workers_) {
    ASSERT_EQ(worker->finished.get_future().wait_for(std::chrono::seconds(100)),
              std::future_status::ready);
    expected += worker->appended - worker->settled;
  }
  over = true;
  definer.join();
  stop();
  start();
  uint64_t found = 0, damaged = 0;
  for (auto& worker : workers_) {
    for (auto& log : worker->logs) {
      found += log->fresh_count() + log->recovered_parked().size();
      damaged += log->damaged_count();
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(damaged, 0u);
  EXPECT_GT(expected, kShards * kLogsEach * kRounds);
}

}  // namespace
}  // namespace tarry
