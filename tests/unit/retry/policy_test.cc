#include "tarrymq/retry/policy.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace tarry {
namespace {

// 128 bits hold every product of a capped delay and a 64-bit factor.
__extension__ using Wide = unsigned __int128;

RetrySettings settings(uint64_t min, std::optional<uint64_t> multiplier,
                       std::optional<uint64_t> max) {
  RetrySettings out;
  out.min_ms = min;
  out.multiplier = multiplier;
  out.max_ms = max;
  return out;
}

/// The rule as written: the full value with 128 bits, then the caps.
uint64_t by_the_book(const RetrySettings& s, uint64_t n) {
  const Wide ceiling = Wide{1} << 100;  // far above every cap, far below overflow
  Wide delay = s.min_ms;
  if (!s.multiplier) {
    delay = Wide{s.min_ms} * n;
  } else if (*s.multiplier >= 2) {
    for (uint64_t i = 1; i < n && delay < (Wide{1} << 36); ++i) delay *= *s.multiplier;
  }
  if (delay > ceiling) delay = ceiling;
  if (s.max_ms && delay > *s.max_ms) delay = *s.max_ms;
  if (delay > kDelayMsMax) delay = kDelayMsMax;
  return static_cast<uint64_t>(delay);
}

std::vector<uint64_t> schedule(const RetrySettings& s, uint64_t count) {
  std::vector<uint64_t> delays;
  for (uint64_t n = 1; n <= count; ++n) delays.push_back(retry_delay_ms(s, n));
  return delays;
}

TEST(RetryPolicy, Rule1_TheExampleOfTheSpec) {
  EXPECT_EQ(schedule(settings(500, 2, 30'000), 8),
            (std::vector<uint64_t>{500, 1000, 2000, 4000, 8000, 16'000, 30'000, 30'000}));
}

TEST(RetryPolicy, Rule1_WithoutMultiplierTheDelayGrowsLinearly) {
  EXPECT_EQ(schedule(settings(500, {}, {}), 4), (std::vector<uint64_t>{500, 1000, 1500, 2000}));
  EXPECT_EQ(schedule(settings(500, {}, 1200), 4), (std::vector<uint64_t>{500, 1000, 1200, 1200}));
}

TEST(RetryPolicy, Rule1_MultiplierOneIsConstant) {
  EXPECT_EQ(schedule(settings(700, 1, {}), 3), (std::vector<uint64_t>{700, 700, 700}));
  EXPECT_EQ(retry_delay_ms(settings(700, 1, {}), UINT64_MAX), 700u);
}

TEST(RetryPolicy, Rule2_MaxBelowMinCapsEveryDelay) {
  EXPECT_EQ(schedule(settings(5000, 3, 100), 3), (std::vector<uint64_t>{100, 100, 100}));
  EXPECT_EQ(retry_delay_ms(settings(5000, {}, 1), 1), 1u);
  EXPECT_EQ(retry_delay_ms(settings(5000, 1, 100), 9), 100u);
}

TEST(RetryPolicy, Rule2_NothingPassesTheUInt32Cap) {
  EXPECT_EQ(retry_delay_ms(settings(kDelayMsMax, {}, {}), 1), kDelayMsMax);
  EXPECT_EQ(retry_delay_ms(settings(kDelayMsMax, {}, {}), 2), kDelayMsMax);
  EXPECT_EQ(retry_delay_ms(settings(kDelayMsMax + 1, 1, UINT64_MAX), 1), kDelayMsMax);
  EXPECT_EQ(retry_delay_ms(settings(INT64_MAX, INT64_MAX, INT64_MAX), 1), kDelayMsMax);
  EXPECT_EQ(retry_delay_ms(settings(1, 2, {}), 32), uint64_t{1} << 31);
  EXPECT_EQ(retry_delay_ms(settings(1, 2, {}), 33), kDelayMsMax);
  EXPECT_EQ(retry_delay_ms(settings(1, 65536, {}), 3), kDelayMsMax);  // 2^32: one above the cap
}

TEST(RetryPolicy, Rule2_SaturatesForEveryBorder) {
  const std::vector<uint64_t> borders = {1,
                                         2,
                                         3,
                                         255,
                                         65'535,
                                         65'536,
                                         (1ull << 31) - 1,
                                         1ull << 31,
                                         (1ull << 32) - 1,
                                         1ull << 32,
                                         (1ull << 32) + 1,
                                         1ull << 62,
                                         (1ull << 63) - 1,
                                         1ull << 63,
                                         UINT64_MAX};
  for (uint64_t min : borders) {
    for (uint64_t multiplier : borders) {
      for (uint64_t max : borders) {
        for (uint64_t n : borders) {
          for (auto s : {settings(min, multiplier, max), settings(min, {}, max),
                         settings(min, multiplier, {}), settings(min, {}, {})}) {
            ASSERT_EQ(retry_delay_ms(s, n), by_the_book(s, n))
                << min << " " << multiplier << " " << max << " " << n;
          }
        }
      }
    }
  }
}

TEST(RetryPolicy, Rule2_AgreesWith128BitArithmeticOverRandomValues) {
  std::mt19937_64 random(20'240'601);
  auto draw = [&] { return std::max<uint64_t>(1, random() >> (random() % 64)); };
  for (int i = 0; i < 200'000; ++i) {
    RetrySettings s = settings(draw(), {}, {});
    if (random() % 4) s.multiplier = draw();
    if (random() % 2) s.max_ms = draw();
    const uint64_t n = draw();
    ASSERT_EQ(retry_delay_ms(s, n), by_the_book(s, n))
        << s.min_ms << " " << s.multiplier.value_or(0) << " " << s.max_ms.value_or(0) << " " << n;
  }
}

TEST(RetryPolicy, DelaysNeverFallAsTheCounterGrows) {
  for (auto s : {settings(3, 2, {}), settings(7, {}, 1000), settings(1, 3, 100'000)}) {
    auto delays = schedule(s, 100);
    EXPECT_TRUE(std::is_sorted(delays.begin(), delays.end()));
  }
}

TEST(RetryPolicy, Rule33_JitterStaysInItsRangeAndReachesBothEnds) {
  RetrySettings s = settings(100, 1, {});
  EXPECT_EQ(jittered_delay_ms(s, 100, 12345), 100u);  // none declared
  s.jitter_percent = 20;
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t random = 0; random < 1000; ++random) {
    const uint64_t delay = jittered_delay_ms(s, 100, random);
    low = std::min(low, delay);
    high = std::max(high, delay);
  }
  EXPECT_EQ(low, 80u);
  EXPECT_EQ(high, 120u);
  s.jitter_percent = 100;
  EXPECT_EQ(jittered_delay_ms(s, 100, 0), 1u);  // never 0
  s.max_ms = 110;
  EXPECT_EQ(jittered_delay_ms(s, 100, 200), 110u);
  s.max_ms.reset();
  EXPECT_EQ(jittered_delay_ms(s, kDelayMsMax, 2 * kDelayMsMax), kDelayMsMax);
}

TEST(RetryPolicy, Rule33_EveryDelayOfTheRangeIsAsLikely) {
  RetrySettings s = settings(10, 1, {});
  s.jitter_percent = 50;
  std::map<uint64_t, int> seen;
  for (uint64_t random = 0; random < 11 * 7; ++random) ++seen[jittered_delay_ms(s, 10, random)];
  ASSERT_EQ(seen.size(), 11u);
  for (const auto& [delay, count] : seen) EXPECT_EQ(count, 7) << delay;
}

TEST(RetryPolicy, Rule2_DueSaturates) {
  EXPECT_EQ(due_after(1000, 500), 1500u);
  EXPECT_EQ(due_after(UINT64_MAX - 5, 5), UINT64_MAX);
  EXPECT_EQ(due_after(UINT64_MAX - 5, 6), UINT64_MAX);
  EXPECT_EQ(due_after(UINT64_MAX, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(due_after(0, 0), 0u);
}

}  // namespace
}  // namespace tarry
