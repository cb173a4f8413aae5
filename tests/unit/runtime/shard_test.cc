#include "tarrymq/runtime/shard.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tarrymq/runtime/clock.h"

namespace tarry {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

/// A shard on a thread of its own.
class RunningShard {
 public:
  RunningShard(uint16_t id, const Clock& clock) : shard(ShardId(id), clock) {}
  ~RunningShard() { stop(); }
  void start() {
    thread_ = std::thread([this] { shard.run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    shard.stop();
    thread_.join();
  }
  Shard shard;

 private:
  std::thread thread_;
};

struct Hook final : TurnHook {
  explicit Hook(std::function<void()> f) : call(std::move(f)) {}
  void on_turn_end() override { call(); }
  std::function<void()> call;
};

TEST(Shard, MailFromOneShardToAnotherArrivesInOrder) {
  constexpr int kCount = 20'000;
  SystemClock clock;
  RunningShard a(0, clock), b(1, clock);
  std::vector<int> seen;
  std::promise<void> done;
  b.start();
  a.start();
  // In slices, so that they travel in many turns.
  std::function<void(int)> slice = [&](int from) {
    EXPECT_EQ(Shard::current(), &a.shard);
    for (int i = from; i < from + 50; ++i) {
      b.shard.post([&, i] {
        EXPECT_EQ(Shard::current(), &b.shard);
        seen.push_back(i);
        if (i == kCount - 1) done.set_value();
      });
    }
    if (from + 50 < kCount) a.shard.post([&slice, from] { slice(from + 50); });
  };
  a.shard.post([&] { slice(0); });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  a.stop();
  b.stop();
  ASSERT_EQ(seen.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(seen[i], i);
}

TEST(Shard, MailFromSeveralShardsIsCompleteAndInOrderOfEachSource) {
  constexpr int kShards = 4, kCount = 5'000;
  SystemClock clock;
  std::vector<std::unique_ptr<RunningShard>> shards;
  for (int i = 0; i < kShards; ++i) {
    shards.push_back(std::make_unique<RunningShard>(static_cast<uint16_t>(i), clock));
  }
  std::vector<std::vector<int>> seen(kShards *
                                     kShards);  // [to * kShards + from], touched by `to` alone
  std::vector<std::promise<void>> done(kShards);
  std::vector<int> got(kShards);
  for (auto& s : shards) s->start();
  for (int from = 0; from < kShards; ++from) {
    shards[from]->shard.post([&, from] {
      for (int n = 0; n < kCount; ++n) {
        for (int to = 0; to < kShards; ++to) {
          shards[to]->shard.post([&, from, to, n] {
            seen[to * kShards + from].push_back(n);
            if (++got[to] == kShards * kCount) done[to].set_value();
          });
        }
      }
    });
  }
  for (auto& d : done) ASSERT_EQ(d.get_future().wait_for(kPatience), std::future_status::ready);
  for (auto& s : shards) s->stop();
  for (auto& list : seen) {
    ASSERT_EQ(list.size(), static_cast<size_t>(kCount));
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  }
}

TEST(Shard, MailFromOutsideWakesAWaitingShard) {
  SystemClock clock;
  RunningShard shard(0, clock);
  shard.start();
  for (int i = 0; i < 200; ++i) {
    std::promise<Shard*> where;
    shard.shard.post([&] { where.set_value(Shard::current()); });
    auto answer = where.get_future();
    ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
    EXPECT_EQ(answer.get(), &shard.shard);
  }
  EXPECT_EQ(Shard::current(), nullptr);
}

TEST(Shard, ATimerFiresWithoutAnyOtherWorkAndNotEarly) {
  SystemClock clock;
  RunningShard shard(0, clock);
  std::promise<SteadyTime> fired;
  std::optional<Timer> timer;
  SteadyTime due;
  shard.shard.post([&] {
    timer.emplace([&] { fired.set_value(clock.steady_now()); });
    due = shard.shard.steady_now().plus_ms(30);
    shard.shard.timers().schedule(*timer, due);
  });
  shard.start();
  auto answer = fired.get_future();
  ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  EXPECT_GE(answer.get().ns, due.ns);
  shard.stop();
}

TEST(Shard, AHandlerAfterALongWaitDoesNotSeeTheTimeBeforeTheWait) {
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  // The handler that ends the wait runs inside it; a deadline it sets must not lie in the past
  // already.
  SteadyTime seen{};
  boost::asio::post(shard.io(), [&] {
    clock.advance_ms(60'000);  // the wait, as far as the shard can tell
    seen = shard.steady_now();
    shard.stop();
  });
  shard.run();
  EXPECT_EQ(seen, clock.steady_now());
}

TEST(Shard, AnEarlierTimerSetLaterFiresFirst) {
  SystemClock clock;
  RunningShard shard(0, clock);
  bool too_late = false;
  std::promise<void> done;
  Timer late([&] { too_late = true; });
  Timer early([&] { done.set_value(); });
  shard.start();
  shard.shard.post(
      [&] { shard.shard.timers().schedule(late, shard.shard.steady_now().plus_ms(3'600'000)); });
  shard.shard.post(
      [&] { shard.shard.timers().schedule(early, shard.shard.steady_now().plus_ms(20)); });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  shard.stop();
  EXPECT_FALSE(too_late);
}

TEST(Shard, TimersFollowTheClockGivenToIt) {
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  int fired = 0;
  Timer timer([&] { ++fired; });
  shard.timers().schedule(timer, shard.steady_now().plus_ms(500));
  clock.advance_ms(499);
  shard.run_turn_for_test();
  EXPECT_EQ(fired, 0);
  clock.advance_ms(1);
  EXPECT_TRUE(shard.run_turn_for_test());
  EXPECT_EQ(fired, 1);
  EXPECT_FALSE(shard.run_turn_for_test());
}

TEST(Shard, StagesRunInOrderOnceEachAfterMailAndTimers) {
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  std::vector<std::string> order;
  Hook storage([&] { order.push_back("storage"); });
  Hook connections([&] { order.push_back("connections"); });
  Hook queues([&] { order.push_back("queues"); });
  Timer timer([&] { order.push_back("timer"); });
  shard.timers().schedule(timer, shard.steady_now());
  shard.post([&] {
    order.push_back("mail");
    for (int twice = 0; twice < 2; ++twice) {
      shard.at_turn_end(TurnStage::storage, storage);
      shard.at_turn_end(TurnStage::connections, connections);
      shard.at_turn_end(TurnStage::queues, queues);
    }
  });
  shard.run_turn_for_test();
  EXPECT_EQ(order, (std::vector<std::string>{"mail", "timer", "queues", "connections", "storage"}));
  order.clear();
  shard.run_turn_for_test();
  EXPECT_TRUE(order.empty());
}

TEST(Shard, AHookMayScheduleAnEarlierStageWhichRunsInTheSameTurn) {
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  std::vector<std::string> order;
  Hook queues([&] { order.push_back("queues"); });
  Hook storage([&] {
    order.push_back("storage");
    shard.at_turn_end(TurnStage::queues, queues);
  });
  shard.post([&] { shard.at_turn_end(TurnStage::storage, storage); });
  shard.run_turn_for_test();
  EXPECT_EQ(order, (std::vector<std::string>{"storage", "queues"}));
}

TEST(Shard, AHookThatAlwaysComesBackDoesNotStopTheShard) {
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  int calls = 0;
  Hook* self = nullptr;
  Hook again([&] {
    ++calls;
    shard.at_turn_end(TurnStage::queues, *self);
  });
  self = &again;
  shard.at_turn_end(TurnStage::queues, again);
  shard.run_turn_for_test();
  const int first = calls;
  EXPECT_GE(first, 1);
  shard.run_turn_for_test();
  EXPECT_GT(calls, first);
}

TEST(Shard, AHookThatIsDestroyedLeaves) {
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  int calls = 0;
  auto victim = std::make_unique<Hook>([&] { ++calls; });
  Hook killer([&] { victim.reset(); });  // while the stage runs
  auto waiting = std::make_unique<Hook>([&] { ++calls; });
  shard.at_turn_end(TurnStage::queues, killer);
  shard.at_turn_end(TurnStage::queues, *victim);
  shard.at_turn_end(TurnStage::storage, *waiting);
  waiting.reset();  // before it runs
  shard.run_turn_for_test();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(victim, nullptr);
}

TEST(Shard, AHookMayOutliveItsShard) {
  ManualClock clock;
  int calls = 0;
  Hook hook([&] { ++calls; });
  {
    Shard gone(ShardId(0), clock);
    gone.at_turn_end(TurnStage::queues, hook);
  }
  Shard other(ShardId(1), clock);
  other.at_turn_end(TurnStage::queues, hook);
  other.run_turn_for_test();
  EXPECT_EQ(calls, 1);
}

TEST(Shard, StopEndsRunAfterTheTurnAndLaterMailIsNotRun) {
  SystemClock clock;
  Shard shard(ShardId(0), clock);
  bool before = false, after = false;
  shard.post([&] { before = true; });
  shard.stop();
  std::thread thread([&] { shard.run(); });
  thread.join();
  EXPECT_TRUE(before);
  shard.post([&] { after = true; });
  EXPECT_FALSE(after);
}

TEST(Shard, WhatWasPostedToOthersInTheLastTurnStillLeaves) {
  SystemClock clock;
  RunningShard a(0, clock), b(1, clock);
  std::promise<void> arrived;
  b.start();
  a.shard.post([&] {
    a.shard.stop();
    b.shard.post([&] { arrived.set_value(); });
  });
  a.start();
  EXPECT_EQ(arrived.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(ShardAffineDeathTest, TouchingAnObjectFromAnotherThreadAborts) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ManualClock clock;
  Shard shard(ShardId(0), clock);
  ShardAffine affine(shard);
  bool fine = false;
  shard.post([&] {
    affine.check();
    fine = true;
  });
  shard.run_turn_for_test();
  EXPECT_TRUE(fine);
  EXPECT_DEATH(affine.check(), "broken invariant");
}

/// Goes on by a millisecond at each reading, and lets a test act right after one.
class TickingClock final : public Clock {
 public:
  SteadyTime steady_now() const override { return {tick()}; }
  WallTime wall_now() const override { return {tick()}; }
  WallTime system_now() const override { return {tick()}; }
  std::function<void()> after_reading;

 private:
  int64_t tick() const {
    ns_ += 1'000'000;
    if (after_reading) after_reading();
    return ns_;
  }
  mutable int64_t ns_ = 1'000'000'000;
};

TEST(Shard, MailIsNeverHandledWithATimeFromBeforeItWasPosted) {
  TickingClock clock;
  Shard shard(ShardId(0), clock);
  int handled = 0;
  bool posting = false;
  // Mail arrives after every single reading of the clock, so also between the last one and the
  // mailbox.
  clock.after_reading = [&] {
    if (posting || handled >= 50) return;
    posting = true;
    const int64_t posted_ns = clock.wall_now().ns;
    std::thread([&] {
      shard.post([&shard, &handled, posted_ns] {
        EXPECT_GE(shard.now().ns, posted_ns);
        EXPECT_GE(shard.steady_now().ns, posted_ns);
        ++handled;
      });
    }).join();
    posting = false;
  };
  for (int turns = 0; handled < 50; ++turns) {
    ASSERT_LT(turns, 1000);
    shard.run_turn_for_test();
  }
}

}  // namespace
}  // namespace tarry
