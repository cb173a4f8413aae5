// Frames out of turn, malformed or too large, and how connections and channels end
// (reference/protocol.md, 2.4).
#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Framing : public SessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Framing() { one_byte_at_a_time = GetParam(); }
  void open() {
    access.vhost->add("q");
    open_connection(4096);
    open_channel(1);
  }
};
INSTANTIATE_TEST_SUITE_P(Cuts, Framing, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ByteByByte" : "OneWrite"; });

TEST_P(Framing, BadEndOctetIs501) {
  open();
  frame(FrameType::heartbeat, 0, "");
  input.back() = 'x';
  expect_connection_close(501, "", 0);
}

TEST_P(Framing, FrameAboveFrameMaxIs501) {
  open();
  frame(FrameType::body, 1, std::string(4097, 'x'));
  expect_connection_close(501, "", 0);
}

// As RabbitMQ: many clients count the payload alone.
TEST_P(Framing, APayloadOfFrameMaxIsTaken) {
  open();
  const std::string body(4096, 'x');
  say(1, method::BasicPublish{"", "q"});
  frame(FrameType::header, 1, PropertiesBuilder{}.build(body.size()));
  frame(FrameType::body, 1, body);
  expect_nothing();
  ASSERT_EQ(queue().published.size(), 1u);
  EXPECT_EQ(queue().published[0].body, body);
}

TEST_P(Framing, UnknownFrameTypeIs501) {
  open();
  raw(std::string("\x05\0\0\0\0\0\0\xce", 8));
  expect_connection_close(501, "", 0);
}

TEST_P(Framing, HeartbeatOnAChannelIs505) {
  open();
  frame(FrameType::heartbeat, 1, "");
  expect_connection_close(505, "heartbeat", 0);
}

TEST_P(Framing, MethodOnAnUnopenedChannelIs504) {
  open();
  say(2, method::BasicQos{});
  expect_connection_close(504, "expected 'channel.open'", method_id::basic_qos);
}

TEST_P(Framing, ContentOnAnUnopenedChannelIs504) {
  open();
  frame(FrameType::body, 2, "x");
  expect_connection_close(504, "expected 'channel.open'", 0);
}

TEST_P(Framing, SecondChannelOpenIs504) {
  open();
  say(1, method::ChannelOpen{});
  expect_connection_close(504, "second 'channel.open' seen", method_id::channel_open);
}

// channel_max limits how many there are (E-13).
TEST_P(Framing, ChannelNumbersMayBeAboveChannelMax) {
  open();
  open_channel(2048);
  open_channel(65535);
  say(65535, method::BasicQos{});
  expect(65535, method_id::basic_qos_ok);
  say(2048, method::ChannelClose{200, "", 0, 0});
  expect(2048, method_id::channel_close_ok);
  open_channel(2048);
}

TEST_P(Framing, MoreChannelsThanChannelMaxAre530) {
  settings.channel_max = 3;
  open();
  open_channel(40000);
  open_channel(7);
  say(7, method::ChannelClose{200, "", 0, 0});
  expect(7, method_id::channel_close_ok);
  open_channel(8);
  say(9, method::ChannelOpen{});
  expect_connection_close(
      530, "number of channels opened (3) has reached the negotiated channel_max (3)",
      method_id::channel_open);
}

TEST_P(Framing, AWrongMethodOnChannel0Is504) {
  auto refused = [this](const auto& m) {
    open();
    say(0, m);
    expect_connection_close(504, "unexpected method in connection state running", m.id);
    on_shard([&] { connection.reset(); });
    pipe.closing = false;
    output.clear(), input.clear(), got.clear();
  };
  refused(method::ConnectionTuneOk{});
  refused(method::ConnectionOpen{"/"});
  refused(method::ConnectionStartOk{{}, "PLAIN", "", "en_US"});
  refused(method::ChannelOpen{});
  refused(method::QueueDeclare{});
}

TEST_P(Framing, UnknownMethodIs540) {
  open();
  frame(FrameType::method, 1, std::string("\0\x3c\0\x63", 4));
  expect_connection_close(540, "", method_id::of(60, 99));
}

TEST_P(Framing, MalformedArgumentsAre501) {
  open();
  frame(FrameType::method, 1, std::string("\0\x3c\0\x0a\0", 5));
  expect_connection_close(501, "", method_id::basic_qos);
}

TEST_P(Framing, BodyWithoutMethodIs505) {
  open();
  frame(FrameType::body, 1, "x");
  expect_connection_close(505, "", method_id::basic_publish);
}

TEST_P(Framing, MethodInsteadOfHeaderIs505) {
  open();
  say(1, method::BasicPublish{"", "q"});
  say(1, method::BasicQos{});
  expect_connection_close(
      505, "expected content header for class 60, got method frame basic.qos instead",
      method_id::basic_publish);
}

TEST_P(Framing, MethodInsteadOfBodyIs505) {
  open();
  say(1, method::BasicPublish{"", "q"});
  frame(FrameType::header, 1, PropertiesBuilder{}.build(3));
  say(1, method::BasicQos{});
  expect_connection_close(505, "expected content body, got method frame basic.qos instead",
                          method_id::basic_publish);
}

TEST_P(Framing, BodyInsteadOfHeaderIs505) {
  open();
  say(1, method::BasicPublish{"", "q"});
  frame(FrameType::body, 1, "x");
  expect_connection_close(505, "expected content header for class 60", method_id::basic_publish);
}

TEST_P(Framing, HeaderOfAnotherClassIs505) {
  open();
  say(1, method::BasicPublish{"", "q"});
  std::string header = PropertiesBuilder{}.build(1);
  header[1] = 50;
  frame(FrameType::header, 1, header);
  expect_connection_close(505, "got one for class 50", method_id::basic_publish);
}

TEST_P(Framing, BodyLongerThanItsHeaderSaysIs505) {
  open();
  say(1, method::BasicPublish{"", "q"});
  frame(FrameType::header, 1, PropertiesBuilder{}.build(3));
  frame(FrameType::body, 1, "ab");
  frame(FrameType::body, 1, "cd");
  expect_connection_close(505, "4 bytes", method_id::basic_publish);
  EXPECT_TRUE(queue().published.empty());
}

TEST_P(Framing, MalformedHeaderTableIs501) {
  open();
  PropertiesBuilder properties;
  FieldTable table;
  table.set("a", FieldValue::text("b"));
  properties.headers = table;
  std::string header = properties.build(0);
  header[header.size() - 6] = '!';  // the type of the only value
  say(1, method::BasicPublish{"", "q"});
  frame(FrameType::header, 1, header);
  expect_connection_close(501, "", method_id::basic_publish);
}

TEST_P(Framing, FramesOfOtherChannelsMayComeBetween) {
  open();
  open_channel(2);
  say(1, method::BasicPublish{"", "q"});
  say(2, method::BasicPublish{"", "q"});
  frame(FrameType::header, 2, PropertiesBuilder{}.build(2));
  frame(FrameType::header, 1, PropertiesBuilder{}.build(4));
  frame(FrameType::body, 1, "ab");
  frame(FrameType::heartbeat, 0, "");
  frame(FrameType::body, 2, "xy");
  frame(FrameType::body, 1, "");
  frame(FrameType::body, 1, "cd");
  expect_nothing();
  ASSERT_EQ(queue().published.size(), 2u);
  EXPECT_EQ(queue().published[0].body, "xy");
  EXPECT_EQ(queue().published[1].body, "abcd");
}

TEST_P(Framing, AfterAChannelErrorAllButCloseAndCloseOkIsDropped) {
  open();
  say(1, method::BasicAck{7, false});
  publish(1, "", "q", "late");
  say(1, method::BasicQos{});
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::ChannelClose>(got[0]).reply_code, 406);
  EXPECT_TRUE(queue().published.empty());
  say(1, method::ChannelCloseOk{});
  open_channel(1);
}

