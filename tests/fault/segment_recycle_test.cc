// Files of segments that are written over by later ones (src/storage/segment_pool.h), with a crash
// at every call: what such a file held before is never served, and never called damage.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/system/errc.hpp>

#include "fault/storage_world.h"
#include "storage/inspect.h"

namespace tarry {
namespace {

constexpr uint32_t kSmallSegment = 8u << 10;

/// Appends `count` records with ids from `next` on, with a commit after each four.
bool fill(StorageWorld& w, uint32_t& next, uint32_t count, size_t log) {
  for (uint32_t i = 0; i < count; ++i) {
    w.append(next++, log);
    if (i % 4 == 3 && !w.commit()) return false;
  }
  return w.commit();
}

/// Settles what is fresh but the last `left`, and lets the files go.
bool drain(StorageWorld& w, uint32_t left, size_t log) {
  while (w.log(log).fresh_count() > left) w.settle(w.deliver(log), log);
  if (!w.commit()) return false;
  for (int i = 0; i < 2; ++i) w.pass_time(50);
  return !w.crashed();
}

void three_lives(StorageWorld& w) {
  w.body_bytes = 900;
  uint32_t next = 1;
  if (!fill(w, next, 17, 0) || !drain(w, 1, 0)) return;  // two full segments go
  if (!fill(w, next, 12, 0)) return;                     // into those
  auto parked = w.deliver();
  w.park(parked, 5000, 1);
  if (!drain(w, 4, 0)) return;
  w.append(next++);
  w.turn(25);  // written, and nobody waits for it
  w.round(false);
  w.append(next++);
  if (!fill(w, next, 6, 0)) return;
  w.settle(parked);
  if (!drain(w, 3, 0)) return;
  fill(w, next, 5, 0);
}

TEST(SegmentRecycle, AFileThatIsWrittenOverServesNothingOfItsFormerLife) {
  {
    FaultyFileSystem fs;
    ASSERT_EQ(fs.make_directory("/d"), FileError{});
    StorageWorld w(fs);
    w.segment_bytes = kSmallSegment;
    ASSERT_TRUE(w.start());
    three_lives(w);
    EXPECT_GE(w.store().impl().pool->taken(), 3u);  // else nothing is tried here
  }
  crash_everywhere("segment recycle", three_lives, [](StorageWorld& w) { w.check(); },
                   {.segment_bytes = kSmallSegment});
}

// One queue's file becomes another's, which has other numbers, and another directory to sync.
TEST(SegmentRecycle, AFileGoesFromOneQueueToAnother) {
  const auto scenario = [](StorageWorld& w) {
    w.body_bytes = 900;
    uint32_t next = 1;
    w.append(1000, 1);
    if (!fill(w, next, 16, 0)) return;
    while (w.log(0).fresh_count() > 0) w.log(0).settle({w.deliver(0).position, 1});
    if (!w.commit()) return;
    for (uint32_t id = 1; id < next; ++id) w.promises.erase(id);
    for (int i = 0; i < 2; ++i) w.pass_time(50);
    next = 1001;
    if (!fill(w, next, 20, 1)) return;
    auto out = w.deliver(1);
    w.settle(out, 1);
    w.commit();
  };
  crash_everywhere("from queue to queue", scenario,
                   [](StorageWorld& w) {
                     // Of the first queue only what the scenario still promises.
                     std::erase_if(w.promises, [](const auto& p) { return p.first < 1000; });
                     w.check(1);
                   },
                   {.segment_bytes = kSmallSegment});
}

// Nobody waits for fdatasync there, and nothing is synced for the sake of a next life.
TEST(SegmentRecycle, AtLevelOsNothingIsWrittenOver) {
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  w.segment_bytes = kSmallSegment;
  w.durability = Durability::os;
  ASSERT_TRUE(w.start());
  three_lives(w);
  EXPECT_EQ(w.store().impl().pool->taken(), 0u);
}

/// A store in which the last segment was written over, with much of its former life behind its end.
class Recycled : public testing::Test {
 protected:
  void SetUp() override {
    (void)set_log_level("off");
    ASSERT_EQ(fs_.make_directory("/d"), FileError{});
    w_.segment_bytes = kSmallSegment;
    w_.body_bytes = 900;
    ASSERT_TRUE(w_.start());
    ASSERT_TRUE(fill(w_, next_, 17, 0) && drain(w_, 1, 0));
    ASSERT_TRUE(fill(w_, next_, 10, 0));
    for (auto& path : fs_.all_files()) {
      if (path.ends_with(".seg")) last_ = path;
    }
    ASSERT_GE(pool().taken(), 1u);
    ASSERT_TRUE(pool().end_of(last_));
    ASSERT_LT(*pool().end_of(last_), fs_.size_of(last_));
  }
  SegmentPool& pool() { return *w_.store().impl().pool; }

