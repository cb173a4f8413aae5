#include "storage/look_ups.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

TEST(LookUps, EachOfSeveralRunsGoesAheadWithItsOwnPlace) {
  LookUps look_ups;
  EXPECT_EQ(look_ups.before(5).offset, 0u);
  constexpr uint32_t kBytes = 50, kSteps = 5000;
  const uint32_t begins[] = {100, 20'000, 60'000, 5'000};
  for (uint32_t begin : begins) look_ups.keep({}, {begin, begin * kBytes});
  for (uint32_t step = 1; step <= kSteps; ++step) {
    for (uint32_t begin : begins) {
      const LookUps::Place from = look_ups.before(begin + step);
      EXPECT_EQ(from.ordinal, begin + step - 1);
      EXPECT_EQ(from.offset, from.ordinal * kBytes);
      look_ups.keep(from, {begin + step, (begin + step) * kBytes});
    }
  }
}

TEST(LookUps, OneThatComesFromFarLeavesThePlaceThatItCameFrom) {
  LookUps look_ups;
  look_ups.keep({}, {10, 1'000});
  look_ups.keep(look_ups.before(9'000), {9'000, 900'000});
  EXPECT_EQ(look_ups.before(8'999).ordinal, 10u);
  EXPECT_EQ(look_ups.before(9'001).ordinal, 9'000u);
  look_ups.clear();
  EXPECT_EQ(look_ups.before(9'001).offset, 0u);
}

}  // namespace
}  // namespace tarry
