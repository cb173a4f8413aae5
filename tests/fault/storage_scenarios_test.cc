// More of what a store is asked to do, with a crash at every call (tests/fault/storage_world.h).
#include <algorithm>
#include <cstdio>

#include "fault/storage_world.h"

namespace tarry {
namespace {

std::vector<StorageWorld::Found> look_at_all(StorageWorld& w) {
  std::vector<StorageWorld::Found> found;
  for (size_t i = 0; i < StorageWorld::kLogs; ++i) found.push_back(w.look(i));
  return found;
}

size_t times_in(const StorageWorld::Found& found, uint32_t id) {
  return static_cast<size_t>(std::count(found.fresh.begin(), found.fresh.end(), id)) +
         found.parked.count(id);
}

// A publish to several queues is confirmed once, when each of them has it.
TEST(StorageScenario, AConfirmForManyQueuesMeansAllOfThem) {
  crash_everywhere(
      "confirms to many queues",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 4; ++id) {
          for (size_t log = 0; log < StorageWorld::kLogs; ++log) w.append(id, log);
          if (id % 2 == 0) {
            if (!w.commit()) return;
          } else {
            w.turn(25);  // handed over, so that the logs may become durable one by one
            w.round(false);
          }
        }
        w.commit();
      },
      [](StorageWorld& w) {
        auto found = look_at_all(w);
        for (auto& [id, p] : w.promises) {
          for (auto& in : found) {
            if (p.durable) {
              EXPECT_EQ(times_in(in, id), 1u) << "lost " << id;
            }
            EXPECT_LE(times_in(in, id), 1u) << "doubled " << id;
          }
        }
      });
}

// Rejected, due, delivered, rejected again, postponed, acknowledged at last; another one runs into
// the limit and goes to another queue.
TEST(StorageScenario, ARetryFromRejectionToTheLimit) {
  crash_everywhere(
      "retry until the limit",
      [](StorageWorld& w) {
        w.append(1);
        w.append(2);
        if (!w.commit()) return;
        auto lucky = w.deliver(), poison = w.deliver();
        for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
          w.park(poison, 1000 * attempt, attempt);
          if (attempt < 3) w.park(lucky, 1000 * attempt, attempt);
          if (!w.commit()) return;  // no redelivery before
          w.pass_time(1000);
          w.log().take_back(poison.position);
          w.log().take_back(lucky.position);
        }
        w.settle(lucky);
        // Over the limit: to log 1, then away here.
        Origin origin{QueueId{1}, 0, poison.position.segment, poison.position.ordinal};
        w.append(2, 1, &origin);
        if (!w.commit()) return;
        w.log(0).settle({poison.position, 1});
        if (!w.commit()) return;
        w.log(1).close_move(origin);
        w.commit();
      },
      [](StorageWorld& w) {
        const Promise lucky = w.promises[1],
                      poison = w.promises[2];  // commit() below would raise them
        for (const RecoveredOrigin& o : w.log(1).recovered_origins()) {
          // What a start does with a half-done move: the target has it, the source goes.
          const Position source{o.origin.segment, o.origin.ordinal, 0};
          if (w.log(0).live(source)) w.log(0).settle({source, 1});
        }
        w.commit();
        w.stop();
        ASSERT_TRUE(w.start());
        auto found = look_at_all(w);
        EXPECT_LE(times_in(found[0], 2) + times_in(found[1], 2), 1u) << "doubled";
        if (poison.durable) {
          EXPECT_EQ(times_in(found[0], 2) + times_in(found[1], 2), 1u) << "lost";
        }
        if (lucky.settle_durable) {
          EXPECT_EQ(times_in(found[0], 1), 0u) << "back again";
        }
        if (times_in(found[0], 2) == 1) {
          EXPECT_GE(found[0].counters[2], poison.counter_durable);
        }
      });
}

// tx.commit: the publishes pass the barrier before the settlements are written.
TEST(StorageScenario, ATransactionSettlesNothingWithoutItsPublishes) {
  crash_everywhere(
      "tx commit",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 3; ++id) w.append(id);
        if (!w.commit()) return;
        for (uint32_t tx = 1; tx <= 3; ++tx) {
          auto out = w.deliver();
          w.append(10 + tx, 1);
          w.append(10 + tx, 2);
          if (!w.commit()) return;
          w.settle(out);
          if (!w.commit()) return;
        }
      },
      [](StorageWorld& w) {
        auto found = look_at_all(w);
        for (uint32_t tx = 1; tx <= 3; ++tx) {
          if (!w.promises.contains(tx)) continue;
          const bool settled = times_in(found[0], tx) == 0 && w.promises[tx].durable;
          if (settled) {
            EXPECT_EQ(times_in(found[1], 10 + tx), 1u) << tx;
            EXPECT_EQ(times_in(found[2], 10 + tx), 1u) << tx;
          }
          if (w.promises[tx].settle_durable) {
            EXPECT_TRUE(settled) << tx;
          }
        }
      });
}

// What a start does for a tombstone: it removes what is left of the directory, and touches no other
// queue's.
TEST(StorageScenario, ADeletedQueueGoesInTheEndAndNoOtherWithIt) {
  crash_everywhere(
      "queue delete",
      [](StorageWorld& w) {
        w.body_bytes = 20'000;
        for (uint32_t id = 1; id <= 6; ++id) {
          w.append(id, 0);
          w.append(id, 1);
        }
        if (!w.commit()) return;
        auto out = w.deliver(0);
        w.log(0).settle({out.position, 1});
        w.append(7, 0);  // handed over or not, when the queue ends
        w.append(7, 1);
        w.turn(25);
        w.delete_log(0);
        for (int i = 0; i < 4; ++i) w.pass_time(50);
        w.append(8, 1);
        w.commit();
      },
      [](StorageWorld& w) {
        if (w.deleted.contains(0)) {
          w.store().remove_queue_directory(QueueId{1});
          for (int i = 0; i < 3; ++i) w.pass_time(50);
          for (QueueId id : w.store().queue_directories()) EXPECT_NE(id, QueueId{1});
        }
        w.check(1);
      });
}

