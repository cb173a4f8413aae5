#include "tarrymq/retry/companion.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "storage/due_store.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {
namespace {

/// A table that is slow to read: its work waits until the test runs it.
class MapTable final : public DueTable {
 public:
  bool put(uint64_t generation, std::span<const DueItem> items, bool) override {
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
};

/// A companion with an owner that takes all it is told of, a barrier that passes when the test says
/// so, and a clock.
class CompanionTest : public testing::Test {
 protected:
  CompanionTest() : shard(ShardId(0), clock) {
    store = make_due_store(std::make_unique<MapTable>(),
                           [this](Task task) { work.push_back(std::move(task)); });
    open();
  }
  void open() {
    companion = std::make_unique<Companion>(
        *store, shard, QueueId(1),
        CompanionGate{[this](Ticket t) { return t <= durable; },
                      [this](Task t) { asked.push_back(std::move(t)); }},
        [this] { drain(); });
  }
  void drain() {
    ++calls;
    std::vector<DueEntry> out(batch);
    const size_t count = companion->drain(shard.now().floor_ms(), out);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_LE(out[i].due_ms, shard.now().floor_ms()) << "early";
      drained.push_back(out[i].counter);
    }
  }
  DueEntry entry(int64_t in_ms, uint32_t name, uint32_t bytes = 10) {
    return {.due_ms = static_cast<uint64_t>(static_cast<int64_t>(shard.now().floor_ms()) + in_ms),
            .position = {},
            .counter = name,
            .delay_ms = static_cast<uint32_t>(in_ms),
            .body_bytes = bytes,
            .lane = 0,
            .kind = 0};
  }
  /// Everything until now becomes durable.
  void pass_barrier() {
    durable = ticket;
    for (auto& task : std::exchange(asked, {})) task();
  }
  void turn() { shard.run_turn_for_test(); }
  void advance(int64_t ms) {
    clock.advance_ms(ms);
    turn();
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (; !work.empty(); busy = true) {
        Task task = std::move(work.front());
        work.pop_front();
        task();
      }
      busy = shard.run_turn_for_test() || busy;
    }
  }

  ManualClock clock;
  Shard shard;
  std::deque<Task> work;
  std::unique_ptr<DueStore> store;
  Ticket ticket = 1;
  Ticket durable = 0;
  std::vector<Task> asked;
  size_t batch = 100;
  int calls = 0;
  std::vector<uint32_t> drained;
  std::unique_ptr<Companion> companion;
};

TEST_F(CompanionTest, Rule23_DrainsInDueOrderByItsOwnTimerAndNeverEarly) {
  companion->park(entry(500, 1), ticket);
  companion->park(entry(200, 2), ticket);
  companion->park(entry(300, 3), ticket);
  pass_barrier();
  EXPECT_EQ(companion->count(), 3u);
  EXPECT_EQ(companion->body_bytes(), 30u);
  EXPECT_EQ(companion->next_due_ms(), shard.now().floor_ms() + 200);
  EXPECT_EQ(companion->last_due_ms(), shard.now().floor_ms() + 500);
  advance(199);
  EXPECT_TRUE(drained.empty());
  advance(1);
  EXPECT_EQ(drained, (std::vector<uint32_t>{2}));
  advance(1000);
  EXPECT_EQ(drained, (std::vector<uint32_t>{2, 3, 1}));
  EXPECT_EQ(companion->count(), 0u);
  EXPECT_EQ(companion->body_bytes(), 0u);
  EXPECT_EQ(companion->next_due_ms(), std::nullopt);
  const int before = calls;
  advance(10'000);
  EXPECT_EQ(calls, before) << "nothing waits, nobody is woken";
}

TEST_F(CompanionTest, Rule23_SubMillisecondClockDoesNotMakeItEarlyOrLateByATick) {
  clock.advance_ns(700'000);
  turn();
  companion->park_at_once(entry(5, 1));
  clock.advance_ns(4'299'999);  // 1 ns before the due millisecond begins
  turn();
  EXPECT_TRUE(drained.empty());
  clock.advance_ns(1);
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{1}));
}