TEST_P(Framing, ClosesThatCrossEndTheChannelToo) {
  open();
  say(1, method::BasicAck{7, false});
  say(1, method::ChannelClose{200, "bye", 0, 0});
  take();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1].id(), method_id::channel_close_ok);
  say(1, method::ChannelCloseOk{});  // late, for a channel that is gone
  open_channel(1);
}

TEST_P(Framing, ConnectionCloseIsAnsweredAndThePortClosed) {
  open();
  say(0, method::ConnectionClose{200, "bye", 0, 0});
  say(1, method::BasicQos{});
  expect(0, method_id::connection_close_ok);
  EXPECT_TRUE(pipe.closing);
  EXPECT_EQ(access.vhost->closed.size(), 1u) << "exclusive queues go before close-ok";
}

TEST_P(Framing, WhileClosingAllButCloseAndCloseOkIsIgnored) {
  open();
  on_shard([&] { connection->close(320, "shutdown"); });
  publish(1, "", "q", "late");
  say(0, method::ConnectionUpdateSecret{"a", "b"});
  take();
  ASSERT_EQ(got.size(), 1u);
  auto close = as<method::ConnectionClose>(got[0]);
  EXPECT_EQ(close.reply_code, 320);
  EXPECT_EQ(close.reply_text, "CONNECTION_FORCED - shutdown");
  EXPECT_TRUE(queue().published.empty());
  EXPECT_FALSE(pipe.closing);
  say(0, method::ConnectionCloseOk{});
  pump();
  EXPECT_TRUE(pipe.closing);
}

