#include "tarrymq/storage/due_index.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/due_store.h"
#include "storage/rocks_stores_db.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {
namespace {

/// The table in memory, which can refuse.
class FakeTable final : public DueTable {
 public:
  bool put(uint64_t generation, std::span<const DueItem> items, bool) override {
    if (refuse()) return false;
    for (const auto& item : items) {
      EXPECT_TRUE(rows.emplace(std::make_pair(generation, item.key()), item).second) << "put twice";
      ++puts;
    }
    return true;
  }
  bool read(uint64_t generation, DueKey from, uint64_t until_due_ms, size_t count_max,
            DuePage& page) override {
    if (refuse()) return false;
    for (auto row = rows.lower_bound({generation, from}); row != rows.end(); ++row) {
      if (row->first.first != generation) break;
      if (page.items.size() == count_max || row->second.due_ms > until_due_ms) {
        page.next_due_ms = row->second.due_ms;
        break;
      }
      page.items.push_back(row->second);
    }
    return true;
  }
  bool erase(uint64_t generation, DueKey before) override {
    if (refuse()) return false;
    rows.erase(rows.lower_bound({generation, DueKey{}}), rows.lower_bound({generation, before}));
    return true;
  }
  bool erase_keys(uint64_t generation, std::span<const DueKey> keys) override {
    if (refuse()) return false;
    for (const DueKey& key : keys) rows.erase({generation, key});
    return true;
  }
  bool refuse() { return refuse_percent > 0 && random() % 100 < refuse_percent; }

  std::map<std::pair<uint64_t, DueKey>, DueItem> rows;
  uint64_t puts = 0;
  uint32_t refuse_percent = 0;
  std::mt19937 random{7};
};

/// A shard on a manual clock, and a store thread that runs when the test says so.
class DueIndexWorld {
 public:
  explicit DueIndexWorld(size_t budget, std::unique_ptr<DueTable> table = nullptr)
      : shard(ShardId(0), clock) {
    if (!table) {
      auto fake_table = std::make_unique<FakeTable>();
      fake = fake_table.get();
      table = std::move(fake_table);
    }
    store =
        make_due_store(std::move(table), [this](Task task) { work.push_back(std::move(task)); });
    store->set_memory_budget(budget);
    open();
  }
  ~DueIndexWorld() {
    index.reset();
    settle();
    EXPECT_EQ(core().in_memory(), 0) << "the budget's count went wrong";
    if (fake && fake->refuse_percent == 0) {
      EXPECT_TRUE(fake->rows.empty()) << "left in the table";
    }
  }
  void open() {
    index = DueIndex::create(*store, shard, QueueId(1), 0);
    index->set_waker([this] { ++wakes; });
  }
  bool run_work() {
    if (work.empty()) return false;
    Task task = std::move(work.front());
    work.pop_front();
    task();
    return true;
  }
  /// Until nothing is under way.
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      while (run_work()) busy = true;
      busy = shard.run_turn_for_test() || busy;
    }
  }
  void advance(int64_t ms) {
    clock.advance_ms(ms);
    shard.run_turn_for_test();
  }
  uint64_t now() { return shard.now().floor_ms(); }
  DueStoreCore& core() { return *static_cast<DueStoreImpl&>(*store).core(); }

  ManualClock clock;
  Shard shard;
  std::deque<Task> work;
  FakeTable* fake = nullptr;
  std::unique_ptr<DueStore> store;
  std::unique_ptr<DueIndex> index;
  int wakes = 0;
};

DueEntry entry(uint64_t due_ms, uint32_t id, uint32_t delay_ms = 1) {
  return {.due_ms = due_ms,
          .position = {id / 1000, id % 1000, id * 7},
          .counter = id + 1,
          .delay_ms = delay_ms,
          .body_bytes = id + 2,
          .lane = static_cast<uint8_t>(id % 256),
          .kind = static_cast<uint8_t>(id % 3)};
}
uint32_t id_of(const DueEntry& e) { return e.position.segment * 1000 + e.position.ordinal; }

void expect_whole(const DueEntry& e) {
  const auto id = id_of(e);
  ASSERT_EQ(e.position.offset, id * 7);
  ASSERT_EQ(e.counter, id + 1);
  ASSERT_EQ(e.body_bytes, id + 2);
  ASSERT_EQ(e.lane, id % 256);
  ASSERT_EQ(e.kind, id % 3);
}

std::vector<uint32_t> take(DueIndexWorld& world, size_t count = 100) {
  std::vector<DueEntry> out(count);
  out.resize(world.index->take_due(world.now(), out));
  std::vector<uint32_t> ids;
  for (const auto& e : out) ids.push_back(id_of(e));
  return ids;
}