/// A segment of which two records live: one is parked, one is out.
bool make_stragglers(StorageWorld& w) {
  w.body_bytes = 3000;
  for (uint32_t id = 1; id <= 24; ++id) {
    w.append(id);
    if (id % 6 == 0 && !w.commit()) return false;
  }
  std::vector<StorageWorld::Out> out(1);
  for (uint32_t id = 1; id <= 24; ++id) out.push_back(w.deliver());
  w.park(out[7], 90'000, 2);
  for (uint32_t id = 1; id <= 23; ++id) {
    if (id != 7 && id != 15) w.settle(out[id]);
  }
  return w.commit();
}

TEST(StorageScenario, SpaceOfWhatIsGoneIsGivenBack) {
  crash_everywhere(
      "compaction",
      [](StorageWorld& w) {
        if (!make_stragglers(w)) return;
        for (int i = 0; i < 4; ++i) w.pass_time(250);
        w.append(25);
        w.commit();
      },
      [](StorageWorld& w) { w.check(); });
}

// Found by the address sanitizer in the simulation: the end of the work wrote into a log that was
// no more.
TEST(StorageScenario, AQueueMayGoWhileItsSpaceIsGivenBack) {
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  ASSERT_TRUE(make_stragglers(w));
  auto& store_thread = w.store().impl().store_thread;
  for (int i = 0; i < 20 && fs.bytes_punched() == 0; ++i) {
    w.turn(250);
    w.round();
    w.turn();
    store_thread.run_queued();
  }
  ASSERT_GT(fs.bytes_punched(), 0u);  // the work is done, and its end on the way
  w.delete_log(0);
  w.pass_time(250);
  w.append(1, 1);
  EXPECT_TRUE(w.commit());
}

TEST(StorageScenario, AStragglerKeepsItsBlocksAndNoMore) {
  (void)set_log_level("off");
  for (const bool cold : {false, true}) {
    FaultyFileSystem fs;
    ASSERT_EQ(fs.make_directory("/d"), FileError{});
    StorageWorld w(fs);
    ASSERT_TRUE(w.start());
    ASSERT_TRUE(make_stragglers(w));
    const uint64_t before = w.log().disk_bytes();
    for (int i = 0; i < 4; ++i) w.pass_time(250);
    EXPECT_GT(fs.bytes_punched(), 40'000u);
    EXPECT_LE(w.log().disk_bytes(), before - fs.bytes_punched() + 1000);
    const uint64_t punched = fs.bytes_punched();
    for (int i = 0; i < 4; ++i) w.pass_time(250);
    EXPECT_EQ(fs.bytes_punched(), punched) << "nothing new is gone";
    w.stop();
    fs.set_cold(cold);
    for (int start = 0; start < 2; ++start) {
      ASSERT_TRUE(w.start());
      auto promises = w.promises;
      w.check();
      EXPECT_EQ(w.log().damaged_count(), 0u);
      w.stop();
      w.promises = promises;
    }
  }
}

// The other way the events may be lost: what a skip record covers is gone, and the count is right
// in the end.
TEST(StorageScenario, HolesRuleOverAnAckLogThatWasLost) {
  (void)set_log_level("off");
  FaultyFileSystem fs;
  ASSERT_EQ(fs.make_directory("/d"), FileError{});
  StorageWorld w(fs);
  ASSERT_TRUE(w.start());
  ASSERT_TRUE(make_stragglers(w));
  for (int i = 0; i < 4; ++i) w.pass_time(250);
  w.stop();
  for (auto& path : fs.all_files()) {
    if (path.ends_with(".ack")) {
      ASSERT_EQ(fs.unlink(path), FileError{});
    }
  }
  ASSERT_TRUE(w.start());
  EXPECT_GT(w.log().damaged_count(), 0u);
  std::vector<uint32_t> served;
  StorageWorld::Out out;
  while ((out = w.deliver()).there) served.push_back(out.id);
  for (uint32_t id : {7u, 15u, 24u})
    EXPECT_EQ(std::count(served.begin(), served.end(), id), 1) << id;
  EXPECT_LT(served.size(), 12u);
  EXPECT_EQ(w.log().fresh_count(), 0u);
}

// Level os: confirmed is what the kernel has. Kill -9 loses nothing; a power cut may, and never
// mixes anything up.
void os_level(const char* name, bool power_cut) {
  crash_everywhere(
      name,
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 6; ++id) w.append(id);
        if (!w.commit()) return;
        auto first = w.deliver(), second = w.deliver(), third = w.deliver();
        w.settle(first);
        w.park(second, 5000, 1);
        if (!w.commit()) return;
        w.requeue(third, 2);
        w.append(7);
        w.commit();
      },
      [power_cut](StorageWorld& w) {
        if (!power_cut) return w.check();
        for (auto& [id, p] : w.promises)
          p = {.settle_asked = p.settle_asked,
               .counter_asked = p.counter_asked,
               .park_asked = p.park_asked,
               .due_ms = p.due_ms};
        w.check();
      },
      {.durability = Durability::os, .kills_only = !power_cut});
}
TEST(StorageScenario, AtLevelOsAKillLosesNothing) { os_level("level os, kill -9", false); }
TEST(StorageScenario, AtLevelOsAPowerCutLosesButMixesNothingUp) {
  os_level("level os, power cut", true);
}

}  // namespace
}  // namespace tarry
