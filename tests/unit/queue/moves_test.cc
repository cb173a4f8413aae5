// Dead letters on their way, and what a crash leaves of them (retry-spec 31 and 32).
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

class Moves : public QueueWorld {
 protected:
  Moves() { dead_letter_to("dead"); }
  uint64_t dropped(DeathReason reason) {
    return queue_->figures().dropped[static_cast<size_t>(reason)].load();
  }
  uint64_t dead_lettered(DeathReason reason) {
    return queue_->figures().dead_lettered[static_cast<size_t>(reason)].load();
  }
  void answer(uint64_t token, DeadLetterResult result) {
    on_shard([&] { queues_->dead_letter_done(*queue_, token, result); });
  }
};

TEST_F(Moves, Rule32_TheSourceStaysUntilTheTargetsHaveStoredIt) {
  letters_->answer.reset();
  declare();
  publish({"a"});
  settle(Outcome::drop, {*get()});
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(dead_lettered(DeathReason::rejected), 0u);
  EXPECT_TRUE(letters_->dropped.empty());
  restart();  // without an answer: the record must still be there
  letters_->answer.reset();
  EXPECT_EQ(ready(), 1u);
  settle(Outcome::drop, {*get()});
  ASSERT_EQ(letters_->letters.size(), 1u);
  answer(letters_->letters[0].token, DeadLetterResult::stored);
  EXPECT_EQ(letters_->dropped, (std::vector<uint64_t>{letters_->letters[0].token}));
  EXPECT_EQ(dead_lettered(DeathReason::rejected), 1u);
  restart();
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Moves, Rule32_ADropIsCountedByReason) {
  declare();
  letters_->answer = DeadLetterResult::no_exchange;
  publish({"a"});
  settle(Outcome::drop, {*get()});
  letters_->answer = DeadLetterResult::cycle;
  publish({"b"});
  settle(Outcome::drop, {*get()});
  EXPECT_EQ(dropped(DeathReason::rejected), 2u);
  EXPECT_EQ(dead_lettered(DeathReason::rejected), 0u);
  EXPECT_TRUE(letters_->dropped.empty());
  restart();
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Moves, TheLetterCarriesWhatTheTargetsNeed) {
  declare();
  publish({.body = "a", .persistent = true, .hops = 3});
  auto got = get();
  settle(Outcome::drop, {*got});
  const auto& letter = letters_->letters.at(0);
  EXPECT_EQ(letter.source, queue_.get());
  EXPECT_EQ(letter.hops, 4);
  EXPECT_TRUE(letter.persistent);
  EXPECT_EQ(letter.origin.queue, queue_->id);
  EXPECT_EQ(letter.origin.segment, got->position.segment);
  EXPECT_EQ(letter.origin.ordinal, got->position.ordinal);
}

TEST_F(Moves, Rule31_TheLetterNamesTheQueuesItMustNotEnter) {
  settings_.message_ttl_ms = 10;
  declare();
  publish({"a"});
  advance(10);
  EXPECT_EQ(letters_->letters.at(0).cycle_queues, (std::vector<std::string>{"q"}));
}

TEST_F(Moves, ARejectedRunBecomesOneLetterAMessage) {
  declare();
  publish({"a", "b", "c"});
  std::vector<Got> got{*get(), *get(), *get()};
  on_shard([&] {
    SettleRun all = got[0].run();
    all.run.count = 3;
    queue_->settle(Outcome::drop, std::span(&all, 1));
  });
  ASSERT_EQ(letters_->letters.size(), 3u);
  EXPECT_EQ(letters_->letters[2].body, "c");
  EXPECT_EQ(letters_->dropped.size(), 3u);
}

TEST_F(Moves, NothingIsDeadLetteredByAcknowledgingPurgingOrDeleting) {
  declare();
  publish({"a", "b", "c"});
  settle(Outcome::ack, {*get()});
  auto out = get();
  EXPECT_EQ(purge(), 1u);
  EXPECT_EQ(remove().messages, 0u);
  EXPECT_TRUE(letters_->letters.empty());
}