  FaultyFileSystem fs_;
  StorageWorld w_{fs_};
  uint32_t next_ = 1;
  std::string last_;
};

TEST_F(Recycled, AStopLeavesNoDamage) {
  w_.stop();
  ASSERT_TRUE(w_.start());
  EXPECT_EQ(w_.log().damaged_count(), 0u);
  w_.check();
}

TEST_F(Recycled, AKillLeavesNoDamage) {
  auto disk = fs_.clone();
  disk->reboot(FaultyFileSystem::Survives::everything, 1);
  StorageWorld after(*disk);
  after.segment_bytes = kSmallSegment;
  after.body_bytes = 900;
  after.promises = w_.promises;
  ASSERT_TRUE(after.start());
  EXPECT_EQ(after.log().damaged_count(), 0u);
  after.check();
}

// The inventory has its size, which a power cut must not take back.
TEST_F(Recycled, APowerCutAfterAStopLeavesNoDamage) {
  const auto promises = w_.promises;
  w_.stop();
  for (auto way : FaultyFileSystem::kAllWays) {
    auto disk = fs_.clone();
    disk->reboot(way, 1);
    StorageWorld after(*disk);
    after.body_bytes = 900;
    after.promises = promises;
    ASSERT_TRUE(after.start());
    EXPECT_EQ(after.log().damaged_count(), 0u);
    after.check();
  }
}

// A tool that looks at it meanwhile sees what was written, and calls nothing damaged.
TEST_F(Recycled, WhatIsBehindTheEndIsNoFindingOfADump) {
  const auto dump = [&](FileSystem& files) {
    uint32_t whole = 0;
    for (const auto& segment : inspect_log(files, w_.store().queue_directory(QueueId{1}) + "/0")) {
      for (const std::string& line : segment.damage) ADD_FAILURE() << line;
      whole += static_cast<uint32_t>(segment.records.size());
    }
    return whole;
  };
  const uint32_t whole = dump(fs_);
  EXPECT_GE(whole, 11u);
  pool().trim_idle();
  pool().trim_idle();
  EXPECT_EQ(dump(fs_), whole);
  // One that was taken and not begun.
  ASSERT_TRUE(drain(w_, 1, 0));
  auto disk = fs_.clone();
  disk->reboot(FaultyFileSystem::Survives::everything, 1);
  const auto files = disk->all_files();
  const auto spare = std::find_if(files.begin(), files.end(), [](const std::string& path) {
    return path.find("/spare/") != std::string::npos;
  });
  ASSERT_NE(spare, files.end());
  const std::string begun = w_.store().queue_directory(QueueId{1}) + "/0/00ffffff.seg";
  ASSERT_EQ(disk->rename(*spare, begun), FileError{});
  dump(*disk);
  StorageWorld after(*disk);
  after.body_bytes = 900;
  after.promises = w_.promises;
  ASSERT_TRUE(after.start());
  EXPECT_EQ(after.log().damaged_count(), 0u);
  after.check();
}

TEST_F(Recycled, AStopCutsTheFileAtItsEnd) {
  const uint64_t end = *pool().end_of(last_);
  w_.stop();
  EXPECT_EQ(fs_.size_of(last_), end);
  for (auto& path : fs_.all_files()) EXPECT_EQ(path.find("/spare/"), std::string::npos) << path;
}

TEST_F(Recycled, AQueueAtRestKeepsNoMoreThanItHolds) {
  const uint64_t end = *pool().end_of(last_);
  pool().trim_idle();
  EXPECT_GT(fs_.size_of(last_), end);  // it was written since the last look
  pool().trim_idle();
  EXPECT_EQ(fs_.size_of(last_), end);
  ASSERT_TRUE(fill(w_, next_, 5, 0));  // and goes on
  w_.stop();
  ASSERT_TRUE(w_.start());
  EXPECT_EQ(w_.log().damaged_count(), 0u);
  w_.check();
}

TEST_F(Recycled, DamageBeforeTheEndIsFoundAndNothingOfTheFormerLifeIsServed) {
  auto disk = fs_.clone();
  disk->reboot(FaultyFileSystem::Survives::everything, 1);
  disk->flip_byte(last_, kFileHeaderBytes + 100);
  StorageWorld after(*disk);
  after.segment_bytes = kSmallSegment;
  after.body_bytes = 900;
  ASSERT_TRUE(after.start());
  EXPECT_EQ(after.log().damaged_count(), 1u);
  std::vector<uint32_t> served;
  StorageWorld::Out out;
  while ((out = after.deliver()).there) served.push_back(out.id);
  EXPECT_EQ(served.size(), 10u);  // of 11 that wait
  EXPECT_TRUE(std::is_sorted(served.begin(), served.end()));
  EXPECT_EQ(served.front(), 17u);
}

TEST_F(Recycled, NoRoomEmptiesThePool) {
  ASSERT_TRUE(drain(w_, 1, 0));
  const auto spares = [&] {
    const auto files = fs_.all_files();
    return std::count_if(files.begin(), files.end(), [](const auto& path) {
      return path.find("/spare/") != std::string::npos;
    });
  };
  EXPECT_GT(spares(), 0);
  fs_.set_free_bytes(1000);
  w_.store().impl().barrier->check_free_space();
  EXPECT_EQ(spares(), 0);
  fs_.set_free_bytes(1ull << 40);
  w_.store().impl().barrier->check_free_space();
  ASSERT_TRUE(fill(w_, next_, 17, 0) && drain(w_, 1, 0));
  EXPECT_GT(spares(), 0);
}

TEST_F(Recycled, APoolThatACrashLeftIsGivenBack) {
  ASSERT_TRUE(drain(w_, 1, 0));
  auto disk = fs_.clone();
  disk->reboot(FaultyFileSystem::Survives::everything, 1);
  StorageWorld after(*disk);
  ASSERT_TRUE(after.start());
  for (auto& path : disk->all_files()) EXPECT_EQ(path.find("/spare/"), std::string::npos) << path;
}

// Whoever still reads the old segment holds its file, and has nothing to do with what is in it now:
// all of it was settled. A failure to take one over makes a new file.
TEST_F(Recycled, WhatCannotBeTakenOverIsMadeNew) {
  namespace errc = boost::system::errc;
  ASSERT_TRUE(drain(w_, 1, 0));
  fs_.set_fault([](const std::string& kind, const std::string&) -> FileError {
    return kind == "rename" ? FileError(errc::make_error_code(errc::io_error)) : FileError{};
  });
  const uint64_t taken = pool().taken();
  ASSERT_TRUE(fill(w_, next_, 20, 0));
  EXPECT_EQ(pool().taken(), taken);
  fs_.set_fault(nullptr);
  w_.stop();
  ASSERT_TRUE(w_.start());
  w_.check();
}

}  // namespace
}  // namespace tarry
