#include "tarrymq/session/connection.h"

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Handshake : public SessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Handshake() { one_byte_at_a_time = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Cuts, Handshake, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ByteByByte" : "OneWrite"; });

TEST_P(Handshake, AnythingButTheHeaderIsAnsweredWithTheHeaderAndClosed) {
  connect();
  raw("GET / HT");
  pump();
  EXPECT_EQ(output, kProtocolHeader);
  EXPECT_TRUE(pipe.closing);
}

TEST_P(Handshake, OtherVersionsAreAnsweredWithTheHeaderAndClosed) {
  for (std::string_view other :
       {std::string_view("AMQP\0\1\0\0", 8), std::string_view("AMQP\1\1\x9\1", 8),
        std::string_view("AMQP\1\1\0\x8", 8), std::string_view("AMQP\0\0\x9\0", 8)}) {
    connect();
    raw(other);
    pump();
    EXPECT_EQ(output, kProtocolHeader);
    EXPECT_TRUE(pipe.closing);
    on_shard([&] { connection.reset(); });
    pipe.closing = false;
    output.clear(), input.clear();
  }
}

// What AnyEvent::RabbitMQ, Mojo::RabbitMQ and aioamqp send.
TEST_P(Handshake, TheHeaderOf09StartsTheSame) {
  connect();
  raw(std::string_view("AMQP\1\1\0\x9", 8));
  say_start_ok();
  take();
  ASSERT_EQ(got.size(), 2u);
  auto start = as<method::ConnectionStart>(got[0]);
  EXPECT_EQ(start.version_major, 0);
  EXPECT_EQ(start.version_minor, 9);
  EXPECT_EQ(got[1].id(), method_id::connection_tune);
}

TEST_P(Handshake, StartAnnouncesProductMechanismsAndCapabilities) {
  connect();
  raw(kProtocolHeader);
  take();
  ASSERT_EQ(got.size(), 1u);
  auto start = as<method::ConnectionStart>(got[0]);
  EXPECT_EQ(start.mechanisms, "PLAIN AMQPLAIN");
  EXPECT_EQ(start.locales, "en_US");
  auto properties = FieldTable::decode(start.server_properties);
  ASSERT_TRUE(properties.has_value());
  EXPECT_EQ(*properties->find("product")->text(), "TarryMQ");
  for (const char* name : {"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
                           "consumer_cancel_notify", "connection.blocked", "consumer_priorities",
                           "authentication_failure_close", "per_consumer_qos", "direct_reply_to"}) {
    const FieldValue* capability = properties->find("capabilities")->table()->find(name);
    ASSERT_TRUE(capability) << name;
    EXPECT_TRUE(capability->boolean().value_or(false)) << name;
  }
}

TEST_P(Handshake, GoesFromHeaderToOpenOk) {
  open_connection();
  ASSERT_EQ(access.opened.size(), 1u);
  EXPECT_EQ(access.opened[0].user, "guest");
  EXPECT_EQ(access.opened[0].vhost, "/");
  EXPECT_EQ(access.opened[0].mechanism, "PLAIN");
  EXPECT_EQ(access.opened[0].frame_max, settings.frame_max);
  EXPECT_EQ(access.opened[0].channel_max, settings.channel_max);
  EXPECT_EQ(list.size(), 1u);
  on_shard([&] { connection->on_closed(); });
  EXPECT_EQ(list.size(), 0u);
  EXPECT_EQ(access.closed.size(), 1u);
  EXPECT_EQ(access.vhost->closed.size(), 1u);
}

TEST_P(Handshake, AmqplainLogsIn) {
  connect();
  raw(kProtocolHeader);
  FieldTable table;
  table.set("LOGIN", FieldValue::text("guest"));
  table.set("PASSWORD", FieldValue::text("guest"));
  say_start_ok(std::string_view(table.encode()).substr(4), "AMQPLAIN");
  take();
  EXPECT_EQ(got.back().id(), method_id::connection_tune);
}

TEST_P(Handshake, WrongPasswordIs403ForThoseWhoAnnouncedIt) {
  connect();
  raw(kProtocolHeader);
  say_start_ok(std::string_view("\0guest\0wrong", 12));
  expect_connection_close(403, "Login was refused using authentication mechanism PLAIN",
                          method_id::connection_start_ok);
  say(0, method::ConnectionCloseOk{});
  pump();
  EXPECT_TRUE(pipe.closing);
}

TEST_P(Handshake, WhoeverWantsToActForAnotherIsRefusedLikeAWrongPassword) {
  connect();
  raw(kProtocolHeader);
  say_start_ok(std::string_view("other\0guest\0guest", 17));
  expect_connection_close(403, "Login was refused using authentication mechanism PLAIN",
                          method_id::connection_start_ok);
  on_shard([&] { connection.reset(); });
  pipe.closing = false;
  output.clear(), input.clear(), got.clear();
  connect();
  raw(kProtocolHeader);
  say_start_ok(std::string_view("guest\0guest\0guest", 17));
  take();
  EXPECT_EQ(got.back().id(), method_id::connection_tune);
}

TEST_P(Handshake, WrongPasswordJustClosesForOldClients) {
  connect();
  raw(kProtocolHeader);
  say(0, method::ConnectionStartOk{{}, "PLAIN", std::string_view("\0guest\0wrong", 12), "en_US"});
  take();
  EXPECT_EQ(got.size(), 1u);
  EXPECT_TRUE(pipe.closing);
}

TEST_P(Handshake, UnknownMechanismIs503) {
  connect();
  raw(kProtocolHeader);
  say_start_ok("", "X");
  expect_connection_close(503, "unknown authentication mechanism 'X'",
                          method_id::connection_start_ok);
}

TEST_P(Handshake, StartOkAboveTheSmallestFrameMaxIs501) {
  connect();
  raw(kProtocolHeader);
  say_start_ok(std::string(5000, 'x'));
  expect_connection_close(501, "more than frame_max, which is 4096", 0);
}

TEST_P(Handshake, TuneOkOutOfRangeIs530) {
  struct Case {
    uint16_t channel_max;
    uint32_t frame_max;
    const char* text;
  };
  for (const Case& c :
       {Case{0, 4095, "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"},
        Case{0, 131073,
             "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"},
        Case{2048, 0,
             "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"}}) {
    connect();
    raw(kProtocolHeader);
    say_start_ok();
    say(0, method::ConnectionTuneOk{c.channel_max, c.frame_max, 0});
    expect_connection_close(530, c.text, method_id::connection_tune_ok);
    pipe.closing = false;
    on_shard([&] { connection.reset(); });
    output.clear();
    input.clear();
    got.clear();
  }
}

TEST_P(Handshake, UnknownVhostIs530) {
  connect();
  raw(kProtocolHeader);
  say_start_ok();
  say(0, method::ConnectionTuneOk{0, 0, 0});
  say(0, method::ConnectionOpen{"nowhere"});
  expect_connection_close(530, "vhost nowhere not found", method_id::connection_open);
}

TEST_P(Handshake, MethodsOutOfTurnAre503) {
  connect();
  raw(kProtocolHeader);
  say(0, method::ConnectionOpen{"/"});
  expect_connection_close(503, "unexpected method connection.open", method_id::connection_open);
}

TEST_P(Handshake, NoChannelBeforeConnectionOpen) {
  connect();
  raw(kProtocolHeader);
  say(1, method::ChannelOpen{});
  expect_connection_close(504, "", method_id::channel_open);
}

using HandshakeTime = SessionTest;

TEST_F(HandshakeTime, WhoTakesTooLongIsCut) {
  connect();
  raw(kProtocolHeader);
  pump();
  advance_ms(settings.handshake_timeout_ms - 1);
  EXPECT_FALSE(pipe.aborted);
  advance_ms(1);
  EXPECT_TRUE(pipe.aborted);
}

TEST_F(HandshakeTime, AnAnswerToTheLogInAfterTheEndFindsNothing) {
  access.hold = true;
  connect();
  raw(kProtocolHeader);
  say_start_ok();
  pump();
  EXPECT_FALSE(pipe.reading);
  on_shard([&] { connection->on_closed(); });
  on_shard([&] { access.held(std::make_unique<Login>(Login{"guest"})); });
  take();
  EXPECT_EQ(got.size(), 0u + 1u);  // connection.start alone
}

TEST_F(HandshakeTime, HeartbeatsAreSentWhenIdleForHalfTheInterval) {
  open_connection(0, 10);
  advance_ms(5'000);
  expect_nothing();  // open-ok was sent meanwhile
  advance_ms(4'999);
  expect_nothing();
  advance_ms(1);
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].type, FrameType::heartbeat);
}

TEST_F(HandshakeTime, APeerSilentForTwoIntervalsIsCut) {
  open_connection(0, 10);
  for (int i = 0; i < 3; ++i) {
    advance_ms(5'000);
    EXPECT_FALSE(pipe.aborted);
  }
  frame(FrameType::heartbeat, 0, "");
  pump();
  for (int i = 0; i < 3; ++i) {
    advance_ms(5'000);
    EXPECT_FALSE(pipe.aborted);
  }
  advance_ms(5'000);
  EXPECT_TRUE(pipe.aborted);
}

TEST_F(HandshakeTime, NoHeartbeatWhenTheClientWantsNone) {
  open_connection(0, 0);
  advance_ms(1'000'000);
  expect_nothing();
  EXPECT_FALSE(pipe.aborted);
}

}  // namespace
}  // namespace tarry::testing
