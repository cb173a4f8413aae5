#include <boost/system/errc.hpp>

#include "fault/storage_world.h"

namespace tarry {
namespace {

namespace errc = boost::system::errc;

/// Runs with one failing call, the n-th of its kind, and no crash; then a power cut.
void one_failure_everywhere(const std::string& kind, errc::errc_t what) {
  (void)set_log_level("off");
  uint64_t points = 0;
  bool hit = true;
  for (int n = 1; hit; ++n) {
    SCOPED_TRACE(kind + " fails the " + std::to_string(n) + ". time");
    FaultyFileSystem fs;
    ASSERT_EQ(fs.make_directory("/d"), FileError{});
    ASSERT_EQ(fs.sync_directory("/"), FileError{});
    StorageWorld w(fs);
    ASSERT_TRUE(w.start());
    int seen = 0;
    hit = false;
    fs.set_fault([&](const std::string& k, const std::string&) -> FileError {
      if (k != kind || ++seen != n) return {};
      hit = true;
      return errc::make_error_code(what);
    });
    for (uint32_t id = 1; id <= 5; ++id) w.append(id);
    EXPECT_TRUE(w.commit());
    auto a = w.deliver(), b = w.deliver(), c = w.deliver();
    w.settle(a);
    w.park(b, 5000, 1);
    w.append(6);
    EXPECT_TRUE(w.commit());
    w.append(7);
    w.requeue(c, 2);
    EXPECT_TRUE(w.commit());
    // Positions handed out before the failure are good after it.
    Fetched fetched;
    EXPECT_EQ(w.read(b.position, fetched), Fetch::ok);
    EXPECT_EQ(StorageWorld::id_of(fetched), b.id);
    EXPECT_EQ(w.log().park_error(b.position), "why");
    w.append(8);
    w.settle(w.deliver());
    EXPECT_TRUE(w.commit());
    fs.set_fault(nullptr);
    auto promises = w.promises;
    w.stop();
    ++points;
    for (auto way : FaultyFileSystem::kAllWays) {
      auto disk = fs.clone();
      disk->reboot(way, static_cast<uint32_t>(n));
      StorageWorld after(*disk);
      after.promises = promises;
      ASSERT_TRUE(after.start());
      after.check();
    }
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%s: %llu failures\n", kind.c_str(), static_cast<unsigned long long>(points));
  EXPECT_GT(points, 1u);
}

TEST(StorageFault, AFailedSyncIsNotRepeatedAndNothingConfirmedIsLost) {
  one_failure_everywhere("sync", errc::io_error);
}
TEST(StorageFault, AFailedWriteGoesToANewFile) { one_failure_everywhere("write", errc::io_error); }
TEST(StorageFault, AFullDiskAtAnyWriteIsGotOver) {
  one_failure_everywhere("write", errc::no_space_on_device);
}
TEST(StorageFault, AFailedDirectorySyncIsGotOver) {
  one_failure_everywhere("sync_dir", errc::io_error);
}
TEST(StorageFault, TooManyOpenFilesIsGotOver) {
  one_failure_everywhere("create", errc::too_many_files_open);
}

TEST(StorageFault, WhileTheDiskIsFullAppendsAreRefusedAndWaitersWaitThenAllGoesOn) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  ASSERT_TRUE(w.append(1));
  ASSERT_TRUE(w.commit());
  bool full = true;
  fs.set_fault([&](const std::string& k, const std::string&) -> FileError {
    return full && k == "write" ? FileError(errc::make_error_code(errc::no_space_on_device))
                                : FileError{};
  });
  ASSERT_TRUE(w.append(2));
  bool done = false;
  w.shard_store().when_durable([&] { done = true; });
  for (int i = 0; i < 5; ++i) {
    w.turn();
    w.round();
  }
  EXPECT_FALSE(done);
  EXPECT_TRUE(w.store().disk_alarm());
  EXPECT_FALSE(w.append(3));
  // Who hears that his message is stored sends the next: that must not be refused any more.
  bool told_too_early = true;
  w.store().on_disk_alarm([&](bool, const std::string&) {
    w.turn();  // what has been handed to the shard by now
    told_too_early = done;
  });
  full = false;
  for (int i = 0; i < 3; ++i) {
    w.round();
    w.turn();
  }
  EXPECT_TRUE(done);
  EXPECT_FALSE(told_too_early);
  EXPECT_FALSE(w.store().disk_alarm());
  EXPECT_TRUE(w.append(3));
  EXPECT_TRUE(w.commit());
  w.stop();
  fs.reboot(FaultyFileSystem::Survives::nothing, 1);
  ASSERT_TRUE(w.start());
  w.check();
}

/// Appends until there is a second segment; how many records the first one has.
uint32_t fill_a_segment(StorageWorld& w) {
  w.body_bytes = 9000;
  uint32_t id = 0;
  for (bool good = true; good && w.log().segment_count() < 2;) good = w.append(++id) && w.commit();
  return id - 1;
}

// Nothing but its removal says that what was in it is settled.
TEST(StorageFault, ASegmentWithoutAnAckLogThatCannotBeRemovedKeepsItsSettlersWaiting) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  ASSERT_EQ(fs.sync_directory("/"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  const uint32_t count = fill_a_segment(w);
  bool failing = true;
  int tried = 0;
  fs.set_fault([&](const std::string& k, const std::string& path) -> FileError {
    if (k != "unlink" || !path.ends_with(".seg")) return {};
    ++tried;
    return failing ? FileError(errc::make_error_code(errc::io_error)) : FileError{};
  });
  for (uint32_t i = 0; i < count; ++i) w.settle(w.deliver());
  bool done = false;
  w.shard_store().when_durable([&] { done = true; });
  for (int i = 0; i < 5; ++i) {
    w.turn();
    w.round();
  }
  w.turn();
  EXPECT_GT(tried, 1);
  for (auto& path : fs.all_files()) EXPECT_FALSE(path.ends_with(".ack")) << path;
  EXPECT_FALSE(done);
  EXPECT_TRUE(w.store().disk_alarm());
  failing = false;
  EXPECT_TRUE(w.commit());
  EXPECT_TRUE(done);
  EXPECT_FALSE(w.store().disk_alarm());
  fs.set_fault(nullptr);
  auto promises = w.promises;
  w.stop();
  for (auto way : FaultyFileSystem::kAllWays) {
    auto disk = fs.clone();
    disk->reboot(way, 1);
    StorageWorld after(*disk);
    after.promises = promises;
    after.body_bytes = 9000;
    ASSERT_TRUE(after.start());
    after.check();
  }
}

// The ack log's name says it, and that is durable before anybody is told.
TEST(StorageFault, ASegmentWithAnAckLogThatCannotBeRemovedIsSettledForGood) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  ASSERT_EQ(fs.sync_directory("/"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  const uint32_t count = fill_a_segment(w);
  w.settle(w.deliver());
  ASSERT_TRUE(w.commit());
  fs.set_fault([&](const std::string& k, const std::string& path) -> FileError {
    return k == "unlink" && path.ends_with(".seg")
               ? FileError(errc::make_error_code(errc::io_error))
               : FileError{};
  });
  for (uint32_t i = 1; i < count; ++i) w.settle(w.deliver());
  EXPECT_TRUE(w.commit());
  EXPECT_FALSE(w.store().disk_alarm());
  for (auto way : FaultyFileSystem::kAllWays) {
    auto disk = fs.clone();
    disk->reboot(way, 1);
    StorageWorld after(*disk);
    after.promises = w.promises;
    after.body_bytes = 9000;
    ASSERT_TRUE(after.start());
    after.check();
  }
}

// Its directory goes on another thread: a write that came after would be taken for a failing disk.
TEST(StorageFault, OfAQueueThatIsRemovedNothingMoreIsWritten) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  int touched = 0;
  fs.set_fault([&](const std::string& k, const std::string& path) -> FileError {
    touched += (k == "write" || k == "create") && path.find("/queues/") != std::string::npos;
    return {};
  });
  ASSERT_TRUE(w.append(1));
  bool done = false;
  w.shard_store().when_durable([&] { done = true; });
  w.turn();  // on its way, but not written
  w.store().remove_queue_directory(QueueId{1});
  w.round();
  w.turn();
  EXPECT_EQ(touched, 0);
  EXPECT_TRUE(done);
  EXPECT_FALSE(w.store().disk_alarm());
}

TEST(StorageFault, LittleFreeSpaceRaisesTheAlarmAndHalfOfItRefusesAppends) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  bool on = false;
  w.store().on_disk_alarm([&](bool now, const std::string&) { on = now; });
  const uint64_t least = StoreOptions{}.disk_free_min_bytes;
  fs.set_free_bytes(least - 1);
  w.store().impl().barrier->check_free_space();
  EXPECT_TRUE(on);
  EXPECT_TRUE(w.append(1));  // publishers are stopped; what is under way is not lost
  EXPECT_TRUE(w.commit());
  fs.set_free_bytes(least / 2 - 1);
  w.store().impl().barrier->check_free_space();
  EXPECT_TRUE(on);
  EXPECT_FALSE(w.append(2));
  fs.set_free_bytes(1ull << 40);
  w.store().impl().barrier->check_free_space();
  EXPECT_FALSE(on);
  EXPECT_TRUE(w.append(2));
}

TEST(StorageFault, DamageInsideIsReportedSkippedAndNeverServed) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  {
    StorageWorld w(fs);
    w.body_bytes = 500;
    ASSERT_TRUE(w.start());
    for (uint32_t id = 1; id <= 400; ++id) {
      w.append(id);
      if (id % 20 == 0) {
        ASSERT_TRUE(w.commit());
      }
    }
    w.stop();
  }
  std::vector<std::string> segments;
  for (auto& name : fs.all_files()) {
    if (name.ends_with(".seg")) segments.push_back(name);
  }
  ASSERT_GE(segments.size(), 2u);
  for (bool cold : {false, true}) {
    for (const std::string& name : segments) {
      for (uint64_t offset : {uint64_t{70}, uint64_t{64 + 600}, fs.size_of(name) / 2}) {
        auto disk = fs.clone();
        disk->flip_byte(name, offset);
        disk->set_cold(cold);
        StorageWorld w(*disk);
        w.body_bytes = 500;
        ASSERT_TRUE(w.start());
        std::vector<uint32_t> ids;
        StorageWorld::Out out;
        while ((out = w.deliver()).there) ids.push_back(out.id);
        EXPECT_EQ(ids.size(), 399u) << name << " byte " << offset;
        EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
        EXPECT_EQ(w.log().damaged_count(), 1u);
        EXPECT_EQ(w.log().fresh_count(), 0u);
      }
    }
  }
}

TEST(StorageFault, ARecordBehindOneThatIsNotWholeIsFoundByItsOrdinal) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  w.body_bytes = 500;
  ASSERT_TRUE(w.start());
  for (uint32_t id = 1; id <= 5; ++id) ASSERT_TRUE(w.append(id));
  ASSERT_TRUE(w.commit());
  ASSERT_TRUE(w.deliver().there);
  w.settle(w.deliver());
  ASSERT_TRUE(w.commit());
  w.stop();
  // What was settled needs not have come to the disk.
  for (auto& name : fs.all_files()) {
    if (name.ends_with(".seg")) fs.flip_byte(name, 64 + 800);
  }
  for (bool cold : {false, true}) {
    fs.set_cold(cold);
    ASSERT_TRUE(w.start());
    std::vector<StorageWorld::Out> outs;
    for (StorageWorld::Out out; (out = w.deliver()).there;) outs.push_back(out);
    ASSERT_EQ(outs.size(), 4u);
    const uint64_t damaged = w.log().damaged_count();
    for (const auto& out : outs) {
      Fetched fetched;
      EXPECT_EQ(w.read({out.position.segment, out.position.ordinal, 0}, fetched), Fetch::ok);
      EXPECT_EQ(StorageWorld::id_of(fetched), out.id);
    }
    EXPECT_EQ(w.log().damaged_count(), damaged);
    w.stop();
  }
}