TEST(DueIndex, EmptyHasNothing) {
  DueIndexWorld world(100);
  EXPECT_EQ(world.index->size(), 0u);
  EXPECT_EQ(world.index->next_due_ms(), std::nullopt);
  EXPECT_EQ(world.index->last_due_ms(), std::nullopt);
  EXPECT_TRUE(take(world).empty());
}

TEST(DueIndex, Rule23_NothingIsTakenEarlyAndTiesKeepTheOrderOfAdd) {
  DueIndexWorld world(1000);
  const uint64_t t = world.now();
  world.index->add(entry(t + 20, 1, 20));
  world.index->add(entry(t + 10, 2, 10));
  world.index->add(entry(t + 20, 3, 7));
  world.index->add(entry(t + 20, 4, 20));
  world.index->add(entry(t + 15, 5, 20));  // behind its lane's end: expiry before due, for example
  EXPECT_EQ(world.index->size(), 5u);
  EXPECT_EQ(world.index->next_due_ms(), t + 10);
  EXPECT_EQ(world.index->last_due_ms(), t + 20);
  world.advance(9);
  EXPECT_TRUE(take(world).empty());
  world.advance(1);
  EXPECT_EQ(take(world), (std::vector<uint32_t>{2}));
  world.advance(10);
  EXPECT_EQ(take(world, 2), (std::vector<uint32_t>{5, 1}));
  EXPECT_EQ(take(world), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(world.index->size(), 0u);
  EXPECT_EQ(world.index->next_due_ms(), std::nullopt);
}

TEST(DueIndex, WhatGoesThroughTheTableComesBackWholeAndInOrder) {
  DueIndexWorld world(10);
  const uint64_t t = world.now();
  for (uint32_t i = 0; i < 5000; ++i) world.index->add(entry(t + 60'000 + i / 3, i, 60'000));
  world.settle();
  EXPECT_GT(world.fake->puts, 4900u);
  EXPECT_LE(world.core().in_memory(), 12);
  EXPECT_EQ(world.index->size(), 5000u);
  EXPECT_EQ(world.index->next_due_ms(), t + 60'000);
  EXPECT_EQ(world.index->last_due_ms(), t + 60'000 + 4999 / 3);
  world.advance(58'900);
  world.settle();
  EXPECT_LE(world.core().in_memory(), 12) << "read too long before it is due";
  world.advance(200);
  world.settle();
  EXPECT_GT(world.core().in_memory(), 1000) << "not read ahead";
  world.advance(60'000);
  std::vector<DueEntry> out(700);
  uint32_t expected = 0;
  for (int round = 0; expected < 5000 && round < 100; ++round) {
    const size_t count = world.index->take_due(world.now(), out);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(id_of(out[i]), expected++);
      expect_whole(out[i]);
    }
    if (count < out.size()) world.settle();
  }
  EXPECT_EQ(expected, 5000u);
  EXPECT_EQ(world.index->size(), 0u);
}

TEST(DueIndex, AShortTakeIsFollowedByAWakeUp) {
  DueIndexWorld world(4);
  const uint64_t t = world.now();
  for (uint32_t i = 0; i < 100; ++i) world.index->add(entry(t + 10'000, i, 10'000));
  while (world.run_work()) {
  }
  world.clock.advance_ms(20'000);
  world.shard.refresh_now();
  const size_t first = take(world).size();
  EXPECT_LT(first, 100u);
  EXPECT_EQ(world.wakes, 0);
  EXPECT_LE(world.index->next_due_ms().value(), world.now());
  world.settle();
  EXPECT_EQ(world.wakes, 1);
  EXPECT_EQ(first + take(world).size(), 100u);
}

TEST(DueIndex, EntriesAddedBeforeAndIntoWhatWasReadComeInTheirPlace) {
  DueIndexWorld world(4);
  const uint64_t t = world.now();
  for (uint32_t i = 0; i < 100; ++i) world.index->add(entry(t + 10'000 + 10 * i, i, 10'000));
  world.settle();
  world.advance(9'500);
  world.settle();  // a page is there, up to some seconds ahead
  world.index->add(entry(t + 10'005, 1000, 505));
  world.index->add(entry(t + 9'600, 1001, 100));
  world.index->add(entry(t + 10'991, 1002, 1491));
  world.index->add(entry(t + 10'000, 1003, 500));  // a tie with an older one
  world.settle();
  world.advance(2'000);
  std::vector<uint32_t> all;
  for (auto ids = take(world, 7); !ids.empty(); ids = take(world, 7)) {
    all.insert(all.end(), ids.begin(), ids.end());
    world.settle();
  }
  ASSERT_EQ(all.size(), 104u);
  EXPECT_EQ(std::vector<uint32_t>(all.begin(), all.begin() + 5),
            (std::vector<uint32_t>{1001, 0, 1003, 1000, 1}));
  EXPECT_EQ(all.back(), 1002u);
}

TEST(DueIndex, ClearDropsEverythingAlsoWhatIsUnderWay) {
  for (int under_way = 0; under_way < 3; ++under_way) {
    DueIndexWorld world(4);
    const uint64_t t = world.now();
    for (uint32_t i = 0; i < 100; ++i) world.index->add(entry(t + 10'000, i, 10'000));
    if (under_way > 0) world.settle();
    if (under_way > 1) {
      world.advance(9'500);  // a page is being read
      EXPECT_FALSE(world.work.empty());
    }
    world.index->clear();
    EXPECT_EQ(world.index->size(), 0u);
    EXPECT_EQ(world.index->next_due_ms(), std::nullopt);
    world.index->add(entry(t + 10'000, 500));
    world.settle();
    world.advance(20'000);
    world.settle();
    EXPECT_EQ(take(world), (std::vector<uint32_t>{500}));
  }
}

TEST(DueIndex, AnIndexMayGoWhileWorkIsUnderWay) {
  DueIndexWorld world(4);
  const uint64_t t = world.now();
  for (uint32_t i = 0; i < 100; ++i) world.index->add(entry(t + 10'000, i, 10'000));
  world.advance(9'500);
  world.index.reset();
  world.settle();
  world.open();
  world.index->add(entry(t + 1, 7));
  world.advance(20'000);
  EXPECT_EQ(take(world), (std::vector<uint32_t>{7}));
}

TEST(DueIndex, ManyDifferentDelaysAreOrderedToo) {
  DueIndexWorld world(1 << 20);
  std::mt19937 random(3);
  const uint64_t t = world.now();
  std::multimap<uint64_t, uint32_t> model;
  for (uint32_t i = 0; i < 20'000; ++i) {
    const uint32_t delay = 1 + random() % 5000;
    world.index->add(entry(t + delay, i, delay));
    model.emplace(t + delay, i);
  }
  world.advance(6000);
  for (const auto& [due, id] : model) {
    DueEntry one;
    ASSERT_EQ(world.index->take_due(world.now(), {&one, 1}), 1u);
    ASSERT_EQ(one.due_ms, due);
    ASSERT_EQ(id_of(one), id);
  }
}

TEST(DueIndex, SeveralIndexesShareTheBudget) {
  DueIndexWorld world(1000);
  auto second = DueIndex::create(*world.store, world.shard, QueueId(2), 0);
  const uint64_t t = world.now();
  for (uint32_t i = 0; i < 20'000; ++i) {
    world.index->add(entry(t + 60'000, i, 60'000));
    second->add(entry(t + 90'000, i, 90'000));
    if (i % 50 == 0) world.settle();
    ASSERT_LE(world.core().in_memory(), 1300);
  }
  second.reset();
  world.settle();
  EXPECT_EQ(world.index->size(), 20'000u);
}

/// Random adds, takes, clears, clock steps and progress of the store thread against a sorted
/// multimap.
class DueIndexModel {
 public:
  DueIndexModel(uint64_t seed, uint32_t refuse_percent)
      : random_(seed), world_(std::vector<size_t>{1, 2, 10, 64, 700}[seed % 5]) {
    world_.fake->refuse_percent = refuse_percent;
    world_.fake->random.seed(static_cast<uint32_t>(seed));
  }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      const uint64_t dice = pick(100);
      if (dice < 35)
        add(1 + pick(30));
      else if (dice < 55)
        take(1 + pick(40));
      else if (dice < 75)
        world_.run_work();
      else if (dice < 85)
        world_.shard.run_turn_for_test();
      else if (dice < 99)
        world_.advance(static_cast<int64_t>(uint64_t{1} << pick(13)));
      else if (pick(8) == 0)
        clear();
      check();
    }
    drain();
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }

  void add(uint64_t count) {
    static constexpr uint32_t kDelays[] = {0, 1, 50, 500, 1000, 4000, 10'000, 60'000};
    for (; count > 0; --count) {
      uint32_t delay = kDelays[pick(8)];
      uint64_t due = world_.now() + delay;
      if (pick(3) == 0) {
        delay = static_cast<uint32_t>(pick(20'000));
        due = world_.now() + delay;
      }
      if (pick(10) == 0)
        due = world_.now() - pick(5000) + pick(30'000);  // an expiry, or overdue at a start
      world_.index->add(entry(due, next_id_, delay));
      model_.emplace(due, next_id_++);
    }
  }

  /// Entries of one due time may come in any order only if this says so; all else is exact.
  size_t take(size_t count) {
    std::vector<DueEntry> out(count);
    out.resize(world_.index->take_due(world_.now(), out));
    for (const auto& e : out) {
      EXPECT_LE(e.due_ms, world_.now()) << "early";
      if (model_.empty() || model_.begin()->first != e.due_ms ||
          model_.begin()->second != id_of(e)) {
        ADD_FAILURE() << "due " << e.due_ms << " id " << id_of(e) << ", expected "
                      << (model_.empty() ? 0 : model_.begin()->first) << " id "
                      << (model_.empty() ? 0 : model_.begin()->second);
        failed_ = true;
        return 0;
      }
      expect_whole(e);
      model_.erase(model_.begin());
    }
    return out.size();
  }

  void clear() {
    world_.index->clear();
    model_.clear();
  }

  void check() {
    ASSERT_FALSE(failed_);
    ASSERT_EQ(world_.index->size(), model_.size());
    const auto next = world_.index->next_due_ms();
    ASSERT_EQ(next.has_value(), !model_.empty());
    if (next) {
      ASSERT_LE(*next, model_.begin()->first) << "would wake too late";
    }
  }

  void drain() {
    world_.fake->refuse_percent = 0;
    for (int round = 0; !model_.empty() && round < 2000 && !failed_; ++round) {
      world_.advance(200);
      world_.settle();
      while (take(50) > 0) {
      }
    }
    EXPECT_TRUE(model_.empty()) << model_.size() << " never came";
    world_.core().erase_later(0, {});  // takes what was refused along
    check();
  }

  std::mt19937_64 random_;
  DueIndexWorld world_;
  std::multimap<uint64_t, uint32_t> model_;
  uint32_t next_id_ = 0;
  bool failed_ = false;
};

TEST(DueIndex, AgreesWithAModelOverRandomOperations) {
  for (uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DueIndexModel(seed, 0).run(1500);
  }
}

TEST(DueIndex, LosesAndDoublesNothingWhenTheTableRefuses) {
  for (uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DueIndexModel(seed, 1 + static_cast<uint32_t>(seed % 60)).run(1500);
  }
}

TEST(DueIndex, RangeDeletionsAmidPutsKeepTheTableWhole) {
  const std::string directory = testing::TempDir() + "tarry-due-" + std::to_string(::getpid());
  std::filesystem::remove_all(directory);
  {
    auto db = open_due_db(directory);
    ASSERT_TRUE(db);
    auto rocks = make_rocks_due_table(*db);
    FakeTable fake;
    std::mt19937_64 random(5);
    uint64_t sequence = 0;
    for (int step = 0; step < 400; ++step) {
      const uint64_t generation = 1 + random() % 3;
      DueKey key{random() % 1000 << (random() % 2 * 40), random() % 3000};
      switch (random() % 4) {
        case 0:
        case 1: {
          std::vector<DueItem> items;
          for (uint64_t n = random() % 20; n > 0; --n) {
            items.push_back(DueItem::pack(
                entry(random() % 1000 << (random() % 2 * 40), random() % 100'000), ++sequence));
          }
          ASSERT_TRUE(rocks->put(generation, items, true));
          ASSERT_TRUE(fake.put(generation, items, true));
          break;
        }
        case 2:
          if (random() % 4) break;
          if (random() % 4 == 0) key = kDueKeyMax;
          ASSERT_TRUE(rocks->erase(generation, key));
          ASSERT_TRUE(fake.erase(generation, key));
          break;
        default: {
          DuePage a, b;
          const uint64_t until = random() % 2 ? UINT64_MAX : key.due_ms + random() % 500;
          const size_t count = random() % 2 ? 5 : 5000;
          ASSERT_TRUE(rocks->read(generation, key, until, count, a));
          ASSERT_TRUE(fake.read(generation, key, until, count, b));
          ASSERT_EQ(a.items.size(), b.items.size());
          ASSERT_EQ(a.next_due_ms, b.next_due_ms);
          for (size_t i = 0; i < a.items.size(); ++i) {
            ASSERT_EQ(a.items[i].key(), b.items[i].key());
            expect_whole(a.items[i].unpack());
          }
        }
      }
    }
  }
  // The database is empty after a reopen.
  {
    auto db = open_due_db(directory);
    ASSERT_TRUE(db);
    auto rocks = make_rocks_due_table(*db);
    for (uint64_t generation = 1; generation <= 3; ++generation) {
      DuePage page;
      ASSERT_TRUE(rocks->read(generation, {}, UINT64_MAX, 10, page));
      EXPECT_TRUE(page.items.empty());
    }
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tarry
