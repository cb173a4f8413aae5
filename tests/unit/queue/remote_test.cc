// A connection on another shard than its queue.
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

class Remote : public QueueWorld {
 protected:
  Remote() {
    far_shard_ = std::make_unique<Shard>(ShardId(1), clock_);
    far_ = std::make_unique<QueueShard>(*far_shard_, *store_);
    far_->add_sink(kConnection, far_sink_);
  }
  ~Remote() override {
    queue_.reset();
    far_.reset();
    far_shard_.reset();
  }
  Requester from() { return {far_.get(), kConnection}; }
  void on_far(std::function<void()> work) {
    far_shard_->post([&] { work(); });
    all_turns();
  }
  void all_turns() {
    for (int i = 0; i < 6; ++i) {
      far_shard_->run_turn_for_test();
      turns();
    }
  }
  void publish_far(const std::string& body, uint64_t number) { publish_from(from(), body, number); }
  void publish_from(Requester requester, const std::string& body, uint64_t number) {
    const std::string route("\1e\1k", 4);
    const std::string header = PropertiesBuilder{}.build(body.size());
    PublishRequest request;
    request.route = as_bytes(route);
    request.header = as_bytes(header);
    request.body = as_bytes(body);
    request.persistent = true;
    request.publish_number = number;
    request.channel = 3;
    request.from = requester;
    queue_->publish(request);
  }
  ConsumeRequest far_consumer() {
    ConsumeRequest request = consumer(1);
    request.from = from();
    return request;
  }

  RecordingSink far_sink_;
  std::unique_ptr<Shard> far_shard_;
  std::unique_ptr<QueueShard> far_;
};

TEST_F(Remote, ConfirmsGoToTheHomeThatAskedAlsoWhenConnectionIdsAreTheSame) {
  // As the dead-letter routers of two shards, which share ConnectionId 0 and count for themselves.
  declare();
  on_shard([&] {
    publish_from(here(), "a", 1);
    publish_from(from(), "b", 2);
    publish_from(here(), "c", 3);
  });
  all_turns();
  ASSERT_EQ(sink_.confirms.size(), 2u);
  EXPECT_EQ(sink_.confirms[0].last, 1u);
  EXPECT_EQ(sink_.confirms[1].first, 3u);
  ASSERT_EQ(far_sink_.confirms.size(), 1u);
  EXPECT_EQ(far_sink_.confirms[0].first, 2u);
  EXPECT_EQ(far_sink_.confirms[0].last, 2u);
}

TEST_F(Remote, APublisherIsHeldUpUntilTheOtherShardHasTakenWhatCame) {
  declare();
  const std::string body(64 << 10, 'x');
  int room = 0;
  far_sink_.on_room_call = [&] { ++room; };
  far_shard_->post([&] {
    EXPECT_FALSE(far_->publishes_held_up());
    for (uint64_t n = 1; n <= 4; ++n) publish_far(body, n);
    EXPECT_TRUE(far_->publishes_held_up());
    far_->tell_of_room(kConnection);
  });
  while (far_shard_->run_turn_for_test()) {
  }
  EXPECT_EQ(room, 0);
  all_turns();
  EXPECT_EQ(room, 1);
  EXPECT_FALSE(far_->publishes_held_up());
  EXPECT_EQ(queue_->figures().published.load(), 4u);
}

TEST_F(Remote, CommandsKeepTheirOrderAndAnswersComeBack) {
  declare();
  on_far([&] {
    queue_->consume(far_consumer(), 1);
    for (uint64_t n = 1; n <= 100; ++n) publish_far(std::to_string(n), n);
    queue_->stat(false, from(), 2);
  });
  auto got = far_sink_.take();
  ASSERT_EQ(got.size(), 100u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].body, std::to_string(i + 1));
  ASSERT_EQ(far_sink_.confirms.size(), 1u);
  EXPECT_EQ(far_sink_.confirms[0].last, 100u);
  EXPECT_EQ(far_sink_.confirms[0].channel, 3);
  ASSERT_EQ(far_sink_.replies.size(), 2u);
  EXPECT_EQ(far_sink_.replies[1].consumers, 1u);
  on_far([&] {
    for (const Got& one : got) {
      const SettleRun run = one.run();
      queue_->settle(Outcome::ack, std::span(&run, 1));
    }
  });
  EXPECT_EQ(figure(&QueueFigures::unacked), 0u);
}

