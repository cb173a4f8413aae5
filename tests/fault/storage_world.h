#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/store_impl.h"
#include "support/faulty_file_system.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_error.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

/// What the world was told about one message, and what it therefore may find after a crash.
struct Promise {
  bool durable = false;  // its append was confirmed
  bool settle_asked = false;
  bool settle_durable = false;
  uint32_t counter_durable = 0, counter_asked = 0;
  // The last park that was asked for and whether a barrier covers it.
  bool park_asked = false, park_durable = false;
  uint64_t due_ms = 0;
  bool dying_asked = false, dying_durable = false;
};

/// A store on a file system that crashes, driven step by step by one thread, with a record of its
/// promises.
class StorageWorld {
 public:
  static constexpr size_t kLogs = 3;

  explicit StorageWorld(FaultyFileSystem& fs) : fs_(fs) {}
  ~StorageWorld() { stop(); }

  /// False if the file system crashed meanwhile.
  bool start() {
    StoreOptions options;
    options.data_dir = "/d";
    options.durability = durability;
    // One start lists what is parked, the next reads it when it is asked for.
    options.parked_listed_max = ++starts_ % 2 == 0 ? 0 : 1024;
    auto store = open_manual_store(options, fs_);
    if (!store) return false;
    store_ = std::move(*store);
    if (segment_bytes) store_->impl().segment_bytes(segment_bytes, segment_bytes);
    shard_ = std::make_unique<Shard>(ShardId{1}, clock_);
    store_shard_ = std::make_unique<StoreShard>(*store_, *shard_);
    for (size_t i = 0; i < kLogs; ++i) {
      if (deleted.contains(i)) continue;  // its tombstone says so
      MessageLog::Options o;
      o.directory = store_->queue_directory(QueueId{i + 1}) + "/0";
      o.queue_id = i + 1;
      o.label = "test";
      o.in_batch = [this, i](const RecoveredPark&) { ++in_batches_[i]; };
      in_batches_[i] = 0;
      auto log = MessageLog::open(*store_shard_, o);
      if (!log) return false;
      logs_[i] = std::move(*log);
    }
    return true;
  }
  void stop() {
    for (auto& log : logs_) log.reset();
    store_shard_.reset();
    store_.reset();
    shard_.reset();
  }
  bool crashed() const { return fs_.crashed(); }
  MessageLog& log(size_t i = 0) { return *logs_[i]; }
  Store& store() { return *store_; }
  StoreShard& shard_store() { return *store_shard_; }

  // -- Steps

