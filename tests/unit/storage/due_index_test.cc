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
#include "unit/storage/due_index_world.h"

namespace tarry {
namespace {

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

/// Entries that lie elsewhere and are read a few at a time, which may fail.
struct ColdStore {
  std::multimap<uint64_t, ColdRead::One> rest;  // by due time; those of one time in order of rank
  uint32_t ranks = 0;

  void add(const DueEntry& e) { rest.emplace(e.due_ms, ColdRead::One{e, ranks++}); }
  ColdRead read(size_t at_most) {
    ColdRead out;
    while (out.entries.size() < at_most && !rest.empty()) {
      out.entries.push_back(rest.begin()->second);
      rest.erase(rest.begin());
    }
    out.left = rest.size();
    if (!rest.empty()) out.next_due_ms = rest.begin()->first;
    return out;
  }
};

ColdReader cold_reader(DueIndexWorld& world, std::shared_ptr<ColdStore> store) {
  return [&world, store](size_t at_most, std::function<void(ColdRead)> done) {
    world.work.push_back([&world, store, at_most, done] {
      ColdRead read;
      if (world.fake->refuse())
        read.good = false;
      else
        read = store->read(at_most);
      world.shard.post([done, read] { done(read); });
    });
  };
}

ColdEntries cold_entries(DueIndexWorld& world, std::shared_ptr<ColdStore> store) {
  ColdEntries entries;
  entries.count = store->rest.size();
  entries.ranks = store->ranks;
  entries.first_due_ms = store->rest.begin()->first;
  entries.last_due_ms = store->rest.rbegin()->first;
  entries.read = cold_reader(world, std::move(store));
  return entries;
}

TEST(DueIndex, ColdEntriesAreReadShortlyBeforeTheyAreDueAndNoEarlier) {
  DueIndexWorld world(1000);
  auto store = std::make_shared<ColdStore>();
  for (uint32_t i = 0; i < 2000; ++i) store->add(entry(world.now() + 5000 + i * 10, i));
  world.index->add_cold(cold_entries(world, store));
  EXPECT_EQ(world.index->size(), 2000u);
  EXPECT_EQ(world.index->next_due_ms(), world.now() + 5000);
  EXPECT_EQ(world.index->last_due_ms(), world.now() + 5000 + 19'990);
  world.settle();
  EXPECT_EQ(store->rest.size(), 2000u);
  for (int i = 0; i < 4; ++i) world.advance(1000);
  world.settle();
  EXPECT_EQ(store->rest.size(), 1500u);  // half of the budget
  for (int i = 0; i < 60; ++i) world.advance(1000);
  world.settle();
  EXPECT_EQ(store->rest.size(), 1500u) << "read though nobody takes";
  std::vector<DueEntry> out(300);
  uint32_t next = 0;
  for (int i = 0; i < 100; ++i) {
    const size_t count = world.index->take_due(world.now(), out);
    for (size_t n = 0; n < count; ++n) {
      ASSERT_EQ(id_of(out[n]), next++);
      expect_whole(out[n]);
    }
    world.settle();
  }
  EXPECT_EQ(next, 2000u);
  EXPECT_GT(world.wakes, 0);
}

TEST(DueIndex, ColdEntriesThatVanishedAreCountedNoMore) {
  DueIndexWorld world(1000);
  auto store = std::make_shared<ColdStore>();
  for (uint32_t i = 0; i < 10; ++i) store->add(entry(world.now() + i, i));
  world.index->add_cold(cold_entries(world, store));
  store->rest.clear();
  world.settle();
  EXPECT_EQ(world.index->size(), 0u);
  EXPECT_EQ(world.index->next_due_ms(), std::nullopt);
}

/// Random adds, takes, clears, clock steps and progress of the store thread against a sorted
/// multimap.
class DueIndexModel {
 public:
  DueIndexModel(uint64_t seed, uint32_t refuse_percent, bool keeps = false)
      : random_(seed), world_(std::vector<size_t>{1, 2, 10, 64, 700}[seed % 5]), keeps_(keeps) {
    if (keeps) world_.index->set_cold_keeper(keeper());
    world_.fake->refuse_percent = refuse_percent;
    world_.fake->random.seed(static_cast<uint32_t>(seed));
  }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      const uint64_t dice = pick(100);
      if (dice < 34)
        add(1 + pick(30));
      else if (dice < 35)
        add_cold(1 + pick(500));
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

  uint64_t kept_count() const { return kept_count_; }

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
      DueEntry added = entry(due, next_id_, delay);
      added.lane = keeps_ ? 0 : added.lane;
      added.stored = keeps_ && pick(10) > 0;
      world_.index->add(added);
      model_.emplace(due, next_id_++);
    }
  }

  /// Keeps what it is asked to, mostly.
  ColdKeeper keeper() {
    return [this](uint8_t lane, uint32_t segment, std::span<const DueEntry> entries) -> ColdReader {
      if (pick(4) == 0) return {};
      auto& store = kept_[{lane, segment}];
      if (!store) store = std::make_shared<ColdStore>();
      for (const DueEntry& e : entries) {
        EXPECT_TRUE(e.stored);
        store->rest.emplace(e.due_ms, ColdRead::One{e, e.position.ordinal});
      }
      kept_count_ += entries.size();
      return cold_reader(world_, store);
    };
  }

  void add_cold(uint64_t count) {
    auto store = std::make_shared<ColdStore>();
    const uint64_t spread = uint64_t{1} << pick(16);
    for (; count > 0; --count) {
      const uint64_t due = world_.now() - pick(2000) + pick(spread);
      store->add(entry(due, next_id_, 500));
      model_.emplace(due, next_id_++);
      store->ranks += pick(3) == 0;  // not every rank is there
    }
    world_.index->add_cold(cold_entries(world_, store));
  }

  /// Entries of one due time may come in any order only if this says so; all else is exact.
  size_t take(size_t count) {
    std::vector<DueEntry> out(count);
    out.resize(world_.index->take_due(world_.now(), out));
    for (const auto& e : out) {
      EXPECT_LE(e.due_ms, world_.now()) << "early";
      if (keeps_ && take_of_its_time(e)) continue;
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

  /// What became cold comes in another order among those of one time.
  bool take_of_its_time(const DueEntry& e) {
    if (model_.empty() || model_.begin()->first != e.due_ms) return false;
    const auto [from, to] = model_.equal_range(e.due_ms);
    const auto at = std::find_if(from, to, [&](const auto& p) { return p.second == id_of(e); });
    if (at == to) return false;
    EXPECT_EQ(e.counter, id_of(e) + 1);
    model_.erase(at);
    return true;
  }

  void clear() {
    world_.index->clear();
    kept_.clear();
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
  const bool keeps_;
  std::map<std::pair<uint8_t, uint32_t>, std::shared_ptr<ColdStore>> kept_;
  uint64_t kept_count_ = 0;
};

TEST(DueIndex, AgreesWithAModelOverRandomOperations) {
  for (uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DueIndexModel(seed, 0).run(1500);
  }
}

TEST(DueIndex, AgreesWithAModelWhenWhatIsStoredLeavesMemory) {
  uint64_t kept = 0;
  for (uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DueIndexModel model(seed, seed % 3 == 0 ? 20 : 0, true);
    model.run(1500);
    kept += model.kept_count();
  }
  EXPECT_GT(kept, 10'000u);
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
