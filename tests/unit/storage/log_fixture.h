#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "storage/store_impl.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_error.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

/// A store without threads in a directory of its own, one shard, and words for what the tests do
/// with a log.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tarry-log-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~LogTest() override {
    stop();
    std::filesystem::remove_all(dir_);
  }

  virtual FileSystem& files() { return posix_file_system(); }

  void start() {
    StoreOptions options = options_;
    options.data_dir = dir_ + "/data";
    auto store = open_manual_store(options, files());
    ASSERT_TRUE(store) << store.error().message();
    store_ = std::move(*store);
    if (segment_bytes_) store_->impl().segment_bytes(segment_bytes_, segment_bytes_);
    shard_ = std::make_unique<Shard>(ShardId{1}, clock_);
    store_shard_ = std::make_unique<StoreShard>(*store_, *shard_);
  }
  void stop() {
    log_.reset();
    store_shard_.reset();
    store_.reset();
    shard_.reset();
  }
  std::unique_ptr<MessageLog> open_log(const std::string& name = "0", bool durable = true) {
    MessageLog::Options options;
    options.directory = store_->queue_directory(QueueId{7}) + "/" + name;
    options.durable = durable;
    options.queue_id = 7;
    options.label = "/ test";
    auto log = MessageLog::open(*store_shard_, options);
    EXPECT_TRUE(log) << log.error().message();
    return log ? std::move(*log) : nullptr;
  }
  void open() {
    start();
    log_ = open_log();
  }
  /// As after a clean stop.
  void reopen() {
    log_->hand_over_all();
    stop();
    open();
  }
  /// As after kill -9: what was not handed over is lost.
  void kill_and_reopen() {
    stop();
    open();
  }

  void turn() { shard_->run_turn_for_test(); }
  void round() { store_->impl().barrier->run_round(true); }
  /// Turns, rounds and store tasks until nothing moves.
  void settle_down() {
    for (int i = 0; i < 20; ++i) {
      turn();
      bool any = store_->impl().barrier->run_round(true);
      any |= store_->impl().store_thread.run_queued();
      if (!any && i > 1) break;
    }
    turn();
  }
  /// Everything until now is durable.
  void commit() {
    bool done = false;
    store_shard_->when_durable([&] { done = true; });
    for (int i = 0; i < 10 && !done; ++i) {
      turn();
      round();
    }
    turn();
    EXPECT_TRUE(done);
  }

  Result<Position> try_append(const std::string& body, RecordParts parts = {}) {
    parts.published_ms = parts.published_ms ? parts.published_ms : 1000;
    parts.persistent = persistent_;
    parts.route = as_bytes("\x00\x04work");
    parts.header = as_bytes("header");
    parts.body = as_bytes(body);
    return log_->append(parts);
  }
  Position append(const std::string& body, RecordParts parts = {}) {
    auto position = try_append(body, parts);
    EXPECT_TRUE(position);
    return position ? *position : Position{};
  }
  /// Records of 1,000 bytes, made durable every now and then, so that segments fill up.
  void append_many(int count) {
    std::string body(1000, 'x');
    for (int i = 1; i <= count; ++i) {
      append(body);
      if (i % 50 == 0) commit();
    }
    commit();
  }
  Fetch peek_wait(Fetched& out) {
    for (int i = 0; i < 20; ++i) {
      Fetch result = log_->peek(out);
      if (result != Fetch::pending) return result;
      store_->impl().store_thread.run_queued();
      turn();
    }
    return Fetch::pending;
  }
  Fetch read_wait(const Position& position, Fetched& out) {
    for (int i = 0; i < 20; ++i) {
      Fetch result = log_->read(position, out);
      if (result != Fetch::pending) return result;
      store_->impl().store_thread.run_queued();
      turn();
    }
    return Fetch::pending;
  }
  /// Delivers the next record; its position.
  Position deliver(std::string* body = nullptr) {
    Fetched fetched;
    EXPECT_EQ(peek_wait(fetched), Fetch::ok);
    last_ = fetched;
    if (body) *body = std::string(as_text(fetched.record.body));
    log_->take();
    return fetched.position;
  }
  std::string deliver_body() {
    std::string body;
    deliver(&body);
    return body;
  }
  /// Delivers all that is fresh.
  std::vector<std::string> drain() {
    std::vector<std::string> bodies;
    Fetched fetched;
    while (peek_wait(fetched) == Fetch::ok) {
      bodies.push_back(std::string(as_text(fetched.record.body)));
      log_->take();
    }
    return bodies;
  }
  void settle(const Position& position) { log_->settle({position, 1}); }

  std::vector<std::string> log_files(const std::string& name = "0") {
    std::vector<std::string> names;
    std::filesystem::path path = store_->queue_directory(QueueId{7}) + "/" + name;
    if (!std::filesystem::exists(path)) return names;
    for (auto& entry : std::filesystem::directory_iterator(path))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  StoreOptions options_;
  uint32_t segment_bytes_ = 0;  // of all; 0: as they are
  std::string dir_;
  bool persistent_ = true;
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<StoreShard> store_shard_;
  std::unique_ptr<MessageLog> log_;
  Fetched last_;
};

}  // namespace tarry
