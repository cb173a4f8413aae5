#include <ctime>

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Consume : public SessionTest {
 protected:
  void open(uint32_t frame_max = 0) {
    access.vhost->add("q");
    open_connection(frame_max);
    open_channel(1);
  }
  std::vector<QueueActor::Settled> settled() {
    auto out = std::move(queue().settled);
    queue().settled.clear();
    return out;
  }
};

TEST_F(Consume, DeliversInFramesOfAtMostFrameMax) {
  open(4096);
  consume();
  const std::string body(9000, 'b');
  deliver(0, {body, "small"});
  take();
  ASSERT_EQ(got.size(), 2u + 3u + 3u);
  auto d = as<method::BasicDeliver>(got[0]);
  EXPECT_EQ(d.consumer_tag, "t");
  EXPECT_EQ(d.delivery_tag, 1u);
  EXPECT_EQ(d.routing_key, "q");
  EXPECT_FALSE(d.redelivered);
  EXPECT_EQ(got[2].payload + got[3].payload + got[4].payload, body);
  EXPECT_EQ(as<method::BasicDeliver>(got[5]).delivery_tag, 2u);
}

TEST_F(Consume, AGeneratedTagIsLongAndUrlSafe) {
  open();
  const std::string a = consume("q", ""), b = consume("q", "");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.substr(0, 9), "amq.ctag-");
  EXPECT_EQ(a.size(), 9u + 22u);
  EXPECT_EQ(
      a.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", 0),
      std::string::npos);
}

TEST_F(Consume, ReuseOfATagIs530) {
  open();
  consume();
  say(1, method::BasicConsume{"q", "t"});
  expect_connection_close(530, "attempt to reuse consumer tag 't'", method_id::basic_consume);
}

TEST_F(Consume, MissingQueueIs404AndAQueuesOwnRefusalIsPassedOn) {
  open();
  say(1, method::BasicConsume{"nowhere", "t"});
  expect_channel_close(1, 404, "no queue 'nowhere'", method_id::basic_consume);
  open_channel(1);
  queue().consume_error = PeerError::access_refused("queue 'q' in vhost '/' in exclusive use");
  say(1, method::BasicConsume{"q", "t"});
  expect_channel_close(1, 403, "in exclusive use", method_id::basic_consume);
  open_channel(1);
  queue().consume_error.reset();
  consume();
}

TEST_F(Consume, PriorityMustBeAnInteger) {
  open();
  FieldTable arguments;
  arguments.set("x-priority", FieldValue::int32(-7));
  std::string table = arguments.encode();
  say(1, method::BasicConsume{"q", "t", false, false, false, false, as_bytes(table)});
  expect(1, method_id::basic_consume_ok);
  EXPECT_EQ(queue().consumers.at(0).priority, -7);
  arguments.set("x-priority", FieldValue::text("high"));
  table = arguments.encode();
  say(1, method::BasicConsume{"q", "u", false, false, false, false, as_bytes(table)});
  expect_channel_close(1, 406,
                       "invalid arg 'x-priority' for queue 'q' in vhost '/': a consumer came with "
                       "the value 'high' of type 'longstr', an integer is allowed",
                       method_id::basic_consume);
}

TEST_F(Consume, AcksReachTheQueueAsRuns) {
  open();
  consume();
  deliver(0, {"a", "b", "c", "d", "e"});
  take();
  say(1, method::BasicAck{3, true});
  say(1, method::BasicAck{4, false});
  expect_nothing();
  auto s = settled();
  ASSERT_EQ(s.size(), 1u) << "what is contiguous leaves as one";
  EXPECT_EQ(s[0].outcome, Outcome::ack);
  EXPECT_EQ(s[0].run.run.first.ordinal, 0u);
  EXPECT_EQ(s[0].run.run.count, 4u);
  EXPECT_EQ(s[0].run.consumer, queue().consumers[0].consumer);
  EXPECT_EQ(s[0].run.body_bytes, 4u);
}

