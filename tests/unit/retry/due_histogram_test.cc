#include "tarrymq/retry/due_histogram.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tarry {
namespace {

TEST(DueHistogramTest, Rule37_ThePlaceOfEachRankAgreesWithASortedList) {
  DueHistogram histogram;
  std::multiset<uint64_t> model;
  std::mt19937_64 random(3);
  for (int step = 0; step < 20'000; ++step) {
    if (model.empty() || random() % 3 != 0) {
      const uint64_t due =
          1'000'000 + (random() % 4 == 0 ? random() % 100'000'000 : random() % 3000);
      histogram.add(due);
      model.insert(due);
    } else {
      auto at = model.begin();
      std::advance(at, static_cast<ptrdiff_t>(random() % std::min<size_t>(model.size(), 50)));
      histogram.remove(*at);
      model.erase(at);
    }
  }
  ASSERT_EQ(histogram.count(), model.size());
  const std::vector<uint64_t> sorted(model.begin(), model.end());
  for (size_t rank = 0; rank < sorted.size(); rank += 97) {
    const auto place = histogram.find(rank);
    const auto from = std::lower_bound(sorted.begin(), sorted.end(), place.due_ms);
    EXPECT_EQ(static_cast<size_t>(from - sorted.begin()) + place.skip, rank);
    const auto below = histogram.below(sorted[rank]);
    EXPECT_EQ(below.before,
              static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), below.start_ms) -
                                  sorted.begin()));
  }
  uint64_t sum = 0, last = 0;
  for (const auto& row : histogram.rows(20)) {
    EXPECT_GE(row.from_ms, last);
    EXPECT_EQ(row.count, std::distance(std::lower_bound(sorted.begin(), sorted.end(), row.from_ms),
                                       std::lower_bound(sorted.begin(), sorted.end(), row.to_ms)));
    last = row.to_ms;
    sum += row.count;
  }
  EXPECT_EQ(sum, model.size());
  EXPECT_LE(histogram.rows(20).size(), 20u);
}

TEST(DueHistogramTest, BucketsStayFewAndAreFineAgainOnceNothingWaits) {
  DueHistogram histogram;
  for (uint64_t i = 0; i < 100'000; ++i) histogram.add(i * 10);
  EXPECT_GT(histogram.width_ms(), 1u);
  for (uint64_t rank : {0u, 1u, 50'000u, 99'999u}) EXPECT_LE(histogram.find(rank).skip, 100u);
  for (uint64_t i = 0; i < 100'000; ++i) histogram.remove(i * 10);
  EXPECT_EQ(histogram.width_ms(), 1u);
  EXPECT_TRUE(histogram.rows(5).empty());
}

}  // namespace
}  // namespace tarry
