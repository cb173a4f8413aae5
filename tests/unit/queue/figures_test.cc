// What listings show of a queue beside its counts.
#include <gtest/gtest.h>

#include "support/queue_world.h"
#include "tarrymq/queue/consumer_use.h"

namespace tarry::test {
namespace {

class Figures : public QueueWorld {
 protected:
  double use() {
    const QueueFigures& f = queue_->figures();
    return ConsumerUse{f.consumers_able.load(), f.consumers_able_since_ns.load(),
                       f.consumers_able_share.load()}
        .at(clock_.wall_now().ns);
  }
  QueueLook look() {
    std::optional<QueueLook> seen;
    on_shard([&] { queue_->look([&](QueueLook l) { seen = std::move(l); }); });
    return std::move(*seen);
  }
  Message stamped(const char* body, uint64_t seconds) {
    Message m{.body = body};
    m.timestamp_s = seconds;
    return m;
  }
  /// Lets the store's own timers run, as they do in a quiet queue.
  void rest() {
    for (int i = 0; i < 6; ++i) advance(200);
  }
};

TEST_F(Figures, ConsumersThatCouldTakeMoreAreUsedWhole) {
  declare();
  consume(1, 2);
  EXPECT_EQ(use(), 1.0);
  publish({"a"});
  advance(60'000);
  EXPECT_EQ(use(), 1.0);
}

TEST_F(Figures, ConsumersAtTheirPrefetchLowerTheCapacityAndAnAckRaisesItAgain) {
  declare();
  consume(1, 2);
  publish({"a", "b", "c"});
  EXPECT_EQ(use(), 1.0);
  advance(1'000);
  EXPECT_DOUBLE_EQ(use(), 0.8);
  advance(10'000);
  EXPECT_EQ(use(), 0.0);
  settle(Outcome::ack, sink_.take());
  advance(1'000);
  EXPECT_DOUBLE_EQ(use(), 0.2);
}

TEST_F(Figures, WhoComesAfterAllHaveGoneBeginsAnew) {
  declare();
  consume(1, 1);
  publish({"a", "b"});
  advance(10'000);
  EXPECT_EQ(use(), 0.0);
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  consume(2, 5);
  EXPECT_EQ(use(), 1.0);
}

TEST_F(Figures, TheLastActivityIsRememberedAndALookIsNone) {
  declare();
  publish({"a"});
  const int64_t active = queue_->figures().active_at_ns.load();
  EXPECT_EQ(active, shard_->now().ns);
  rest();
  (void)look();
  EXPECT_EQ(queue_->figures().active_at_ns.load(), active);
  publish({"b"});
  EXPECT_EQ(queue_->figures().active_at_ns.load(), shard_->now().ns);
}

TEST_F(Figures, ALookTellsWhenTheNextMessageWasStamped) {
  declare();
  EXPECT_FALSE(look().head_timestamp_s);
  publish(stamped("a", 1'700'000'000));
  publish(stamped("b", 1'700'000'005));
  publish({"without"});
  EXPECT_EQ(look().head_timestamp_s, 1'700'000'000u);
  EXPECT_EQ(get_body(), "a");
  EXPECT_EQ(look().head_timestamp_s, 1'700'000'005u);
  EXPECT_EQ(get_body(), "b");
  EXPECT_FALSE(look().head_timestamp_s);
  EXPECT_EQ(get_body(), "without") << "a look takes nothing";
}

// They were told at the turns of the queue alone, so that one with few messages showed what was
// there before the first write, until something else happened in it.
TEST_F(Figures, AQuietQueueShowsWhatItHasOnDiskAndInTheEndNothing) {
  declare();
  on_shard([&] { publish_here({.body = std::string(1'000, 'x')}); });
  rest();
  EXPECT_GT(figure(&QueueFigures::disk_bytes), 1'000u);
  EXPECT_EQ(figure(&QueueFigures::segments), 1u);
  settle(Outcome::ack, {*get()});
  rest();
  EXPECT_EQ(figure(&QueueFigures::disk_bytes), 0u);
  EXPECT_EQ(figure(&QueueFigures::segments), 0u);
}

// A script that asks for every queue must not leave a window on each.
TEST_F(Figures, ALookAtWhatLiesOnDiskLeavesNothingInMemory) {
  declare();
  publish(stamped("a", 5));
  restart();
  rest();
  const uint64_t at_rest = figure(&QueueFigures::memory_bytes);
  (void)look();
  rest();
  EXPECT_EQ(figure(&QueueFigures::memory_bytes), at_rest);
}

}  // namespace
}  // namespace tarry::test
