#include "tarrymq/storage/definition_store.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <condition_variable>
#include <deque>

#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "storage/definition_store.h"
#include "storage/rocks_stores.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

/// The store thread.
class WorkThread {
 public:
  WorkThread() : thread_([this] { work(); }) {}
  ~WorkThread() {
    {
      std::lock_guard lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void run(Task task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return end_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool end_ = false;
  std::thread thread_;
};

class DefinitionStoreTest : public testing::Test {
 protected:
  DefinitionStoreTest() {
    directory_ = testing::TempDir() + "tarry-definitions-" + std::to_string(::getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    open();
  }
  ~DefinitionStoreTest() override {
    stores_ = {};
    thread_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open(Durability durability = Durability::fsync) {
    stores_ = {};
    thread_ = std::make_unique<WorkThread>();
    auto opened = open_rocks_stores(directory_, durability,
                                    [this](Task task) { thread_->run(std::move(task)); });
    ASSERT_TRUE(opened.has_value());
    stores_ = std::move(*opened);
  }
  DefinitionStore& store() { return *stores_.definitions; }
  /// An id, waiting for more where none is left.
  uint64_t take_id() {
    for (;;) {
      if (auto id = store().next_queue_id()) return id->value;
      std::promise<void> there;
      store().when_queue_id([&there] { there.set_value(); });
      there.get_future().wait();
    }
  }
  void put(std::string key, std::string value) {
    store().write_and_wait({{{std::move(key), std::move(value)}}, {}});
  }

  std::string directory_;
  std::unique_ptr<WorkThread> thread_;
  RocksStores stores_;
};

TEST_F(DefinitionStoreTest, WhatWasWrittenIsThereAfterAReopenInKeyOrder) {
  const std::string zero("queue\0/\0b", 9);
  put(zero, "2");
  put("exchange", std::string("\0\xff", 2));
  store().write_and_wait({{{"gone", "x"}, {"kept", "y"}}, {}});
  store().write_and_wait({{{"last", "z"}}, {"gone", "never there"}});
  open();
  auto all = store().read_all();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0], std::make_pair(std::string("exchange"), std::string("\0\xff", 2)));
  EXPECT_EQ(all[1].first, "kept");
  EXPECT_EQ(all[2].first, "last");
  EXPECT_EQ(all[3], std::make_pair(zero, std::string("2")));
  EXPECT_EQ(store().read(zero), "2");
  EXPECT_EQ(store().read("gone"), std::nullopt);
}

TEST_F(DefinitionStoreTest, CreatedIsTrueUntilTheFirstDefinitionAndNeverAgain) {
  EXPECT_TRUE(store().created());
  (void)take_id();  // no definition
  open();
  EXPECT_TRUE(store().created());
  put("a", "1");
  open();
  EXPECT_FALSE(store().created());
  store().write_and_wait({{}, {"a"}});
  open();
  EXPECT_TRUE(store().read_all().empty());
  EXPECT_FALSE(store().created());
}

TEST_F(DefinitionStoreTest, DoneRunsOnTheStoreThreadInOrderOfTheWrites) {
  constexpr int kCount = 500;
  std::vector<int> order;
  std::vector<std::thread::id> where;
  for (int i = 0; i < kCount; ++i) {
    // Every other one is empty: it still keeps its place.
    DefinitionBatch batch;
    if (i % 2) batch.puts.emplace_back("same key", std::to_string(i));
    store().write(std::move(batch), [&, i] {
      order.push_back(i);
      where.push_back(std::this_thread::get_id());
    });
  }
  store().write_and_wait({});
  ASSERT_EQ(order.size(), static_cast<size_t>(kCount));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  for (auto id : where) EXPECT_EQ(id, thread_->id());
  EXPECT_EQ(store().read("same key"), std::to_string(kCount - 1));
}

TEST_F(DefinitionStoreTest, AReadSeesWhatWasWrittenBeforeIt) {
  put("a", "old");
  std::promise<void> gate;
  thread_->run([free = gate.get_future().share()] { free.wait(); });  // the store thread is busy
  store().write({{{"a", "new"}, {"b", "1"}}, {}}, {});
  store().write({{}, {"b"}}, {});
  EXPECT_EQ(store().read("a"), "new");
  EXPECT_EQ(store().read("b"), std::nullopt);
  gate.set_value();
}

TEST_F(DefinitionStoreTest, TheEndWritesWhatIsPending) {
  std::promise<void> gate;
  thread_->run([free = gate.get_future().share()] { free.wait(); });
  bool done = false;
  store().write({{{"late", "1"}}, {}}, [&] { done = true; });
  stores_ = {};
  EXPECT_TRUE(done);
  gate.set_value();
  open();
  EXPECT_EQ(store().read("late"), "1");
}

TEST_F(DefinitionStoreTest, QueueIdsAreNeverGivenTwice) {
  std::set<uint64_t> seen;
  uint64_t last = 0;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 2 * queue_id_block + 10; ++i) {
      const uint64_t id = take_id();
      ASSERT_GT(id, last);
      last = id;
    }
    open(round ? Durability::os : Durability::fsync);
  }
}

TEST_F(DefinitionStoreTest, QueueIdsAreNeverGivenTwiceByThreads) {
  constexpr int kThreads = 4, kEach = 6000;
  std::vector<std::vector<uint64_t>> ids(kThreads);
  std::vector<std::thread> threads;
  for (auto& list : ids) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) list.push_back(take_id());
    });
  }
  for (auto& t : threads) t.join();
  std::set<uint64_t> all;
  for (auto& list : ids) all.insert(list.begin(), list.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kEach));
  open();
  EXPECT_GT(take_id(), *all.rbegin());
}

TEST_F(DefinitionStoreTest, ADirectoryThatCannotBeIsAnError) {
  stores_ = {};
  std::filesystem::remove_all(directory_);
  // A directory that is a file cannot be opened either.
  { std::ofstream(directory_) << "x"; }
  auto opened = open_rocks_stores(directory_, Durability::os, [](Task) {});
  EXPECT_FALSE(opened.has_value());
  std::filesystem::remove(directory_);
  open();
}

TEST_F(DefinitionStoreTest, TheSecondToOpenIsRefused) {
  auto second = open_rocks_stores(directory_, Durability::os, [](Task) {});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error(), make_error_code(StoreError::locked));
}

TEST_F(DefinitionStoreTest, ALockThatCannotBeOpenedIsNotHeldByAnother) {
  stores_ = {};
  const std::string path = directory_ + "/LOCK";
  ASSERT_TRUE(std::filesystem::remove(path));
  ASSERT_TRUE(std::filesystem::create_directory(path));
  auto opened = open_rocks_stores(directory_, Durability::os, [](Task) {});
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error(), make_error_code(StoreError::locked));
  std::filesystem::remove(path);
  open();
}

}  // namespace
}  // namespace tarry
