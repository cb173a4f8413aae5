// Consumers that come and go, and the ends of a queue.
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

using Strings = std::vector<std::string>;
using Life = QueueWorld;

// As RabbitMQ: there is nothing left to be exclusive about.
TEST_F(Life, AnExclusiveConsumerIsRefusedWhereOneAloneIsActive) {
  identity_.single_active_consumer = true;
  declare();
  ConsumeRequest exclusive = consumer(1);
  exclusive.exclusive = true;
  consume(exclusive);
  ASSERT_TRUE(last_reply().error);
  EXPECT_EQ(last_reply().error->code, 403);
  consume(2);
  EXPECT_FALSE(last_reply().error);
}

TEST_F(Life, AnExclusiveConsumerIsAlone) {
  declare();
  ConsumeRequest exclusive = consumer(1);
  exclusive.exclusive = true;
  consume(exclusive);
  EXPECT_FALSE(last_reply().error);
  consume(2);
  ASSERT_TRUE(last_reply().error);
  EXPECT_EQ(last_reply().error->code, 403);
  EXPECT_EQ(last_reply().error->text, "queue 'q' in vhost '/' in exclusive use");
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  consume(3);
  EXPECT_FALSE(last_reply().error);
  exclusive.consumer = ConsumerId(4);
  consume(exclusive);
  EXPECT_EQ(last_reply().error->code, 403);
}

TEST_F(Life, TheNextSingleActiveConsumerGetsTheUnacknowledgedFirst) {
  identity_.single_active_consumer = true;
  declare();
  consume(1, 3);
  consume(2);
  on_shard([&] {
    for (int i = 0; i < 6; ++i) publish_here({.body = std::to_string(i)});
  });
  auto first = sink_.take();
  ASSERT_EQ(first.size(), 3u);
  on_shard([&] {  // as a connection does that is closed
    for (size_t i : {2, 0, 1}) {
      const SettleRun run = first[i].run();
      queue_->settle(Outcome::channel_closed, std::span(&run, 1));
    }
    queue_->cancel(ConsumerId(1), here(), ++token_);
  });
  auto second = sink_.take();
  ASSERT_EQ(second.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(second[i].body, std::to_string(i));
    EXPECT_EQ(second[i].redelivered, i < 3);
    EXPECT_EQ(second[i].consumer, ConsumerId(2));
  }
}

TEST_F(Life, TheNextSingleActiveConsumerWaitsForWhatACancelledOneHolds) {
  identity_.single_active_consumer = true;
  declare();
  consume(1, 2);
  consume(2);
  publish({"a", "b", "c"});
  auto held = sink_.take();
  ASSERT_EQ(held.size(), 2u);
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  EXPECT_EQ(sink_.bodies(), (Strings{}));
  settle(Outcome::ack, {held[0]});
  EXPECT_EQ(sink_.bodies(), (Strings{}));
  settle(Outcome::channel_closed, {held[1]});
  EXPECT_EQ(sink_.bodies(), (Strings{"b", "c"}));
}

TEST_F(Life, AnAutoDeleteQueueGoesWithItsLastConsumer) {
  identity_.auto_delete = true;
  declare();
  EXPECT_TRUE(letters_->removed.empty());
  consume(1);
  consume(2);
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  EXPECT_FALSE(queue_->gone());
  on_shard([&] { queue_->cancel(ConsumerId(2), here(), ++token_); });
  EXPECT_TRUE(queue_->gone());
  EXPECT_EQ(letters_->removed, (std::vector<QueueId>{queue_->id}));
  EXPECT_FALSE(last_reply().error);  // the cancel itself is answered
}

TEST_F(Life, ExpiresCountsFromTheLastUse) {
  settings_.expires_ms = 800;
  declare();
  consume(1);
  advance(5000);
  EXPECT_FALSE(queue_->gone());
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  advance(700);
  (void)get();
  advance(700);
  stat(true);
  advance(700);
  stat(false);     // no use
  publish({"m"});  // nor is a publish
  advance(99);
  EXPECT_FALSE(queue_->gone());
  advance(1);
  EXPECT_TRUE(queue_->gone());
}

TEST_F(Life, ADueRetryIsNoUse) {
  settings_.expires_ms = 500;
  retry_queue(300);
  declare();
  publish({"m"});
  settle(Outcome::nack_requeue, {*get()});
  advance(300);
  EXPECT_EQ(ready(), 1u);
  advance(200);
  EXPECT_TRUE(queue_->gone());
}

TEST_F(Life, RemovalCancelsConsumersAndAnswersEverythingAfterIt) {
  declare();
  consume(1, 1);
  publish({"a", "b"});
  auto refused = remove(true, false);
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, 406);
  EXPECT_EQ(refused.error->text, "queue 'q' in vhost '/' in use");
  EXPECT_EQ(remove().messages, 1u);
  EXPECT_EQ(sink_.cancelled, (std::vector<ConsumerId>{ConsumerId(1)}));
  EXPECT_TRUE(queue_->gone());

  settle(Outcome::ack, sink_.take());  // late: ignored
  publish({.body = "c", .publish_number = 1});
  EXPECT_TRUE(sink_.confirms.at(0).refused);
  EXPECT_FALSE(get());
  EXPECT_EQ(last_reply().error->code, 404);
  EXPECT_EQ(last_reply().error->text, "no queue 'q' in vhost '/'");
  consume(2);
  EXPECT_EQ(last_reply().error->code, 404);
  EXPECT_EQ(remove().error->code, 404);
  (void)purge();
  EXPECT_EQ(last_reply().error->code, 404);
}

TEST_F(Life, ConfirmsThatWaitForABarrierAreRefusedByARemoval) {
  declare();
  shard_->post([&] {
    publish_here({.body = "a", .publish_number = 1});
    queue_->remove(false, false, here(), ++token_);
  });
  turns();
  ASSERT_EQ(sink_.confirms.size(), 1u);
  EXPECT_TRUE(sink_.confirms[0].refused);
}

TEST_F(Life, ConsumersAreListed) {
  declare();
  ConsumeRequest request = consumer(1, 7);
  request.description = "here";
  request.arguments = "table";
  consume(request);
  std::vector<ConsumerInfo> infos;
  queue_->consumers([&](std::vector<ConsumerInfo> found) { infos = std::move(found); });
  turns();
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].tag, "c1");
  EXPECT_EQ(infos[0].prefetch, 7u);
  EXPECT_EQ(infos[0].description, "here");
  EXPECT_EQ(infos[0].arguments, "table");
  EXPECT_TRUE(infos[0].active);
}

TEST_F(Life, MessagesThatWereConfirmedAreThereAfterARestart) {
  declare();
  publish({"a", "b", "c"});
  settle(Outcome::ack, {*get()});
  restart();
  EXPECT_EQ(ready(), 2u);
  EXPECT_EQ(get_body(), "b");
  EXPECT_EQ(get_body(), "c");
}

TEST_F(Life, AConnectionThatIsGoneGetsNothingAndLosesNothing) {
  declare();
  consume(1);
  on_shard([&] { queues_->remove_sink(kConnection); });
  publish({"a"});
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(figure(&QueueFigures::consumers), 0u);
  on_shard([&] { queues_->add_sink(kConnection, sink_); });
  auto got = get();
  EXPECT_EQ(got->body, "a");
  EXPECT_FALSE(got->redelivered);
}

}  // namespace
}  // namespace tarry::test