TEST_F(Consume, RejectAndNackAreToldApart) {
  open();
  consume();
  deliver(0, {"a", "b", "c", "d"});
  take();
  say(1, method::BasicReject{1, true});
  say(1, method::BasicNack{2, false, true});
  say(1, method::BasicReject{3, false});
  say(1, method::BasicNack{4, false, false});
  expect_nothing();
  auto s = settled();
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].outcome, Outcome::reject_requeue);
  EXPECT_EQ(s[1].outcome, Outcome::nack_requeue);
  EXPECT_EQ(s[2].outcome, Outcome::drop);
  EXPECT_EQ(s[2].run.run.count, 2u);
}

TEST_F(Consume, UnknownTagsAre406) {
  open();
  consume();
  deliver(0, {"a", "b"});
  take();
  say(1, method::BasicAck{0, true});
  say(1, method::BasicAck{0, true});  // nothing outstanding: fine
  expect_nothing();
  say(1, method::BasicAck{2, false});
  expect_channel_close(1, 406, "unknown delivery tag 2", method_id::basic_ack);
  open_channel(1);
  say(1, method::BasicNack{9, true, true});
  expect_channel_close(1, 406, "unknown delivery tag 9", method_id::basic_nack);
  open_channel(1);
  say(1, method::BasicReject{0, true});
  expect_channel_close(1, 406, "unknown delivery tag 0", method_id::basic_reject);
}

TEST_F(Consume, AChannelsEndGivesEverythingBackInOrder) {
  open();
  consume();
  deliver(0, {"a", "b", "c"});
  take();
  say(1, method::BasicAck{2, false});
  say(1, method::ChannelClose{200, "", 0, 0});
  expect(1, method_id::channel_close_ok);
  auto s = settled();
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[1].outcome, Outcome::channel_closed);
  EXPECT_EQ(s[1].run.run.first.ordinal, 0u);
  EXPECT_EQ(s[2].outcome, Outcome::channel_closed);
  EXPECT_EQ(s[2].run.run.first.ordinal, 2u);
  EXPECT_EQ(queue().cancelled.size(), 1u);
}

TEST_F(Consume, ALostConnectionGivesEverythingBack) {
  open();
  consume();
  deliver(0, {"a", "b"});
  take();
  on_shard([&] { connection->on_closed(); });
  auto s = settled();
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s[0].outcome, Outcome::channel_closed);
  EXPECT_EQ(s[0].run.run.count, 2u);
  deliver(0, {"late"});  // the sink is gone
}

TEST_F(Consume, AutoAckedIsSettledOnceTheSocketTookTheLastByte) {
  open();
  consume("q", "t", true);
  stuck = true;
  deliver(0, {"a", "b"});
  take();
  EXPECT_TRUE(settled().empty());
  on_shard([&] {
    pipe.buffer.consume(pipe.buffer.unsent_bytes() - 1);
    connection->on_sent();
  });
  EXPECT_TRUE(settled().empty());
  deliver(0, {"c"});
  on_shard([&] {
    pipe.buffer.consume(1);
    connection->on_sent();
  });
  auto s = settled();
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s[0].outcome, Outcome::ack);
  EXPECT_EQ(s[0].run.run.count, 2u);
  on_shard([&] { connection->on_closed(); });
  s = settled();
  ASSERT_EQ(s.size(), 1u) << "what the socket never took was never delivered";
  EXPECT_EQ(s[0].outcome, Outcome::not_delivered);
  EXPECT_EQ(s[0].run.run.first.ordinal, 2u);
}