TEST_F(Moves, ExpiryPausesWhileTooMuchIsInFlight) {
  letters_->answer.reset();
  declare();
  on_shard([&] {
    for (int i = 0; i < 40; ++i) {
      publish_here({.body = std::string(1'000'000, 'x'), .expiration = "10", .persistent = false});
    }
  });
  advance(10);
  for (int i = 0; i < 30; ++i) turns();
  const size_t in_flight = letters_->letters.size();
  EXPECT_GE(in_flight, 16u);
  EXPECT_LT(in_flight, 20u);
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_GT(letters_->letters.size(), i);
    answer(letters_->letters[i].token, DeadLetterResult::stored);
  }
  EXPECT_EQ(letters_->letters.size(), 40u);
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Moves, ARecoveredMoveIsRoutedAgainPastItsHolders) {
  letters_->answer.reset();
  declare();
  publish({"a", "b"});
  auto a = get();
  settle(Outcome::drop, {*a});
  restart();
  letters_->answer.reset();
  ASSERT_EQ(ready(), 2u);
  const Origin origin{queue_->id, a->lane, a->position.segment, a->position.ordinal};
  on_shard([&] { EXPECT_TRUE(queues_->finish_move(*queue_, origin, {QueueId(77)})); });
  EXPECT_EQ(ready(), 1u);
  wait_until([&] { return !letters_->letters.empty(); });  // the record is read from disk
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].already_in, (std::vector<QueueId>{QueueId(77)}));
  answer(letters_->letters[0].token, DeadLetterResult::stored);
  on_shard([&] { EXPECT_FALSE(queues_->finish_move(*queue_, origin, {})); });
  EXPECT_EQ(get_body(), "b");
}

TEST_F(Moves, ARecoveredMoveOfAWaitingRetryIsNotDeliveredAsWell) {
  retry_queue(100);
  declare();
  publish({"a"});
  auto a = get();
  settle(Outcome::nack_requeue, {*a});
  const Origin origin{queue_->id, a->lane, a->position.segment, a->position.ordinal};
  on_shard([&] { EXPECT_TRUE(queues_->finish_move(*queue_, origin, {})); });
  advance(100);
  EXPECT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(get_body(), "-");
}

// One of two targets had no room on the disk: the letter comes to both again.
TEST_F(Moves, WhatHasComeFromAnOriginDoesNotComeAgainWhileItsMoveIsOpen) {
  declare();
  const Origin origin{QueueId(99), 0, 4, 5};
  const std::string route("\1e\1k", 4);
  const std::string header = PropertiesBuilder{}.build(1);
  PublishRequest request;
  request.route = as_bytes(route);
  request.header = as_bytes(header);
  request.body = as_bytes("m");
  request.persistent = true;
  request.origin = &origin;
  request.from = {queues_.get(), kConnection};
  for (request.publish_number = 1; request.publish_number <= 2; ++request.publish_number) {
    on_shard([&] { queue_->publish(request); });
    wait_until([&] { return sink_.confirms.size() == request.publish_number; });
    EXPECT_FALSE(sink_.confirms.back().refused);
    EXPECT_EQ(ready(), 1u);
  }
  on_shard([&] { queue_->close_move(origin); });
  on_shard([&] { queue_->publish(request); });
  EXPECT_EQ(ready(), 2u);
}

// A power cut could keep the copy that went on and lose the one here.
TEST_F(Moves, WhatHasComeFromElsewhereGoesOnOnlyOnceItsArrivalIsDurable) {
  settings_.message_ttl_ms = 0;
  declare();
  const Origin origin{QueueId(99), 0, 4, 5};
  const std::string route("\1e\1k", 4);
  const std::string header = PropertiesBuilder{}.build(1);
  PublishRequest request;
  request.route = as_bytes(route);
  request.header = as_bytes(header);
  request.body = as_bytes("m");
  request.persistent = true;
  request.origin = &origin;
  shard_->post([&] { queue_->publish(request); });
  shard_->run_turn_for_test();
  EXPECT_EQ(letters_->letters.size(), 0u);
  turns();
  EXPECT_EQ(letters_->letters.size(), 1u);
  // What a client has published waits for nothing.
  shard_->post([&] { publish_here({.body = "c"}); });
  shard_->run_turn_for_test();
  EXPECT_EQ(letters_->letters.size(), 2u);
}

TEST_F(Moves, OriginsAreReportedByRecovery) {
  declare();
  const Origin origin{QueueId(99), 0, 4, 5};
  on_shard([&] {
    const std::string route("\1e\1k", 4);
    const std::string header = PropertiesBuilder{}.build(1);
    PublishRequest request;
    request.route = as_bytes(route);
    request.header = as_bytes(header);
    request.body = as_bytes("m");
    request.persistent = true;
    request.origin = &origin;
    queue_->publish(request);
  });
  restart();
  ASSERT_EQ(origins_.size(), 1u);
  EXPECT_EQ(origins_[0].first, origin);
  EXPECT_EQ(origins_[0].second, queue_->id);
}

}  // namespace
}  // namespace tarry::test
