#include "tarrymq/runtime/clock.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

TEST(Clock, Rule23_InstantsAreRoundedUpForADelayAndDownForNow) {
  EXPECT_EQ(WallTime{5'000'000}.floor_ms(), 5u);
  EXPECT_EQ(WallTime{5'000'000}.ceil_ms(), 5u);
  EXPECT_EQ(WallTime{5'000'001}.floor_ms(), 5u);
  EXPECT_EQ(WallTime{5'000'001}.ceil_ms(), 6u);
  EXPECT_EQ(WallTime{5'999'999}.floor_ms(), 5u);
  EXPECT_EQ(WallTime{5'999'999}.ceil_ms(), 6u);
  EXPECT_EQ(WallTime::from_ms(6).ns, 6'000'000);
  EXPECT_EQ(WallTime{}.ceil_ms(), 0u);
}

TEST(Clock, Rule29_AStepOfTheSystemClockMovesNoBrokerTime) {
  ManualClock clock;
  const auto wall = clock.wall_now();
  const auto steady = clock.steady_now();
  clock.step_system_ms(-3'600'000);
  EXPECT_EQ(clock.wall_now(), wall);
  EXPECT_EQ(clock.steady_now(), steady);
  EXPECT_EQ(clock.system_now().ns, wall.ns - 3'600'000'000'000);
  clock.advance_ms(10);
  EXPECT_EQ(clock.wall_now().ns, wall.ns + 10'000'000);
  EXPECT_EQ(clock.steady_now().ns, steady.ns + 10'000'000);
}

TEST(Clock, SystemClockRunsForwardAndAddsItsOffset) {
  SystemClock plain;
  EXPECT_LT(std::abs(plain.offset_ns()), 1'000'000'000);
  SystemClock shifted(-7'200'000'000'000);
  EXPECT_NEAR(static_cast<double>(shifted.offset_ns()), -7.2e12, 1e9);
  auto before = plain.wall_now();
  for (int i = 0; i < 1000; ++i) {
    auto now = plain.wall_now();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, BrokerTimeStartsNoEarlierThanTheLastRunEnded) {
  const WallTime future{SystemClock().system_now().ns + 86'400'000'000'000};
  SystemClock clock(0, future);
  EXPECT_GE(clock.wall_now(), future);
  EXPECT_GT(clock.offset_ns(), 86'000'000'000'000);
}

}  // namespace
}  // namespace tarry