TEST_F(Consume, Rule14_TheCounterIsSplicedIntoTheHeaders) {
  open();
  consume();
  PropertiesBuilder p;
  p.message_id = "i";
  p.headers = FieldTable{};
  p.headers->set("k", FieldValue::int32(1));
  on_shard([&] { queue().deliver(0, {"x"}, {3, true, p.build(1)}); });
  take();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_TRUE(as<method::BasicDeliver>(got[0]).redelivered);
  p.headers->set("x-delivery-count", FieldValue::int64(3));
  EXPECT_EQ(got[1].payload, p.build(1));
  on_shard([&] { queue().deliver(0, {"x"}, {0, true, p.build(1)}); });
  take();
  EXPECT_EQ(got.at(1).payload, p.build(1)) << "the first delivery has none of ours";
}

TEST_F(Consume, WhatComesBeforeACancelIsAnsweredIsDelivered) {
  open();
  consume();
  queue().hold_replies = true;
  say(1, method::BasicCancel{"t"});
  expect_nothing();
  deliver(0, {"late"});
  take();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].id(), method_id::basic_deliver);
  on_shard([&] { queue().release_held(); });
  expect(1, method_id::basic_cancel_ok);
  say(1, method::BasicAck{1, false});
  expect_nothing();
  EXPECT_EQ(settled().at(0).outcome, Outcome::ack);
  queue().hold_replies = false;
  say(1, method::BasicCancel{"t"});
  expect(1, method_id::basic_cancel_ok);
  consume();  // the tag is free again
}

TEST_F(Consume, ACancelOfAQueueThatIsGoneMeanwhileIsAnswered) {
  open();
  consume();
  queue().hold_replies = true;
  say(1, method::BasicCancel{"t"});
  on_shard([&] { queue().cancel_from_queue(0); });
  on_shard([&] { queue().release_held(); });
  take();
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got.back().id(), method_id::basic_cancel_ok);
}

TEST_F(Consume, AfterTheChannelsEndLateDeliveriesGoBackAndAreNotCounted) {
  open();
  consume();
  queue().hold_replies = true;
  say(1, method::ChannelClose{200, "bye", 0, 0});
  pump();
  deliver(0, {"late"});
  on_shard([] {});
  auto s = settled();
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s[0].outcome, Outcome::not_delivered);
  on_shard([&] { queue().release_held(); });
}

TEST_F(Consume, AConsumerWithoutAcknowledgementsWaitsUnderTheChannelLimitAndFillsNothingUp) {
  open();
  say(1, method::BasicQos{0, 2, true});
  expect(1, method_id::basic_qos_ok);
  consume("q", "a", true);
  EXPECT_TRUE(queue().consumers[0].channel_limited);
  const ConsumerId a = queue().consumers[0].consumer;
  for (int round = 1; round <= 2; ++round) {
    on_shard([&] { home.find_sink(connection->id())->on_credit_wanted(a); });
    ASSERT_EQ(queue().granted.size(), static_cast<size_t>(round));
    EXPECT_EQ(queue().granted.back().second, 2u);
    deliver(0, {"x", "y"});
    take();
  }
}

TEST_F(Consume, Rule11_CancelDoesNotReturnWhatIsUnacknowledged) {
  open();
  consume();
  deliver(0, {"a"});
  take();
  say(1, method::BasicCancel{"t"});
  expect(1, method_id::basic_cancel_ok);
  EXPECT_TRUE(settled().empty());
  say(1, method::BasicNack{1, false, true});
  expect_nothing();
  EXPECT_EQ(settled().at(0).outcome, Outcome::nack_requeue);
}

TEST_F(Consume, ADeletedQueueCancelsItsConsumers) {
  open();
  consume();
  on_shard([&] { queue().cancel_from_queue(0); });
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::BasicCancel>(got[0]).consumer_tag, "t");
  consume();  // the tag is free again
}

