#include "tarrymq/storage/backup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "storage/store_impl.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {
namespace {

/// A store with its own threads, and one log that the test's thread owns.
class BackupTest : public testing::Test {
 protected:
  BackupTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tarry-backup-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~BackupTest() override {
    close();
    std::filesystem::remove_all(directory_);
  }
  void open(const std::string& data_dir) {
    StoreOptions options;
    options.data_dir = data_dir;
    options.disk_free_min_bytes = 0;
    std::string why;
    auto store = Store::open(options, posix_file_system(), &why);
    ASSERT_TRUE(store) << why << store.error().message();
    store_ = std::move(*store);
    if (segment_bytes_) store_->impl().segment_bytes(segment_bytes_, segment_bytes_);
    shard_ = std::make_unique<Shard>(ShardId{1}, clock_);
    store_shard_ = std::make_unique<StoreShard>(*store_, *shard_);
    MessageLog::Options log;
    log.directory = store_->queue_directory(QueueId{7}) + "/0";
    log.queue_id = 7;
    log.label = "/ test";
    auto opened = MessageLog::open(*store_shard_, log);
    ASSERT_TRUE(opened);
    log_ = std::move(*opened);
  }
  void close() {
    log_.reset();
    store_shard_.reset();
    store_.reset();
    shard_.reset();
  }
  void append(const std::string& body) {
    RecordParts parts;
    parts.route = as_bytes(std::string_view("\0\1q", 3));
    parts.body = as_bytes(body);
    parts.persistent = true;
    ASSERT_TRUE(log_->append(parts));
  }
  /// Turns until everything is on the disk.
  void make_durable() {
    bool durable = false;
    store_shard_->when_durable([&durable] { durable = true; });
    for (int turn = 0; turn < 100'000 && !durable; ++turn) {
      shard_->run_turn_for_test();
      std::this_thread::yield();
    }
    ASSERT_TRUE(durable);
  }
  std::string back_up_to(const std::string& name) {
    BackupProgress progress;
    const auto made = back_up(*store_, directory_ + "/" + name, progress, cancel_);
    return made ? "" : made.error();
  }
  std::vector<std::string> bodies() {
    std::vector<std::string> all;
    for (int turn = 0; turn < 100'000 && log_->fresh_count() > 0; ++turn) {
      Fetched fetched;
      if (log_->peek(fetched) == Fetch::ok) {
        all.emplace_back(as_text(fetched.record.body));
        log_->take();
      }
      shard_->run_turn_for_test();
    }
    return all;
  }
  std::string data() const { return directory_ + "/data"; }

  uint32_t segment_bytes_ = 0;  // of all; 0: as they are
  SystemClock clock_;
  std::string directory_;
  std::atomic<bool> cancel_{false};
  std::unique_ptr<Store> store_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<StoreShard> store_shard_;
  std::unique_ptr<MessageLog> log_;
};

TEST_F(BackupTest, HasWhatWasDurableAndNothingOfWhatCameLater) {
  open(data());
  append("one");
  append("two");
  DefinitionBatch batch;
  batch.puts = {{"queue", "seven"}};
  store_->definitions().write_and_wait(batch);
  make_durable();
  ASSERT_EQ(back_up_to("copy"), "");
  append("three");
  batch.puts = {{"queue", "later"}};
  store_->definitions().write_and_wait(batch);
  make_durable();
  close();
  open(directory_ + "/copy");
  EXPECT_EQ(bodies(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(log_->damaged_count(), 0u);
  EXPECT_EQ(store_->definitions().read("queue"), "seven");
  close();
  open(data());
  EXPECT_EQ(bodies(), (std::vector<std::string>{"one", "two", "three"}));
}

// Such a file is longer than what was written to it, and the rest is about to be written over.
TEST_F(BackupTest, OfAFileThatIsWrittenOverHasWhatWasWrittenAlone) {
  segment_bytes_ = 8u << 10;
  open(data());
  const std::string former(900, 'x');
  for (int i = 0; i < 16; ++i) {
    append(former);
    if (i % 4 == 3) make_durable();
  }
  for (int i = 0; i < 16; ++i) {
    Fetched fetched;
    ASSERT_EQ(log_->peek(fetched), Fetch::ok);
    const Position position = fetched.position;
    log_->take();
    log_->settle({position, 1});
  }
  append("later");  // so that the last of them is closed
  make_durable();
  make_durable();
  std::promise<void> prepared;
  store_->on_store_thread([&prepared] { prepared.set_value(); });
  prepared.get_future().wait();
  for (int i = 0; i < 10; ++i) {
    append(former);
    if (i % 4 == 3) make_durable();
  }
  make_durable();
  ASSERT_GT(store_->impl().pool->taken(), 0u);
  ASSERT_EQ(back_up_to("copy"), "");
  for (int i = 0; i < 4; ++i) append("after the backup");
  make_durable();
  close();
  open(directory_ + "/copy");
  EXPECT_EQ(log_->damaged_count(), 0u);
  const std::vector<std::string> all = bodies();
  ASSERT_EQ(all.size(), 11u);
  EXPECT_EQ(all.front(), "later");
  EXPECT_EQ(all.back(), former);
}

TEST_F(BackupTest, LeavesNoNamesBehindInTheStore) {
  open(data());
  append("one");
  make_durable();
  ASSERT_EQ(back_up_to("copy"), "");
  EXPECT_FALSE(std::filesystem::exists(data() + "/backup-links"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/copy.partial"));
  EXPECT_FALSE(store_->impl().backup_running);
}

TEST_F(BackupTest, WantsANewAbsolutePlaceOutsideOfTheStore) {
  open(data());
  std::filesystem::create_directory(directory_ + "/there");
  EXPECT_NE(back_up_to("there").find("is there already"), std::string::npos);
  EXPECT_NE(back_up_to("data/copy").find("inside of the data directory"), std::string::npos);
  EXPECT_NE(back_up_to("missing/copy").find("No such file"), std::string::npos);
  BackupProgress progress;
  EXPECT_FALSE(back_up(*store_, "relative", progress, cancel_));
  EXPECT_EQ(back_up_to("copy"), "") << "after refusals another one may be made";
}

TEST_F(BackupTest, ThatIsCancelledLeavesNothing) {
  open(data());
  append("one");
  make_durable();
  cancel_ = true;
  EXPECT_NE(back_up_to("copy").find("cancelled"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/copy"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/copy.partial"));
}

TEST_F(BackupTest, WhatGotLostOnTheWayIsNoticedAtTheStart) {
  open(data());
  append("one");
  make_durable();
  ASSERT_EQ(back_up_to("copy"), "");
  close();
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory_ + "/copy/queues")) {
    if (entry.path().extension() == ".seg")
      std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
  }
  open(directory_ + "/copy");
  EXPECT_GE(log_->damaged_count(), 1u);
}

TEST_F(BackupTest, NamesOfOneThatACrashCutShortGoAtTheStart) {
  std::filesystem::create_directories(data() + "/backup-links/queues");
  std::ofstream(data() + "/backup-links/queues/0000") << "x";
  open(data());
  EXPECT_FALSE(std::filesystem::exists(data() + "/backup-links"));
}

}  // namespace
}  // namespace tarry
