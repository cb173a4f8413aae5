// Looking at a due index, and taking entries out of turn (retry-spec 37).
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "storage/due_store.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/due_index.h"

namespace tarry {
namespace {

class ScanTable final : public DueTable {
 public:
  bool put(uint64_t generation, std::span<const DueItem> items, bool) override {
    if (random() % 100 < refuse_percent) return false;
    for (const auto& item : items) rows[{generation, item.key()}] = item;
    return true;
  }
  bool read(uint64_t generation, DueKey from, uint64_t until_due_ms, size_t count_max,
            DuePage& page) override {
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
    rows.erase(rows.lower_bound({generation, DueKey{}}), rows.lower_bound({generation, before}));
    return true;
  }
  bool erase_keys(uint64_t generation, std::span<const DueKey> keys) override {
    for (const DueKey& key : keys) rows.erase({generation, key});
    return true;
  }
  std::map<std::pair<uint64_t, DueKey>, DueItem> rows;
  std::mt19937 random{7};
  uint32_t refuse_percent = 0;
};

class DueScan : public testing::Test {
 protected:
  DueScan() : shard(ShardId(0), clock) {
    auto made = std::make_unique<ScanTable>();
    table = made.get();
    store = make_due_store(std::move(made), [this](Task task) { work.push_back(std::move(task)); });
  }
  ~DueScan() override {
    index.reset();
    settle();
    EXPECT_EQ(static_cast<DueStoreImpl&>(*store).core()->in_memory(), 0)
        << "the budget's count went wrong";
  }
  void open(size_t budget) {
    store->set_memory_budget(budget);
    index = DueIndex::create(*store, shard, QueueId(1), 0);
    index->set_waker([] {});
  }
  bool run_work() {
    if (work.empty()) return false;
    Task task = std::move(work.front());
    work.pop_front();
    task();
    return true;
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      while (run_work()) busy = true;
      busy = shard.run_turn_for_test() || busy;
    }
  }
  /// `number` tells one from another.
  void add(uint64_t due_ms, uint32_t delay_ms, uint32_t number) {
    DueEntry entry;
    entry.due_ms = due_ms;
    entry.delay_ms = delay_ms;
    entry.position = {1, number, 0};
    index->add(entry);
  }
  /// The same, to be read from elsewhere when they are asked for.
  void add_cold(const std::multimap<uint64_t, uint32_t>& rest) {
    if (rest.empty()) return;
    ColdEntries entries;
    entries.count = rest.size();
    entries.first_due_ms = rest.begin()->first;
    entries.last_due_ms = rest.rbegin()->first;
    entries.ranks = static_cast<uint32_t>(rest.size());
    struct Elsewhere {
      std::multimap<uint64_t, uint32_t> rest;
      uint32_t rank = 0;
    };
    auto elsewhere = std::make_shared<Elsewhere>(Elsewhere{rest});
    entries.read = [this, elsewhere](size_t at_most, std::function<void(ColdRead)> done) {
      work.push_back([this, elsewhere, at_most, done] {
        ColdRead read;
        while (read.entries.size() < at_most && !elsewhere->rest.empty()) {
          DueEntry entry;
          entry.due_ms = elsewhere->rest.begin()->first;
          entry.position = {1, elsewhere->rest.begin()->second, 0};
          read.entries.push_back({entry, elsewhere->rank++});
          elsewhere->rest.erase(elsewhere->rest.begin());
        }
        read.left = elsewhere->rest.size();
        if (read.left > 0) read.next_due_ms = elsewhere->rest.begin()->first;
        shard.post([done, read] { done(read); });
      });
    };
    index->add_cold(std::move(entries));
  }
  std::vector<DueFound> scan(DueKey from, size_t skip, size_t count) {
    std::vector<DueFound> out;
    bool answered = false;
    index->scan(from, skip, count, [&](std::vector<DueFound> found, bool whole) {
      EXPECT_TRUE(whole);
      out = std::move(found);
      answered = true;
    });
    settle();
    EXPECT_TRUE(answered);
    return out;
  }
  uint64_t now() { return shard.now().floor_ms(); }

