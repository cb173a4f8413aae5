#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "storage/due_store.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/due_index.h"

namespace tarry {

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

inline DueEntry entry(uint64_t due_ms, uint32_t id, uint32_t delay_ms = 1) {
  return {.due_ms = due_ms,
          .position = {id / 1000, id % 1000, id * 7},
          .counter = id + 1,
          .delay_ms = delay_ms,
          .body_bytes = id + 2,
          .lane = static_cast<uint8_t>(id % 256),
          .kind = static_cast<uint8_t>(id % 3)};
}
inline uint32_t id_of(const DueEntry& e) { return e.position.segment * 1000 + e.position.ordinal; }

inline void expect_whole(const DueEntry& e) {
  const auto id = id_of(e);
  ASSERT_EQ(e.position.offset, id * 7);
  ASSERT_EQ(e.counter, id + 1);
  ASSERT_EQ(e.body_bytes, id + 2);
  ASSERT_EQ(e.lane, id % 256);
  ASSERT_EQ(e.kind, id % 3);
}

inline std::vector<uint32_t> take(DueIndexWorld& world, size_t count = 100) {
  std::vector<DueEntry> out(count);
  out.resize(world.index->take_due(world.now(), out));
  std::vector<uint32_t> ids;
  for (const auto& e : out) ids.push_back(id_of(e));
  return ids;
}

}  // namespace tarry
