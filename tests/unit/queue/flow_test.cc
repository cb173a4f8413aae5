// Publish, deliver, get, settle, confirm, purge, remove: the common way through a queue.
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

using Flow = QueueWorld;
using Strings = std::vector<std::string>;

TEST_F(Flow, MessagesAreDeliveredInOrderAndGoneOnceAcknowledged) {
  declare();
  consume(1);
  publish({"a", "b", "c"});
  std::vector<Got> got = sink_.take();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].body + got[1].body + got[2].body, "abc");
  EXPECT_EQ(got[0].exchange, "ex");
  EXPECT_EQ(got[0].key, "key");
  EXPECT_FALSE(got[0].redelivered);
  EXPECT_EQ(figure(&QueueFigures::unacked), 3u);
  on_shard([&] {
    SettleRun all = got[0].run();
    all.run.count = 3;
    all.body_bytes = 3;
    queue_->settle(Outcome::ack, std::span(&all, 1));
  });
  EXPECT_EQ(figure(&QueueFigures::unacked), 0u);
  EXPECT_EQ(figure(&QueueFigures::unacked_bytes), 0u);
  EXPECT_EQ(figure(&QueueFigures::acked), 3u);
  EXPECT_EQ(get_body(), "-");
}

TEST_F(Flow, TheReplyToConsumeComesBeforeTheFirstDelivery) {
  declare();
  publish({"a"});
  std::vector<size_t> replies_at_delivery;
  sink_.after_deliver = [&](ConsumerId) { replies_at_delivery.push_back(sink_.replies.size()); };
  const size_t before = sink_.replies.size();
  consume(1);
  ASSERT_EQ(replies_at_delivery.size(), 1u);
  EXPECT_EQ(replies_at_delivery[0], before + 1);
}

TEST_F(Flow, PrefetchHoldsBackUntilSomethingIsSettled) {
  declare();
  consume(1, 2);
  publish({"a", "b", "c", "d"});
  std::vector<Got> got = sink_.take();
  ASSERT_EQ(got.size(), 2u);
  settle(Outcome::ack, {got[0]});
  EXPECT_EQ(sink_.bodies(), (Strings{"c"}));
  EXPECT_EQ(ready(), 1u);
}

TEST_F(Flow, ConsumersOfOnePriorityTakeTurns) {
  declare();
  consume(1);
  consume(2);
  publish({"a", "b", "c", "d"});
  std::map<uint64_t, std::string> by_consumer;
  for (const Got& got : sink_.take()) by_consumer[got.consumer.value] += got.body;
  EXPECT_EQ(by_consumer[1], "ac");
  EXPECT_EQ(by_consumer[2], "bd");
}

TEST_F(Flow, APausedConsumerGetsNothing) {
  declare();
  consume(1);
  on_shard([&] { queue_->set_paused(ConsumerId(1), true); });
  publish({"a"});
  EXPECT_EQ(sink_.bodies(), (Strings{}));
  on_shard([&] { queue_->set_paused(ConsumerId(1), false); });
  EXPECT_EQ(sink_.bodies(), (Strings{"a"}));
}

TEST_F(Flow, APassHandsOutABoundedNumberOfBytes) {
  declare();
  on_shard([&] {
    for (int i = 0; i < 10; ++i) publish_here({.body = std::string(100'000, 'x')});
  });
  consume(1);
  EXPECT_EQ(sink_.deliveries.size(), 10u);
  ASSERT_GE(sink_.batches.size(), 4u);
  for (size_t count : sink_.batches) EXPECT_LE(count, 3u);
}

TEST_F(Flow, ALargeMessageGoesAlone) {
  declare();
  consume(1);
  publish({.body = std::string(2'000'000, 'x')});
  ASSERT_EQ(sink_.deliveries.size(), 1u);
  EXPECT_EQ(sink_.deliveries[0].body.size(), 2'000'000u);
}

TEST_F(Flow, Rule10_GetIsADelivery) {
  retry_queue(500);
  declare();
  publish({"a", "b"});
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "a");
  EXPECT_EQ(last_reply().messages, 1u);
  settle(Outcome::nack_requeue, {*got});
  EXPECT_EQ(delayed(), 1u);
  EXPECT_EQ(get_body(), "b");
  advance(500);
  got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "a");
  EXPECT_EQ(got->counter, 1u);
}

TEST_F(Flow, ARequeueGoesBackToItsOldPlace) {
  declare();
  publish({"a", "b", "c"});
  auto a = get();
  auto b = get();
  settle(Outcome::reject_requeue, {*b, *a});
  std::vector<Got> all;
  for (int i = 0; i < 3; ++i) all.push_back(*get());
  EXPECT_EQ(all[0].body + all[1].body + all[2].body, "abc");
  EXPECT_TRUE(all[0].redelivered);
  EXPECT_TRUE(all[1].redelivered);
  EXPECT_FALSE(all[2].redelivered);
}

TEST_F(Flow, Rule14_APlainQueueShowsNoCounter) {
  declare();
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  auto got = get();
  EXPECT_TRUE(got->redelivered);
  EXPECT_FALSE(got->show_counter);
}

TEST_F(Flow, Rule14_TheFirstDeliveryIsNotMarkedAndTheOthersCarryTheCounter) {
  identity_.quorum_type = true;
  declare();
  publish({"a"});
  auto got = get();
  EXPECT_EQ(got->counter, 0u);
  EXPECT_FALSE(got->redelivered);
  for (uint32_t n = 1; n <= 30; ++n) {  // no default limit
    settle(Outcome::nack_requeue, {*got});
    got = get();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->counter, n);
    EXPECT_TRUE(got->redelivered);
    EXPECT_TRUE(got->show_counter);
  }
}

