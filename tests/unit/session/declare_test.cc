#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Declare : public SessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Declare() { one_byte_at_a_time = GetParam(); }
  void open() {
    open_connection();
    open_channel(1);
  }
};
INSTANTIATE_TEST_SUITE_P(Cuts, Declare, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ByteByByte" : "OneWrite"; });

TEST_P(Declare, AQueueIsDeclaredAndRemembered) {
  open();
  say(1, method::QueueDeclare{});
  take();
  auto ok = as<method::QueueDeclareOk>(got.at(0));
  EXPECT_EQ(ok.queue, "amq.gen-1");
  EXPECT_EQ(ok.message_count, 3u);
  EXPECT_EQ(ok.consumer_count, 2u);
  say(1, method::QueueBind{"", "amq.topic", ""});
  expect(1, method_id::queue_bind_ok);
  EXPECT_EQ(access.vhost->bindings.at(0).destination, "amq.gen-1");
  EXPECT_EQ(access.vhost->bindings.at(0).routing_key, "amq.gen-1");
  EXPECT_EQ(access.vhost->bindings.at(0).source, "amq.topic");
  say(1, method::QueuePurge{""});
  take();
  EXPECT_EQ(as<method::QueuePurgeOk>(got.at(0)).message_count, 7u);
  say(1, method::QueueDelete{""});
  take();
  EXPECT_EQ(as<method::QueueDeleteOk>(got.at(0)).message_count, 5u);
}

TEST_P(Declare, NoQueueToRememberIs404) {
  open();
  say(1, method::QueuePurge{""});
  expect_channel_close(1, 404, "no previously declared queue", method_id::queue_purge);
}

TEST_P(Declare, ErrorsCloseTheChannelWithTheMethodThatFailed) {
  open();
  say(1, method::QueueDeclare{"q", true});
  expect_channel_close(1, 404, "no queue 'q' in vhost '/'", method_id::queue_declare);
  open_channel(1);
  ExchangeDeclare unused;
  say(1, method::ExchangeDeclare{"e", "direct", true});
  expect_channel_close(1, 404, "no exchange 'e'", method_id::exchange_declare);
}

TEST_P(Declare, NoWaitIsSilentUnlessItFails) {
  open();
  say(1, method::QueueDeclare{"q", false, false, false, false, true});
  say(1, method::ExchangeDeclare{"e", "fanout", false, false, false, false, true});
  say(1, method::QueueBind{"q", "e", "", true});
  expect_nothing();
  EXPECT_EQ(access.vhost->calls.size(), 2u);
  say(1, method::QueueDeclare{"r", true, false, false, false, true});
  expect_channel_close(1, 404, "no queue 'r'", method_id::queue_declare);
}

TEST_P(Declare, NothingIsTakenUntilTheAnswerCame) {
  open();
  access.vhost->hold_answers = true;
  say(1, method::QueueDeclare{"q"});
  say(1, method::BasicQos{});
  publish(1, "", "q", "x");
  expect_nothing();
  EXPECT_FALSE(pipe.reading);
  EXPECT_FALSE(input.empty());
  on_shard([&] { access.vhost->release(); });
  EXPECT_TRUE(pipe.reading);
  take();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].id(), method_id::queue_declare_ok);
  EXPECT_EQ(got[1].id(), method_id::basic_qos_ok);
  EXPECT_EQ(queue().published.size(), 1u);
}

TEST_P(Declare, AnAnswerAfterTheConnectionFindsNothing) {
  open();
  access.vhost->hold_answers = true;
  say(1, method::QueueDeclare{"q"});
  pump();
  on_shard([&] { connection.reset(); });
  on_shard([&] { access.vhost->release(); });
  connect();  // for the fixture's end
}

TEST_P(Declare, ExchangesAreDeclaredBoundAndDeleted) {
  open();
  say(1, method::ExchangeDeclare{"e", "direct"});
  expect(1, method_id::exchange_declare_ok);
  say(1, method::ExchangeBind{"e", "amq.topic", "k"});
  expect(1, method_id::exchange_bind_ok);
  EXPECT_FALSE(access.vhost->bindings.at(0).destination_is_queue);
  EXPECT_EQ(access.vhost->bindings.at(0).destination, "e");
  EXPECT_EQ(access.vhost->bindings.at(0).source, "amq.topic");
  say(1, method::ExchangeUnbind{"e", "amq.topic", "k"});
  expect(1, method_id::exchange_unbind_ok);
  say(1, method::ExchangeDelete{"e"});
  expect(1, method_id::exchange_delete_ok);
  say(1, method::QueueUnbind{"q", "e", "k"});
  expect(1, method_id::queue_unbind_ok);
}

TEST_P(Declare, AccessRequestIsANoOp) {
  open();
  say(1, method::AccessRequest{"/data"});
  take();
  EXPECT_EQ(as<method::AccessRequestOk>(got.at(0)).ticket, 1);
}

TEST_P(Declare, ServerMethodsFromAClientAre503) {
  open();
  say(1, method::QueueDeclareOk{"q"});
  expect_connection_close(503, "queue.declare-ok", method_id::queue_declare_ok);
}

}  // namespace
}  // namespace tarry::testing
