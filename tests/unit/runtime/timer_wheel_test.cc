#include "tarrymq/runtime/timer_wheel.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

namespace tarry {
namespace {

constexpr SteadyTime ms(int64_t n) { return {n * 1'000'000}; }

TEST(TimerWheel, FiresAtItsTickAndNotBefore) {
  TimerWheel wheel(ms(1000));
  int fired = 0;
  Timer timer([&] { ++fired; });
  wheel.schedule(timer, ms(1500));
  wheel.advance({ms(1500).ns - 1});
  EXPECT_EQ(fired, 0);
  EXPECT_TRUE(timer.scheduled());
  wheel.advance(ms(1500));
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(timer.scheduled());
  wheel.advance(ms(9000));
  EXPECT_EQ(fired, 1);
}

TEST(TimerWheel, DueInsideATickIsRoundedUp) {
  TimerWheel wheel({0});
  int fired = 0;
  Timer timer([&] { ++fired; });
  wheel.schedule(timer, {ms(5).ns + 1});
  wheel.advance({ms(5).ns + 999'999});
  EXPECT_EQ(fired, 0);
  wheel.advance(ms(6));
  EXPECT_EQ(fired, 1);
}

TEST(TimerWheel, DueInThePastFiresInTheNextAdvanceEvenWithoutTimePassing) {
  TimerWheel wheel(ms(100));
  int fired = 0;
  Timer timer([&] { ++fired; });
  for (int64_t due : {int64_t{-5}, int64_t{0}, int64_t{99}, int64_t{100}}) {
    fired = 0;
    wheel.schedule(timer, ms(due));
    ASSERT_TRUE(wheel.next_due().has_value());
    EXPECT_LE(wheel.next_due()->ns, ms(100).ns);
    wheel.advance(ms(100));
    EXPECT_EQ(fired, 1) << due;
  }
  EXPECT_FALSE(wheel.next_due().has_value());
}

TEST(TimerWheel, ATimeBeforeTheLastOneFiresOnlyWhatIsPast) {
  TimerWheel wheel(ms(100));
  int fired = 0;
  Timer timer([&] { ++fired; });
  wheel.schedule(timer, ms(150));
  wheel.advance(ms(50));
  EXPECT_EQ(fired, 0);
  wheel.advance(ms(150));
  EXPECT_EQ(fired, 1);
}

// Every border of every level, from starts that lie on, before and behind a border themselves.
TEST(TimerWheel, CascadeBordersFireExactly) {
  std::vector<int64_t> distances;
  for (int level = 1; level <= 6; ++level) {
    const int64_t span = int64_t{1} << (6 * level);
    for (int64_t n : {span - 1, span, span + 1, 2 * span - 1, 2 * span, 63 * span, 63 * span + 1}) {
      distances.push_back(n);
    }
  }
  distances.insert(distances.end(), {1, 2, 4'294'967'295, 4'294'967'296});
  for (int64_t start : {0, 1, 63, 64, 65, 4095, 4096, 4097, 262143, 262144, 16777215}) {
    for (int64_t distance : distances) {
      TimerWheel wheel(ms(start));
      int fired = 0;
      Timer timer([&] { ++fired; });
      wheel.schedule(timer, ms(start + distance));
      // As a shard does it: from one wake-up to the next.
      int wakeups = 0;
      while (fired == 0) {
        auto next = wheel.next_due();
        ASSERT_TRUE(next.has_value());
        ASSERT_LE(next->ns, ms(start + distance).ns);
        if (next->ns < ms(start + distance).ns) {
          wheel.advance(*next);
          ASSERT_EQ(fired, 0) << start << " + " << distance;
        } else {
          wheel.advance({next->ns - 1});
          ASSERT_EQ(fired, 0) << start << " + " << distance;
          wheel.advance(*next);
          ASSERT_EQ(fired, 1) << start << " + " << distance;
        }
        ASSERT_LE(++wakeups, 8);
      }
      EXPECT_FALSE(wheel.next_due().has_value());
    }
  }
}

TEST(TimerWheel, TheFarthestInstantIsAccepted) {
  TimerWheel wheel(ms(1));
  Timer timer([] {});
  wheel.schedule(timer, {INT64_MAX});
  EXPECT_TRUE(timer.scheduled());
  ASSERT_TRUE(wheel.next_due().has_value());
  wheel.advance(ms(1'000'000'000));
  EXPECT_TRUE(timer.scheduled());
  ASSERT_TRUE(wheel.next_due().has_value());
  EXPECT_GT(wheel.next_due()->ns, ms(1'000'000'000).ns);
}

TEST(TimerWheel, CallsInOrderOfTicksAndOfSchedulingWithinOne) {
  TimerWheel wheel(ms(0));
  std::vector<int> order;
  std::vector<std::unique_ptr<Timer>> timers;
  auto add = [&](int id, int64_t due) {
    timers.push_back(std::make_unique<Timer>([&order, id] { order.push_back(id); }));
    wheel.schedule(*timers.back(), ms(due));
  };
  add(5, 70'000);
  add(1, 10);
  add(4, 5000);
  add(2, 10);
  add(3, 11);
  wheel.advance(ms(100'000));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST(TimerWheel, ReschedulingMovesATimer) {
  TimerWheel wheel(ms(0));
  int fired = 0;
  Timer timer([&] { ++fired; });
  wheel.schedule(timer, ms(10));
  wheel.schedule(timer, ms(5000));
  wheel.advance(ms(4999));
  EXPECT_EQ(fired, 0);
  wheel.schedule(timer, ms(5001));
  wheel.advance(ms(5001));
  EXPECT_EQ(fired, 1);
}

TEST(TimerWheel, ACallbackMayScheduleItselfForThePastAndAdvanceStillEnds) {
  TimerWheel wheel(ms(0));
  int fired = 0;
  Timer* self = nullptr;
  Timer timer([&] {
    ++fired;
    wheel.schedule(*self, ms(1));  // long past when called
  });
  self = &timer;
  wheel.schedule(timer, ms(1));
  wheel.advance(ms(50));
  EXPECT_EQ(fired, 1);
  wheel.advance(ms(50));
  EXPECT_EQ(fired, 2);
}

// The instant asked for is behind the wheel's position but not behind the advance's: it waits for
// the next one.
TEST(TimerWheel, WhatACallbackSchedulesWithinTheAdvanceWaitsForTheNext) {
  TimerWheel wheel(ms(0));
  std::vector<int> order;
  Timer late([&] { order.push_back(3); });
  Timer early([&] {
    order.push_back(1);
    wheel.schedule(late, ms(20));
  });
  Timer between([&] { order.push_back(2); });
  wheel.schedule(early, ms(10));
  wheel.schedule(between, ms(30));
  wheel.advance(ms(100));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  wheel.advance(ms(100));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerWheel, ACallbackMayCancelOneThatIsDueInTheSameTick) {
  TimerWheel wheel(ms(0));
  int fired = 0;
  Timer second([&] { ++fired; });
  Timer first([&] { second.cancel(); });
  wheel.schedule(first, ms(10));
  wheel.schedule(second, ms(10));
  wheel.advance(ms(10));
  EXPECT_EQ(fired, 0);
  EXPECT_FALSE(second.scheduled());
}

TEST(TimerWheel, ACallbackMayDestroyAnyTimerAndItsOwn) {
  TimerWheel wheel(ms(0));
  int fired = 0;
  std::unique_ptr<Timer> own, other;
  std::vector<int> captured(100, 7);
  other = std::make_unique<Timer>([&] { ++fired; });
  own = std::make_unique<Timer>([&own, &other, &fired, captured] {
    other.reset();
    own.reset();
    fired += captured[99];  // what was captured is still there
  });
  wheel.schedule(*own, ms(10));
  wheel.schedule(*other, ms(10));
  wheel.advance(ms(10));
  EXPECT_EQ(fired, 7);
}

TEST(TimerWheel, TimersMayOutliveTheirWheel) {
  Timer timer([] { FAIL(); });
  Timer past([] { FAIL(); });
  {
    TimerWheel wheel(ms(10));
    wheel.schedule(timer, ms(1000));
    wheel.schedule(past, ms(1));
  }
  EXPECT_FALSE(timer.scheduled());
  EXPECT_FALSE(past.scheduled());
  timer.cancel();
}

/// Random schedules, cancels and advances, also from callbacks, against a sorted map.
class TimerWheelModel {
 public:
  explicit TimerWheelModel(uint64_t seed) : random_(seed), now_ns_(pick(1, 1'000'000'000'000)) {
    wheel_ = std::make_unique<TimerWheel>(SteadyTime{now_ns_});
    for (int i = 0; i < 60; ++i) {
      timers_.push_back(std::make_unique<Timer>([this, i] { fired(i); }));
    }
  }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      const int id = static_cast<int>(pick(0, 59));
      switch (pick(0, 4)) {
        case 0:
        case 1:
          schedule(id);
          break;
        case 2:
          cancel(id);
          break;
        default:
          advance();
          break;
      }
      check_next();
    }
  }

 private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  int64_t distance_ns() {
    const int64_t magnitude = int64_t{1} << pick(0, 43);  // up to about 2.4 hours
    return pick(-magnitude / 4, magnitude);
  }
  void schedule(int id) {
    const int64_t due = now_ns_ + distance_ns();
    wheel_->schedule(*timers_[id], {due});
    due_[id] = due;
  }
  void cancel(int id) {
    timers_[id]->cancel();
    due_.erase(id);
    EXPECT_FALSE(timers_[id]->scheduled());
  }
  void fired(int id) {
    ASSERT_TRUE(due_.count(id)) << "fired twice or after a cancel";
    ASSERT_LE(due_[id], target_ns_) << "early";
    ASSERT_FALSE(scheduled_within_.count(id)) << "belongs into the next advance";
    const int64_t tick_ns = std::max((due_[id] + 999'999) / 1'000'000 * 1'000'000, now_ns_);
    ASSERT_GE(tick_ns, last_tick_ns_) << "out of order";
    last_tick_ns_ = tick_ns;
    due_.erase(id);
    if (pick(0, 3) == 0) {
      const int other = static_cast<int>(pick(0, 59));
      if (pick(0, 1)) {
        schedule(other);
        if (due_[other] <= target_ns_ / 1'000'000 * 1'000'000)
          scheduled_within_.insert(other);
        else
          scheduled_within_.erase(other);
      } else {
        cancel(other);
        scheduled_within_.erase(other);
      }
    }
  }
  void advance() {
    target_ns_ = now_ns_ + std::max<int64_t>(0, distance_ns());
    last_tick_ns_ = 0;
    scheduled_within_.clear();
    wheel_->advance({target_ns_});
    now_ns_ = target_ns_;
    for (auto& [id, due] : due_) {
      const int64_t tick_ns = (due + 999'999) / 1'000'000 * 1'000'000;
      ASSERT_TRUE(tick_ns > now_ns_ || scheduled_within_.count(id)) << "missed by an advance";
    }
  }
  void check_next() {
    auto next = wheel_->next_due();
    ASSERT_EQ(next.has_value(), !due_.empty());
    for (auto& [id, due] : due_) {
      const int64_t tick_ns = (std::max<int64_t>(due, 0) + 999'999) / 1'000'000 * 1'000'000;
      ASSERT_LE(next->ns, std::max(tick_ns, now_ns_)) << "would wake too late";
      ASSERT_TRUE(timers_[id]->scheduled());
    }
  }

  std::mt19937_64 random_;
  int64_t now_ns_;
  int64_t target_ns_ = 0;
  int64_t last_tick_ns_ = 0;
  std::unique_ptr<TimerWheel> wheel_;
  std::vector<std::unique_ptr<Timer>> timers_;
  std::map<int, int64_t> due_;
  std::set<int> scheduled_within_;
};

TEST(TimerWheel, AgreesWithAModelOverRandomOperations) {
  for (uint64_t seed = 1; seed <= 60 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TimerWheelModel(seed).run(800);
  }
}

}  // namespace
}  // namespace tarry