TEST_P(Framing, WhoDoesNotAnswerACloseIsCut) {
  open();
  on_shard([&] { connection->close(320, "shutdown"); });
  advance_ms(4'999);
  EXPECT_FALSE(pipe.aborted);
  advance_ms(1);
  EXPECT_TRUE(pipe.aborted);
}

TEST_P(Framing, UpdateSecretIsAnsweredAndChangesNothing) {
  open();
  say(0, method::ConnectionUpdateSecret{"a", "b"});
  pump();
  expect(0, method_id::connection_update_secret_ok);
  open_channel(2);
}

TEST_P(Framing, ALongNameIsCutInTheReplyTextAndNotWhatWasWrongWithIt) {
  open();
  const std::string name = "n" + std::string(200, 'x') + "\u00e9";
  on_shard([&] {
    connection->close(406, "invalid arg 'x-delayed-retry-min' for queue '" + name +
                               "' in vhost '/': it was on a queue whose name has 246 bytes, "
                               "allowed is a name of up to 245 "
                               "bytes");
  });
  take();
  ASSERT_FALSE(got.empty());
  const std::string text(as<method::ConnectionClose>(got.back()).reply_text);
  EXPECT_LE(text.size(), 255u);
  EXPECT_TRUE(
      text.ends_with("...' in vhost '/': it was on a queue whose name has 246 bytes, allowed is a "
                     "name of up to 245 "
                     "bytes"))
      << text;
  EXPECT_NE(text.find("for queue 'nxxxxxxxx"), std::string::npos) << text;
}

TEST_P(Framing, ClosingFromAnotherThreadGoesThroughTheList) {
  open();
  const ConnectionId id = connection->id();
  EXPECT_TRUE(list.close(id, 320, "Closed via management plugin"));
  EXPECT_FALSE(list.close(ConnectionId(id.value + 1000), 320, ""));
  on_shard([] {});
  expect_connection_close(320, "Closed via management plugin", 0);
}

TEST_P(Framing, AlarmsAreToldToThoseWhoPublishAndStopThem) {
  open();
  on_shard([&] { connection->set_blocked(true, "low on disk"); });
  take();
  EXPECT_TRUE(got.empty()) << "it has not published";
  publish(1, "", "q", "one");
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::ConnectionBlocked>(got[0]).reason, "low on disk");
  EXPECT_FALSE(pipe.reading);
  publish(1, "", "q", "two");
  pump();
  EXPECT_LE(queue().published.size(), 1u);
  on_shard([&] { connection->set_blocked(false, ""); });
  expect(0, method_id::connection_unblocked);
  EXPECT_EQ(queue().published.size(), 2u);
}

TEST_P(Framing, WhoPublishedBeforeTheAlarmIsToldButReadFromUntilItPublishesAgain) {
  open();
  publish(1, "", "q", "one");
  take();
  on_shard([&] { connection->set_blocked(true, "memory"); });
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::ConnectionBlocked>(got[0]).reason, "memory");
  EXPECT_TRUE(pipe.reading);
  publish(1, "", "q", "two");
  pump();
  EXPECT_FALSE(pipe.reading);
  on_shard([&] { connection->set_blocked(false, ""); });
  expect(0, method_id::connection_unblocked);
  EXPECT_TRUE(pipe.reading);
}

TEST_P(Framing, AnAlarmStopsAPublishInItsMiddle) {
  open();
  // Its beginning came before the alarm; so many bodies of so many channels are in memory only.
  say(1, method::BasicPublish{"", "q", false, false});
  frame(FrameType::header, 1, PropertiesBuilder{}.build(30));
  frame(FrameType::body, 1, std::string(10, 'a'));
  pump();
  on_shard([&] { connection->set_blocked(true, "memory"); });
  take();
  EXPECT_TRUE(pipe.reading);
  frame(FrameType::body, 1, std::string(10, 'b'));
  frame(FrameType::body, 1, std::string(10, 'c'));
  const size_t left = input.size() / 2;
  pump();
  EXPECT_FALSE(pipe.reading);
  EXPECT_EQ(input.size(), left);
  EXPECT_TRUE(queue().published.empty());
  on_shard([&] { connection->set_blocked(false, ""); });
  take();
  ASSERT_EQ(queue().published.size(), 1u);
  EXPECT_EQ(queue().published[0].body,
            std::string(10, 'a') + std::string(10, 'b') + std::string(10, 'c'));
}

TEST_P(Framing, AnAlarmThatIsOverIsToldToNoOneWhoDidNotHearOfIt) {
  open();
  on_shard([&] { connection->set_blocked(true, "memory"); });
  on_shard([&] { connection->set_blocked(false, ""); });
  take();
  EXPECT_TRUE(got.empty());
}

}  // namespace
}  // namespace tarry::testing
