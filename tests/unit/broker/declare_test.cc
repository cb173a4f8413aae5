#include "broker/declare.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

QueueDeclare with(std::vector<std::pair<std::string, FieldValue>> arguments,
                  std::string name = "q") {
  QueueDeclare d;
  d.name = std::move(name);
  d.durable = true;
  d.arguments.entries = std::move(arguments);
  return d;
}

std::string refusal(std::vector<std::pair<std::string, FieldValue>> arguments) {
  auto checked = check_queue("/", with(std::move(arguments)));
  if (checked) return "accepted";
  return std::to_string(checked.error().code) + " " + checked.error().text;
}

FieldValue number(char type, int64_t v) { return {type, v}; }

TEST(Declare, EveryIntegerTypeIsTakenByValue) {
  for (char type : std::string("bBsuIilL")) {
    auto checked = check_queue("/", with({{"x-message-ttl", number(type, 100)}}));
    ASSERT_TRUE(checked) << type;
    EXPECT_EQ(checked->settings.message_ttl_ms, 100u) << type;
  }
}

TEST(Declare, ValuesOutOfRangeAre406AndTheTextNamesArgumentQueueAndValue) {
  for (const char* name :
       {"x-message-ttl", "x-max-length", "x-max-length-bytes", "x-consumer-timeout"}) {
    EXPECT_TRUE(refusal({{name, FieldValue::int32(-1)}}).starts_with("406 ")) << name;
    EXPECT_EQ(refusal({{name, FieldValue::int32(0)}}), "accepted") << name;
  }
  EXPECT_EQ(refusal({{"x-expires", FieldValue::int32(0)}}),
            "406 invalid arg 'x-expires' for queue 'q' in vhost '/': expected an integer of at "
            "least 1, got the value '0' "
            "of type 'signedint'");
  EXPECT_TRUE(refusal({{"x-max-priority", FieldValue::int32(256)}}).starts_with("406 "));
  EXPECT_EQ(refusal({{"x-max-priority", FieldValue::int32(255)}}), "accepted");
}

TEST(Declare, WrongTypesAre406) {
  for (const char* name :
       {"x-message-ttl", "x-expires", "x-max-length", "x-dead-letter-exchange", "x-overflow",
        "x-single-active-consumer", "x-queue-type", "x-max-priority"}) {
    EXPECT_TRUE(refusal({{name, FieldValue{'d', 1.5}}}).starts_with("406 ")) << name;
  }
  EXPECT_TRUE(refusal({{"x-overflow", FieldValue::text("drop-tail")}}).starts_with("406 "));
}

TEST(Declare, DeadLetterKeyNeedsAnExchange) {
  EXPECT_TRUE(refusal({{"x-dead-letter-routing-key", FieldValue::text("k")}}).starts_with("406 "));
  auto checked = check_queue("/", with({{"x-dead-letter-routing-key", FieldValue::text("k")},
                                        {"x-dead-letter-exchange", FieldValue::text("")}}));
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->settings.dead_letter_exchange, "");
  EXPECT_EQ(checked->settings.dead_letter_routing_key, "k");
}

TEST(Declare, QueueTypes) {
  EXPECT_EQ(refusal({{"x-queue-type", FieldValue::text("classic")}}), "accepted");
  EXPECT_TRUE(refusal({{"x-queue-type", FieldValue::text("jelly")}}).starts_with("406 "));
  EXPECT_TRUE(refusal({{"x-queue-type", FieldValue::text("stream")}}).starts_with("540 "));
  EXPECT_TRUE(refusal({{"x-queue-type", FieldValue::text("stream")},
                       {"x-delayed-retry-min", FieldValue::int32(5)}})
                  .starts_with("406 "));
  auto quorum = check_queue("/", with({{"x-queue-type", FieldValue::text("quorum")}}));
  ASSERT_TRUE(quorum);
  EXPECT_TRUE(quorum->identity.quorum_type);
  QueueDeclare transient = with({{"x-queue-type", FieldValue::text("quorum")}});
  transient.durable = false;
  EXPECT_EQ(check_queue("/", transient).error().code, 406);
}

