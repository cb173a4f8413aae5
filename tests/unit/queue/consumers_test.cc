#include "queue/consumers.h"

#include <gtest/gtest.h>

#include "queue/lane.h"
#include "queue/remote_batch.h"

namespace tarry {
namespace {

ConsumeRequest request(uint64_t id, int32_t priority = 0, uint32_t prefetch = 0) {
  ConsumeRequest r;
  r.consumer = ConsumerId(id);
  r.priority = priority;
  r.prefetch = prefetch;
  return r;
}

uint64_t next_id(Consumers& consumers) {
  Consumer* next = consumers.next();
  return next ? next->id().value : 0;
}

TEST(Consumers, RoundRobinWithinAPriority) {
  Consumers consumers(false);
  for (uint64_t id : {1, 2, 3}) consumers.add(request(id));
  std::vector<uint64_t> order;
  for (int i = 0; i < 7; ++i) {
    Consumer* next = consumers.next();
    order.push_back(next->id().value);
    consumers.rotate(*next);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3, 1, 2, 3, 1}));
}

TEST(Consumers, AHigherPriorityIsServedAloneWhileItHasCapacity) {
  Consumers consumers(false);
  consumers.add(request(1));
  Consumer& high = consumers.add(request(2, 5, 1));
  EXPECT_EQ(next_id(consumers), 2u);
  EXPECT_TRUE(consumers.alone(high));
  high.outstanding = 1;
  consumers.refresh(high);
  EXPECT_EQ(next_id(consumers), 1u);
  high.outstanding = 0;
  consumers.refresh(high);
  EXPECT_EQ(next_id(consumers), 2u);
}

TEST(Consumers, PrefetchDoesNotLimitThoseWithoutAcknowledgement) {
  ConsumeRequest r = request(1, 0, 1);
  r.no_ack = true;
  Consumers consumers(false);
  Consumer& c = consumers.add(std::move(r));
  c.outstanding = 1000;
  consumers.refresh(c);
  EXPECT_EQ(next_id(consumers), 1u);
}

TEST(Consumers, AChannelLimitedOneTakesItsCreditOnly) {
  ConsumeRequest r = request(1);
  r.channel_limited = true;
  Consumers consumers(false);
  Consumer& c = consumers.add(std::move(r));
  EXPECT_EQ(consumers.next(), nullptr);
  EXPECT_TRUE(c.would_take());
  c.credit = 2;
  consumers.refresh(c);
  EXPECT_EQ(c.capacity(), 2u);
  EXPECT_EQ(next_id(consumers), 1u);
  consumers.set_channel_limited(c, false);
  EXPECT_EQ(c.capacity(), UINT32_MAX);
  EXPECT_EQ(consumers.channel_limited_count(), 0u);
}

TEST(Consumers, TheSingleActiveOneIsFollowedByPriorityThenByAge) {
  Consumers consumers(true);
  for (uint64_t id : {1, 2}) consumers.add(request(id));
  consumers.add(request(3, 7));
  consumers.add(request(4, 7));
  EXPECT_EQ(next_id(consumers), 1u);
  consumers.remove(ConsumerId(1));
  EXPECT_EQ(next_id(consumers), 3u);
  consumers.remove(ConsumerId(2));
  consumers.remove(ConsumerId(3));
  EXPECT_EQ(next_id(consumers), 4u);
}

TEST(Consumers, OneThatLeavesTheRingTwiceIsHarmless) {
  Consumers consumers(false);
  Consumer& a = consumers.add(request(1));
  Consumer& b = consumers.add(request(2));
  consumers.set_aside(a);
  consumers.set_aside(a);
  EXPECT_TRUE(consumers.alone(b));
  consumers.refresh(a);
  consumers.remove(ConsumerId(2));
  EXPECT_EQ(next_id(consumers), 1u);
  consumers.remove(ConsumerId(1));
  EXPECT_EQ(consumers.next(), nullptr);
}

RequeuedRuns::Entry run_at(uint32_t ordinal, uint32_t count, uint64_t bytes) {
  return {{{1, ordinal, ordinal * 10}, count}, 1, true, bytes, 0};
}

TEST(RequeuedRuns, AreServedInTheOrderOfTheLog) {
  RequeuedRuns runs;
  runs.add(run_at(10, 2, 20));
  runs.add(run_at(3, 1, 5));
  std::vector<uint32_t> order;
  while (!runs.empty()) {
    order.push_back(runs.front().run.first.ordinal);
    (void)runs.take_front(std::nullopt);
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{3, 10, 11}));
  EXPECT_EQ(runs.body_bytes(), 0u);
}