TEST_F(Remote, MessagesOfAllSizesTravelWholeTurnAfterTurn) {
  declare();
  on_far([&] { queue_->consume(far_consumer(), 1); });
  std::vector<std::string> sent;
  for (size_t turn = 0; turn < 4; ++turn) {
    // Empty ones, odd sizes, ones larger than what a batch keeps for the next.
    for (size_t size :
         {size_t{0}, size_t{1}, 7 + turn, size_t{300'000}, size_t{64}, 70'000 + turn}) {
      sent.push_back(std::string(size, static_cast<char>('a' + turn)));
    }
    on_far([&] {
      for (size_t i = 0; i < 6; ++i) publish_far(sent[turn * 6 + i], turn * 6 + i + 1);
    });
    for (int i = 0; i < 4; ++i) all_turns();
  }
  EXPECT_EQ(far_sink_.bodies(), sent);
  EXPECT_EQ(far_sink_.confirms.back().last, sent.size());
}

TEST_F(Remote, WhatAPublishSaysOfItselfTravelsWithIt) {
  identity_.max_priority = 9;
  declare();
  on_far([&] {
    for (uint8_t priority : {uint8_t{2}, uint8_t{7}}) {
      const std::string route("\1e\1k", 4), header = PropertiesBuilder{}.build(1),
                                            body(1, static_cast<char>('0' + priority));
      PublishRequest request;
      request.route = as_bytes(route);
      request.header = as_bytes(header);
      request.body = as_bytes(body);
      request.priority = priority;
      request.ttl_ms = priority == 2 ? 1000 : kNoTtl;
      queue_->publish(request);
    }
  });
  on_far([&] { queue_->get(true, from(), 1); });
  ASSERT_TRUE(far_sink_.replies.at(0).got);
  EXPECT_EQ(far_sink_.replies[0].got->body, "7") << "the higher priority first";
  clock_.advance_ms(1001);
  all_turns();
  on_far([&] { queue_->get(true, from(), 2); });
  EXPECT_FALSE(far_sink_.replies.at(1).got) << "its time was over";
}

TEST_F(Remote, AGetIsAnsweredWithTheMessage) {
  declare();
  publish({"a"});
  on_far([&] { queue_->get(false, from(), 1); });
  ASSERT_EQ(far_sink_.replies.size(), 1u);
  ASSERT_TRUE(far_sink_.replies[0].got);
  EXPECT_EQ(far_sink_.replies[0].got->body, "a");
}

TEST_F(Remote, DeliveriesToAConnectionThatIsGoneComeBack) {
  declare();
  on_far([&] { queue_->consume(far_consumer(), 1); });
  far_shard_->post([&] { far_->remove_sink(kConnection); });
  far_shard_->run_turn_for_test();
  publish({"a"});
  EXPECT_EQ(figure(&QueueFigures::unacked), 1u);
  far_shard_->post([&] { queue_->cancel(ConsumerId(1), from(), 2); });
  all_turns();
  EXPECT_EQ(figure(&QueueFigures::unacked), 0u);
  auto got = get();
  EXPECT_EQ(got->body, "a");
  EXPECT_FALSE(got->redelivered);
}

TEST_F(Remote, ABusyConnectionIsNotBuriedInDeliveries) {
  declare();
  on_far([&] { queue_->consume(far_consumer(), 1); });
  on_shard([&] {
    for (int i = 0; i < 100; ++i) publish_here({.body = std::string(100'000, 'x')});
  });
  EXPECT_LT(figure(&QueueFigures::unacked), 20u);  // the other shard has not had a turn
  for (int i = 0; i < 20; ++i) all_turns();
  EXPECT_EQ(far_sink_.deliveries.size(), 100u);
}

TEST_F(Remote, CancellationAndCreditNotesArrive) {
  declare();
  ConsumeRequest request = far_consumer();
  request.channel_limited = true;
  on_far([&] { queue_->consume(request, 1); });
  publish({"a"});
  all_turns();
  EXPECT_EQ(far_sink_.wanted.size(), 1u);
  on_far([&] { queue_->grant(ConsumerId(1), 4); });
  EXPECT_EQ(far_sink_.deliveries.size(), 1u);
  ASSERT_EQ(far_sink_.returned.size(), 1u);
  EXPECT_EQ(far_sink_.returned[0].count, 3u);
  remove();
  all_turns();
  EXPECT_EQ(far_sink_.cancelled.size(), 1u);
}

TEST_F(Remote, TheLastHandleMayGoAnywhere) {
  declare();
  publish({"a"});
  on_far([&] {
    publish_far("b", 0);
    queue_.reset();  // the batch still holds the actor
  });
  EXPECT_EQ(queue_, nullptr);
}

}  // namespace
}  // namespace tarry::test
