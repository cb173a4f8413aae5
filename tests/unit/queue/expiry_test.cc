// Time to live and limits.
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

using Strings = std::vector<std::string>;

class Expiry : public QueueWorld {
 protected:
  Expiry() { dead_letter_to("dead"); }
  Strings dead() {
    Strings out;
    for (const auto& letter : letters_->letters) out.push_back(letter.body);
    return out;
  }
};
using Limits = Expiry;

TEST_F(Expiry, TheQueuesTtlTakesMessagesWithNobodyConsuming) {
  settings_.message_ttl_ms = 200;
  declare();
  publish({"a"});
  advance(100);
  publish({"b"});
  advance(99);
  EXPECT_EQ(dead(), (Strings{}));
  advance(1);
  EXPECT_EQ(dead(), (Strings{"a"}));
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::expired);
  advance(100);
  EXPECT_EQ(dead(), (Strings{"a", "b"}));
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Expiry, TheLowerTtlCounts) {
  settings_.message_ttl_ms = 10'000;
  declare();
  publish({.body = "a", .expiration = "200"});
  advance(200);
  EXPECT_EQ(dead(), (Strings{"a"}));
  settings_.message_ttl_ms = 200;
  on_shard([&] { queue_->apply(settings_); });
  publish({.body = "b", .expiration = "10000"});
  advance(200);
  EXPECT_EQ(dead(), (Strings{"a", "b"}));
}

TEST_F(Expiry, AShortTtlBehindALongOneLeavesOnTime) {
  declare();
  publish({.body = "never"});
  publish({.body = "long", .expiration = "5000"});
  publish({.body = "short", .expiration = "300"});
  publish({.body = "longer", .expiration = "9000"});
  publish({.body = "middle", .expiration = "1000"});
  advance(299);
  EXPECT_EQ(dead(), (Strings{}));
  advance(1);
  EXPECT_EQ(dead(), (Strings{"short"}));
  EXPECT_EQ(ready(), 4u);
  advance(700);
  EXPECT_EQ(dead(), (Strings{"short", "middle"}));
  Strings left;
  for (int i = 0; i < 4; ++i) left.push_back(get_body());
  EXPECT_EQ(left, (Strings{"never", "long", "longer", "-"}));
  EXPECT_EQ(figure(&QueueFigures::ready_bytes), 0u);
}

TEST_F(Expiry, AnEntryOfADeliveredMessageIsHarmless) {
  declare();
  publish({.body = "never"});
  publish({.body = "short", .expiration = "300"});
  auto never = get(), brief = get();
  advance(400);
  EXPECT_EQ(dead(), (Strings{}));  // what is out does not expire
  settle(Outcome::ack, {*brief});
  settle(Outcome::ack, {*never});
  EXPECT_EQ(dead(), (Strings{}));
}

TEST_F(Expiry, OneThatComesBackAfterItsTimeExpires) {
  declare();
  publish({.body = "a", .expiration = "200"});
  auto got = get();
  advance(600);
  EXPECT_EQ(dead(), (Strings{}));
  settle(Outcome::nack_requeue, {*got});
  EXPECT_EQ(dead(), (Strings{"a"}));
}

TEST_F(Expiry, OneThatComesBackBeforeItsTimeExpiresOnTime) {
  declare();
  publish({.body = "first"});
  publish({.body = "a", .expiration = "200"});
  auto first = get(), got = get();
  settle(Outcome::nack_requeue, {*got});
  settle(Outcome::nack_requeue, {*first});
  advance(199);
  EXPECT_EQ(ready(), 2u);
  advance(1);
  EXPECT_EQ(dead(), (Strings{"a"}));
  EXPECT_EQ(get_body(), "first");
}

TEST_F(Expiry, ATtlThatAPolicySetsHoldsForWhatWasRequeuedToo) {
  declare();
  publish({"a", "b"});
  auto a = get(), b = get();
  settle(Outcome::nack_requeue, {*a, *b});
  settings_.message_ttl_ms = 500;
  on_shard([&] { queue_->apply(settings_); });
  advance(499);
  EXPECT_EQ(ready(), 2u);
  advance(1);
  EXPECT_EQ(dead(), (Strings{"a", "b"}));
}

TEST_F(Expiry, ATtlOfZeroGoesAtOnceOrNever) {
  declare();
  publish({.body = "a", .expiration = "0"});
  EXPECT_EQ(dead(), (Strings{"a"}));
  consume(1);
  publish({.body = "b", .expiration = "0"});
  EXPECT_EQ(sink_.bodies(), (Strings{"b"}));
  EXPECT_EQ(dead(), (Strings{"a"}));
}

TEST_F(Expiry, AQueueTtlOfZeroToo) {
  settings_.message_ttl_ms = 0;
  declare();
  publish({"a"});
  EXPECT_EQ(dead(), (Strings{"a"}));
  consume(1);
  publish({"b"});
  EXPECT_EQ(sink_.bodies(), (Strings{"b"}));
}

