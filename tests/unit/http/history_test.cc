#include "http/history.h"

#include <gtest/gtest.h>

namespace tarry::http {
namespace {

/// One thing with one value, by a clock that the test moves.
class History : public ::testing::Test {
 protected:
  History() {
    clock.advance_ms(HistoryBook::kRoundMs -
                     clock.steady_now().ns / 1'000'000 % HistoryBook::kRoundMs);
  }
  void round(int64_t found, Keep keep = Keep::day) {
    book.begin_round(clock.steady_now());
    book.record("q", std::span(&found, 1), keep);
    book.end_round();
  }
  void rounds(int count, int64_t step, Keep keep = Keep::day) {
    for (int i = 0; i < count; ++i) {
      clock.advance_ms(HistoryBook::kRoundMs);
      round(value += step, keep);
    }
  }
  HistoryBook::View look(int64_t now_value) {
    return book.look("q", std::span(&now_value, 1), clock.steady_now());
  }
  std::vector<int64_t> samples(HistoryRange range) {
    std::vector<int64_t> out;
    for (const auto& sample : look(value).samples(0, range)) out.push_back(sample.value);
    return out;
  }

  ManualClock clock;
  HistoryBook book;
  int64_t value = 0;
};

TEST_F(History, ANewThingHasNoRateUntilASecondHasPassed) {
  EXPECT_EQ(look(1000).rate(0), 0);
  clock.advance_ms(999);
  EXPECT_EQ(look(1500).rate(0), 0);
  clock.advance_ms(1001);
  EXPECT_EQ(look(1500).rate(0), 250);
}

TEST_F(History, TheRateIsOverTheTimeSinceTheLastRoundThatIsASecondOld) {
  rounds(3, 0);
  clock.advance_ms(2000);
  EXPECT_EQ(look(100).rate(0), 50);
  clock.advance_ms(3000);
  round(value = 100);
  clock.advance_ms(500);  // the last round is too near: the one before it
  EXPECT_NEAR(look(155).rate(0), 155 / 5.5, 0.001);
}

TEST_F(History, ARoundBetweenTheMarksCountsFromWhenItWas) {
  rounds(1, 0);
  clock.advance_ms(2000);
  rounds(1, 0);  // 2 s behind its mark
  clock.advance_ms(1000);
  EXPECT_EQ(look(100).rate(0), 100);
}

TEST_F(History, AGaugeThatShrinksHasANegativeRate) {
  rounds(2, 100);
  clock.advance_ms(2000);
  EXPECT_EQ(look(100).rate(0), -50);
}

TEST_F(History, SamplesGoBackFromTheLastRound) {
  rounds(4, 10);
  EXPECT_EQ(samples({15, 5}), (std::vector<int64_t>{40, 30, 20, 10}));
  EXPECT_EQ(samples({20, 10}),
            (std::vector<int64_t>{40, 20, 10}));  // before its time: its first value
  EXPECT_TRUE(samples({}).empty());
}

TEST_F(History, ARoundThatComesLateMovesNoSample) {
  rounds(1, 10);
  for (const int late_ms : {30, -20, 100}) {
    clock.advance_ms(HistoryBook::kRoundMs + late_ms);
    round(value += 10);
    clock.advance_ms(-late_ms);
  }
  EXPECT_EQ(samples({15, 5}), (std::vector<int64_t>{40, 30, 20, 10}));
}

TEST_F(History, WhatDoesNotChangeIsNotKept) {
  rounds(10, 0);
  EXPECT_EQ(book.kept_changes(), 0u);
  EXPECT_EQ(samples({10, 5}), (std::vector<int64_t>{0, 0, 0}));
  rounds(1, 7);
  rounds(5, 0);
  EXPECT_EQ(book.kept_changes(), 2u);
  EXPECT_EQ(samples({30, 5}), (std::vector<int64_t>{7, 7, 7, 7, 7, 7, 0}));
}

TEST_F(History, OldSamplesAreThinned) {
  rounds(720 * 2, 1);  // two hours
  EXPECT_LT(book.kept_changes(), 122u + 62 + 14 + 12);
  EXPECT_EQ(samples({600, 5}).size(), 121u);
  EXPECT_EQ(samples({10, 5}), (std::vector<int64_t>{1440, 1439, 1438}));
  for (const HistoryRange range : {HistoryRange{3600, 60}, HistoryRange{6600, 600}}) {
    const auto found = samples(range);
    for (size_t i = 1; i < found.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(found[i - 1] - found[i]), range.incr_s / 5, range.incr_s / 5)
          << i;
    }
    EXPECT_NEAR(static_cast<double>(found.back()), 1440 - range.age_s / 5, 120);
  }
}

TEST_F(History, AThingOfMinutesForgetsWhatIsOlder) {
  rounds(720, 1, Keep::minutes);
  EXPECT_LT(book.kept_changes(), 140u);
}

TEST_F(History, WhatIsGoneIsForgotten) {
  rounds(2, 1);
  EXPECT_EQ(book.size(), 1u);
  book.begin_round(clock.steady_now());
  book.end_round();
  EXPECT_EQ(book.size(), 0u);
}

TEST_F(History, WhatWasOnlyLookedAtSurvivesOneRound) {
  (void)look(1);
  book.begin_round(clock.steady_now());
  book.end_round();
  EXPECT_EQ(book.size(), 1u);
  book.begin_round(clock.steady_now());
  book.end_round();
  EXPECT_EQ(book.size(), 0u);
}

}  // namespace
}  // namespace tarry::http
