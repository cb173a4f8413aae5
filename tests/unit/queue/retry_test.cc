// Rejections with a delay and the delivery counter (retry-spec 2, 3 and 5).
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

using Strings = std::vector<std::string>;

class Retries : public QueueWorld {
 protected:
  /// Everything is in one place: ready, out, waiting, or a dead letter.
  uint64_t places() {
    return ready() + delayed() + figure(&QueueFigures::unacked) + letters_->letters.size();
  }
};

TEST_F(Retries, TheExampleOfTheSpec) {
  retry_queue(500, 2, 5);
  settings_.retry.max_ms = 30'000;
  dead_letter_to("failed-messages");
  declare();
  consume(1);
  publish({"m"});
  uint32_t count = 0;
  for (int64_t delay : {500, 1000, 2000, 4000, 8000}) {
    auto got = sink_.take();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].counter, count++);
    settle(Outcome::reject_requeue, got);
    advance(delay - 1);
    EXPECT_TRUE(sink_.deliveries.empty()) << delay;
    advance(1);
  }
  auto sixth = sink_.take();
  ASSERT_EQ(sixth.size(), 1u);
  EXPECT_EQ(sixth[0].counter, 5u);
  settle(Outcome::reject_requeue, sixth);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::delivery_limit);
  EXPECT_EQ(letters_->letters[0].routing_keys, (Strings{"failed-messages"}));
  EXPECT_EQ(letters_->letters[0].exchange, "");
  EXPECT_EQ(letters_->letters[0].headers().find("x-delivery-count")->integer(), 5);
}

TEST_F(Retries, Rule8_NackMultipleAppliesToEachMessage) {
  retry_queue(100, 1, 1);
  dead_letter_to("dead");
  declare();
  publish({"a", "b", "c"});
  std::vector<Got> got{*get(), *get(), *get()};
  on_shard([&] {
    SettleRun all = got[0].run();
    all.run.count = 3;
    all.body_bytes = 3;
    queue_->settle(Outcome::nack_requeue, std::span(&all, 1));
  });
  EXPECT_EQ(delayed(), 3u);
  advance(100);
  got = {*get(), *get(), *get()};
  EXPECT_EQ(got[0].body + got[1].body + got[2].body, "abc");
  settle(Outcome::nack_requeue, got);
  EXPECT_EQ(letters_->letters.size(), 3u);
}

TEST_F(Retries, Rule9_TheDelayRunsFromTheSettlement) {
  retry_queue(100);
  declare();
  publish({"a"});
  auto got = get();
  advance(1000);  // held back by a transaction, say
  settle(Outcome::nack_requeue, {*got});
  advance(99);
  EXPECT_EQ(get_body(), "-");
  advance(1);
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Retries, Rule12_AConsumerTimeoutCountsAsAChannelClose) {
  retry_queue(10'000);
  declare();
  publish({"a"});
  settle(Outcome::timed_out, {*get()});
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->counter, 1u);
}

TEST_F(Retries, Rule13_AllCausesSpendOneBudgetAndLengthenTheNextDelay) {
  retry_queue(100, std::nullopt, 4);
  dead_letter_to("dead");
  declare();
  publish({"a"});
  settle(Outcome::channel_closed, {*get()});
  settle(Outcome::recovered, {*get()});
  auto got = get();
  EXPECT_EQ(got->counter, 2u);
  settle(Outcome::reject_requeue, {*got});  // the third: 100 * 3
  advance(299);
  EXPECT_EQ(get_body(), "-");
  advance(1);
  got = get();
  EXPECT_EQ(got->counter, 3u);
  settle(Outcome::timed_out, {*got});
  settle(Outcome::channel_closed, {*get()});
  EXPECT_EQ(get_body(), "-");
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::delivery_limit);
}