TEST(StorageFault, AnErrorTextThatIsNotInMemoryKeepsNobodyWaitingForTheDisk) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  ASSERT_TRUE(w.append(1));
  ASSERT_TRUE(w.commit());
  const auto out = w.deliver();
  w.park(out, 5000, 1);
  ASSERT_TRUE(w.commit());
  fs.set_cold(true);
  Fetched fetched;
  std::string text;
  const auto read = [&] {
    const Fetch fetch = w.log().read(out.position, fetched);
    if (fetch == Fetch::ok) text = w.log().park_error(out.position);
    return fetch;
  };
  EXPECT_EQ(read(), Fetch::pending);
  EXPECT_EQ(read(), Fetch::pending);
  w.log().set_waker([&] { (void)read(); });
  for (int i = 0; i < 3; ++i) {  // the record, then the text
    w.store().impl().store_thread.run_queued();
    w.turn();
  }
  EXPECT_EQ(text, "why");
  fs.set_cold(false);
  EXPECT_EQ(read(), Fetch::ok);
  w.stop();
}

TEST(StorageFault, AFileOfAnotherFormatVersionIsRefused) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  ASSERT_TRUE(w.append(1));
  ASSERT_TRUE(w.commit());
  w.stop();
  for (auto& name : fs.all_files()) {
    if (!name.ends_with(".seg")) continue;
    auto file = fs.open(name, FileSystem::Open::write);
    ASSERT_TRUE(file);
    std::byte bytes[kFileHeaderBytes];
    ASSERT_TRUE((*file)->pread(bytes, 0));
    store_le<uint32_t>(bytes + 8, kFormatVersion + 1);
    store_le<uint32_t>(bytes + 60, checksum(bytes, 60, 0x7461'7272));
    ByteSpan piece(bytes);
    ASSERT_EQ((*file)->pwritev({&piece, 1}, 0), FileError{});
  }
  EXPECT_FALSE(w.start());
}

}  // namespace
}  // namespace tarry