  ManualClock clock;
  Shard shard;
  std::deque<Task> work;
  ScanTable* table = nullptr;
  std::unique_ptr<DueStore> store;
  std::unique_ptr<DueIndex> index;
};

TEST_F(DueScan, Rule37_AScanTakesNothingAndIsInOrderOverMemoryAndDisk) {
  open(512);
  const uint64_t base = now() + 1'000'000;
  std::mt19937 random(5);
  std::multimap<uint64_t, uint32_t> model;
  std::multimap<uint64_t, uint32_t> cold[4];
  for (uint32_t i = 0; i < 5000; ++i) {
    const uint64_t due = base + random() % 20'000;
    if (i < 2000)
      cold[i % 2 == 0 ? 3 : (due - base) / 7'000].emplace(due, i);
    else
      add(due, random() % 3 == 0 ? 500 : random() % 1000, i);
    model.emplace(due, i);
  }
  for (const auto& some : cold) add_cold(some);
  settle();
  ASSERT_GT(table->rows.size(), 0u);
  std::vector<uint64_t> seen;
  DueKey from;
  for (;;) {
    const auto page = scan(from, 0, 333);
    if (page.empty()) break;
    for (const DueFound& found : page) seen.push_back(found.entry.due_ms);
    from = page.back().key();
    ++from.sequence;
  }
  std::vector<uint64_t> expected;
  for (const auto& [due, number] : model) expected.push_back(due);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(index->size(), 5000u);
  const auto skipped = scan({expected[1000], 0}, 10, 5);
  const size_t first = static_cast<size_t>(
      std::lower_bound(expected.begin(), expected.end(), expected[1000]) - expected.begin());
  ASSERT_EQ(skipped.size(), 5u);
  EXPECT_EQ(skipped[0].entry.due_ms, expected[first + 10]);
}

TEST_F(DueScan, Rule37_WhatIsErasedIsNeverTakenAndTheRestIsTakenOnceInOrder) {
  for (const uint32_t refuse : {0u, 30u}) {
    for (uint32_t seed = 1; seed <= 6; ++seed) {
      index.reset();
      settle();
      table->refuse_percent = refuse;
      open(seed % 2 == 0 ? 256 : 100'000);
      std::mt19937 random(seed);
      std::map<uint32_t, uint64_t> alive;  // number to due
      uint32_t next = 0;
      const auto add_some = [&](uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
          const uint64_t due = now() + 1 + random() % 8'000;
          add(due, random() % 2 == 0 ? 500 : random() % 4000, next);
          alive[next++] = due;
        }
      };
      const auto take = [&](uint64_t until) {
        std::vector<DueEntry> out(64);
        for (size_t count; (count = index->take_due(until, out)) > 0;) {
          for (size_t i = 0; i < count; ++i) {
            ASSERT_EQ(alive.count(out[i].position.ordinal), 1u) << "taken twice, or erased before";
            ASSERT_EQ(alive[out[i].position.ordinal], out[i].due_ms);
            alive.erase(out[i].position.ordinal);
          }
        }
      };
      for (int round = 0; round < 40; ++round) {
        add_some(random() % 200);
        if (random() % 4 == 0) {
          std::multimap<uint64_t, uint32_t> cold;
          for (uint32_t i = random() % 300; i > 0; --i) {
            const uint64_t due = now() + 1 + random() % 8'000;
            cold.emplace(due, next);
            alive[next++] = due;
          }
          add_cold(cold);
        }
        if (random() % 2 == 0) settle();
        std::vector<DueFound> found;
        const DueKey from{now() + random() % 4000, 0};
        index->scan(from, random() % 5, 100,
                    [&](std::vector<DueFound> f, bool) { found = std::move(f); });
        if (random() % 2 == 0) {
          clock.advance_ms(static_cast<int64_t>(random() % 300));
          take(now());
          add_some(random() % 100);
        }
        settle();
        take(now());
        std::erase_if(found, [&](const DueFound&) { return random() % 3 == 0; });
        index->erase(found);
        for (const DueFound& one : found) {
          ASSERT_EQ(one.gone, alive.count(one.entry.position.ordinal) == 0);
          if (!one.gone) alive.erase(one.entry.position.ordinal);
        }
        ASSERT_EQ(index->size(), alive.size());
        clock.advance_ms(static_cast<int64_t>(random() % 500));
        if (random() % 2 == 0) settle();
        take(now());
      }
      for (int i = 0; i < 40; ++i) {
        clock.advance_ms(1000);
        settle();
        take(now());
      }
      EXPECT_TRUE(alive.empty()) << "seed " << seed;
      EXPECT_EQ(index->size(), 0u);
    }
  }
}

TEST_F(DueScan, Rule37_AllThatIsErasedLeavesNothingOnDisk) {
  open(64);
  for (uint32_t i = 0; i < 1000; ++i) add(now() + 100'000 + i, 500, i);
  settle();
  ASSERT_GT(table->rows.size(), 0u);
  for (;;) {
    auto found = scan({}, 0, 256);
    if (found.empty()) break;
    index->erase(found);
  }
  settle();
  EXPECT_EQ(index->size(), 0u);
  EXPECT_EQ(index->next_due_ms(), std::nullopt);
  EXPECT_TRUE(table->rows.empty());
}

}  // namespace
}  // namespace tarry