TEST_F(Flow, Rule15_AClientsCountIsRemovedWhereTheQueueCounts) {
  FieldTable headers;
  headers.set("a", FieldValue::int32(1));
  headers.set("x-delivery-count", FieldValue::text("19"));
  headers.set("b", FieldValue::int32(2));
  identity_.quorum_type = true;
  declare();
  publish({.body = "m", .headers = headers});
  FieldTable kept = get()->headers();
  ASSERT_EQ(kept.entries.size(), 2u);
  EXPECT_EQ(kept.entries[0].first, "a");
  EXPECT_EQ(kept.entries[1].first, "b");

  identity_.quorum_type = false;
  declare();
  publish({.body = "m", .headers = headers});
  EXPECT_EQ(get()->headers(), headers);
}

TEST_F(Flow, Rule42_APeekPutsBackAtTheOldPlaceAndCountsNothing) {
  retry_queue(100);
  declare();
  publish({"a", "b", "c"});
  std::vector<Got> peeked{*get(), *get()};
  for (const Got& got : peeked) settle(Outcome::put_back, {got});
  for (const char* body : {"a", "b", "c"}) {
    auto got = get();
    EXPECT_EQ(got->body, body);
    EXPECT_EQ(got->counter, 0u);
    EXPECT_FALSE(got->redelivered);
  }
}

TEST_F(Flow, Rule42_APeekedReturnKeepsItsPlaceAmongTheReturns) {
  retry_queue(100);
  declare();
  publish({"a", "b"});
  auto a = get(), b = get();
  settle(Outcome::nack_requeue, {*b});
  advance(1);
  settle(Outcome::nack_requeue, {*a});
  advance(200);
  auto first = get(), second = get();
  EXPECT_EQ(first->body, "b");
  settle(Outcome::put_back, {*second});
  settle(Outcome::put_back, {*first});
  EXPECT_EQ(get_body(), "b");
  auto again = get();
  EXPECT_EQ(again->body, "a");
  EXPECT_EQ(again->counter, 1u);
}

TEST_F(Flow, WhatNeverReachedItsClientGoesBackUncounted) {
  identity_.quorum_type = true;
  declare();
  consume(1, 1);
  publish({"a", "b"});
  auto got = sink_.take();
  ASSERT_EQ(got.size(), 1u);
  on_shard([&] {
    queue_->cancel(ConsumerId(1), here(), ++token_);
    const SettleRun run = got[0].run();
    queue_->settle(Outcome::not_delivered, std::span(&run, 1));
  });
  auto again = get();
  EXPECT_EQ(again->body, "a");
  EXPECT_EQ(again->counter, 0u);
  EXPECT_FALSE(again->redelivered);
}

TEST_F(Flow, Rule11_CancelLeavesItsUnacknowledgedAlone) {
  retry_queue(100);
  declare();
  consume(1);
  publish({"a"});
  auto got = sink_.take();
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  EXPECT_EQ(last_reply().token, token_);
  EXPECT_EQ(get_body(), "-");
  EXPECT_EQ(figure(&QueueFigures::unacked), 1u);
  settle(Outcome::nack_requeue, got);
  EXPECT_EQ(delayed(), 1u);
}