TEST_F(Consume, GetAnswersWithTheMessageOrEmpty) {
  open();
  say(1, method::BasicGet{"q", false});
  expect(1, method_id::basic_get_empty);
  queue().ready = {"one", "two"};
  say(1, method::BasicGet{"q", false});
  take();
  ASSERT_EQ(got.size(), 3u);
  auto ok = as<method::BasicGetOk>(got[0]);
  EXPECT_EQ(ok.delivery_tag, 1u);
  EXPECT_EQ(ok.message_count, 1u);
  EXPECT_EQ(got[2].payload, "one");
  say(1, method::BasicGet{"q", true});
  take();
  EXPECT_EQ(as<method::BasicGetOk>(got.at(0)).delivery_tag, 2u);
  say(1, method::BasicReject{1, true});
  expect_nothing();
  auto s = settled();
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0].outcome, Outcome::ack) << "the auto-acked one was sent";
  EXPECT_EQ(s[1].outcome, Outcome::reject_requeue);
  EXPECT_EQ(s[1].run.consumer.value, 0u);
}

TEST_F(Consume, PrefetchOfTheConsumerGoesToTheQueue) {
  open();
  say(1, method::BasicQos{0, 7, false});
  expect(1, method_id::basic_qos_ok);
  consume("q", "a");
  say(1, method::BasicQos{0, 0, false});
  expect(1, method_id::basic_qos_ok);
  consume("q", "b");
  consume("q", "c", true);
  EXPECT_EQ(queue().consumers[0].prefetch, 7u);
  EXPECT_EQ(queue().consumers[1].prefetch, 0u);
  say(1, method::BasicQos{1, 0, false});
  expect_connection_close(540, "prefetch_size!=0 (1)", method_id::basic_qos);
}

TEST_F(Consume, TheChannelLimitIsSharedAndLive) {
  open();
  say(1, method::BasicQos{0, 3, true});
  expect(1, method_id::basic_qos_ok);
  consume("q", "a");
  consume("q", "b");
  EXPECT_TRUE(queue().consumers[0].channel_limited);
  const ConsumerId a = queue().consumers[0].consumer, b = queue().consumers[1].consumer;
  auto want = [&](ConsumerId c) {
    on_shard([&] { home.find_sink(connection->id())->on_credit_wanted(c); });
  };
  using Grants = std::vector<std::pair<ConsumerId, uint32_t>>;
  want(a);
  EXPECT_EQ(queue().granted, (Grants{{a, 3}}));
  want(b);
  EXPECT_EQ(queue().granted.size(), 1u) << "the limit is used up";
  deliver(0, {"1", "2"});
  take();
  on_shard([&] { home.find_sink(connection->id())->on_credit_returned(a, 1); });
  EXPECT_EQ(queue().granted.back(), (Grants::value_type{b, 1}));
  deliver(1, {"3"});
  take();
  want(a);
  EXPECT_EQ(queue().granted.size(), 2u);
  say(1, method::BasicAck{2, true});
  expect_nothing();
  EXPECT_EQ(queue().granted.back(), (Grants::value_type{a, 2}));
  say(1, method::BasicQos{0, 0, true});
  expect(1, method_id::basic_qos_ok);
  EXPECT_EQ(queue().limited.size(), 2u);
  EXPECT_FALSE(queue().limited[0].second);
}

TEST_F(Consume, PyAmqpMeansTheChannelWithAPrefetchThatIsNotGlobal) {
  client_product = "py-amqp";
  open();
  say(1, method::BasicQos{0, 3, false});
  expect(1, method_id::basic_qos_ok);
  consume("q", "a");
  EXPECT_EQ(queue().consumers[0].prefetch, 0u);
  EXPECT_TRUE(queue().consumers[0].channel_limited);
  // Live, as Celery needs it: one more for each task that it holds for later.
  const ConsumerId a = queue().consumers[0].consumer;
  on_shard([&] { home.find_sink(connection->id())->on_credit_wanted(a); });
  say(1, method::BasicQos{0, 4, false});
  expect(1, method_id::basic_qos_ok);
  EXPECT_EQ(list.find(connection->id())->channels()[0]->global_prefetch.load(), 4u);
}

