#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Publish : public SessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Publish() { one_byte_at_a_time = GetParam(); }
  void open(uint32_t frame_max = 0) {
    access.vhost->add("q");
    open_connection(frame_max);
    open_channel(1);
  }
  void select() {
    say(1, method::ConfirmSelect{});
    expect(1, method_id::confirm_select_ok);
  }
};
INSTANTIATE_TEST_SUITE_P(Cuts, Publish, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ByteByByte" : "OneWrite"; });

TEST_P(Publish, ReachesTheQueueWithItsProperties) {
  open();
  PropertiesBuilder p;
  p.delivery_mode = 2;
  p.priority = 5;
  p.expiration = "60000";
  publish(1, "", "q", "hello", false, p);
  publish(1, "", "q", "");
  expect_nothing();
  ASSERT_EQ(queue().published.size(), 2u);
  const auto& m = queue().published[0];
  EXPECT_EQ(m.body, "hello");
  EXPECT_EQ(m.header, p.build(5));
  EXPECT_EQ(m.route, make_route("", "q"));
  EXPECT_TRUE(m.persistent);
  EXPECT_EQ(m.priority, 5);
  EXPECT_EQ(m.ttl_ms, 60000u);
  EXPECT_EQ(m.number, 0u);
  EXPECT_FALSE(queue().published[1].persistent);
  EXPECT_EQ(queue().published[1].ttl_ms, kNoTtl);
}

TEST_P(Publish, BodiesInManyFramesAreJoined) {
  open(4096);
  std::string body;
  for (int i = 0; i < 10000; ++i) body += static_cast<char>(i * 7);
  say(1, method::BasicPublish{"", "q"});
  frame(FrameType::header, 1, PropertiesBuilder{}.build(body.size()));
  for (size_t at = 0; at < body.size(); at += 4088)
    frame(FrameType::body, 1, body.substr(at, 4088));
  expect_nothing();
  ASSERT_EQ(queue().published.size(), 1u);
  EXPECT_EQ(queue().published[0].body, body);
}

TEST_P(Publish, NothingMoreIsReadWhilePublishesWaitForAnotherShard) {
  open();
  on_shard([&] { hold_publishes_up(home, true); });
  publish(1, "", "q", "first");
  expect_nothing();
  EXPECT_FALSE(pipe.reading);
  const size_t before =
      queue().published.size();  // cut byte by byte, it may have stopped within the message
  publish(1, "", "q", "second");
  expect_nothing();
  EXPECT_EQ(queue().published.size(), before);
  on_shard([&] { hold_publishes_up(home, false); });
  expect_nothing();
  EXPECT_TRUE(pipe.reading);
  ASSERT_EQ(queue().published.size(), 2u);
  EXPECT_EQ(queue().published[1].body, "second");
}

TEST_P(Publish, RoutesAreAskedOnceUntilTheTopologyChanges) {
  open();
  for (int i = 0; i < 10; ++i) publish(1, "", "q", "x");
  pump();
  EXPECT_EQ(access.vhost->routes_asked, 1);
  access.vhost->add("other");
  publish(1, "", "q", "x");
  publish(1, "", "other", "x");
  publish(1, "", "q", "x");
  pump();
  EXPECT_EQ(access.vhost->routes_asked, 3);
  EXPECT_EQ(queue().published.size(), 12u);
}

TEST_P(Publish, WithExtraKeysTheRouteIsAskedEachTimeAndBccIsRemoved) {
  open();
  PropertiesBuilder p;
  FieldTable headers;
  headers.set("k", FieldValue::int32(1));
  headers.set("CC", FieldValue::array({FieldValue::text("a")}));
  headers.set("BCC", FieldValue::array({FieldValue::text("b")}));
  p.headers = headers;
  for (int i = 0; i < 2; ++i) publish(1, "", "q", "x", false, p);
  expect_nothing();
  EXPECT_EQ(access.vhost->routes_asked, 2);
  headers.erase("BCC");
  p.headers = headers;
  ASSERT_EQ(queue().published.size(), 2u);
  EXPECT_EQ(queue().published[0].header, p.build(1));
}

TEST_P(Publish, ExtraKeysMustBeArraysOfStrings) {
  open();
  for (const char* name : {"CC", "BCC"}) {
    PropertiesBuilder p;
    p.headers = FieldTable{};
    p.headers->set(name, FieldValue::text("a"));
    publish(1, "", "q", "x", false, p);
    expect_channel_close(1, 406, name, method_id::basic_publish);
    open_channel(1);
    p.headers->set(name, FieldValue::array({FieldValue::int32(1)}));
    publish(1, "", "q", "x", false, p);
    expect_channel_close(1, 406, name, method_id::basic_publish);
    open_channel(1);
  }
}

TEST_P(Publish, BadExpirationsAre406) {
  open();
  for (const char* value : {"soon", "-1", "1.5", "100ms", "", "4294967296", "+1", " 1"}) {
    PropertiesBuilder p;
    p.expiration = value;
    publish(1, "", "q", "x", false, p);
    expect_channel_close(1, 406, "invalid expiration '" + std::string(value) + "'",
                         method_id::basic_publish);
    open_channel(1);
  }
  PropertiesBuilder p;
  p.expiration = "4294967294";
  publish(1, "", "q", "x", false, p);
  expect_nothing();
  EXPECT_EQ(queue().published.at(0).ttl_ms, 4294967294u);
}

TEST_P(Publish, UserIdMustBeTheUsers) {
  open();
  PropertiesBuilder p;
  p.user_id = "guest";
  publish(1, "", "q", "x", false, p);
  expect_nothing();
  p.user_id = "other";
  publish(1, "", "q", "x", false, p);
  expect_channel_close(1, 406, "user_id property set to 'other' but authenticated user was 'guest'",
                       method_id::basic_publish);
  EXPECT_EQ(queue().published.size(), 1u);
}

TEST_P(Publish, MissingExchangeIs404AndTheConnectionGoesOn) {
  open();
  publish(1, "nowhere", "k", "x");
  expect_channel_close(1, 404, "no exchange 'nowhere' in vhost '/'", method_id::basic_publish);
  open_channel(1);
  publish(1, "", "q", "x");
  expect_nothing();
  EXPECT_EQ(queue().published.size(), 1u);
}

TEST_P(Publish, Rule20_ToACompanionThroughTheDefaultExchangeIs403) {
  open();
  publish(1, "", "amq.retry-q", "x");
  expect_channel_close(1, 403, "amq.retry-q", method_id::basic_publish);
}

TEST_P(Publish, ImmediateIs540) {
  open();
  say(1, method::BasicPublish{"", "q", false, true});
  expect_connection_close(540, "immediate=true", method_id::basic_publish);
}

TEST_P(Publish, AboveTheLargestMessageIs406AndTheRestIsDropped) {
  settings.max_message_bytes = 10;
  open();
  publish(1, "", "q", "0123456789A");
  expect_channel_close(1, 406, "message size 11 is larger than configured max size 10",
                       method_id::basic_publish);
  open_channel(1);
  publish(1, "", "q", "0123456789");
  expect_nothing();
  EXPECT_EQ(queue().published.size(), 1u);
}

TEST_P(Publish, UnroutableMandatoryIsReturnedWholeBeforeItsConfirm) {
  open(4096);
  select();
  const std::string body(9000, 'b');
  say(1, method::BasicPublish{"", "nowhere", true, false});
  frame(FrameType::header, 1, PropertiesBuilder{}.build(body.size()));
  for (size_t at = 0; at < body.size(); at += 4000)
    frame(FrameType::body, 1, body.substr(at, 4000));
  take();
  ASSERT_EQ(got.size(), 6u);
  auto returned = as<method::BasicReturn>(got[0]);
  EXPECT_EQ(returned.reply_code, 312);
  EXPECT_EQ(returned.reply_text, "NO_ROUTE");
  EXPECT_EQ(returned.routing_key, "nowhere");
  EXPECT_EQ(got[1].payload, PropertiesBuilder{}.build(body.size()));
  EXPECT_EQ(got[2].payload + got[3].payload + got[4].payload, body);
  auto ack = as<method::BasicAck>(got[5]);
  EXPECT_EQ(ack.delivery_tag, 1u);
  publish(1, "", "nowhere", "x");
  take();
  ASSERT_EQ(got.size(), 1u) << "without mandatory it is only confirmed";
  EXPECT_EQ(as<method::BasicAck>(got[0]).delivery_tag, 2u);
}

TEST_P(Publish, ConfirmsThatAreDueAreNotMergedOverAReturn) {
  open();
  select();
  publish(1, "", "nowhere", "1");
  publish(1, "", "nowhere", "2", true);
  take();
  // Byte by byte the first leaves in a turn of its own; the order is the same.
  ASSERT_EQ(got.size(), 5u);
  auto first = as<method::BasicAck>(got[0]);
  EXPECT_EQ(first.delivery_tag, 1u);
  EXPECT_EQ(got[1].id(), method_id::basic_return);
  auto second = as<method::BasicAck>(got[4]);
  EXPECT_EQ(second.delivery_tag, 2u);
  EXPECT_FALSE(second.multiple);
}

TEST_P(Publish, ConfirmsOfOneTurnLeaveAsOne) {
  open();
  select();
  queue().confirm_at_once = false;
  for (int i = 0; i < 5; ++i) publish(1, "", "q", "x");
  expect_nothing();
  on_shard([&] { queue().confirm(1, 4); });
  take();
  ASSERT_EQ(got.size(), 1u);
  auto ack = as<method::BasicAck>(got[0]);
  EXPECT_EQ(ack.delivery_tag, 4u);
  EXPECT_TRUE(ack.multiple);
  on_shard([&] { queue().confirm(5, 5); });
  take();
  ack = as<method::BasicAck>(got.at(0));
  EXPECT_EQ(ack.delivery_tag, 5u);
  EXPECT_FALSE(ack.multiple);
}

TEST_P(Publish, AFanOutIsConfirmedOnceEveryQueueHasIt) {
  open();
  access.vhost->add("r");
  access.vhost->exchanges["f"] = {"q", "r"};
  select();
  queue("q").confirm_at_once = queue("r").confirm_at_once = false;
  publish(1, "f", "", "x");
  pump();
  on_shard([&] { queue("q").confirm(1, 1); });
  expect_nothing();
  on_shard([&] { queue("r").confirm(1, 1); });
  expect(1, method_id::basic_ack);
}

TEST_P(Publish, RefusedByAnyQueueIsANack) {
  open();
  access.vhost->add("r");
  access.vhost->exchanges["f"] = {"q", "r"};
  queue("r").refuse = true;
  select();
  publish(1, "f", "", "x");
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::BasicNack>(got[0]).delivery_tag, 1u);
}

TEST_P(Publish, ConfirmsOfAChannelsPredecessorAreIgnored) {
  open();
  select();
  queue().confirm_at_once = false;
  publish(1, "", "q", "x");
  say(1, method::ChannelClose{200, "", 0, 0});
  expect(1, method_id::channel_close_ok);
  open_channel(1);
  select();
  publish(1, "", "q", "x");
  pump();
  const auto& old = queue().published[0];
  const ConfirmRange range{old.channel, old.channel_serial, 1, 1, false};
  on_shard([&] { home.find_sink(connection->id())->on_confirm({&range, 1}); });
  expect_nothing();
  on_shard([&] { queue().confirm(1, 1); });
  expect(1, method_id::basic_ack);
}

TEST_P(Publish, TheCounterOfAClientIsReportedToTheQueue) {
  open();
  PropertiesBuilder p;
  p.headers = FieldTable{};
  p.headers->set("x-delivery-count", FieldValue::text("a lot"));
  publish(1, "", "q", "x", false, p);
  pump();
  EXPECT_TRUE(queue().published.at(0).has_delivery_count);
}

}  // namespace
}  // namespace tarry::testing
