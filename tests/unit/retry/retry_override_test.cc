#include "tarrymq/retry/retry_override.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

std::string complaint(std::string_view key, ArgumentValue value) {
  RetryOverride out;
  auto set = set_retry_value(out, key, value);
  return set ? "" : set.error();
}
ArgumentValue word(std::string what) {
  OtherArgument other;
  other.what = std::move(what);
  return other;
}

TEST(RetryOverride, Rule36_EachKeyHasTheRangeOfItsArgument) {
  EXPECT_EQ(complaint("min", int64_t{1}), "");
  EXPECT_EQ(complaint("min", int64_t{0}),
            "min: it was 0, allowed is an integer >= 1 (milliseconds)");
  EXPECT_EQ(complaint("multiplier", int64_t{0}),
            "multiplier: it was 0, allowed is an integer >= 1");
  EXPECT_EQ(complaint("max", int64_t{-5}),
            "max: it was -5, allowed is an integer >= 1 (milliseconds)");
  EXPECT_EQ(complaint("limit", int64_t{0}), "");
  EXPECT_EQ(complaint("limit", int64_t{-1}), "limit: it was -1, allowed is an integer >= 0");
  EXPECT_EQ(complaint("jitter", int64_t{101}),
            "jitter: it was 101, allowed is an integer from 0 to 100 (percent)");
  EXPECT_EQ(complaint("max_age", word("string \"1h\"")),
            "max_age: it was string \"1h\", allowed is an integer >= 1 (milliseconds)");
  EXPECT_EQ(complaint("type", int64_t{1}),
            "unknown key 'type': allowed are min, multiplier, max, limit, jitter and max_age");
}

TEST(RetryOverride, Rule36_WhatIsNotChangedStaysAsDeclared) {
  RetrySettings declared;
  declared.min_ms = 500;
  declared.multiplier = 2;
  declared.type = RetryType::failed;
  RetryOverride changes;
  EXPECT_TRUE(changes.empty());
  ASSERT_TRUE(set_retry_value(changes, "max", int64_t{3000}));
  ASSERT_TRUE(set_retry_value(changes, "jitter", int64_t{10}));
  EXPECT_FALSE(changes.empty());
  const RetrySettings now = with_override(declared, changes);
  EXPECT_EQ(now.min_ms, 500u);
  EXPECT_EQ(now.multiplier, 2u);
  EXPECT_EQ(now.max_ms, 3000u);
  EXPECT_EQ(now.jitter_percent, 10);
  EXPECT_EQ(now.type, RetryType::failed);
}

TEST(RetrySchedule, Rule36_TheDocumentedExample) {
  RetrySettings settings;
  settings.min_ms = 500;
  settings.multiplier = 2;
  settings.max_ms = 30'000;
  const RetrySchedule schedule = retry_schedule(settings, 5);
  EXPECT_EQ(schedule.delays_ms, (std::vector<uint64_t>{500, 1000, 2000, 4000, 8000}));
  EXPECT_EQ(schedule.total_ms, 15'500u);
  EXPECT_EQ(schedule.deliveries_max, 6u);
  EXPECT_FALSE(schedule.cut);
  EXPECT_TRUE(retry_schedule(settings, 0).delays_ms.empty());
  EXPECT_EQ(retry_schedule(settings, 0).deliveries_max, 1u);
}

TEST(RetrySchedule, Rule34_EndsWhereTheMessageIsTooOldForCertain) {
  RetrySettings settings;
  settings.min_ms = 100;
  settings.multiplier = 1;
  settings.max_age_ms = 250;
  RetrySchedule schedule = retry_schedule(settings, 20);
  EXPECT_EQ(schedule.delays_ms, (std::vector<uint64_t>{100, 100, 100}));  // at 300 ms: too old
  EXPECT_EQ(schedule.total_ms, 300u);
  EXPECT_EQ(schedule.deliveries_max, 4u);
  settings.max_age_ms = 300;  // 300 ms is not more
  EXPECT_EQ(retry_schedule(settings, 20).deliveries_max, 5u);
  settings.jitter_percent = 50;  // each may be 50 ms
  schedule = retry_schedule(settings, 20);
  EXPECT_EQ(schedule.deliveries_max, 8u);
  settings.max_age_ms = 1'000'000;
  EXPECT_EQ(retry_schedule(settings, 20).deliveries_max, 21u);
  schedule = retry_schedule(settings, 5'000'000);
  EXPECT_TRUE(schedule.cut);
}

TEST(RetrySchedule, Rule36_TheSumIsOfAllRetriesAlsoThoseBehindTheList) {
  for (std::optional<uint64_t> multiplier :
       {std::optional<uint64_t>(), std::optional<uint64_t>(1), std::optional<uint64_t>(3)}) {
    for (uint64_t max : {7ull, 4'000ull, 9'999'999ull}) {
      RetrySettings settings;
      settings.min_ms = 3;
      settings.multiplier = multiplier;
      settings.max_ms = max;
      for (uint64_t limit : {1000ull, 1001ull, 1500ull, 2501ull}) {
        uint64_t sum = 0;
        for (uint64_t n = 1; n <= limit; ++n) sum += retry_delay_ms(settings, n);
        const RetrySchedule schedule = retry_schedule(settings, limit);
        EXPECT_EQ(schedule.total_ms, sum) << max << " " << limit;
        EXPECT_EQ(schedule.delays_ms.size(), 1000u);
        EXPECT_EQ(schedule.cut, limit > 1000);
      }
    }
  }
}

TEST(RetrySchedule, Rule36_NothingOverflows) {
  RetrySettings settings;
  settings.min_ms = UINT64_MAX / 2;
  const RetrySchedule schedule = retry_schedule(settings, INT64_MAX);
  EXPECT_EQ(schedule.total_ms, UINT64_MAX);
  EXPECT_EQ(schedule.delays_ms.front(), kDelayMsMax);
  EXPECT_EQ(schedule.deliveries_max, uint64_t{1} << 63);
  settings.min_ms = 1;
  EXPECT_EQ(retry_schedule(settings, INT64_MAX).total_ms, UINT64_MAX);
}

}  // namespace
}  // namespace tarry
