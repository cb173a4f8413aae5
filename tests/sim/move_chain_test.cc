// A message dies in A, and at once again in B, to C. Were it moved on from B before its arrival
// there is durable, a power cut could keep the copy in C and lose the one in B: A would send it
// once more. And where B is not durable nothing after a crash says that the copy in C is A's
// message, so it must not go on while A still has it. A crash at every call of the disk, with all
// that a disk may show after it, for every way in which it may leave B: the message is in one place
// (or was in a B that ended with the crash).
#include <gtest/gtest.h>

#include <cstdio>

#include "sim/sim_machine.h"
#include "tarrymq/broker/retry_operations.h"
#include "tarrymq/runtime/log.h"

namespace tarry::sim {
namespace {

FieldTable dies_to(const char* queue) {
  FieldTable arguments;
  arguments.set("x-dead-letter-exchange", FieldValue::text(""));
  arguments.set("x-dead-letter-routing-key", FieldValue::text(queue));
  return arguments;
}

/// How it leaves B.
struct Way {
  const char* name;
  std::vector<std::pair<const char*, FieldValue>> arguments = {};
  std::optional<GetMode> got = {};  // a consumer is there and settles it so
  bool redriven = false;
};

const std::vector<Way>& all_ways() {
  static const std::vector<Way> ways = {
      {"ttl of 0", {{"x-message-ttl", FieldValue::int64(0)}}},
      {"a short ttl", {{"x-message-ttl", FieldValue::int64(1)}}},
      {"drop-head", {{"x-max-length", FieldValue::int64(0)}}},
      {"reject-publish-dlx",
       {{"x-max-length", FieldValue::int64(0)},
        {"x-overflow", FieldValue::text("reject-publish-dlx")}}},
      {"rejected", {}, GetMode::reject_requeue_false},
      {"over the limit",
       {{"x-delivery-limit", FieldValue::int64(0)}},
       GetMode::reject_requeue_true},
      {"redriven", {}, {}, true},
  };
  return ways;
}

/// Where the three lie, and in which order a round goes through the shards.
struct ChainPlaces {
  Machine::Shards shards;
  std::vector<const char*> order;
  bool durable_b = true;
};

FieldTable arguments_of(const std::string& name, const Way& way) {
  if (name != "b") return name == "a" ? dies_to("b") : FieldTable();
  FieldTable b = dies_to("c");
  for (const auto& [key, value] : way.arguments) b.set(key, value);
  return b;
}

void set_up(Machine& machine, const Way& way, const ChainPlaces& arrangement) {
  for (const std::string name : arrangement.order) {
    machine.declare(name, arguments_of(name, way), name != "b" || arrangement.durable_b);
  }
  machine.publish("a");
}

void die(Machine& machine, const Way& way) {
  bool asked = false;
  machine.get("a", GetMode::reject_requeue_false);
  machine.run([&] {
    if (asked || machine.ready("b") != 1) return;
    if (way.got) {
      asked = true;
      machine.get("b", *way.got);
    } else if (way.redriven) {
      asked = true;
      RedriveRequest request;
      request.target = "c";
      machine.management().retry_operations()->start_redrive(machine.login(), "/", "b", request,
                                                             [](auto) {});
    }
  });
}

uint64_t crash_along(const Way& way, const ChainPlaces& arrangement) {
  MachineDisk before{std::make_unique<FaultyFileSystem>(), {}};
  EXPECT_FALSE(before.files->make_directory("/d") || before.files->sync_directory("/"));
  {
    Machine machine(before, arrangement.shards);
    EXPECT_TRUE(machine.start());
    set_up(machine, way, arrangement);
  }
  before.files->reboot(FaultyFileSystem::Survives::everything, 1);
  uint64_t points = 0;
  bool crashed = true;
  for (uint64_t n = 1; crashed && !testing::Test::HasFailure(); ++n) {
    MachineDisk moved = before.copy();
    {
      Machine machine(moved, arrangement.shards);
      EXPECT_TRUE(machine.start());
      machine.run();
      if (!arrangement.durable_b) machine.declare("b", arguments_of("b", way), false);
      moved.files->crash_at(n);
      die(machine, way);
      crashed = moved.files->crashed();
      if (!crashed) {
        EXPECT_EQ(machine.ready("c"), 1u) << way.name;
      }
    }
    for (auto survives : FaultyFileSystem::kAllWays) {
      ++points;
      MachineDisk disk = moved.copy();
      disk.files->reboot(survives, static_cast<uint32_t>(n));
      Machine machine(disk, arrangement.shards);
      EXPECT_TRUE(machine.start());
      machine.run();
      const uint64_t in_b = arrangement.durable_b ? machine.ready("b") : 0;
      const uint64_t all = machine.ready("a") + in_b + machine.ready("c");
      EXPECT_TRUE(all == 1 || (all == 0 && !arrangement.durable_b))
          << way.name << ": " << machine.ready("a") << " in a, " << in_b << " in b, "
          << machine.ready("c") << " in c; crash at call " << n << ", way "
          << static_cast<int>(survives);
    }
  }
  return points;
}

void crash_along_all_ways(const char* what, bool durable_b) {
  (void)set_log_level("off");
  uint64_t points = 0;
  for (const Way& way : all_ways()) {
    for (ChainPlaces arrangement :
         {ChainPlaces{{1, false}, {"a", "b", "c"}}, ChainPlaces{{1, false}, {"c", "b", "a"}},
          ChainPlaces{{3, false}, {"a", "b", "c"}}, ChainPlaces{{3, true}, {"a", "b", "c"}}}) {
      arrangement.durable_b = durable_b;
      points += crash_along(way, arrangement);
      ASSERT_FALSE(testing::Test::HasFailure()) << way.name;
    }
  }
  std::printf("%s: %llu crash points\n", what, static_cast<unsigned long long>(points));
  EXPECT_GT(points, 500u);
}

TEST(MoveChain, ADeadLetterGoesOnOnlyOnceItsArrivalIsDurable) {
  crash_along_all_ways("dead letters that die again", true);
}
TEST(MoveChain, ADeadLetterLeavesAQueueThatIsNotDurableOnlyOnceItsSourceIsDropped) {
  crash_along_all_ways("dead letters that die again where nothing is kept", false);
}

}  // namespace
}  // namespace tarry::sim