TEST_F(Retries, Rule16_TheCounterSurvivesARestart) {
  retry_queue(100, 1, 10);
  declare();
  publish({"instant", "delayed"});
  auto instant = get(), late = get();
  settle(Outcome::channel_closed, {*instant});
  settle(Outcome::nack_requeue, {*late});
  restart();
  EXPECT_EQ(delayed(), 1u);
  advance(100);
  auto first = get(), second = get();
  EXPECT_EQ(first->body, "delayed");
  EXPECT_EQ(first->counter, 1u);
  EXPECT_EQ(second->body, "instant");
  EXPECT_EQ(second->counter, 1u);
  EXPECT_TRUE(second->redelivered);
}

TEST_F(Retries, Rule16_ARaisedCounterIsNotSeenBeforeItsBarrier) {
  identity_.quorum_type = true;
  declare();
  consume(1);
  publish({"a"});
  auto got = sink_.take();
  shard_->post([&] {
    const SettleRun run = got[0].run();
    queue_->settle(Outcome::nack_requeue, std::span(&run, 1));
    const Ticket raised = queues_->store().ticket();
    sink_.after_deliver = [this, raised](ConsumerId) {
      EXPECT_TRUE(queues_->store().passed(raised));
    };
  });
  turns();
  EXPECT_EQ(sink_.deliveries.size(), 1u);
}

TEST_F(Retries, Rule17_OverTheLimitDeadLettersAtOnceWithoutAConsumer) {
  settings_.delivery_limit = 0;
  dead_letter_to("dead");
  declare();
  publish({"a", "b"});
  auto a = get(), b = get();
  settle(Outcome::nack_requeue, {*a});
  settle(Outcome::channel_closed, {*b});
  ASSERT_EQ(letters_->letters.size(), 2u);
  for (const auto& letter : letters_->letters) {
    EXPECT_EQ(letter.reason, DeathReason::delivery_limit);
  }
  EXPECT_EQ(ready() + delayed(), 0u);
}

TEST_F(Retries, Rule17_TheLimitGoesBeforeTheExpiry) {
  retry_queue(100, 1, 0);
  dead_letter_to("dead");
  declare();
  publish({.body = "a", .expiration = "50"});
  auto got = get();
  advance(60);
  settle(Outcome::nack_requeue, {*got});
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::delivery_limit);
}

TEST_F(Retries, Rule17_AnExpiredOneIsNotParked) {
  retry_queue(100);
  dead_letter_to("dead");
  declare();
  publish({.body = "a", .expiration = "50"});
  auto got = get();
  advance(60);
  settle(Outcome::nack_requeue, {*got});
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::expired);
  EXPECT_EQ(delayed(), 0u);
}

TEST_F(Retries, Rule19_TheCompanionIsOrderedByDueTime) {
  retry_queue(100, std::nullopt);
  declare();
  publish({"slow", "fast"});
  auto slow = get(), fast = get();
  settle(Outcome::channel_closed, {*slow});
  settle(Outcome::nack_requeue, {*get()});  // the second return: 200
  settle(Outcome::nack_requeue, {*fast});   // 100
  EXPECT_EQ(figure(&QueueFigures::next_due_ms) + 100, figure(&QueueFigures::last_due_ms));
  advance(1000);
  EXPECT_EQ(get_body(), "fast");
  EXPECT_EQ(get_body(), "slow");
}

TEST_F(Retries, Rule22_WaitingMessagesAreNotReadyAndNotInMaxLength) {
  retry_queue(1000);
  settings_.max_length = 1;
  settings_.overflow = Overflow::reject_publish;
  declare();
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  publish({.body = "b", .publish_number = 1});
  EXPECT_FALSE(sink_.confirms.at(0).refused);
  EXPECT_EQ(stat().messages, 1u);
  EXPECT_EQ(delayed(), 1u);
}

TEST_F(Retries, Rule22_DeleteIfEmptyIsRefusedAndDeleteCountsThem) {
  retry_queue(1000);
  declare();
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  auto refused = remove(false, true);
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, 406);
  EXPECT_EQ(refused.error->text, "queue 'q' in vhost '/' not empty");
  EXPECT_EQ(remove().messages, 1u);
}

