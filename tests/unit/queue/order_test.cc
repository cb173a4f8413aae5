// Commands that come in one turn act in the order in which they came, as far as a client can tell.
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

using Order = QueueWorld;
using Strings = std::vector<std::string>;

TEST_F(Order, AGetComesBehindAConsumerThatWouldTakeTheMessage) {
  declare();
  consume(1);
  on_shard([&] {
    publish_here({.body = "a"});
    queue_->get(true, here(), ++token_);
  });
  EXPECT_EQ(sink_.bodies(), Strings{"a"});
  EXPECT_FALSE(last_reply().got);
}

TEST_F(Order, AGetTakesWhatTheConsumersHaveNoRoomFor) {
  declare();
  consume(1, 1);
  on_shard([&] {
    publish_here({.body = "a"});
    publish_here({.body = "b"});
    queue_->get(true, here(), ++token_);
  });
  EXPECT_EQ(sink_.bodies(), Strings{"a"});
  ASSERT_TRUE(last_reply().got);
  EXPECT_EQ(last_reply().got->body, "b");
}

TEST_F(Order, AGetSeesNothingThatIsOverALimit) {
  settings_.max_length = 1;
  declare();
  on_shard([&] {
    publish_here({.body = "a"});
    publish_here({.body = "b"});
    queue_->get(true, here(), ++token_);
  });
  ASSERT_TRUE(last_reply().got);
  EXPECT_EQ(last_reply().got->body, "b");
  EXPECT_EQ(last_reply().messages, 0u);
}

TEST_F(Order, ARequeueOverALimitDropsBeforeTheNextGet) {
  settings_.max_length = 1;
  declare();
  publish({"old"});
  auto held = get();
  ASSERT_TRUE(held);
  publish({"new"});
  on_shard([&] {
    const SettleRun run = held->run();
    queue_->settle(Outcome::nack_requeue, std::span(&run, 1));
    queue_->get(true, here(), ++token_);
  });
  ASSERT_TRUE(last_reply().got);
  EXPECT_EQ(last_reply().got->body, "new");
  EXPECT_EQ(last_reply().messages, 0u);
}

TEST_F(Order, ACancelThatWantsItsLastDeliveriesGetsThemAheadOfTheAnswer) {
  declare();
  consume(1);
  consume(2);
  const size_t answered = sink_.replies.size();
  size_t delivered_before_the_answer = 0;
  sink_.after_deliver = [&](ConsumerId) {
    if (sink_.replies.size() == answered) delivered_before_the_answer = sink_.deliveries.size();
  };
  on_shard([&] {
    publish_here({.body = "a"});
    queue_->cancel(ConsumerId(1), here(), ++token_, true);
  });
  EXPECT_EQ(last_reply().token, token_);
  EXPECT_EQ(delivered_before_the_answer, 1u);
  EXPECT_EQ(sink_.bodies(), Strings{"a"});
  EXPECT_EQ(figure(&QueueFigures::consumers), 1u);
}

TEST_F(Order, ACancelOnItsOwnTakesTheConsumerAwayAtOnce) {
  declare();
  consume(1);
  on_shard([&] {
    publish_here({.body = "a"});
    queue_->cancel(ConsumerId(1), here(), ++token_);
  });
  EXPECT_EQ(last_reply().token, token_);
  EXPECT_TRUE(sink_.deliveries.empty());
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Order, ATtlOfZeroIsOneDelivery) {
  declare();
  consume(1);
  publish({.body = "a", .expiration = "0"});
  auto got = sink_.take();
  ASSERT_EQ(got.size(), 1u);
  settle(Outcome::reject_requeue, got);  // in the same millisecond
  EXPECT_TRUE(sink_.deliveries.empty());
  EXPECT_EQ(ready(), 0u);
}

}  // namespace
}  // namespace tarry::test