TEST(RequeuedRuns, OneOutOfTheMiddleSplitsARunAndKeepsTheSums) {
  RequeuedRuns runs;
  runs.add(run_at(5, 5, 50));
  EXPECT_FALSE(runs.take({1, 10, 0}));
  EXPECT_FALSE(runs.take({2, 6, 0}));
  auto taken = runs.take({1, 7, 0});
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->body_bytes, 10u);
  EXPECT_EQ(runs.count(), 4u);
  EXPECT_EQ(runs.body_bytes(), 40u);
  EXPECT_FALSE(runs.take({1, 7, 0}));
  std::vector<uint32_t> order;
  while (!runs.empty()) {
    order.push_back(runs.front().run.first.ordinal);
    (void)runs.take_front(10);
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{5, 6, 8, 9}));
  EXPECT_EQ(runs.body_bytes(), 0u);
}

TEST(DueReturns, AreServedByDueTimeWhateverTheirPosition) {
  DueReturns returns;
  returns.add(30, {{1, 1, 0}, 1, 7});
  returns.add(10, {{1, 9, 0}, 2, 8});
  returns.add(10, {{1, 4, 0}, 3, 9});
  EXPECT_EQ(returns.body_bytes(), 24u);
  EXPECT_EQ(returns.front().position.ordinal, 4u);
  EXPECT_FALSE(returns.take(11, {1, 9, 0}));
  EXPECT_TRUE(returns.take(10, {1, 9, 0}));
  returns.take_front();
  EXPECT_EQ(returns.front_due_ms(), 30u);
  EXPECT_EQ(returns.body_bytes(), 7u);
}

TEST(AppendRuns, JoinWhatIsConsecutiveInOneLaneWithOneCounter) {
  std::vector<Delivery> batch(5);
  const uint32_t ordinals[] = {4, 5, 6, 8, 9};
  for (size_t i = 0; i < 5; ++i) batch[i].position = {1, ordinals[i], 0};
  batch[2].counter = 1;
  std::vector<SettleRun> runs;
  append_runs(runs, ConsumerId(3), batch);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].run.count, 2u);
  EXPECT_EQ(runs[1].run.first.ordinal, 6u);
  EXPECT_EQ(runs[1].counter, 1u);
  EXPECT_EQ(runs[2].run.count, 2u);
}

TEST(Arena, DeepCopiesOutliveTheirSource) {
  Arena arena;
  std::span<const Delivery> copied;
  {
    std::string body(300'000, 'b'), header = "header", route = "route";
    Delivery d;
    d.record.body = as_bytes(body);
    d.record.header = as_bytes(header);
    d.record.route = as_bytes(route);
    d.counter = 3;
    copied = arena.copy_deep(std::span(&d, 1));
  }
  EXPECT_EQ(copied[0].record.body.size(), 300'000u);
  EXPECT_EQ(as_text(copied[0].record.body).back(), 'b');
  EXPECT_EQ(as_text(copied[0].record.header), "header");
  EXPECT_EQ(copied[0].counter, 3u);
}

TEST(Arena, AResetOneGoesOnInTheMemoryItHas) {
  Arena arena;
  auto fill = [&arena] {
    std::byte* first = arena.allocate(1000, 1);
    for (int i = 1; i < 200; ++i) arena.allocate(1000, 1);
    arena.reset();
    return first;
  };
  fill();
  fill();  // by now one block holds all of it
  std::byte* second = fill();
  EXPECT_EQ(fill(), second);
  EXPECT_NE(arena.allocate(1 << 20, 1), nullptr);  // larger than any block it would keep
  arena.reset();
  EXPECT_EQ(arena.allocate(1, 1), second);
}

TEST(Arena, RecordsThatLieInOnePieceAreCopiedInOne) {
  Arena arena;
  const std::string bytes = "routeheaderbody";
  Delivery d;
  d.record.route = as_bytes(bytes).first(5);
  d.record.header = as_bytes(bytes).subspan(5, 6);
  d.record.body = as_bytes(bytes).subspan(11);
  const RecordView copied = arena.copy_deep(std::span(&d, 1))[0].record;
  EXPECT_EQ(as_text(copied.route), "route");
  EXPECT_EQ(as_text(copied.header), "header");
  EXPECT_EQ(as_text(copied.body), "body");
  EXPECT_NE(copied.route.data(), d.record.route.data());
  EXPECT_EQ(copied.route.data() + 11, copied.body.data());
}

}  // namespace
}  // namespace tarry
