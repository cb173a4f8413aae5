#include <algorithm>
#include <cstdio>

#include "fault/storage_world.h"

namespace tarry {
namespace {

void check_log(StorageWorld& world) { world.check(); }

// Rows 1 to 8 of the crash table (design-notes 3) in one log, each step followed by a barrier now
// and then.
TEST(StorageCrash, PublishSettleRequeueAndPark) {
  crash_everywhere(
      "publish, settle, requeue, park",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 6; ++id) w.append(id);
        if (!w.commit()) return;
        std::vector<StorageWorld::Out> out;
        for (int i = 0; i < 5; ++i) out.push_back(w.deliver());
        w.settle(out[0]);
        w.requeue(out[1], 1);
        if (!w.commit()) return;
        w.park(out[2], 5000, 1);
        if (!w.commit()) return;
        w.append(7);
        w.park(out[2], 9000, 2);
        w.settle(out[3]);
        if (!w.commit()) return;
        w.pass_time(30);  // written without a waiter
        w.settle(out[4]);
        w.append(8);
        w.pass_time(30);
        w.settle(out[2]);
        w.append(9);
        w.settle(w.deliver());
        w.commit();
      },
      check_log);
}

// A settlement that was confirmed, and a dead letter that is held (retry-spec 35, 41), survive
// wherever it crashes.
TEST(StorageCrash, Rule41_WhatIsDyingStaysSoUntilItIsGone) {
  crash_everywhere(
      "dying",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 5; ++id) w.append(id);
        if (!w.commit()) return;
        std::vector<StorageWorld::Out> out;
        for (int i = 0; i < 4; ++i) out.push_back(w.deliver());
        w.die(out[0]);
        w.park(out[1], 5000, 1);
        if (!w.commit()) return;
        w.die(out[1]);
        w.settle(out[2]);
        if (!w.commit()) return;
        w.append(6);
        w.settle(out[0]);
        w.die(out[3]);
        w.pass_time(30);
        if (!w.commit()) return;
        w.settle(out[1]);
        w.settle(out[3]);
        w.commit();
      },
      check_log);
}

TEST(StorageCrash, WhatWasWrittenWithoutAWaiterIsSyncedWhenOneComes) {
  crash_everywhere(
      "late waiter",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 3; ++id) w.append(id);
        w.turn(25);
        w.round(false);
        w.turn();
        if (!w.commit()) return;
        auto first = w.deliver();
        w.park(w.deliver(), 5000, 1);
        w.settle(first);
        w.turn(25);
        w.round(false);
        w.turn();
        w.commit();
      },
      check_log);
}

TEST(StorageCrash, ElidedRecordsLeaveNoTrace) {
  crash_everywhere(
      "elision",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 4; ++id) w.append(id);
        w.settle(w.deliver());
        auto kept = w.deliver();
        w.settle(w.deliver());
        if (!w.commit()) return;
        for (uint32_t id = 5; id <= 9; ++id) w.append(id);
        w.deliver();
        for (int i = 0; i < 3; ++i) w.settle(w.deliver());
        if (!w.commit()) return;
        w.settle(kept);
        w.append(10);
        w.commit();
      },
      check_log);
}

TEST(StorageCrash, SegmentsAreSealedAndRemoved) {
  crash_everywhere(
      "sealing and removal",
      [](StorageWorld& w) {
        w.body_bytes = 20'000;
        for (uint32_t id = 1; id <= 12; ++id) {
          w.append(id);
          if (id % 2 == 0 && !w.commit()) return;
        }
        StorageWorld::Out straggler;
        for (int i = 0; i < 9; ++i) {
          auto out = w.deliver();
          if (i == 1)
            straggler = out;  // its segment goes when the others in it are settled for good
          else
            w.settle(out);
          if (i % 3 == 2) w.pass_time(30);
        }
        if (!w.commit()) return;
        w.settle(straggler);
        w.append(13);
        if (!w.commit()) return;
        w.pass_time(300);
        w.pass_time(300);
      },
      check_log);
}

TEST(StorageCrash, Purge) {
  crash_everywhere(
      "purge",
      [](StorageWorld& w) {
        w.body_bytes = 20'000;
        for (uint32_t id = 1; id <= 9; ++id) {
          w.append(id);
          if (id % 2 == 0 && !w.commit()) return;
        }
        if (!w.commit()) return;
        auto first = w.deliver();
        auto second = w.deliver();
        w.park(second, 7000, 1);
        if (!w.commit()) return;
        for (auto& [id, p] : w.promises) {
          if (id != first.id) p.settle_asked = true;
        }
        w.log().purge();
        if (!w.commit()) return;
        w.append(10);
        w.commit();
      },
      check_log);
}

// -- Moves: a record goes from log 0 to logs 1 and 2; target, barrier, then source.