TEST_F(Retries, Rule23_ADelayIsRoundedUpAndNeverShort) {
  retry_queue(100);
  declare();
  clock_.advance_ns(300'000);  // not at a whole ms
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  clock_.advance_ns(100 * 1'000'000);
  turns();
  EXPECT_EQ(get_body(), "-");
  clock_.advance_ns(699'999);
  turns();
  EXPECT_EQ(get_body(), "-");
  clock_.advance_ns(1);
  turns();
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Retries, Rule23_SeveralRejectionsDoNotWaitForOneAnother) {
  retry_queue(1000);
  declare();
  consume(1);
  publish({"a", "b"});
  auto got = sink_.take();
  settle(Outcome::nack_requeue, {got[0]});
  advance(400);
  settle(Outcome::nack_requeue, {got[1]});
  advance(600);
  EXPECT_EQ(sink_.bodies(), (Strings{"a"}));
  advance(400);
  EXPECT_EQ(sink_.bodies(), (Strings{"b"}));
}

TEST_F(Retries, Rule24_ReturnsThenInstantRequeuesThenFresh) {
  retry_queue(100, 1);
  declare();
  publish({"r1", "r2", "i1", "i2", "fresh"});
  auto r1 = get(), r2 = get(), i1 = get(), i2 = get();
  settle(Outcome::nack_requeue, {*r2});
  advance(1);
  settle(Outcome::nack_requeue, {*r1});
  settle(Outcome::channel_closed, {*i2, *i1});
  advance(100);
  Strings order;
  for (int i = 0; i < 5; ++i) order.push_back(get_body());
  EXPECT_EQ(order, (Strings{"r2", "r1", "i1", "i2", "fresh"}));
}

TEST_F(Retries, Rule24_AReturnKeepsItsPriority) {
  retry_queue(100, 1);
  identity_.max_priority = 9;
  declare();
  on_shard([&] {
    publish_here({.body = "low", .priority = 1});
    publish_here({.body = "high", .priority = 5});
  });
  auto high = get(), low = get();
  settle(Outcome::nack_requeue, {*low, *high});
  advance(100);
  EXPECT_EQ(get_body(), "high");
  EXPECT_EQ(get_body(), "low");
}

TEST_F(Retries, Rule25_AFullQueueKeepsTheReturnForOneMorePeriod) {
  for (Overflow overflow : {Overflow::reject_publish, Overflow::reject_publish_dlx}) {
    retry_queue(1000, 1, 2);
    settings_.max_length = 1;
    settings_.overflow = overflow;
    dead_letter_to("dead");
    declare();
    publish({"first"});
    settle(Outcome::nack_requeue, {*get()});
    publish({"second"});
    advance(1000);
    EXPECT_EQ(ready(), 1u);
    EXPECT_EQ(delayed(), 1u);
    EXPECT_EQ(figure(&QueueFigures::retries_postponed), 1u);
    EXPECT_EQ(get_body(), "second");
    advance(999);
    EXPECT_EQ(get_body(), "-");
    advance(1);
    auto got = get();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->body, "first");
    EXPECT_EQ(got->counter, 1u);
    EXPECT_TRUE(letters_->letters.empty());
  }
}

TEST_F(Retries, Rule25_WhenNothingIsReadyAReturnIsLetIn) {
  retry_queue(1000);
  settings_.max_length = 0;
  settings_.overflow = Overflow::drop_head;
  declare();
  consume(1);
  publish({"first"});
  auto got = sink_.take();
  ASSERT_EQ(got.size(), 1u);
  settings_.overflow = Overflow::reject_publish;
  on_shard([&] { queue_->apply(settings_); });
  settle(Outcome::nack_requeue, got);
  advance(1000);
  EXPECT_EQ(sink_.bodies(), (Strings{"first"}));
}

TEST_F(Retries, Rule25_DropHeadSparesReturns) {
  retry_queue(300);
  settings_.max_length = 1;
  dead_letter_to("dead");
  declare();
  publish({"first"});
  settle(Outcome::nack_requeue, {*get()});
  publish({"second"});
  advance(300);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "second");
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::maxlen);
  publish({"third"});  // the same rule for any publish: the newcomer is no return
  ASSERT_EQ(letters_->letters.size(), 2u);
  EXPECT_EQ(letters_->letters[1].body, "third");
  EXPECT_EQ(get_body(), "first");
}