TEST_F(Consume, RecoverRequeuesAtOnce) {
  open();
  consume();
  deliver(0, {"a", "b"});
  take();
  say(1, method::BasicRecover{true});
  expect(1, method_id::basic_recover_ok);
  auto s = settled();
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s[0].outcome, Outcome::recovered);
  EXPECT_EQ(s[0].run.run.count, 2u);
  say(1, method::BasicRecover{false});
  expect_connection_close(540, "requeue=false", method_id::basic_recover);
}

TEST_F(Consume, FlowStopsAndResumesDeliveries) {
  open();
  consume();
  say(1, method::ChannelFlow{false});
  take();
  EXPECT_FALSE(as<method::ChannelFlowOk>(got.at(0)).active);
  ASSERT_EQ(queue().paused.size(), 1u);
  EXPECT_TRUE(queue().paused[0].second);
  consume("q", "late");
  EXPECT_EQ(queue().paused.size(), 2u) << "one that comes later waits too";
  say(1, method::ChannelFlow{true});
  take();
  EXPECT_EQ(queue().paused.size(), 4u);
  EXPECT_FALSE(queue().paused[3].second);
}

TEST_F(Consume, AFullOutboundBufferPausesUntilHalfOfItIsSent) {
  settings.outbound_high_bytes = 10'000;
  open();
  consume();
  stuck = true;
  deliver(0, {std::string(6'000, 'x')});
  EXPECT_TRUE(queue().paused.empty());
  deliver(0, {std::string(6'000, 'x')});
  ASSERT_EQ(queue().paused.size(), 1u);
  EXPECT_TRUE(queue().paused[0].second);
  on_shard([&] {
    pipe.buffer.consume(6'000);
    connection->on_sent();
  });
  EXPECT_EQ(queue().paused.size(), 1u);
  on_shard([&] {
    pipe.buffer.consume(2'000);
    connection->on_sent();
  });
  ASSERT_EQ(queue().paused.size(), 2u);
  EXPECT_FALSE(queue().paused[1].second);
}

TEST_F(Consume, ATurnOfAChannelDoesNotLookAtEachOfItsConsumers) {
  open();
  open_channel(2);
  for (int i = 0; i < 20'000; ++i) consume("q", "t" + std::to_string(i));
  const auto cost = [&](uint16_t channel) {
    const auto cpu_ns = [] {
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return now.tv_sec * 1'000'000'000 + now.tv_nsec;
    };
    const int64_t began = cpu_ns();
    for (int i = 0; i < 300; ++i) {
      publish(channel, "", "q", "m");
      pump();
    }
    return cpu_ns() - began;
  };
  cost(2);  // what is only done once
  EXPECT_LT(cost(1), 3 * cost(2));
}

TEST_F(Consume, ListingsShowTheChannel) {
  open();
  say(1, method::BasicQos{0, 9, false});
  take();
  consume();
  deliver(0, {"a", "b"});
  take();
  auto figures = list.find(connection->id());
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->consumer_count.load(), 1u);
  ASSERT_EQ(figures->channels().size(), 1u);
  const auto& channel = *figures->channels()[0];
  EXPECT_EQ(channel.number, 1);
  EXPECT_EQ(channel.consumers.load(), 1u);
  EXPECT_EQ(channel.prefetch.load(), 9u);
  EXPECT_EQ(channel.unacked.load(), 2u);
  EXPECT_GT(figures->bytes_in.load(), 0u);
  EXPECT_GT(figures->bytes_out.load(), 0u);
  EXPECT_EQ(channel.active_at_ns.load(), shard.now().ns);
}

TEST_F(Consume, ListingsCountDeliveriesByTheirKind) {
  open();
  consume();
  auto figures = list.find(connection->id());
  const auto channel = figures->channels().at(0);
  deliver(0, {"a"});
  on_shard([&] { queue().deliver(0, {"b", "c"}, {1, false, {}}); });
  EXPECT_EQ(channel->delivered.load(), 3u);
  EXPECT_EQ(channel->redelivered.load(), 2u);
  EXPECT_EQ(channel->delivered_no_ack.load(), 0u);
  take();
  consume("q", "automatic", true);
  deliver(1, {"d"});
  EXPECT_EQ(channel->delivered.load(), 3u);
  EXPECT_EQ(channel->delivered_no_ack.load(), 1u);
  queue().ready = {"x", "y"};
  say(1, method::BasicGet{"q", false});
  say(1, method::BasicGet{"q", true});
  say(1, method::BasicGet{"q", true});
  take();
  EXPECT_EQ(channel->got.load(), 1u);
  EXPECT_EQ(channel->got_no_ack.load(), 1u);
  EXPECT_EQ(channel->got_empty.load(), 1u);
}

TEST_F(Consume, ListingsTellWhatTheSocketHasNotTaken) {
  open();
  consume();
  take();
  auto figures = list.find(connection->id());
  const uint64_t receives = figures->receives.load(), sends = figures->sends.load();
  EXPECT_GT(receives, 0u);
  deliver(0, {std::string(5'000, 'x')});
  const uint64_t unsent = figures->unsent_bytes.load();
  EXPECT_GT(unsent, 5'000u);
  on_shard([&] {
    pipe.buffer.consume(1'000);
    connection->on_sent();
  });
  EXPECT_EQ(figures->unsent_bytes.load(), unsent - 1'000);
  EXPECT_EQ(figures->sends.load(), sends + 1);
  EXPECT_EQ(figures->receives.load(), receives);
}

TEST_F(Consume, TheQueueIsToldAConsumersArguments) {
  open();
  FieldTable arguments;
  arguments.set("x-priority", FieldValue::int32(5));
  arguments.set("x-cancel-on-ha-failover", FieldValue::boolean(true));
  const std::string encoded = arguments.encode();
  method::BasicConsume m;
  m.queue = "q";
  m.arguments = as_bytes(encoded);
  say(1, m);
  take();
  ASSERT_EQ(queue().consumers.size(), 1u);
  EXPECT_EQ(*FieldTable::decode(as_bytes(queue().consumers[0].arguments)), arguments);
  consume("q", "without");
  EXPECT_EQ(queue().consumers[1].arguments, "");
}

TEST_F(Consume, Rule12_AConsumerTimeoutClosesTheChannel) {
  open();
  consume();
  access.vhost->add("untimed");
  consume("untimed", "u");
  set_timeout_ms(*access.vhost->queues.at("q"), 60'000);
  deliver(0, {"acked", "late"});
  deliver(0, {"x"}, "untimed");
  take();
  advance_ms(30'000);
  deliver(0, {"young"});
  take();
  say(1, method::BasicAck{1, false});
  expect_nothing();
  advance_ms(30'000);
  expect_nothing();  // never early
  advance_ms(1'000);
  expect_channel_close(
      1, 406, "delivery acknowledgement on channel 1 timed out. Timeout value used: 60000 ms", 0);
  auto s = settled();
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].outcome, Outcome::ack);
  EXPECT_EQ(s[1].outcome, Outcome::timed_out);
  EXPECT_EQ(s[1].run.run.first.ordinal, 1u);
  EXPECT_EQ(s[2].outcome, Outcome::channel_closed);
  EXPECT_EQ(queue("untimed").settled.at(0).outcome, Outcome::channel_closed);
}

TEST_F(Consume, ATimeoutThatIsMetClosesNothing) {
  open();
  consume();
  set_timeout_ms(*access.vhost->queues.at("q"), 60'000);
  for (int i = 1; i <= 10; ++i) {
    deliver(0, {"x"});
    take();
    advance_ms(59'000);
    say(1, method::BasicAck{static_cast<uint64_t>(i), false});
    expect_nothing();
  }
}

}  // namespace
}  // namespace tarry::testing