  void turn(int64_t ms = 0) {
    if (ms) clock_.advance_ms(ms);
    shard_->run_turn_for_test();
  }
  void round(bool lazily = true) { store_->impl().barrier->run_round(lazily); }
  void pass_time(int64_t ms) {
    turn(ms);
    round();
    turn();
    store_->impl().store_thread.run_queued();
    turn();
  }
  /// Waits for a barrier; what was asked for before is then promised. False if it did not come.
  bool commit() {
    bool done = false;
    store_shard_->when_durable([&done] { done = true; });
    for (int i = 0; i < 6 && !done && !crashed(); ++i) {
      turn();
      round(false);
      turn();
    }
    if (!done) {
      stop();  // the waiter refers to this frame: it must not run later
      return false;
    }
    for (auto& [id, p] : promises) {
      p.durable = true;
      p.settle_durable = p.settle_asked;
      p.counter_durable = p.counter_asked;
      p.park_durable = p.park_asked;
      p.dying_durable = p.dying_asked;
    }
    return true;
  }
  std::string body(uint32_t id) const {
    return std::to_string(id) + "-" + std::string(body_bytes, 'a' + id % 26);
  }
  bool append(uint32_t id, size_t to = 0, const Origin* origin = nullptr) {
    RecordParts parts;
    parts.published_ms = 1000;
    parts.persistent = true;
    parts.origin = origin;
    std::string text = body(id);
    parts.body = as_bytes(text);
    auto position = logs_[to]->append(parts);
    if (!position) return false;
    promises.try_emplace(id);
    return true;
  }
  static uint32_t id_of(const Fetched& fetched) {
    return static_cast<uint32_t>(std::stoul(std::string(as_text(fetched.record.body))));
  }
  Fetch peek(Fetched& out, size_t i = 0) {
    for (int n = 0; n < 10; ++n) {
      Fetch result = logs_[i]->peek(out);
      if (result != Fetch::pending) return result;
      store_->impl().store_thread.run_queued();
      turn();
    }
    return Fetch::pending;
  }
  Fetch read(const Position& position, Fetched& out) {
    for (int n = 0; n < 10; ++n) {
      Fetch result = logs_[0]->read(position, out);
      if (result != Fetch::pending) return result;
      store_->impl().store_thread.run_queued();
      turn();
    }
    return Fetch::pending;
  }
  struct Out {
    uint32_t id = 0;
    Position position;
    uint32_t counter = 0;
    bool there = false;
  };
  Out deliver(size_t from = 0) {
    Fetched fetched;
    if (peek(fetched, from) != Fetch::ok) return {};
    Out out{id_of(fetched), fetched.position, fetched.counter, true};
    logs_[from]->take();
    return out;
  }
  void settle(const Out& out, size_t from = 0) {
    if (!out.there) return;
    promises[out.id].settle_asked = true;
    logs_[from]->settle({out.position, 1});
  }
  void requeue(const Out& out, uint32_t counter) {
    if (!out.there) return;
    promises[out.id].counter_asked = counter;
    logs_[0]->requeue({out.position, 1}, counter, true);
  }
  void park(const Out& out, uint64_t due, uint32_t counter) {
    if (!out.there) return;
    Promise& p = promises[out.id];
    p.park_asked = true;
    p.park_durable = false;
    p.due_ms = due;
    p.counter_asked = counter;
    ParkEvent event;
    event.due_ms = due;
    event.counter = counter;
    event.error = "why";
    logs_[0]->park(out.position, event);
  }

  void die(const Out& out) {
    if (!out.there) return;
    promises[out.id].dying_asked = true;
    logs_[0]->mark_dying(out.position,
                         {.reason = 3, .delivery_count = 7, .died_ms = 4000, .error = "fatal"});
  }

  /// As a queue's end does it: the tombstone is durable, then the files go.
  void delete_log(size_t i) {
    deleted.insert(i);
    logs_[i]->destroy();
    logs_[i].reset();
    store_->remove_queue_directory(QueueId{i + 1});
  }

  // -- After a crash