TEST_F(CompanionTest, Rule16_NothingIsDrainedBeforeItsTicketHasPassed) {
  companion->park(entry(50, 1), ticket);
  advance(49);
  ASSERT_EQ(asked.size(), 1u) << "the barrier is asked when the time is near";
  advance(500);
  EXPECT_TRUE(drained.empty());
  EXPECT_EQ(companion->count(), 1u);
  EXPECT_EQ(asked.size(), 1u) << "but not twice";
  pass_barrier();
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{1}));
}

TEST_F(CompanionTest, TheBarrierIsNotHurriedForALongDelay) {
  companion->park(entry(10'000, 1), ticket);
  advance(5'000);
  EXPECT_TRUE(asked.empty());
  durable = ticket;  // by itself
  advance(5'000);
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(drained, (std::vector<uint32_t>{1}));
}

TEST_F(CompanionTest, WhatBecameDurableMeanwhileIsTheIndexesToKeepThoughItsTimeIsFar) {
  constexpr uint32_t kMessages = 20'000;
  batch = kMessages;
  size_t most_gated = 0;
  for (uint32_t i = 0; i < kMessages; ++i) {
    companion->park(entry(100'000, i), ++ticket);
    durable = ticket;  // by itself
    most_gated = std::max(most_gated, companion->gated_count());
  }
  EXPECT_LE(most_gated, 4096u) << "or ten million would lie in memory until they are due";
  EXPECT_EQ(companion->count(), kMessages);
  EXPECT_TRUE(asked.empty()) << "nothing was hurried";
  advance(99'999);
  EXPECT_TRUE(drained.empty());
  advance(1);
  while (shard.run_turn_for_test()) {
  }
  ASSERT_EQ(drained.size(), kMessages);
  for (uint32_t i = 0; i < kMessages; ++i) EXPECT_EQ(drained[i], i);
}

TEST_F(CompanionTest, ATicketHoldsBackOnlyWhatIsBehindIt) {
  companion->park(entry(20, 1), 1);
  companion->park(entry(5, 2), 2);
  durable = 1;
  advance(30);
  EXPECT_EQ(drained, (std::vector<uint32_t>{1}));
  durable = 2;
  for (auto& task : std::exchange(asked, {})) task();
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{1, 2}));
}

TEST_F(CompanionTest, WhatIsParkedWhileTheBarrierIsAskedGetsItsOwnQuestion) {
  companion->park(entry(5, 1), 1);
  turn();
  ASSERT_EQ(asked.size(), 1u);
  ticket = 2;
  companion->park(entry(6, 2), 2);
  ticket = 1;
  pass_barrier();
  advance(6);
  EXPECT_EQ(drained, (std::vector<uint32_t>{1}));
  ASSERT_EQ(asked.size(), 1u);
  ticket = 2;
  pass_barrier();
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{1, 2}));
}

TEST_F(CompanionTest, Rule19_AMillionDueIsDrainedInBoundedBatchesWithTurnsBetween) {
  batch = 1'000'000;
  for (uint32_t i = 0; i < 20'000; ++i) companion->park_at_once(entry(10, i));
  advance(10);
  EXPECT_EQ(drained.size(), kDrainCountMax);
  for (int turns = 1; turns < 5; ++turns) {
    EXPECT_EQ(calls, turns);
    turn();
  }
  EXPECT_EQ(drained.size(), 20'000u);
  EXPECT_TRUE(std::is_sorted(drained.begin(), drained.end()));
}

TEST_F(CompanionTest, Rule29_WhatIsOverdueAtTheStartIsDrainedAtOnceInDueOrder) {
  companion->park_at_once(entry(-100, 3));
  companion->park_at_once(entry(-5000, 1));
  companion->park_at_once(entry(-200, 2));
  companion->park_at_once(entry(100, 4));
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(CompanionTest, Rule25_APostponedEntryWaitsForItsNewTime) {
  companion->park_at_once(entry(10, 1));
  advance(10);
  EXPECT_EQ(drained.size(), 1u);
  companion->park(entry(10, 1), ticket);
  pass_barrier();
  advance(9);
  EXPECT_EQ(drained.size(), 1u);
  advance(1);
  EXPECT_EQ(drained.size(), 2u);
}

TEST_F(CompanionTest, APausedOwnerIsNotCalledAndCatchesUp) {
  companion->pause();
  companion->park_at_once(entry(10, 1));
  companion->park(entry(20, 2), ticket);
  advance(1000);
  advance(1000);
  EXPECT_EQ(calls, 0);
  pass_barrier();
  companion->resume();
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{1, 2}));
}

TEST_F(CompanionTest, ClearDropsAllAndLaterOnesStillCome) {
  companion->park_at_once(entry(10, 1));
  companion->park(entry(10, 2), ticket);
  advance(5);
  companion->clear();
  EXPECT_EQ(companion->count(), 0u);
  EXPECT_EQ(companion->body_bytes(), 0u);
  pass_barrier();
  advance(100);
  EXPECT_TRUE(drained.empty());
  companion->park(entry(10, 3), ++ticket);
  pass_barrier();
  advance(10);
  pass_barrier();
  turn();
  EXPECT_EQ(drained, (std::vector<uint32_t>{3}));
}

TEST_F(CompanionTest, ItMayGoWhileTheBarrierIsAsked) {
  companion->park(entry(5, 1), ticket);
  turn();
  ASSERT_EQ(asked.size(), 1u);
  companion.reset();
  pass_barrier();
  advance(100);
  EXPECT_EQ(calls, 0);
}

TEST_F(CompanionTest, AFarDueTimeDoesNotOverflow) {
  companion->park_at_once({.due_ms = UINT64_MAX,
                           .position = {},
                           .counter = 1,
                           .delay_ms = 1,
                           .body_bytes = 0,
                           .lane = 0,
                           .kind = 0});
  companion->park_at_once(entry(4'294'967'295, 2));
  advance(4'294'967'294);
  EXPECT_TRUE(drained.empty());
  advance(1);
  EXPECT_EQ(drained, (std::vector<uint32_t>{2}));
  EXPECT_EQ(companion->count(), 1u);
}

TEST_F(CompanionTest, EntriesOnDiskAreDrainedWithoutSpinningWhileAPageIsRead) {
  store->set_memory_budget(4);
  for (uint32_t i = 0; i < 500; ++i) companion->park_at_once(entry(10'000, i));
  settle();
  clock.advance_ms(20'000);
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_LE(calls, 3) << "woken again and again while nothing can be taken";
  for (int i = 0; i < 20; ++i) settle();
  EXPECT_EQ(drained.size(), 500u);
  EXPECT_TRUE(std::is_sorted(drained.begin(), drained.end()));
}

TEST_F(CompanionTest, RandomParksAreEachDrainedOnceNeitherEarlyNorLate) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    store->set_memory_budget(seed % 3 ? 8 : 100'000);
    companion.reset();
    settle();
    open();
    drained.clear();
    uint32_t parked = 0;
    ticket = durable + 1;
    for (int step = 0; step < 600; ++step) {
      switch (random() % 5) {
        case 0:
        case 1:
          companion->park(entry(random() % (random() % 2 ? 30 : 4000), ++parked), ++ticket);
          break;
        case 2:
          pass_barrier();
          break;
        case 3:
          settle();
          break;
        default:
          advance(random() % 40);
      }
    }
    for (int i = 0; i < 100 && drained.size() < parked; ++i) {
      pass_barrier();
      settle();
      advance(100);
    }
    std::sort(drained.begin(), drained.end());
    ASSERT_EQ(drained.size(), parked);
    for (uint32_t i = 0; i < parked; ++i) ASSERT_EQ(drained[i], i + 1);
    EXPECT_EQ(companion->count(), 0u);
    EXPECT_EQ(companion->body_bytes(), 0u);
  }
}

}  // namespace
}  // namespace tarry
