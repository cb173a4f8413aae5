// The definitions with a crash at every write of RocksDB's: declare, change, delete with its
// tombstone, queue ids. And RocksDB's files damaged, byte by byte.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "storage/definition_store.h"
#include "storage/rocks_check.h"
#include "storage/rocks_stores.h"
#include "storage/rocks_stores_db.h"
#include "support/faulty_file_system.h"
#include "support/rocks_files.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

/// A definition store on a file system that crashes, its store thread played by the test.
class DefinitionWorld {
 public:
  explicit DefinitionWorld(FaultyFileSystem& fs) : fs_(fs), env_(make_rocks_env(fs)) {
    set_rocks_env(env_.get());
    definition_retry_pause = std::chrono::milliseconds(0);
  }
  ~DefinitionWorld() {
    stop();
    set_rocks_env(nullptr);
  }
  bool start() {
    RocksStores others;
    auto opened = open_definition_store(
        "/d/definitions", Durability::fsync,
        [this](Task task) { tasks_.push_back(std::move(task)); }, others);
    if (!opened) return false;
    store_ = std::move(*opened);
    return true;
  }
  void stop() {
    tasks_.clear();
    store_.reset();
  }
  /// Writes the batch; true once it is durable, false if the file system crashed.
  bool write(DefinitionBatch batch) {
    bool done = false;
    store_->write(std::move(batch), [&done] { done = true; });
    while (!done && !fs_.crashed() && !tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return done;
  }
  /// A queue id; none if the file system crashed before one was reserved.
  std::optional<uint64_t> take_id() {
    std::optional<uint64_t> taken;
    store_->when_queue_id([&] { taken = store_->next_queue_id()->value; });
    while (!taken && !fs_.crashed() && !tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return taken;
  }
  DefinitionStore& store() { return *store_; }

 private:
  FaultyFileSystem& fs_;
  std::unique_ptr<rocksdb::Env> env_;
  std::deque<Task> tasks_;
  std::unique_ptr<DefinitionStore> store_;
};

using Contents = std::map<std::string, std::string>;

Contents contents_of(DefinitionStore& store) {
  Contents out;
  for (auto& [key, value] : store.read_all()) out[key] = value;
  return out;
}

/// What the steps make of the definitions, one batch after the other.
std::vector<DefinitionBatch> steps() {
  return {
      {{{"vhost", "v"}, {"user", "u"}}, {}},
      {{{"queue1", "first"}}, {}},
      {{{"queue2", "first"}, {"binding2", "b"}}, {}},
      {{{"queue1", "changed"}, {"policy", "p"}}, {}},
      {{{"tombstone2", ""}}, {"queue2", "binding2"}},
      {{}, {"tombstone2"}},
      {{{"queue3", std::string(300, 'x')}}, {}},
  };
}

/// The contents after 0, 1, 2, ... steps.
std::vector<Contents> states() {
  std::vector<Contents> all(1);
  for (const DefinitionBatch& batch : steps()) {
    Contents next = all.back();
    for (auto& key : batch.erases) next.erase(key);
    for (auto& [key, value] : batch.puts) next[key] = value;
    all.push_back(next);
  }
  return all;
}

TEST(DefinitionsCrash, EveryStateIsThatAfterAWholeStepAndNoneThatWasConfirmedIsLost) {
  (void)set_log_level("off");
  const std::vector<Contents> expected = states();
  uint64_t points = 0, openings = 0;
  bool finished = false;
  // Every eleventh call, or every TARRYMQ_CRASH_STRIDE-th.
  const char* wanted = std::getenv("TARRYMQ_CRASH_STRIDE");
  const uint64_t stride = wanted ? std::max<uint64_t>(std::strtoull(wanted, nullptr, 10), 1) : 11;
  for (uint64_t n = 1; !finished; n += stride) {
    FaultyFileSystem fs;
    size_t confirmed = 0;
    std::set<uint64_t> ids;
    ASSERT_EQ(fs.make_directory("/d"), FileError{});
    ASSERT_EQ(fs.sync_directory("/"), FileError{});
    {
      DefinitionWorld world(fs);
      fs.crash_at(n);
      bool going = world.start();
      for (const DefinitionBatch& batch : steps()) {
        going = going && world.write(batch);
        confirmed += going;
        if (going && confirmed == 3) {  // in the middle, a stop and a start
          const auto id = world.take_id();
          if (id) ids.insert(*id);
          world.stop();
          going = id && world.start();
        }
      }
      finished = !fs.crashed();
      world.stop();
    }
    ++points;
    // Opening a database costs more than a log: one way a call, the harshest at every second one.
    const auto turn = FaultyFileSystem::kAllWays[n / 2 % std::size(FaultyFileSystem::kAllWays)];
    for (auto way : {n % 2 ? FaultyFileSystem::Survives::nothing : turn}) {
      SCOPED_TRACE("crash at call " + std::to_string(n) + ", way " +
                   std::to_string(static_cast<int>(way)));
      auto disk = fs.clone();
      disk->reboot(way, static_cast<uint32_t>(n));
      DefinitionWorld world(*disk);
      ++openings;
      ASSERT_TRUE(world.start());
      const Contents found = contents_of(world.store());
      bool known = false;
      for (size_t i = confirmed; i < expected.size(); ++i) known = known || found == expected[i];
      EXPECT_TRUE(known) << "confirmed " << confirmed << ", found " << found.size()
                         << " definitions";
      const auto id = world.take_id();
      ASSERT_TRUE(id);
      EXPECT_EQ(ids.count(*id), 0u) << "a queue id given twice";
      EXPECT_TRUE(world.write({{{"after", "crash"}}, {}}));
      if (testing::Test::HasFailure()) return;
    }
  }
  std::printf("definitions: %llu crash points, %llu openings checked\n",
              static_cast<unsigned long long>(points), static_cast<unsigned long long>(openings));
  EXPECT_GT(points * stride, 80u);
}

TEST(DefinitionsCrash, AfterAFailedCallItIsOpenedAnewAndNothingIsLost) {
  (void)set_log_level("off");
  const std::vector<Contents> expected = states();
  for (const std::string kind : {"write", "sync", "create"}) {
    for (int n = 1, hit = 1; hit; ++n) {
      SCOPED_TRACE(kind + " fails from the " + std::to_string(n) + ". time on, three times");
      FaultyFileSystem fs;
      ASSERT_EQ(fs.make_directory("/d"), FileError{});
      ASSERT_EQ(fs.sync_directory("/"), FileError{});
      DefinitionWorld world(fs);
      ASSERT_TRUE(world.start());
      int seen = 0;
      hit = 0;
      fs.set_fault([&](const std::string& k, const std::string&) -> FileError {
        if (k != kind || ++seen < n || seen > n + 2) return {};
        hit = 1;
        return boost::system::errc::make_error_code(boost::system::errc::no_space_on_device);
      });
      for (const DefinitionBatch& batch : steps()) ASSERT_TRUE(world.write(batch));
      fs.set_fault(nullptr);
      EXPECT_EQ(contents_of(world.store()), expected.back());
      world.stop();
      fs.reboot(FaultyFileSystem::Survives::nothing, 1);
      ASSERT_TRUE(world.start());
      EXPECT_EQ(contents_of(world.store()), expected.back());
      if (testing::Test::HasFailure()) return;
    }
  }
}

// -- Damage, on the machine's file system

class DamagedDefinitions : public testing::Test {
 protected:
  void SetUp() override {
    (void)set_log_level("off");
    // In memory where that is to be had: RocksDB syncs at each of a thousand starts.
    const std::filesystem::path memory = "/dev/shm";
    std::string pattern =
        ((::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
         "tarry-rocks-XXXXXX")
            .string();
    top_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  /// Opens, and if that goes well says what is in it.
  bool open(const std::string& directory, Contents& out, std::string* fingerprint = nullptr) {
    std::deque<Task> tasks;
    RocksStores others;
    auto opened = open_definition_store(
        directory, Durability::os, [&](Task t) { tasks.push_back(std::move(t)); }, others);
    if (!opened) return false;
    out = contents_of(**opened);
    opened->reset();
    if (fingerprint) *fingerprint = others.fingerprint();
    return true;
  }
  void fill(const std::string& directory, bool clean) {
    std::deque<Task> tasks;
    RocksStores others;
    auto opened = open_definition_store(
        directory, Durability::os, [&](Task t) { tasks.push_back(std::move(t)); }, others);
    ASSERT_TRUE(opened);
    for (const DefinitionBatch& batch : steps()) {
      (*opened)->write(batch, [] {});
      while (!tasks.empty()) {
        Task task = std::move(tasks.front());
        tasks.pop_front();
        task();
      }
    }
    if (!clean)
      std::filesystem::copy(directory, top_ + "/whole", std::filesystem::copy_options::recursive);
    opened->reset();
    others = {};
    if (clean)
      std::filesystem::copy(directory, top_ + "/whole", std::filesystem::copy_options::recursive);
  }

  void run(bool clean) {
    fill(top_ + "/made", clean);
    const Contents whole = states().back();
    const std::string before = clean ? fingerprint_on_disk(top_ + "/whole") : "";
    uint64_t cases = 0, refused = 0;
    for (const auto& entry : std::filesystem::directory_iterator(top_ + "/whole")) {
      const std::string name = entry.path().filename();
      const auto size = std::filesystem::file_size(entry.path());
      // Texts for people and for tuning hold no definitions: a sample of them will do.
      const bool matters = name.ends_with(".sst") || name.ends_with(".log") ||
                           name.starts_with("MANIFEST") || name == "CURRENT";
      const uint64_t step =
          matters ? std::max<uint64_t>(1, size / 50) : std::max<uint64_t>(1, size / 5);
      for (uint64_t at = 0; at <= size; at += step) {
        for (int how = 0; how < 3; ++how) {  // change, cut, remove
          if ((how == 0 && at == size) || (how == 2 && at > 0)) continue;
          SCOPED_TRACE(name + " at " + std::to_string(at) + " of " + std::to_string(size) +
                       ", how " + std::to_string(how));
          const std::string directory = top_ + "/try";
          std::filesystem::remove_all(directory);
          std::filesystem::copy(top_ + "/whole", directory,
                                std::filesystem::copy_options::recursive);
          const std::string path = directory + "/" + name;
          if (how == 0) {
            std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
            file.seekg(static_cast<std::streamoff>(at));
            const char byte = static_cast<char>(file.get() ^ 0x5a);
            file.seekp(static_cast<std::streamoff>(at));
            file.put(byte);
          } else if (how == 1) {
            std::filesystem::resize_file(path, at);
          } else {
            std::filesystem::remove(path);
          }
          ++cases;
          // As Store::open does: first what RocksDB would take in silence.
          Contents found;
          const bool seen = !find_silent_damage(directory).empty() ||
                            (clean && fingerprint_on_disk(directory) != before);
          if (seen || !open(directory, found)) {
            ++refused;
            continue;
          }
          if (clean) {
            EXPECT_EQ(found, whole) << "taken in silence";
          } else {
            // The end of the log may be taken for a torn one; never anything that was not written.
            const auto all = states();
            EXPECT_NE(std::find(all.begin(), all.end(), found), all.end());
            if (how == 0 && !name.ends_with(".log")) {
              EXPECT_EQ(found, whole);
            }
          }
          if (testing::Test::HasFailure()) return;
        }
      }
    }
    std::printf("definitions damaged, %s: %llu cases, %llu refused\n", clean ? "clean" : "killed",
                static_cast<unsigned long long>(cases), static_cast<unsigned long long>(refused));
    EXPECT_GT(refused, 50u);
  }

  std::string top_;
};

TEST_F(DamagedDefinitions, AreRefusedAfterACleanStop) { run(true); }
TEST_F(DamagedDefinitions, AreRefusedOrEndEarlyAfterAKill) { run(false); }

// A directory stands for any file at which a read fails.
TEST_F(DamagedDefinitions, AFileThatCannotBeReadIsNamed) {
  for (const std::string name : {"000008.log", "MANIFEST-000005"}) {
    const std::string directory = top_ + "/" + name + "-is-bad";
    std::filesystem::create_directories(directory + "/" + name);
    std::ofstream(directory + "/CURRENT") << "MANIFEST-000005\n";
    EXPECT_EQ(find_silent_damage(directory), directory + "/" + name + " cannot be read");
  }
}

}  // namespace
}  // namespace tarry
