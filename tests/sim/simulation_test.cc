// Deterministic simulation of the whole broker but its sockets: shards, sessions, queues, storage,
// dead letters, recovery. Clients publish, consume, get, settle by ack, nack, reject and amq.retry,
// run transactions, purge, unbind and bind, declare and delete; operators redrive and act on what
// waits; queues are durable or not, with every kind of retry (sim_topology.cc); the broker crashes
// and restarts. A model (sim_model.h) says what may be seen.
//
//     sim_test                              the seeds of the test run (200), by GoogleTest
//     sim_test --seed N                     one seed, with all that its clients see
//     sim_test --seeds N [--from M]         seeds M .. M+N-1, one line each hundred; stops at the
//     first that fails
//
// A failing seed prints itself; the same seed does the same again.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/sim_world.h"
#include "tarrymq/runtime/log.h"

namespace tarry::sim {
namespace {

constexpr uint64_t kSeedsATest = 25;

std::string report(uint64_t seed, const Outcome& outcome) {
  std::string text =
      "seed " + std::to_string(seed) + " fails at step " + std::to_string(outcome.steps) + ":\n";
  for (const auto& fault : outcome.faults) text += "  " + fault + "\n";
  return text + "again: sim_test --seed " + std::to_string(seed);
}

Outcome run_seed(uint64_t seed, bool verbose = false) { return SimWorld(seed, verbose).run(); }

class Simulation : public testing::TestWithParam<uint64_t> {};

TEST_P(Simulation, NothingIsLostDoubledEarlyOrForgotten) {
  (void)set_log_level("off");  // damage is reported at each crash
  uint64_t retries = 0, deaths = 0, crashes = 0, recycled = 0;
  for (uint64_t seed = GetParam(); seed < GetParam() + kSeedsATest; ++seed) {
    Outcome outcome = run_seed(seed);
    ASSERT_TRUE(outcome.faults.empty()) << report(seed, outcome);
    retries += outcome.retries;
    deaths += outcome.deaths;
    crashes += outcome.crashes;
    recycled += outcome.recycled;
  }
  // It does what it is for.
  EXPECT_GT(retries, 100u);
  EXPECT_GT(deaths, 50u);
  EXPECT_GT(crashes, 5u);
  EXPECT_GT(recycled, 5u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Simulation, testing::Range<uint64_t>(1, 201, kSeedsATest));

TEST(SimulationItself, TheSameSeedDoesTheSameAgain) {
  (void)set_log_level("off");
  for (uint64_t seed : {7, 8}) {
    Outcome first = run_seed(seed), second = run_seed(seed);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(first.trace_hash, 0u);
  }
}

int run_many(uint64_t from, uint64_t count) {
  (void)set_log_level("off");
  uint64_t deliveries = 0, retries = 0, deaths = 0, crashes = 0, recycled = 0;
  for (uint64_t seed = from; seed < from + count; ++seed) {
    Outcome outcome = run_seed(seed);
    if (!outcome.faults.empty()) {
      std::printf("%s\n", report(seed, outcome).c_str());
      return 1;
    }
    deliveries += outcome.deliveries;
    retries += outcome.retries;
    deaths += outcome.deaths;
    crashes += outcome.crashes;
    recycled += outcome.recycled;
    if ((seed - from) % 100 == 99 || seed + 1 == from + count) {
      std::printf(
          "%llu seeds: %llu deliveries, %llu retries, %llu dead letters, %llu crashes, "
          "%llu files written over\n",
          static_cast<unsigned long long>(seed + 1 - from),
          static_cast<unsigned long long>(deliveries), static_cast<unsigned long long>(retries),
          static_cast<unsigned long long>(deaths), static_cast<unsigned long long>(crashes),
          static_cast<unsigned long long>(recycled));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tarry::sim

int main(int argc, char** argv) {
  uint64_t seed = 0, seeds = 0, from = 1;
  for (int i = 1; i + 1 < argc; ++i) {
    if (!std::strcmp(argv[i], "--seed")) seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--seeds")) seeds = std::strtoull(argv[i + 1], nullptr, 10);
    if (!std::strcmp(argv[i], "--from")) from = std::strtoull(argv[i + 1], nullptr, 10);
  }
  if (seeds > 0) return tarry::sim::run_many(from, seeds);
  if (seed > 0) {
    (void)tarry::set_log_level("off");
    tarry::sim::Outcome outcome = tarry::sim::run_seed(seed, true);
    if (!outcome.faults.empty()) std::printf("%s\n", tarry::sim::report(seed, outcome).c_str());
    return outcome.faults.empty() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