TEST_F(Expiry, NeverEarlyBetweenWholeMilliseconds) {
  settings_.message_ttl_ms = 100;
  declare();
  clock_.advance_ns(500'000);
  publish({"a"});
  clock_.advance_ns(100 * 1'000'000 - 1);
  turns();
  EXPECT_EQ(ready(), 1u);
  clock_.advance_ns(500'001);
  turns();
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Expiry, TheAgeGoesOnOverARestart) {
  declare();
  publish({.body = "a", .expiration = "1000"});
  clock_.advance_ms(900);
  restart();
  EXPECT_EQ(ready(), 1u);
  advance(100);
  wait_until([&] { return !letters_->letters.empty(); });  // its record is read from disk
  EXPECT_EQ(dead(), (Strings{"a"}));
}

TEST_F(Expiry, WithoutADeadLetterExchangeTheyAreGoneAndCounted) {
  settings_.dead_letter_exchange.reset();
  settings_.message_ttl_ms = 10;
  declare();
  publish({"a", "b"});
  advance(10);
  EXPECT_EQ(ready(), 0u);
  EXPECT_EQ(queue_->figures().dropped[static_cast<size_t>(DeathReason::expired)].load(), 2u);
}

TEST_F(Limits, DropHeadKeepsTheNewest) {
  settings_.max_length = 2;
  declare();
  publish({"a", "b", "c", "d"});
  EXPECT_EQ(dead(), (Strings{"a", "b"}));
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::maxlen);
  EXPECT_EQ(get_body(), "c");
}

TEST_F(Limits, BytesAreThoseOfBodies) {
  settings_.max_length_bytes = 250;
  declare();
  for (char c : {'0', '1', '2', '3', '4', '5'}) publish({.body = std::string(100, c)});
  EXPECT_EQ(ready(), 2u);
  EXPECT_EQ(get_body()[0], '4');
}

TEST_F(Limits, WhatAConsumerTakesIsNotDropped) {
  settings_.max_length = 0;
  declare();
  consume(1, 2);
  publish({"a", "b", "c"});
  EXPECT_EQ(sink_.bodies(), (Strings{"a", "b"}));
  EXPECT_EQ(dead(), (Strings{"c"}));
}

TEST_F(Limits, ARequeueIntoAFullDropHeadQueueKeepsTheLimit) {
  settings_.max_length = 2;
  declare();
  publish({"0", "1"});
  std::vector<Got> out{*get(), *get()};
  publish({"2", "3"});
  settle(Outcome::nack_requeue, out);
  EXPECT_EQ(ready(), 2u);
  EXPECT_EQ(dead(), (Strings{"0", "1"}));
}

TEST_F(Limits, TheVictimIsTheOldestOfTheLowestPriority) {
  identity_.max_priority = 5;
  settings_.max_length = 2;
  declare();
  on_shard([&] {
    publish_here({.body = "high", .priority = 5});
    publish_here({.body = "low1", .priority = 1});
    publish_here({.body = "low2", .priority = 1});
  });
  EXPECT_EQ(dead(), (Strings{"low1"}));
}

TEST_F(Limits, RejectPublishRefusesTheNewest) {
  settings_.max_length = 1;
  settings_.overflow = Overflow::reject_publish;
  declare();
  publish({.body = "a", .publish_number = 1});
  publish({.body = "b", .publish_number = 2});
  ASSERT_EQ(sink_.confirms.size(), 2u);
  EXPECT_FALSE(sink_.confirms[0].refused);
  EXPECT_TRUE(sink_.confirms[1].refused);
  EXPECT_EQ(dead(), (Strings{}));
  EXPECT_EQ(ready(), 1u);
}

TEST_F(Limits, RejectPublishDlxDeadLettersTheRefusedOne) {
  settings_.max_length = 1;
  settings_.overflow = Overflow::reject_publish_dlx;
  declare();
  publish({"a"});
  publish({.body = "b", .publish_number = 2});
  EXPECT_TRUE(sink_.confirms.at(0).refused);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "b");
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::maxlen);
  EXPECT_EQ(letters_->letters[0].origin.queue, QueueId{});
  EXPECT_TRUE(letters_->dropped.empty());
}

// Else who sent it could send it again, and "dead" have it twice.
TEST_F(Limits, RejectPublishDlxTakesADeadLetterAndLetsItDieHere) {
  settings_.max_length = 1;
  settings_.overflow = Overflow::reject_publish_dlx;
  declare();
  publish({"a"});
  const Origin origin{QueueId(99), 0, 4, 5};
  const std::string route("\1e\1k", 4);
  const std::string header = PropertiesBuilder{}.build(1);
  PublishRequest request;
  request.route = as_bytes(route);
  request.header = as_bytes(header);
  request.body = as_bytes("m");
  request.persistent = true;
  request.origin = &origin;
  request.publish_number = 2;
  request.from = here();
  on_shard([&] { queue_->publish(request); });
  EXPECT_FALSE(sink_.confirms.at(0).refused);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "m");
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::maxlen);
  EXPECT_EQ(letters_->letters[0].origin.queue, queue_->id);
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Limits, ALimitThatAPolicySetsIsAppliedAtOnce) {
  declare();
  publish({"a", "b", "c"});
  settings_.max_length = 1;
  on_shard([&] { queue_->apply(settings_); });
  EXPECT_EQ(dead(), (Strings{"a", "b"}));
}

}  // namespace
}  // namespace tarry::test