  struct Found {
    std::set<uint32_t> dying;
    std::vector<uint32_t> fresh;  // in order
    std::map<uint32_t, RecoveredPark> parked;
    std::map<uint32_t, uint32_t> counters;
  };
  /// What was parked, listed or in batches.
  std::vector<RecoveredPark> parked(size_t i = 0) {
    std::vector<RecoveredPark> all = logs_[i]->recovered_parked();
    size_t counted = 0;
    for (const ParkedBatch& batch : std::vector(logs_[i]->recovered_batches())) {
      counted += batch.count;
      for (uint64_t left = batch.count, last_ms = 0; left > 0;) {
        std::optional<ParkedRead> read;
        logs_[i]->read_parked(batch.segment, 2, [&](ParkedRead r) { read = std::move(r); });
        store_->impl().store_thread.run_queued();
        turn();
        if (!read || !read->good || read->records.size() != std::min<uint64_t>(left, 2)) {
          ADD_FAILURE() << "a batch could not be read";
          return all;
        }
        left -= read->records.size();
        EXPECT_EQ(read->left, left);
        for (const RecoveredPark& park : read->records) {
          EXPECT_GE(park.due_ms, last_ms);
          last_ms = park.due_ms;
          all.push_back(park);
        }
      }
    }
    EXPECT_EQ(counted, in_batches_[i]);
    return all;
  }
  /// Reads what is in a log; everything that was fresh is out afterwards.
  Found look(size_t i = 0) {
    Found found;
    for (const RecoveredPark& park : parked(i)) {
      Fetched fetched;
      Fetch result = Fetch::pending;
      for (int n = 0; n < 10 && result == Fetch::pending; ++n) {
        result = logs_[i]->read(park.position, fetched);
        store_->impl().store_thread.run_queued();
        turn();
        if (result == Fetch::ok) result = logs_[i]->read(park.position, fetched);
      }
      EXPECT_EQ(result, Fetch::ok);
      if (result != Fetch::ok) continue;
      uint32_t id = id_of(fetched);
      EXPECT_EQ(as_text(fetched.record.body), body(id));
      EXPECT_EQ(park.body_bytes, body(id).size());
      EXPECT_EQ(park.published_ms, 1000u);
      EXPECT_TRUE(found.parked.emplace(id, park).second) << "doubled " << id;
      found.counters[id] = park.counter;
    }
    for (const RecoveredDying& dying : logs_[i]->recovered_dying()) {
      Fetched fetched;
      Fetch result = Fetch::pending;
      for (int n = 0; n < 10 && result == Fetch::pending; ++n) {
        store_->impl().store_thread.run_queued();
        turn();
        result = logs_[i]->read(dying.position, fetched);
      }
      EXPECT_EQ(result, Fetch::ok);
      if (result != Fetch::ok) continue;
      EXPECT_EQ(dying.reason, 3);
      EXPECT_EQ(dying.delivery_count, 7u);
      EXPECT_TRUE(fetched.has_error);
      EXPECT_EQ(logs_[i]->park_error(dying.position), "fatal");
      EXPECT_TRUE(found.dying.insert(id_of(fetched)).second) << "doubled " << id_of(fetched);
    }
    uint64_t count = logs_[i]->fresh_count(), bytes = logs_[i]->fresh_bytes(), seen_bytes = 0;
    Fetched fetched;
    while (peek(fetched, i) == Fetch::ok) {
      uint32_t id = id_of(fetched);
      EXPECT_EQ(as_text(fetched.record.body), body(id));
      seen_bytes += fetched.record.body.size();
      found.fresh.push_back(id);
      found.counters[id] = fetched.counter;
      logs_[i]->take();
      turn();
    }
    EXPECT_EQ(found.fresh.size(), count);
    EXPECT_EQ(seen_bytes, bytes);
    return found;
  }
  /// Nothing promised is missing, nothing is doubled, no counter is lower, order is kept.
  void check(size_t i = 0) {
    Found found = look(i);
    for (size_t n = 1; n < found.fresh.size(); ++n) EXPECT_LT(found.fresh[n - 1], found.fresh[n]);
    for (uint32_t id : found.fresh) EXPECT_FALSE(found.parked.contains(id)) << "doubled " << id;
    for (auto& [id, p] : promises) {
      bool fresh = std::find(found.fresh.begin(), found.fresh.end(), id) != found.fresh.end();
      bool parked = found.parked.contains(id);
      bool dying = found.dying.contains(id);
      EXPECT_LE(int{fresh} + int{parked} + int{dying}, 1) << "doubled " << id;
      if (p.durable && !p.settle_asked) {
        EXPECT_TRUE(fresh || parked || dying) << "lost " << id;
      }
      if (p.settle_durable) {
        EXPECT_FALSE(fresh || parked || dying) << "back again " << id;
      }
      if (p.dying_durable && !p.settle_asked) {
        EXPECT_TRUE(dying) << "not dying " << id;
      }
      if (dying) {
        EXPECT_TRUE(p.dying_asked) << id;
      }
      if (p.park_durable && !p.settle_asked && !p.dying_asked) {
        EXPECT_TRUE(parked) << "not parked " << id;
        if (parked) {
          EXPECT_EQ(found.parked[id].due_ms, p.due_ms) << id;
        }
      }
      if (parked) {
        EXPECT_TRUE(p.park_asked) << id;
      }
      if (fresh || parked) {
        EXPECT_GE(found.counters[id], p.counter_durable) << id;
        EXPECT_LE(found.counters[id], p.counter_asked) << id;
      }
    }
    for (uint32_t id : found.fresh) EXPECT_TRUE(promises.contains(id)) << "made up " << id;
  }