TEST_F(Retries, Rule25_WithReturnsAloneTheOldestIsTheVictim) {
  retry_queue(100, 1);
  dead_letter_to("dead");
  declare();
  publish({"a", "b"});
  auto a = get(), b = get();
  settle(Outcome::nack_requeue, {*b});
  advance(1);
  settle(Outcome::nack_requeue, {*a});
  settings_.max_length = 1;
  on_shard([&] { queue_->apply(settings_); });
  advance(200);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "b");
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Retries, Rule25_AnInstantRequeueIsNeverRefused) {
  retry_queue(100);
  settings_.max_length = 1;
  settings_.overflow = Overflow::reject_publish;
  declare();
  publish({"a"});
  auto a = get();
  publish({"b"});
  settle(Outcome::channel_closed, {*a});
  EXPECT_EQ(ready(), 2u);
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Retries, Rule26_TheQueueTtlCountsTheTotalAge) {
  retry_queue(300, 1);
  settings_.message_ttl_ms = 1000;
  dead_letter_to("dead");
  declare();
  consume(1);
  publish({"m"});
  for (uint32_t n = 0; n < 4; ++n) {
    auto got = sink_.take();
    ASSERT_EQ(got.size(), 1u) << n;
    EXPECT_EQ(got[0].counter, n);
    settle(Outcome::nack_requeue, got);
    if (n < 3) advance(300);
  }
  advance(99);
  EXPECT_TRUE(letters_->letters.empty());
  advance(1);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::expired);
  advance(5000);
  EXPECT_TRUE(sink_.deliveries.empty());
}

TEST_F(Retries, Rule26_AWaitingOneExpiresAtItsExpiryWithTheOwnersName) {
  retry_queue(3000, 1);
  dead_letter_to("dead");
  declare();
  publish({.body = "keep"});
  settle(Outcome::nack_requeue, {*get()});
  publish({.body = "short", .expiration = "400"});
  settle(Outcome::nack_requeue, {*get()});
  advance(399);
  EXPECT_TRUE(letters_->letters.empty());
  advance(1);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "short");
  const FieldTable headers = letters_->letters[0].headers();
  EXPECT_EQ(*headers.find("x-first-death-queue")->text(), "q");
  EXPECT_EQ(delayed(), 1u);
  advance(2600);
  EXPECT_EQ(get_body(), "keep");
  EXPECT_EQ(get_body(), "-");
}

TEST_F(Retries, Rule26_AReturnThatNobodyTakesExpiresOnTime) {
  retry_queue(100, 1);
  dead_letter_to("dead");
  declare();
  publish({.body = "first"});
  publish({.body = "short", .expiration = "400"});
  auto first = get(), brief = get();
  settle(Outcome::nack_requeue, {*first});
  settle(Outcome::nack_requeue, {*brief});
  advance(100);
  EXPECT_EQ(ready(), 2u);
  advance(299);
  EXPECT_EQ(ready(), 2u);
  advance(1);
  EXPECT_EQ(ready(), 1u);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "short");
}

TEST_F(Retries, Rule27_AMessageIsInOnePlaceAtEveryMoment) {
  retry_queue(50, 1, 3);
  dead_letter_to("dead");
  declare();
  publish({"m"});
  for (int n = 0; n <= 3; ++n) {
    EXPECT_EQ(places(), 1u);
    auto got = get();
    ASSERT_TRUE(got);
    EXPECT_EQ(places(), 1u);
    settle(Outcome::nack_requeue, {*got});
    EXPECT_EQ(places(), 1u);
    advance(25);
    EXPECT_EQ(places(), 1u);
    restart();
    EXPECT_EQ(ready() + delayed(), n < 3 ? 1u : 0u);
    advance(25);
  }
}

