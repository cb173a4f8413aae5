// A dead letter whose move a crash interrupted, and whose source has no dead-letter exchange any
// more at the start after it: the source drops its copy then, and the target forgets the move only
// once that drop is durable. A crash at every call of that start, with all that a disk may show
// after it: the message is in one place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "broker/definition_codec.h"
#include "sim/sim_machine.h"
#include "tarrymq/runtime/log.h"

namespace tarry::sim {
namespace {

constexpr const char* kPolicy = "letters";

/// In which order a round goes through the shards, and where source and target lie.
struct Arrangement {
  Machine::Shards shards;
  bool target_first = false;
};

void declare_all(Machine& machine, bool target_first) {
  PolicyInfo policy{"/", kPolicy, "^source$", "queues", 0, {}};
  policy.definition.set("dead-letter-exchange", FieldValue::text(""));
  policy.definition.set("dead-letter-routing-key", FieldValue::text("target"));
  bool done = false;
  machine.management().put_policy(policy, false, [&done](auto d) { done = d.has_value(); });
  machine.run();
  ASSERT_TRUE(done);
  machine.declare(target_first ? "target" : "source");
  machine.declare(target_first ? "source" : "target");
  machine.publish("source");
}

/// With a message in `source`, and rejected there up to the n-th call. False: it came to its end.
bool crash_while_moving(const MachineDisk& before, const Arrangement& arrangement, uint64_t n,
                        MachineDisk& out) {
  out = before.copy();
  Machine machine(out, arrangement.shards);
  EXPECT_TRUE(machine.start());
  machine.run();
  out.files->crash_at(n);
  machine.get("source", GetMode::reject_requeue_false);
  machine.run();
  return out.files->crashed();
}

/// The start at which the source finds no dead-letter exchange, with a crash at its m-th call, and
/// the start after that. False: the first of them came to its end.
bool crash_while_recovering(const MachineDisk& moved, const Arrangement& arrangement, uint64_t m,
                            FaultyFileSystem::Survives way) {
  MachineDisk disk = moved.copy();
  disk.files->crash_at(m);
  {
    Machine machine(disk, arrangement.shards);
    if (machine.start()) machine.run();
  }
  const bool crashed = disk.files->crashed();
  disk.files->reboot(way, static_cast<uint32_t>(m));
  Machine machine(disk, arrangement.shards);
  EXPECT_TRUE(machine.start());
  machine.run();
  EXPECT_EQ(machine.ready("source") + machine.ready("target"), 1u)
      << machine.ready("source") << " in the source, " << machine.ready("target")
      << " in the target; crash at call " << m << " of the start, way " << static_cast<int>(way);
  return crashed;
}

uint64_t crash_everywhere(const Arrangement& arrangement) {
  MachineDisk before{std::make_unique<FaultyFileSystem>(), {}};
  EXPECT_FALSE(before.files->make_directory("/d") || before.files->sync_directory("/"));
  {
    Machine machine(before, arrangement.shards);
    EXPECT_TRUE(machine.start());
    declare_all(machine, arrangement.target_first);
  }
  before.files->reboot(FaultyFileSystem::Survives::everything, 1);
  uint64_t points = 0;
  bool moving = true;
  for (uint64_t n = 1; moving && !testing::Test::HasFailure(); ++n) {
    MachineDisk moved;
    moving = crash_while_moving(before, arrangement, n, moved);
    moved.files->reboot(FaultyFileSystem::Survives::everything, static_cast<uint32_t>(n));
    // The operator's last deed was to delete the policy.
    moved.definitions.values.erase(definition::policy_key("/", kPolicy, false));
    bool recovering = true;
    for (uint64_t m = 1; recovering && !testing::Test::HasFailure(); ++m) {
      for (auto way : FaultyFileSystem::kAllWays) {
        ++points;
        recovering = crash_while_recovering(moved, arrangement, m, way);
      }
    }
  }
  return points;
}

TEST(MoveRecovery, AMoveIsClosedOnlyOnceTheDropOfItsSourceIsDurable) {
  (void)set_log_level("off");
  uint64_t points = 0;
  for (const Arrangement& arrangement :
       {Arrangement{{1, false}, false}, Arrangement{{1, false}, true},
        Arrangement{{2, false}, false}, Arrangement{{2, true}, false},
        Arrangement{{2, false}, true}}) {
    points += crash_everywhere(arrangement);
  }
  std::printf("half-done moves without a dead-letter exchange: %llu crash points\n",
              static_cast<unsigned long long>(points));
  EXPECT_GT(points, 100u);
}

}  // namespace
}  // namespace tarry::sim