TEST_F(Flow, ConfirmsOfPersistentMessagesWaitForTheBarrierAndAreJoined) {
  declare();
  std::vector<ConfirmRange> at_turn_end;
  shard_->post([&] {
    for (uint64_t n = 1; n <= 5; ++n) publish_here({.body = "m", .publish_number = n});
  });
  shard_->run_turn_for_test();
  at_turn_end = sink_.confirms;
  turns();
  EXPECT_TRUE(at_turn_end.empty());
  ASSERT_EQ(sink_.confirms.size(), 1u);
  EXPECT_EQ(sink_.confirms[0].first, 1u);
  EXPECT_EQ(sink_.confirms[0].last, 5u);
  EXPECT_FALSE(sink_.confirms[0].refused);
  EXPECT_EQ(figure(&QueueFigures::confirmed), 5u);
}

TEST_F(Flow, TransientMessagesAreConfirmedAtTheTurnsEnd) {
  declare();
  shard_->post([&] { publish_here({.body = "m", .persistent = false, .publish_number = 9}); });
  shard_->run_turn_for_test();
  ASSERT_EQ(sink_.confirms.size(), 1u);
  EXPECT_EQ(sink_.confirms[0].last, 9u);
}

TEST_F(Flow, PurgeTakesReadyAndDelayedAndLeavesTheUnacknowledged) {
  retry_queue(1000);
  declare();
  publish({"a", "b", "c", "d"});
  auto a = get(), b = get();
  settle(Outcome::nack_requeue, {*a});
  EXPECT_EQ(purge(), 3u);
  EXPECT_EQ(delayed(), 0u);
  advance(2000);
  EXPECT_EQ(get_body(), "-");
  settle(Outcome::channel_closed, {*b});
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(purge(), 1u);
  publish({"new"});
  EXPECT_EQ(get_body(), "new");
}

TEST_F(Flow, StatSaysReadyAndConsumers) {
  declare();
  publish({"a", "b"});
  EXPECT_EQ(stat().messages, 2u);
  consume(1, 1);
  auto reply = stat();
  EXPECT_EQ(reply.messages, 1u);
  EXPECT_EQ(reply.consumers, 1u);
}

TEST_F(Flow, SyncIsAnsweredAfterWhatCameBefore) {
  declare();
  on_shard([&] {
    publish_here({.body = "m", .publish_number = 1});
    queue_->sync(here(), ++token_);
  });
  EXPECT_EQ(last_reply().token, token_);
  EXPECT_EQ(sink_.confirms.size(), 1u);
}

TEST_F(Flow, ACreditedConsumerAsksForCreditAndGivesBackWhatItDoesNotUse) {
  declare();
  ConsumeRequest request = consumer(1);
  request.channel_limited = true;
  consume(request);
  EXPECT_TRUE(sink_.wanted.empty());
  publish({"a", "b"});
  ASSERT_EQ(sink_.wanted.size(), 1u);
  EXPECT_TRUE(sink_.deliveries.empty());
  on_shard([&] { queue_->grant(ConsumerId(1), 5); });
  EXPECT_EQ(sink_.bodies(), (Strings{"a", "b"}));
  ASSERT_EQ(sink_.returned.size(), 1u);
  EXPECT_EQ(sink_.returned[0].count, 3u);
  EXPECT_EQ(sink_.wanted.size(), 1u);
  publish({"c"});
  EXPECT_EQ(sink_.wanted.size(), 2u);
  on_shard([&] { queue_->set_channel_limited(ConsumerId(1), false); });
  EXPECT_EQ(sink_.bodies(), (Strings{"c"}));
}

TEST_F(Flow, HigherPrioritiesComeFirst) {
  identity_.max_priority = 5;
  declare();
  on_shard([&] {
    publish_here({.body = "low", .priority = 1});
    publish_here({.body = "high", .priority = 9});
    publish_here({.body = "none"});
  });
  EXPECT_EQ(get_body(), "high");
  EXPECT_EQ(get_body(), "low");
  EXPECT_EQ(get_body(), "none");
}

TEST_F(Flow, ManyMessagesGoThroughWithOneAcknowledgementForAll) {
  constexpr int kCount = 20'000;
  declare();
  consume(1);
  on_shard([&] {
    for (int i = 0; i < kCount; ++i) publish_here({.body = std::to_string(i), .persistent = false});
  });
  std::vector<Got> got = sink_.take();
  ASSERT_EQ(got.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(got[i].body, std::to_string(i));
  settle(Outcome::ack, got);
  EXPECT_EQ(figure(&QueueFigures::unacked), 0u);
}

}  // namespace
}  // namespace tarry::test
