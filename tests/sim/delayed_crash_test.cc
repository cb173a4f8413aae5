// What an x-delayed-message exchange holds, and lets go to two queues when its delay is over. A
// crash at every call of the disk from the publish to the end, with all that a disk may show after
// it, and once more at every call of the start after it: what was confirmed arrives in both queues,
// and nothing in one of them alone, or twice.
#include <gtest/gtest.h>

#include <cstdio>

#include "sim/sim_machine.h"
#include "tarrymq/runtime/log.h"

namespace tarry::sim {
namespace {

constexpr const char* kHolding = "amq.delayed-later";

void set_up(Machine& machine) {
  ExchangeDeclare later;
  later.name = "later";
  later.type = "x-delayed-message";
  later.durable = true;
  later.arguments.set("x-delayed-type", FieldValue::text("fanout"));
  int done = 0;
  const auto count = [&done](auto answer) { done += answer.has_value(); };
  machine.management().declare_exchange(machine.login(), "/", later, count);
  machine.run();
  for (const char* queue : {"left", "right"}) {
    machine.declare(queue);
    machine.management().bind(machine.login(), "/", {"later", queue, "", true, {}}, count);
    machine.run();
  }
  ASSERT_EQ(done, 3);
}

/// Asks for a publish; `confirmed` once it is stored.
void publish(Machine& machine, bool& confirmed) {
  PropertiesBuilder properties;
  properties.delivery_mode = 2;
  properties.headers.emplace().set("x-delay", FieldValue::int64(100));
  machine.management().publish(machine.login(), {"/", "later", "", properties.build(5), "hello"},
                               [&confirmed](auto d) { confirmed = d.has_value() && *d; });
}

/// The clock of a start begins anew, so that the delay may be over only a while later.
void wait_for_release(Machine& machine) {
  for (int i = 0; i < 40 && machine.left_in(kHolding) > 0; ++i) machine.run();
}

struct Held {
  MachineDisk disk;
  bool confirmed = false, crashed = false;
};

Held crash_on_the_way(const MachineDisk& before, Machine::Shards shards, uint64_t n) {
  Held held{before.copy()};
  Machine machine(held.disk, shards);
  EXPECT_TRUE(machine.start());
  machine.run();
  held.disk.files->crash_at(n);
  publish(machine, held.confirmed);
  machine.run();
  if (!held.disk.files->crashed()) wait_for_release(machine);
  held.crashed = held.disk.files->crashed();
  return held;
}

void start_and_check(MachineDisk disk, Machine::Shards shards, bool confirmed) {
  Machine machine(disk, shards);
  ASSERT_TRUE(machine.start());
  machine.run();
  wait_for_release(machine);
  EXPECT_EQ(machine.left_in(kHolding), 0u);
  EXPECT_EQ(machine.ready("left"), machine.ready("right"));
  EXPECT_LE(machine.ready("left"), 1u);
  if (confirmed) {
    EXPECT_EQ(machine.ready("left"), 1u);
  }
}

uint64_t crash_along(Machine::Shards shards) {
  MachineDisk before{std::make_unique<FaultyFileSystem>(), {}};
  EXPECT_FALSE(before.files->make_directory("/d") || before.files->sync_directory("/"));
  {
    Machine machine(before, shards);
    EXPECT_TRUE(machine.start());
    set_up(machine);
  }
  before.files->reboot(FaultyFileSystem::Survives::everything, 1);
  uint64_t points = 0;
  bool crashed = true;
  for (uint64_t n = 1; crashed && !testing::Test::HasFailure(); ++n) {
    const Held held = crash_on_the_way(before, shards, n);
    crashed = held.crashed;
    for (const auto survives : FaultyFileSystem::kAllWays) {
      SCOPED_TRACE("crash at call " + std::to_string(n) + ", way " +
                   std::to_string(static_cast<int>(survives)));
      MachineDisk disk = held.disk.copy();
      disk.files->reboot(survives, static_cast<uint32_t>(n));
      ++points;
      start_and_check(disk.copy(), shards, held.confirmed);
      bool again = true;
      for (uint64_t m = 1; again && !testing::Test::HasFailure(); m += 1 + m / 8) {
        SCOPED_TRACE("crash at call " + std::to_string(m) + " of the start");
        MachineDisk twice = disk.copy();
        twice.files->crash_at(m);
        {
          Machine machine(twice, shards);
          if (machine.start()) {
            machine.run();
            if (!twice.files->crashed()) wait_for_release(machine);
          }
        }
        again = twice.files->crashed();
        twice.files->reboot(
            FaultyFileSystem::kAllWays[(n + m) % std::size(FaultyFileSystem::kAllWays)],
            static_cast<uint32_t>(n * 31 + m));
        ++points;
        start_and_check(std::move(twice), shards, held.confirmed);
      }
    }
  }
  return points;
}

TEST(DelayedCrash, WhatIsHeldForItsDelayArrivesInAllItsQueuesOnce) {
  (void)set_log_level("off");
  uint64_t points = 0;
  for (const Machine::Shards shards :
       {Machine::Shards{1, false}, Machine::Shards{3, false}, Machine::Shards{3, true}}) {
    points += crash_along(shards);
  }
  std::printf("messages with an x-delay: %llu crash points\n",
              static_cast<unsigned long long>(points));
  EXPECT_GT(points, 500u);
}

}  // namespace
}  // namespace tarry::sim