/// What a queue does with origins at start: routes again to the targets that lack it, then drops
/// the source.
void finish_moves(StorageWorld& w) {
  std::map<Origin, std::vector<bool>> found;
  for (size_t t = 1; t < StorageWorld::kLogs; ++t) {
    for (const RecoveredOrigin& o : w.log(t).recovered_origins()) {
      auto& holds = found[o.origin];
      holds.resize(StorageWorld::kLogs);
      EXPECT_FALSE(holds[t]) << "the same move twice";
      holds[t] = true;
    }
  }
  std::map<Origin, StorageWorld::Out> sources;
  StorageWorld::Out out;
  while ((out = w.deliver(0)).there)
    sources[{QueueId{1}, 0, out.position.segment, out.position.ordinal}] = out;
  for (auto& [origin, holds] : found) {
    auto source = sources.find(origin);
    if (source == sources.end()) continue;  // it is gone for good
    EXPECT_TRUE(w.log(0).live(source->second.position));
    for (size_t t = 1; t < StorageWorld::kLogs; ++t) {
      if (!holds[t]) w.append(source->second.id, t, &origin);
    }
  }
  w.commit();
  for (auto& [origin, holds] : found) {
    auto source = sources.find(origin);
    if (source != sources.end()) w.log(0).settle({source->second.position, 1});
  }
  w.commit();
  for (auto& [origin, holds] : found) {
    for (size_t t = 1; t < StorageWorld::kLogs; ++t) w.log(t).close_move(origin);
  }
  w.commit();
}

/// Each message is in the source alone or in both targets; never in neither, never twice.
void check_moves(StorageWorld& w) {
  std::map<uint32_t, Promise> promises = w.promises;
  finish_moves(w);
  w.stop();
  ASSERT_TRUE(w.start());
  std::vector<uint32_t> where[StorageWorld::kLogs];
  for (size_t i = 0; i < StorageWorld::kLogs; ++i) where[i] = w.look(i).fresh;
  for (auto& [id, p] : promises) {
    size_t times[StorageWorld::kLogs];
    for (size_t i = 0; i < StorageWorld::kLogs; ++i) {
      times[i] = static_cast<size_t>(std::count(where[i].begin(), where[i].end(), id));
      EXPECT_LE(times[i], 1u) << id;
    }
    if (times[0]) {
      EXPECT_EQ(times[1] + times[2], 0u) << "doubled " << id;
    } else if (p.durable && !p.settle_asked) {
      EXPECT_EQ(times[1], 1u) << "lost " << id;
      EXPECT_EQ(times[2], 1u) << "lost " << id;
    }
  }
}

TEST(StorageCrash, MovesToTwoTargetsNeitherLoseNorDouble) {
  crash_everywhere(
      "moves",
      [](StorageWorld& w) {
        for (uint32_t id = 1; id <= 4; ++id) w.append(id);
        if (!w.commit()) return;
        for (int round = 0; round < 2; ++round) {
          std::vector<StorageWorld::Out> batch{w.deliver(0), w.deliver(0)};
          for (auto& out : batch) {
            Origin origin{QueueId{1}, 0, out.position.segment, out.position.ordinal};
            w.append(out.id, 1, &origin);
            w.turn(25);
            w.round(round == 0);  // the targets may become durable one by one
            w.append(out.id, 2, &origin);
          }
          if (!w.commit()) return;
          for (auto& out : batch) w.log(0).settle({out.position, 1});
          if (round == 1) w.pass_time(30);
          if (!w.commit()) return;
          for (auto& out : batch) {
            Origin origin{QueueId{1}, 0, out.position.segment, out.position.ordinal};
            w.log(1).close_move(origin);
            w.log(2).close_move(origin);
          }
          if (!w.commit()) return;
        }
      },
      check_moves);
}

TEST(StorageCrash, ATargetThatWasSettledBeforeItsSourceWasDroppedStillCountsAsFound) {
  crash_everywhere(
      "settled target",
      [](StorageWorld& w) {
        w.append(1);
        if (!w.commit()) return;
        auto out = w.deliver(0);
        Origin origin{QueueId{1}, 0, out.position.segment, out.position.ordinal};
        w.append(1, 1, &origin);
        w.append(1, 2, &origin);
        if (!w.commit()) return;
        // Consumers of the targets are quick.
        for (size_t t : {1u, 2u}) {
          auto copy = w.deliver(t);
          w.settle(copy, t);
        }
        w.pass_time(300);
        w.pass_time(300);
        w.log(0).settle({out.position, 1});
        if (!w.commit()) return;
        w.log(1).close_move(origin);
        w.log(2).close_move(origin);
        w.commit();
      },
      [](StorageWorld& w) {
        bool settled = w.promises.contains(1) && w.promises[1].settle_durable;
        finish_moves(w);
        w.stop();
        ASSERT_TRUE(w.start());
        if (settled) {
          EXPECT_TRUE(w.look(0).fresh.empty())
              << "the source is back, though its copies were consumed";
        }
      });
}

}  // namespace
}  // namespace tarry