TEST(Declare, UnknownAndForeignArgumentsAreNoError) {
  EXPECT_EQ(refusal({{"x-queue-mode", FieldValue::text("lazy")},
                     {"x-ha-policy", FieldValue::text("all")},
                     {"my-own", FieldValue::boolean(true)}}),
            "accepted");
}

TEST(Declare, Rule3_RetryArgumentsOutOfRangeNameTheVhostToo) {
  std::string text = refusal({{"x-delayed-retry-min", FieldValue::int32(0)}});
  EXPECT_TRUE(
      text.starts_with("406 invalid arg 'x-delayed-retry-min' for queue 'q' in vhost '/': "))
      << text;
}

TEST(Declare, Rule1_MinTurnsRetriesOnAndTheDeclaredLimitIsKeptApartFromTheDefault) {
  auto checked = check_queue("/", with({{"x-delayed-retry-min", FieldValue::int32(500)},
                                        {"x-delayed-retry-multiplier", FieldValue::int32(2)}}));
  ASSERT_TRUE(checked);
  EXPECT_TRUE(checked->identity.retry_enabled);
  EXPECT_EQ(checked->settings.retry.min_ms, 500u);
  EXPECT_EQ(checked->settings.retry.multiplier, 2u);
  EXPECT_EQ(checked->settings.delivery_limit, std::nullopt);
}

TEST(Declare, Rule5_ANameTooLongForItsCompanionIs406) {
  EXPECT_TRUE(check_queue(
      "/", with({{"x-delayed-retry-min", FieldValue::int32(1)}}, std::string(245, 'n'))));
  auto tooLong = check_queue(
      "/", with({{"x-delayed-retry-min", FieldValue::int32(1)}}, std::string(246, 'n')));
  ASSERT_FALSE(tooLong);
  EXPECT_EQ(tooLong.error().code, 406);
  EXPECT_NE(tooLong.error().text.find("amq.retry-"), std::string::npos);
}

TEST(Declare, AnExclusiveQueueIsNotKeptOverARestart) {
  QueueDeclare d = with({});
  d.exclusive = true;
  EXPECT_FALSE(check_queue("/", d)->identity.durable);
}

std::string difference(FieldTable received, FieldTable current) {
  QueueDeclare d = with(std::move(received.entries));
  auto same = check_queue_equivalent("/", d, {true, false, current});
  return same ? "" : same.error().text;
}

TEST(Equivalence, TextsAreRabbitMqs) {
  FieldTable none, one{{{"x-max-length", FieldValue::int32(1)}}},
      two{{{"x-max-length", FieldValue::int64(2)}}};
  EXPECT_EQ(difference(one, none),
            "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '1' of "
            "type 'signedint' but "
            "current is none");
  EXPECT_EQ(difference(none, one),
            "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current "
            "is the value '1' of "
            "type 'signedint'");
  EXPECT_EQ(difference(one, two),
            "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '1' of "
            "type 'signedint' but "
            "current is the value '2' of type 'long'");
  QueueDeclare transient = with({});
  transient.durable = false;
  EXPECT_EQ(check_queue_equivalent("/", transient, {true, false, none}).error().text,
            "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current "
            "is 'true'");
}

TEST(Equivalence, Rule6_WidthOfIntegersDoesNotMatter) {
  for (char type : std::string("bsIl")) {
    EXPECT_EQ(difference({{{"x-delayed-retry-min", number(type, 50)}}},
                         {{{"x-delayed-retry-min", FieldValue::int32(50)}}}),
              "");
  }
  EXPECT_NE(difference({{{"x-delayed-retry-max", FieldValue::int32(51)}}},
                       {{{"x-delayed-retry-max", FieldValue::int32(50)}}}),
            "");
}

TEST(Equivalence, NoTypeIsClassicAndUnknownArgumentsDoNotCount) {
  EXPECT_EQ(difference({{{"x-queue-type", FieldValue::text("classic")}}}, {}), "");
  EXPECT_NE(difference({{{"x-queue-type", FieldValue::text("quorum")}}}, {}), "");
  EXPECT_EQ(difference({{{"x-queue-mode", FieldValue::text("lazy")}}}, {}), "");
}

}  // namespace
}  // namespace tarry