TEST_F(Retries, Rule28_WithoutRoomForTheEventItIsRequeuedAtOnce) {
  retry_queue(60'000);
  declare();
  publish({"a"});
  auto got = get();
  files_.full = true;
  wait_until([&] { return store_->disk_alarm(); });
  settle(Outcome::nack_requeue, {*got});
  EXPECT_EQ(delayed(), 0u);
  got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->counter, 1u);
  files_.full = false;
  wait_until([&] { return !store_->disk_alarm(); });
  settle(Outcome::nack_requeue, {*got});  // the next one waits again
  EXPECT_EQ(delayed(), 1u);
  EXPECT_FALSE(get());
}

TEST_F(Retries, Rule29_AStepOfTheSystemsClockMovesNothing) {
  retry_queue(1000);
  declare();
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  clock_.step_system_ms(3'600'000);
  advance(999);
  EXPECT_EQ(get_body(), "-");
  clock_.step_system_ms(-7'200'000);
  advance(1);
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Retries, Rule29_WhatCameDueWhileDownIsDrainedAtOnceInDueOrder) {
  retry_queue(100, std::nullopt);
  declare();
  publish({"late", "early", "fresh"});
  auto late = get(), early = get();
  settle(Outcome::channel_closed, {*late});
  settle(Outcome::nack_requeue, {*get()});
  settle(Outcome::nack_requeue, {*early});
  EXPECT_EQ(delayed(), 2u);
  clock_.advance_ms(1'000'000);
  restart();
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(get_body(), "early");
  EXPECT_EQ(get_body(), "late");
  EXPECT_EQ(get_body(), "fresh");
}

TEST_F(Retries, AManyDueAtOnceComeBackAllAndOnce) {
  constexpr int kCount = 10'000;
  retry_queue(100, 1);
  declare();
  consume(1);
  on_shard([&] {
    for (int i = 0; i < kCount; ++i) publish_here({.body = std::to_string(i)});
  });
  settle(Outcome::nack_requeue, sink_.take());
  EXPECT_EQ(delayed(), static_cast<uint64_t>(kCount));
  advance(99);
  EXPECT_TRUE(sink_.deliveries.empty());
  advance(1);
  for (int i = 0; i < 20; ++i) turns();
  std::vector<Got> got = sink_.take();
  ASSERT_EQ(got.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(got[i].body, std::to_string(i));
}

TEST_F(Retries, TheOperatorEmptiesTheCompanionAndDueReturnsStay) {
  retry_queue(100, std::nullopt);
  declare();
  publish({"due", "waiting"});
  auto due = get(), waiting = get();
  settle(Outcome::nack_requeue, {*due});
  advance(100);
  settle(Outcome::nack_requeue, {*waiting});
  on_shard([&] { queue_->purge_delayed(); });
  EXPECT_EQ(delayed(), 0u);
  advance(10'000);
  EXPECT_EQ(get_body(), "due");
  EXPECT_EQ(get_body(), "-");
  EXPECT_TRUE(letters_->letters.empty());
}

TEST_F(Retries, Rule36_NewSettingsHoldForRejectionsFromThenOn) {
  retry_queue(1000);
  declare();
  publish({"a", "b"});
  auto a = get(), b = get();
  settle(Outcome::nack_requeue, {*a});
  settings_.retry.min_ms = 10;
  on_shard([&] { queue_->apply(settings_); });
  settle(Outcome::nack_requeue, {*b});
  advance(10);
  EXPECT_EQ(get_body(), "b");
  EXPECT_EQ(get_body(), "-");
  advance(990);
  EXPECT_EQ(get_body(), "a");
}

}  // namespace
}  // namespace tarry::test