  std::map<uint32_t, Promise> promises;
  std::set<size_t> deleted;
  size_t body_bytes = 40;
  uint32_t segment_bytes = 0;  // of all; 0: as they are
  Durability durability = Durability::fsync;

 private:
  FaultyFileSystem& fs_;
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<StoreShard> store_shard_;
  size_t starts_ = 0;
  std::array<size_t, kLogs> in_batches_{};
  std::unique_ptr<MessageLog> logs_[kLogs];
};

using Scenario = std::function<void(StorageWorld&)>;
using Check = std::function<void(StorageWorld&)>;
struct CrashOptions {
  Durability durability = Durability::fsync;
  bool kills_only = false;  // the kernel survives
  uint32_t segment_bytes = 0;
};

/// Runs the scenario with a crash at its call 1, 2, 3, ... until it finishes; after each, with each
/// way of losing what was not synced, opens and checks; then also with a crash at each call of that
/// opening.
inline void crash_everywhere(const char* name, const Scenario& scenario, const Check& check,
                             CrashOptions options = {}) {
  (void)set_log_level("off");  // damage is reported at each of many thousand runs
  uint64_t points = 0, openings = 0;
  bool finished = false;
  for (uint64_t n = 1; !finished; ++n) {
    FaultyFileSystem fs;
    std::map<uint32_t, Promise> promises;
    std::set<size_t> deleted;
    size_t body_bytes = 0;
    {
      StorageWorld world(fs);
      world.durability = options.durability;
      world.segment_bytes = options.segment_bytes;
      ASSERT_EQ(fs.make_directory("/d"), FileError{});
      ASSERT_EQ(fs.sync_directory("/"), FileError{});
      fs.crash_at(n);
      if (world.start()) scenario(world);
      finished = !fs.crashed();
      promises = world.promises;
      deleted = world.deleted;
      body_bytes = world.body_bytes;
      world.stop();
    }
    ++points;
    for (auto way : FaultyFileSystem::kAllWays) {
      if (options.kills_only && way != FaultyFileSystem::Survives::everything) continue;
      auto open_and_check = [&](FaultyFileSystem& disk) {
        ++openings;
        StorageWorld world(disk);
        world.durability = options.durability;
        world.segment_bytes = options.segment_bytes;
        world.promises = promises;
        world.deleted = deleted;
        world.body_bytes = body_bytes;
        ASSERT_TRUE(world.start());
        check(world);
      };
      SCOPED_TRACE(std::string(name) + ": crash at call " + std::to_string(n) + ", way " +
                   std::to_string(static_cast<int>(way)));
      // Which names are kept is a matter of luck: several draws.
      uint32_t draws = way == FaultyFileSystem::Survives::some_names ? 8 : 1;
      for (uint32_t draw = 1; draw < draws; ++draw) {
        auto other = fs.clone();
        other->reboot(way, static_cast<uint32_t>(n * 1000 + draw));
        open_and_check(*other);
      }
      auto disk = fs.clone();
      disk->reboot(way, static_cast<uint32_t>(n));
      auto opened = disk->clone();
      open_and_check(*opened);
      if (testing::Test::HasFailure()) return;
      // Crash again, in recovery.
      for (uint64_t m = 1; m < 40; ++m) {
        auto again = disk->clone();
        bool complete;
        {
          StorageWorld world(*again);
          world.segment_bytes = options.segment_bytes;
          world.deleted = deleted;
          again->crash_at(m);
          bool started = world.start();
          complete = started && !again->crashed();
          world.stop();
        }
        SCOPED_TRACE("crash in recovery at call " + std::to_string(m));
        again->reboot(
            options.kills_only
                ? FaultyFileSystem::Survives::everything
                : FaultyFileSystem::kAllWays[(n + m) % std::size(FaultyFileSystem::kAllWays)],
            static_cast<uint32_t>(n * 31 + m));
        open_and_check(*again);
        if (testing::Test::HasFailure()) return;
        if (complete) break;
      }
    }
  }
  std::printf("%s: %llu crash points, %llu openings checked\n", name,
              static_cast<unsigned long long>(points), static_cast<unsigned long long>(openings));
  EXPECT_GT(points, 10u);
}

}  // namespace tarry
