// Damage: every byte of a small store changed, every file cut at every byte, every file removed,
// one at a time. After each: it starts, it says what is wrong, all that is whole is there, and
// nothing is served that was not written.
#include <set>

#include "fault/storage_world.h"
#include "storage/inventory.h"
#include "storage/log_state.h"

namespace tarry {
namespace {

struct Survey {
  std::map<uint32_t, uint32_t> fresh, parked;  // id: counter
  uint64_t damage_reports = 0;
  bool operator==(const Survey& other) const {
    return fresh == other.fresh && parked == other.parked;
  }
  bool holds(uint32_t id) const { return fresh.contains(id) || parked.contains(id); }
};

/// Everything that a store serves; each body must be one that was written.
Survey survey(StorageWorld& w) {
  Survey out;
  const auto note = [&](const Fetched& fetched, std::map<uint32_t, uint32_t>& into) {
    const uint32_t id = StorageWorld::id_of(fetched);
    EXPECT_EQ(as_text(fetched.record.body), w.body(id));
    EXPECT_FALSE(out.holds(id)) << "doubled " << id;
    into[id] = fetched.counter;
  };
  for (size_t log = 0; log < StorageWorld::kLogs; ++log) {
    for (const RecoveredPark& park : w.parked(log)) {
      Fetched fetched;
      Fetch result = Fetch::pending;
      for (int i = 0; i < 10 && result == Fetch::pending; ++i) {
        result = w.log(log).read(park.position, fetched);
        w.store().impl().store_thread.run_queued();
        w.turn();
        if (result == Fetch::ok) result = w.log(log).read(park.position, fetched);
      }
      EXPECT_NE(result, Fetch::pending);
      if (result != Fetch::ok) continue;
      fetched.counter = park.counter;
      note(fetched, out.parked);
    }
    Fetched fetched;
    Fetch result;
    while ((result = w.peek(fetched, log)) == Fetch::ok) {
      note(fetched, out.fresh);
      w.log(log).take();
      w.turn();
    }
    EXPECT_EQ(result, Fetch::none);
    EXPECT_EQ(w.log(log).fresh_count(), 0u);
    out.damage_reports += w.log(log).damaged_count();
  }
  return out;
}

/// A store of a few messages in every state, in sealed segments and an open one.
void fill(FaultyFileSystem& fs, bool clean) {
  StorageWorld w(fs);
  w.body_bytes = 12;
  ASSERT_TRUE(w.start());
  for (uint32_t id = 1; id <= 5; ++id) w.append(id);
  ASSERT_TRUE(w.commit());
  w.settle(w.deliver());
  w.park(w.deliver(), 50'000, 1);
  w.requeue(w.deliver(), 2);
  ASSERT_TRUE(w.commit());
  w.stop();
  ASSERT_TRUE(w.start());  // the first segment is sealed by this
  for (uint32_t id = 6; id <= 9; ++id) w.append(id);
  for (uint32_t id = 10; id <= 11; ++id) w.append(id, 1);
  ASSERT_TRUE(w.commit());
  StorageWorld::Out out;
  while ((out = w.deliver()).there && out.id < 6) continue;
  w.settle(out);  // 6
  w.park(w.deliver(), 60'000, 3);
  ASSERT_TRUE(w.commit());
  if (clean) {
    w.stop();
  } else {
    auto disk = fs.clone();  // as kill -9 leaves it
    w.stop();
    disk->copy_to(fs);
  }
}

enum class How : uint8_t { change, cut, remove };

struct Damage {
  std::string path;
  uint64_t offset = 0;
  How how = How::change;
};

/// Starts on the damaged disk and compares with what the whole one holds.
void start_and_compare(const FaultyFileSystem& whole_disk, const Survey& whole,
                       const Damage& damage, bool clean) {
  auto disk = whole_disk.clone();
  switch (damage.how) {
    case How::change:
      disk->flip_byte(damage.path, damage.offset);
      break;
    case How::cut:
      disk->cut(damage.path, damage.offset);
      break;
    case How::remove:
      ASSERT_EQ(disk->unlink(damage.path), FileError{});
      break;
  }
  SCOPED_TRACE(damage.path + " at " + std::to_string(damage.offset) + ", how " +
               std::to_string(static_cast<int>(damage.how)));
  disk->reboot(FaultyFileSystem::Survives::everything, 1);
  StorageWorld w(*disk);
  w.body_bytes = 12;
  ASSERT_TRUE(w.start());
  const Survey found = survey(w);
  const bool segment = damage.path.ends_with(".seg"), acks = damage.path.ends_with(".ack");
  size_t lost = 0;
  for (auto& [id, counter] : whole.fresh) lost += !found.holds(id);
  for (auto& [id, counter] : whole.parked) lost += !found.holds(id);
  if (damage.how == How::change) {
    EXPECT_LE(lost, segment ? 1u : 0u);
    if (segment && damage.offset < kFileHeaderBytes) {
      EXPECT_EQ(lost, 0u) << "one byte of a header";
    }
  }
  if (!segment) {
    EXPECT_EQ(lost, 0u);
  }
  if (!acks) {
    // Nothing is there that was not, or in another state.
    for (auto& [id, counter] : found.fresh) EXPECT_TRUE(whole.fresh.contains(id)) << id;
    for (auto& [id, counter] : found.parked) EXPECT_TRUE(whole.parked.contains(id)) << id;
  }
  if (clean && !(found == whole)) {
    EXPECT_GT(found.damage_reports, 0u) << "taken in silence";
  }
  if (clean && damage.how != How::change && damage.path.find("/queues/") != std::string::npos) {
    EXPECT_GT(found.damage_reports, 0u) << "taken in silence";
  }
  // A second start finds a store in order.
  w.stop();
  ASSERT_TRUE(w.start());
  Survey again = survey(w);
  EXPECT_TRUE(again == found) << "another answer at the second start";
  if (damage.how == How::change && found.damage_reports == 0) {
    EXPECT_EQ(again.damage_reports, 0u);
  }
}

void damage_everywhere(bool clean) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  fill(fs, clean);
  if (testing::Test::HasFatalFailure()) return;
  Survey whole;
  {
    auto disk = fs.clone();
    disk->reboot(FaultyFileSystem::Survives::everything, 1);
    StorageWorld w(*disk);
    w.body_bytes = 12;
    ASSERT_TRUE(w.start());
    whole = survey(w);
    ASSERT_EQ(whole.fresh.size(), 7u);
    ASSERT_EQ(whole.parked.size(), 2u);
    ASSERT_EQ(whole.damage_reports, 0u);
  }
  uint64_t cases = 0;
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with("/lock")) continue;
    start_and_compare(fs, whole, {path, 0, How::remove}, clean && !path.ends_with("/inventory"));
    ++cases;
    for (uint64_t at = 0; at < fs.size_of(path); ++at) {
      // Damage to the inventory is reported, but of no store's contents.
      const bool promised = clean && !path.ends_with("/inventory");
      start_and_compare(fs, whole, {path, at, How::change}, promised);
      start_and_compare(fs, whole, {path, at, How::cut}, promised);
      cases += 2;
      if (testing::Test::HasFailure()) return;
    }
    if (testing::Test::HasFailure()) return;
  }
  std::printf("damage, %s: %llu cases\n", clean ? "after a clean stop" : "after kill -9",
              static_cast<unsigned long long>(cases));
  EXPECT_GT(cases, 2000u);
}

TEST(StorageDamage, OfAnyByteAfterACleanStopIsReportedAndTheRestIsKept) { damage_everywhere(true); }
TEST(StorageDamage, OfAnyByteAfterAKillLosesNoMoreThanItsRecord) { damage_everywhere(false); }

class DamagedStore : public testing::Test {
 protected:
  void SetUp() override {
    (void)set_log_level("off");
    ASSERT_EQ(fs_.make_directory("/d"), FileError{});
    fill(fs_, false);
  }
  std::string only(const std::string& suffix) const { return only(fs_, suffix); }
  static std::string only(const FaultyFileSystem& files, const std::string& suffix) {
    for (const std::string& path : files.all_files()) {
      if (path.starts_with("/d/queues/0000000000000001/0/") && path.ends_with(suffix)) return path;
    }
    return {};
  }
  void overwrite(const std::string& path, uint64_t offset, size_t bytes, std::byte with) {
    overwrite(fs_, path, offset, bytes, with);
  }
  static void overwrite(FaultyFileSystem& files, const std::string& path, uint64_t offset,
                        size_t bytes, std::byte with) {
    auto file = files.open(path, FileSystem::Open::write);
    ASSERT_TRUE(file);
    const std::vector<std::byte> junk(bytes, with);
    const ByteSpan piece(junk);
    ASSERT_EQ((*file)->pwritev({&piece, 1}, offset), FileError{});
    ASSERT_EQ((*file)->sync_data(), FileError{});
  }
  Survey start_and_look() {
    StorageWorld w(fs_);
    w.body_bytes = 12;
    EXPECT_TRUE(w.start());
    return survey(w);
  }
  FaultyFileSystem fs_;
};

TEST_F(DamagedStore, AnAckLogWithoutItsHeaderStillSettlesAndDelays) {
  for (std::byte junk : {std::byte{0}, std::byte{0xee}}) {
    overwrite(only(".ack"), 0, kFileHeaderBytes, junk);
    const Survey found = start_and_look();
    EXPECT_FALSE(found.holds(1)) << "was settled";
    EXPECT_TRUE(found.parked.contains(2));
    EXPECT_EQ(found.damage_reports, 1u);
  }
}

TEST_F(DamagedStore, ASegmentWithoutItsHeaderIsReadByWhatItsTrailerAndItsAckLogSay) {
  for (bool without_acks : {false, true}) {
    overwrite(only(".seg"), 0, kFileHeaderBytes, std::byte{0xee});
    if (without_acks) {
      ASSERT_EQ(fs_.unlink(only(".ack")), FileError{});
    }
    const Survey found = start_and_look();
    for (uint32_t id : {2u, 3u, 4u, 5u}) EXPECT_TRUE(found.holds(id)) << id;
    EXPECT_GE(found.damage_reports, 1u);
  }
}

TEST_F(DamagedStore, ASegmentThatVanishedIsMissedWhenItsAckLogIsThere) {
  ASSERT_EQ(fs_.unlink(only(".seg")), FileError{});
  const Survey found = start_and_look();
  EXPECT_EQ(found.damage_reports, 1u);
  EXPECT_FALSE(only(".ack.damaged").empty());
  EXPECT_TRUE(found.holds(8));
}

TEST_F(DamagedStore, ASegmentThatIsEmptyIsMissedWhenItsAckLogIsThere) {
  fs_.cut(only(".seg"), 0);
  const Survey found = start_and_look();
  EXPECT_EQ(found.damage_reports, 1u);
  EXPECT_TRUE(found.holds(8));
}

TEST_F(DamagedStore, ASegmentThatLostItsEndIsMissedWhenLaterOnesAreComplete) {
  const std::string first = only(".seg");
  { (void)start_and_look(); }  // seals the later one too
  fs_.cut(first, fs_.size_of(first) - 100);
  ASSERT_EQ(fs_.unlink("/d/inventory"), FileError{});  // as after kill -9
  const Survey found = start_and_look();
  EXPECT_EQ(found.damage_reports, 1u);
}

/// Of a segment that was sealed: how many bytes of it, from its trailer back, the index takes.
size_t index_bytes(FaultyFileSystem& files, const std::string& path) {
  auto file = files.open(path, FileSystem::Open::read);
  std::byte bytes[4] = {};
  EXPECT_TRUE((*file)->pread(bytes, files.size_of(path) - kTrailerBytes + 28));
  return kHeadBytes + load_le<uint32_t>(bytes);
}

TEST_F(DamagedStore, AnIndexBehindRecordsThatWereNeverWrittenIsMadeAnewWithoutLoss) {
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  std::string path;
  {
    StorageWorld w(fs);
    w.body_bytes = 12;
    w.segment_bytes = 1 << 11;
    ASSERT_TRUE(w.start());
    w.append(1);
    ASSERT_TRUE(w.commit());
    path = only(fs, ".seg");
    const uint32_t last = 100;
    for (uint32_t id = 2; id <= last; ++id) w.append(id);
    for (uint32_t id = 1; id < last; ++id) {
      const StorageWorld::Out out = w.deliver();
      ASSERT_EQ(out.id, id);
      if (id > 1) w.settle(out);  // before it was handed over: its place is passed over
    }
    ASSERT_TRUE(w.commit());
  }
  const size_t bytes = index_bytes(fs, path);
  overwrite(fs, path, fs.size_of(path) - kTrailerBytes - bytes, bytes, std::byte{0xee});
  StorageWorld w(fs);
  w.body_bytes = 12;
  ASSERT_TRUE(w.start());
  const Survey found = survey(w);
  EXPECT_EQ(found.fresh.size(), 2u);
  EXPECT_EQ(found.damage_reports, 1u) << "the index alone";
}

TEST_F(DamagedStore, ALastRecordDamagedTogetherWithTheIndexIsMissedOnce) {
  const std::string path = only(".seg");
  const size_t bytes = 1 + index_bytes(fs_, path);
  overwrite(path, fs_.size_of(path) - kTrailerBytes - bytes, bytes, std::byte{0xee});
  const Survey found = start_and_look();
  EXPECT_FALSE(found.holds(5));
  EXPECT_EQ(found.fresh.size() + found.parked.size(), 8u);
  EXPECT_EQ(found.damage_reports, 2u) << "the index and one message";
  const Survey again = start_and_look();
  EXPECT_TRUE(again == found);
  EXPECT_EQ(again.damage_reports, 0u);
}

TEST_F(DamagedStore, AnotherLogsFileIsNotTakenForItsOwn) {
  std::string other;
  for (const std::string& path : fs_.all_files()) {
    if (path.starts_with("/d/queues/0000000000000002/0/") && path.ends_with(".seg")) other = path;
  }
  const std::string own = only(".seg");
  ASSERT_EQ(fs_.rename(other, own), FileError{});
  const Survey found = start_and_look();
  EXPECT_GE(found.damage_reports, 1u);
  EXPECT_FALSE(found.holds(10));
}

TEST_F(DamagedStore, AnOlderFormatIsRefusedWithWords) {
  const std::string path = only(".ack");
  auto file = fs_.open(path, FileSystem::Open::write);
  ASSERT_TRUE(file);
  std::byte bytes[kFileHeaderBytes];
  ASSERT_TRUE((*file)->pread(bytes, 0));
  store_le<uint32_t>(bytes + 8, kFormatVersion - 1);
  store_le<uint32_t>(bytes + 60, checksum(bytes, 60, 0x7461'7272));
  const ByteSpan piece(bytes);
  ASSERT_EQ((*file)->pwritev({&piece, 1}, 0), FileError{});
  StorageWorld w(fs_);
  EXPECT_FALSE(w.start());
  ASSERT_EQ(w.store().unopened_logs().size(), 1u);
  EXPECT_NE(w.store().unopened_logs()[0].find(path), std::string::npos);
}

TEST_F(DamagedStore, FilesOfQueuesThatAreNotDurableAreGoneAfterACrash) {
  const std::string path = "/d/transient/0000000000000009/0/00000001.seg";
  for (size_t slash = path.find('/', 3); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    (void)fs_.make_directory(path.substr(0, slash));
  }
  ASSERT_TRUE(fs_.open(path, FileSystem::Open::create));
  (void)start_and_look();
  EXPECT_FALSE(fs_.exists("/d/transient"));
}

}  // namespace
}  // namespace tarry
