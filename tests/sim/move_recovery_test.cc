// A dead letter whose move a crash interrupted, and whose source has no dead-letter exchange any
// more at the start after it: the source drops its copy then, and the target forgets the move only
// once that drop is durable. A crash at every call of that start, with all that a disk may show
// after it: the message is in one place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "broker/definition_codec.h"
#include "sim/sim_disk.h"
#include "storage/store_impl.h"
#include "support/faulty_file_system.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/as_shard.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry::sim {
namespace {

constexpr const char* kPolicy = "letters";

/// What of it a crash leaves.
struct Disk {
  std::unique_ptr<FaultyFileSystem> files;
  DefinitionDisk definitions;
  Disk copy() const { return {files->clone(), definitions}; }
};

/// In which order a round goes through the shards, and where source and target lie.
struct Arrangement {
  size_t shards = 1;
  bool target_first = false, backwards = false;
};

/// A broker without clients, driven by hand.
class Machine {
 public:
  Machine(Disk& disk, const Arrangement& arrangement) : disk_(disk), arrangement_(arrangement) {}
  ~Machine() {
    if (definitions_) definitions_->crash(random_);
    broker_.reset();
    shards_.clear();
    store_.reset();
  }

  /// False: it crashed meanwhile.
  bool start() {
    StoreOptions options;
    options.data_dir = "/d";
    auto store = open_manual_store(options, *disk_.files);
    if (!store) return false;
    store_ = std::move(*store);
    auto run = [impl = &store_->impl()](Task task) { impl->store_thread.run(std::move(task)); };
    auto definitions = std::make_unique<SimDefinitionStore>(disk_.definitions, run);
    definitions_ = definitions.get();
    store_->impl().definitions = std::move(definitions);
    store_->impl().due = make_due_store(std::make_unique<SimDueTable>(), run);
    std::vector<Shard*> shards;
    for (size_t i = 0; i < arrangement_.shards; ++i) {
      shards_.push_back(std::make_unique<Shard>(ShardId(static_cast<uint16_t>(i)), clock_));
      shards.push_back(shards_.back().get());
    }
    BrokerOptions broker_options;
    broker_options.shards_share_thread = true;
    broker_options.stop_timeout_ms = 0;
    auto broker = Broker::open(broker_options, *store_, clock_, shards);
    EXPECT_TRUE(broker);
    broker_ = std::move(*broker);
    EXPECT_TRUE(broker_->start() || disk_.files->crashed());
    return !disk_.files->crashed();
  }

  /// Until nothing happens, or it crashes.
  void run() {
    for (int round = 0; round < 12; ++round) {
      for (int i = 0, quiet = 0; i < 1000 && quiet < 4; ++i) {
        bool any = false;
        for (size_t n = 0; n < shards_.size(); ++n) {
          const size_t at = arrangement_.backwards ? shards_.size() - 1 - n : n;
          any = shards_[at]->run_turn_for_test() || any;
        }
        any = store_->impl().store_thread.run_queued() || any;
        any = store_->impl().barrier->run_round(true) || any;
        if (disk_.files->crashed()) return;
        quiet = any ? 0 : quiet + 1;
      }
      clock_.advance_ms(50);
    }
  }

  void declare_all() {
    Management& management = broker_->management();
    PolicyInfo policy{"/", kPolicy, "^source$", "queues", 0, {}};
    policy.definition.set("dead-letter-exchange", FieldValue::text(""));
    policy.definition.set("dead-letter-routing-key", FieldValue::text("target"));
    management.put_policy(policy, false, [this](auto done) { answers_ += done ? 1 : 0; });
    run();
    const char* names[] = {"source", "target"};
    if (arrangement_.target_first) std::swap(names[0], names[1]);
    for (const char* name : names) {
      QueueDeclare declare;
      declare.name = name;
      declare.durable = true;
      management.declare_queue(login_, "/", declare, [this](auto d) { answers_ += d ? 1 : 0; });
      run();
    }
    PropertiesBuilder properties;
    properties.delivery_mode = 2;
    management.publish(login_, {"/", "", "source", properties.build(5), "hello"},
                       [this](auto done) { answers_ += done ? 1 : 0; });
    run();
    ASSERT_EQ(answers_, 4);
  }
  void reject() {
    broker_->management().get_messages(login_, "/", "source", 1, GetMode::reject_requeue_false,
                                       [](auto) {});
    run();
  }
  uint64_t ready(const char* queue) const {
    auto info = broker_->management().queue("/", queue);
    return info ? info->numbers.ready : 1000;
  }

 private:
  Disk& disk_;
  const Arrangement arrangement_;
  Random random_{1};
  const Login login_{"guest"};
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  SimDefinitionStore* definitions_ = nullptr;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Broker> broker_;
  int answers_ = 0;
};

/// With a message in `source`, and rejected there up to the n-th call. False: it came to its end.
bool crash_while_moving(const Disk& before, const Arrangement& arrangement, uint64_t n, Disk& out) {
  out = before.copy();
  Machine machine(out, arrangement);
  EXPECT_TRUE(machine.start());
  machine.run();
  out.files->crash_at(n);
  machine.reject();
  return out.files->crashed();
}

/// The start at which the source finds no dead-letter exchange, with a crash at its m-th call, and
/// the start after that. False: the first of them came to its end.
bool crash_while_recovering(const Disk& moved, const Arrangement& arrangement, uint64_t m,
                            FaultyFileSystem::Survives way) {
  Disk disk = moved.copy();
  disk.files->crash_at(m);
  {
    Machine machine(disk, arrangement);
    if (machine.start()) machine.run();
  }
  const bool crashed = disk.files->crashed();
  disk.files->reboot(way, static_cast<uint32_t>(m));
  Machine machine(disk, arrangement);
  EXPECT_TRUE(machine.start());
  machine.run();
  EXPECT_EQ(machine.ready("source") + machine.ready("target"), 1u)
      << machine.ready("source") << " in the source, " << machine.ready("target")
      << " in the target; crash at call " << m << " of the start, way " << static_cast<int>(way);
  return crashed;
}

uint64_t crash_everywhere(const Arrangement& arrangement) {
  Disk before{std::make_unique<FaultyFileSystem>(), {}};
  EXPECT_FALSE(before.files->make_directory("/d") || before.files->sync_directory("/"));
  {
    Machine machine(before, arrangement);
    EXPECT_TRUE(machine.start());
    machine.declare_all();
  }
  before.files->reboot(FaultyFileSystem::Survives::everything, 1);
  uint64_t points = 0;
  bool moving = true;
  for (uint64_t n = 1; moving && !testing::Test::HasFailure(); ++n) {
    Disk moved;
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
       {Arrangement{1, false, false}, Arrangement{1, true, false}, Arrangement{2, false, false},
        Arrangement{2, false, true}, Arrangement{2, true, false}}) {
    points += crash_everywhere(arrangement);
  }
  std::printf("half-done moves without a dead-letter exchange: %llu crash points\n",
              static_cast<unsigned long long>(points));
  EXPECT_GT(points, 100u);
}

}  // namespace
}  // namespace tarry::sim
