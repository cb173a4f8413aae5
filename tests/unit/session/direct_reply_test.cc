#include "session/direct_reply.h"

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

TEST(ReplyAddress, TextAndBack) {
  ReplyAddress address{kReplyPrefix, ConnectionId(0xABCDEF0123), 2047, 0xFFFFFFFF, {}};
  const std::string secret = "g2dkAA+/bm9ub2RlQG5vaA==";
  std::copy(secret.begin(), secret.end(), address.secret.begin());
  EXPECT_EQ(address.text(), "amq.rabbitmq.reply-to.abcdef0123-7ff-ffffffff." + secret);
  ReplyAddress back;
  ASSERT_TRUE(ReplyAddress::parse(address.text(), back));
  EXPECT_EQ(back.text(), address.text());
  for (const std::string& bad :
       {std::string(""), std::string("1-2-3"), std::string("1-2-3."), "1-2." + secret,
        "1-2-3-4." + secret, "0-1-1." + secret, "x-1-1." + secret, "1-fffff-1." + secret,
        "1-2-3." + secret + "=", "1-2-3." + secret.substr(1),
        std::string("1-2-3.0123456789abcdefghijklmn")}) {
    EXPECT_FALSE(ReplyAddress::parse("amq.rabbitmq.reply-to." + bad, back)) << bad;
  }
  EXPECT_FALSE(ReplyAddress::parse("amq.rabbitmq.reply-to", back));
}

/// By each of its two names.
class DirectReply : public SessionTest, public ::testing::WithParamInterface<std::string_view> {
 protected:
  void open() {
    access.vhost->add("q");
    open_connection();
    open_channel(1);
  }
  std::string consume_replies() {
    say(1, method::BasicConsume{GetParam(), "r", false, true});
    take();
    return std::string(as<method::BasicConsumeOk>(got.at(0)).consumer_tag);
  }
  std::string request() {
    PropertiesBuilder p;
    p.reply_to = std::string(GetParam());
    p.correlation_id = "c";
    p.message_id = "m";
    publish(1, "", "q", "question", false, p);
    take();
    EXPECT_EQ(queue().published.size(), 1u);
    auto view = PropertiesView::parse(as_bytes(queue().published.at(0).header));
    EXPECT_TRUE(view.has_value());
    EXPECT_EQ(view->correlation_id, "c");
    EXPECT_EQ(view->message_id, "m");
    return std::string(view->reply_to.value_or(""));
  }
};

TEST_P(DirectReply, AnAnswerComesStraightToTheChannel) {
  open();
  EXPECT_EQ(consume_replies(), "r");
  const std::string address = request();
  ASSERT_TRUE(address.starts_with(std::string(GetParam()) + ".")) << address;
  // <name>.<something without a dot>.<16 bytes in base64>, which php-amqp's tests look for.
  const size_t dot = address.rfind('.');
  EXPECT_EQ(address.substr(0, dot).rfind('.'), GetParam().size());
  EXPECT_EQ(address.size() - dot - 1, 24u);
  EXPECT_TRUE(address.ends_with("==")) << address;
  open_channel(2);
  publish(2, "", address, "answer");
  take();
  ASSERT_EQ(got.size(), 3u);
  auto d = as<method::BasicDeliver>(got[0]);
  EXPECT_EQ(got[0].channel, 1);
  EXPECT_EQ(d.consumer_tag, "r");
  EXPECT_EQ(d.routing_key, address);
  EXPECT_EQ(got[2].payload, "answer");
  say(2, method::QueueDeclare{address, true});
  expect(2, method_id::queue_declare_ok);
}

TEST_P(DirectReply, WhoIsGoneIsNoRoute) {
  open();
  consume_replies();
  const std::string address = request();
  say(1, method::BasicCancel{"r"});
  expect(1, method_id::basic_cancel_ok);
  open_channel(2);
  say(2, method::ConfirmSelect{});
  expect(2, method_id::confirm_select_ok);
  publish(2, "", address, "answer", true);
  take();
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(as<method::BasicReturn>(got[0]).reply_code, 312);
  EXPECT_EQ(as<method::BasicAck>(got[3]).delivery_tag, 1u);
  say(2, method::QueueDeclare{address, true});
  expect_channel_close(2, 404, "no queue", method_id::queue_declare);
}

TEST_P(DirectReply, AForgedAddressReachesNobody) {
  open();
  consume_replies();
  std::string address = request();
  address.back() = address.back() == '0' ? '1' : '0';
  publish(1, "", address, "forged", true);
  take();
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got[0].id(), method_id::basic_return);
}

TEST_P(DirectReply, RequestsNeedAConsumerAndTheConsumerNoAck) {
  open();
  PropertiesBuilder p;
  p.reply_to = std::string(GetParam());
  publish(1, "", "q", "question", false, p);
  expect_channel_close(1, 406, "fast reply consumer does not exist", method_id::basic_publish);
  open_channel(1);
  say(1, method::BasicConsume{GetParam(), "r", false, false});
  expect_channel_close(1, 406, "reply consumer cannot acknowledge", method_id::basic_consume);
}

INSTANTIATE_TEST_SUITE_P(Names, DirectReply,
                         ::testing::Values("amq.rabbitmq.reply-to", "amq.direct.reply-to"),
                         [](const auto& name) {
                           return std::string(name.param == "amq.direct.reply-to" ? "Direct"
                                                                                  : "RabbitMq");
                         });

}  // namespace
}  // namespace tarry::testing
