// x-dead-letter-strategy at-least-once (retry-spec 41).
#include <gtest/gtest.h>

#include <set>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

class HeldLetters : public QueueWorld {
 protected:
  void at_least_once() {
    settings_.dead_letter_at_least_once = true;
    dead_letter_to("dead");
  }
  uint64_t dead_lettering() { return figure(&QueueFigures::dead_lettering); }
  uint64_t dropped() {
    uint64_t sum = 0;
    for (auto& count : queue_->figures().dropped) sum += count;
    return sum;
  }
};

TEST_F(HeldLetters, Rule41_ALetterThatNoTargetTakesIsHeldAndTriedAgainWithBackoff) {
  at_least_once();
  declare();
  for (DeadLetterResult no : {DeadLetterResult::refused, DeadLetterResult::no_route,
                              DeadLetterResult::no_exchange, DeadLetterResult::cycle}) {
    letters_->letters.clear();
    letters_->answer = no;
    publish({"m"});
    settle(Outcome::drop, {*get()});
    ASSERT_EQ(letters_->letters.size(), 1u);
    EXPECT_EQ(dead_lettering(), 1u);
    EXPECT_EQ(ready(), 0u);
    EXPECT_EQ(figure(&QueueFigures::unacked), 0u);
    advance(99);
    EXPECT_EQ(letters_->letters.size(), 1u);
    advance(1);
    EXPECT_EQ(letters_->letters.size(), 2u);
    advance(199);
    EXPECT_EQ(letters_->letters.size(), 2u);
    advance(1);
    EXPECT_EQ(letters_->letters.size(), 3u);
    letters_->answer = DeadLetterResult::stored;
    advance(400);
    EXPECT_EQ(letters_->letters.size(), 4u);
    EXPECT_EQ(letters_->letters.back().reason, DeathReason::rejected);
    EXPECT_EQ(dead_lettering(), 0u);
  }
  EXPECT_EQ(dropped(), 0u);
  EXPECT_EQ(queue_->figures().dead_lettered[static_cast<size_t>(DeathReason::rejected)], 4u);
}

TEST_F(HeldLetters, Rule32_WithoutTheStrategyItIsDroppedAndCounted) {
  dead_letter_to("dead");
  declare();
  letters_->answer = DeadLetterResult::refused;
  publish({"m"});
  settle(Outcome::drop, {*get()});
  EXPECT_EQ(dead_lettering(), 0u);
  EXPECT_EQ(dropped(), 1u);
}

// Retry-spec 32 lets a target refuse for want of room in the queue, and says nothing of the disk:
// that is nobody's decision, and nothing confirmed may be lost by it.
TEST_F(HeldLetters, WhatFindsNoRoomOnTheDiskIsHeldWhateverTheStrategyUntilThereIsRoom) {
  dead_letter_to("dead");
  declare();
  letters_->answer = DeadLetterResult::no_room;
  publish({"m"});
  settle(Outcome::drop, {*get()});
  EXPECT_EQ(dead_lettering(), 1u);
  EXPECT_EQ(dropped(), 0u);
  advance(100);
  EXPECT_EQ(letters_->letters.size(), 2u);
  letters_->answer = DeadLetterResult::stored;
  advance(200);
  EXPECT_EQ(letters_->letters.size(), 3u);
  EXPECT_EQ(dead_lettering(), 0u);
  EXPECT_EQ(dropped(), 0u);
  EXPECT_EQ(queue_->figures().dead_lettered[static_cast<size_t>(DeathReason::rejected)], 1u);
  wait_until([&] { return letters_->dropped.size() == 1; });
}

TEST_F(HeldLetters, Rule41_HeldLettersSurviveKill9WithReasonCountAndError) {
  retry_queue(100, 1, 1);
  at_least_once();
  declare();
  letters_->answer = DeadLetterResult::refused;
  publish({"limit", "said"});
  Got first = *get(), second = *get();
  settle(Outcome::nack_requeue, {first});
  OwnWord word;
  word.permanent = true;
  word.error = "no such account";
  say(second, word);
  advance(100);
  settle(Outcome::nack_requeue, {*get()});
  EXPECT_EQ(dead_lettering(), 2u);
  crash();  // the targets take letters now, and what is found is tried at once
  EXPECT_EQ(ready() + delayed() + figure(&QueueFigures::unacked), 0u);
  wait_until([&] { return letters_->letters.size() == 2; });  // their records are read from disk
  turns();
  EXPECT_EQ(dead_lettering(), 0u);
  for (const auto& letter : letters_->letters) {
    const FieldTable headers = letter.headers();
    if (letter.body == "limit") {
      EXPECT_EQ(letter.reason, DeathReason::delivery_limit);
      EXPECT_EQ(headers.find("x-delivery-count")->integer(), 1);
    } else {
      EXPECT_EQ(letter.reason, DeathReason::rejected);
      EXPECT_EQ(*headers.find("x-last-error")->text(), "no such account");
    }
  }
  crash();
  EXPECT_EQ(ready() + delayed() + dead_lettering(), 0u);
}

TEST_F(HeldLetters, Rule41_AWaitQueueThatExpiresIntoAFullQueueLosesNothing) {
  settings_.message_ttl_ms = 50;
  at_least_once();
  declare();
  letters_->answer = DeadLetterResult::refused;
  constexpr int kCount = 3000;
  on_shard([&] {
    for (int i = 0; i < kCount; ++i) publish_here({.body = std::to_string(i)});
  });
  advance(50);
  EXPECT_EQ(dead_lettering(), uint64_t{kCount});
  EXPECT_EQ(ready(), 0u);
  advance(500);
  // While nobody takes them the tries are few: a batch now and then.
  EXPECT_LT(letters_->letters.size(), 2u * kCount);
  letters_->letters.clear();
  letters_->answer = DeadLetterResult::stored;
  advance(10'000);
  std::set<std::string> bodies;
  for (const auto& letter : letters_->letters) {
    EXPECT_EQ(letter.reason, DeathReason::expired);
    bodies.insert(letter.body);
  }
  EXPECT_EQ(bodies.size(), size_t{kCount});
  EXPECT_EQ(letters_->letters.size(), size_t{kCount});
  EXPECT_EQ(dead_lettering(), 0u);
}

TEST_F(HeldLetters, Rule41_WhereOneGotThroughTheOthersDoNotWaitLong) {
  at_least_once();
  declare();
  letters_->answer.reset();
  constexpr size_t kCount = 20;
  for (size_t i = 0; i < kCount; ++i) publish({std::to_string(i)});
  for (size_t i = 0; i < kCount; ++i) settle(Outcome::drop, {*get()});
  size_t room = 0;
  const auto pass_second = [&] {
    for (int i = 0; i < 20; ++i) {
      on_shard([&] {
        const size_t came = letters_->letters.size();
        letters_->answer_all(room);
        room -= std::min(room, came);
      });
      advance(50);
    }
  };
  for (int i = 0; i < 60; ++i) pass_second();  // each one's wait has grown to the longest
  EXPECT_EQ(dead_lettering(), kCount);
  room = 1;
  for (int i = 0; i < 11 && dead_lettering() == kCount; ++i) pass_second();
  EXPECT_EQ(dead_lettering(), kCount - 1);
  // A consumer there takes one a second: the letters go at its pace, not one in ten seconds.
  for (size_t left = kCount - 1; left > 0; --left) {
    room = 1;
    pass_second();
    EXPECT_LT(dead_lettering(), left);
  }
}

TEST_F(HeldLetters, Rule41_PurgeSparesThemAndDeleteIfEmptyIsRefused) {
  at_least_once();
  declare();
  letters_->answer = DeadLetterResult::no_route;
  publish({"held", "ready"});
  settle(Outcome::drop, {*get()});
  EXPECT_EQ(purge(), 1u);
  EXPECT_EQ(dead_lettering(), 1u);
  auto reply = remove(false, true);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->code, 406);
  advance(100);
  EXPECT_EQ(letters_->letters.size(), 2u);
}

TEST_F(HeldLetters, Rule41_TheyWaitAlsoWhileNoExchangeIsSet) {
  at_least_once();
  declare();
  letters_->answer = DeadLetterResult::refused;
  publish({"m"});
  settle(Outcome::drop, {*get()});
  QueueSettings without = settings_;
  without.dead_letter_exchange.reset();
  on_shard([&] { queue_->apply(without); });
  advance(100);
  EXPECT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(dead_lettering(), 1u);
  on_shard([&] { queue_->apply(settings_); });
  letters_->answer = DeadLetterResult::stored;
  advance(200);
  EXPECT_EQ(letters_->letters.size(), 2u);
  EXPECT_EQ(dead_lettering(), 0u);
}

}  // namespace
}  // namespace tarry::test
