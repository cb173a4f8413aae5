// Changes that have taken effect and wait for the disk: their replies, and what waits for those.
#include "session/owed_replies.h"

#include <set>

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Owed : public SessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Owed() { one_byte_at_a_time = GetParam(); }
  void open() {
    open_connection();
    open_channel(1);
    open_channel(2);
    got.clear();
    vhost().hold_disk = true;
  }
  FakeVhost& vhost() { return *access.vhost; }
  void sync() {
    on_shard([&] { vhost().sync(); });
  }
  /// What comes once the disk has everything, whatever is only asked for then.
  std::vector<uint32_t> ids_after_syncs() {
    got.clear();
    for (int round = 0; round < 100; ++round) {
      sync();
      pump();
    }
    return ids();
  }
};
INSTANTIATE_TEST_SUITE_P(Cuts, Owed, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ByteByByte" : "OneWrite"; });

TEST_P(Owed, ChangesOfAChannelTakeEffectInARowAndAreAnsweredInOrderOnceTheyAreDurable) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(1, method::ExchangeDeclare{"e", "fanout"});
  say(1, method::QueueBind{"", "e", ""});
  say(2, method::QueueDeclare{"b"});
  say(1, method::QueueDelete{"a"});
  expect_nothing();
  EXPECT_EQ(vhost().calls, (std::vector<std::string>{"queue.declare a", "exchange.declare e",
                                                     "queue.declare b", "queue.delete a"}));
  EXPECT_EQ(vhost().bindings.at(0).destination, "a") << "the last declared, before it is durable";
  if (!one_byte_at_a_time) {
    EXPECT_EQ(vhost().disk_waiters.size(), 1u) << "asked once a turn";
  }
  sync();
  take();
  std::vector<uint32_t> of_one, of_two;
  for (const Got& g : got) (g.channel == 1 ? of_one : of_two).push_back(g.id());
  EXPECT_EQ(of_one,
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::exchange_declare_ok,
                                   method_id::queue_bind_ok, method_id::queue_delete_ok}));
  EXPECT_EQ(of_two, (std::vector<uint32_t>{method_id::queue_declare_ok}));
  EXPECT_TRUE(pipe.reading);
}

TEST_P(Owed, OnlyWhatTheDiskHasIsAnswered) {
  open();
  say(1, method::QueueDeclare{"a"});
  pump();
  Task first = std::move(vhost().disk_waiters.at(0));
  vhost().disk_waiters.clear();
  say(1, method::QueueDeclare{"b"});
  pump();
  on_shard([&] { first(); });
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::QueueDeclareOk>(got[0]).queue, "a");
  sync();
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::QueueDeclareOk>(got[0]).queue, "b");
}

TEST_P(Owed, AReplyThatOwesNothingWaitsForThoseBeforeIt) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(1, method::QueueDeclare{"a", true});
  say(1, method::QueuePurge{"a"});
  expect_nothing();
  sync();
  EXPECT_EQ((pump(), ids()),
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::queue_declare_ok,
                                   method_id::queue_purge_ok}));
}

TEST_P(Owed, WhatRestsOnTheChangesIsNotTakenBeforeTheyAreDurable) {
  open();
  say(1, method::ConfirmSelect{});
  expect(1, method_id::confirm_select_ok);
  say(1, method::QueueDeclare{"q"});
  publish(1, "", "q", "x");
  say(1, method::BasicQos{});
  expect_nothing();
  EXPECT_FALSE(pipe.reading);
  EXPECT_TRUE(queue().published.empty());
  sync();
  take();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].id(), method_id::queue_declare_ok);
  // The confirm leaves at the end of a turn, before or behind the answer to qos.
  EXPECT_EQ((std::set{got[1].id(), got[2].id()}),
            (std::set{method_id::basic_qos_ok, method_id::basic_ack}));
  EXPECT_EQ(queue().published.size(), 1u);
}

TEST_P(Owed, OtherChannelsGoOn) {
  open();
  say(1, method::QueueDeclare{"q"});
  publish(2, "", "q", "x");
  say(2, method::BasicQos{});
  expect(2, method_id::basic_qos_ok);
  EXPECT_EQ(queue().published.size(), 1u);
  sync();
  expect(1, method_id::queue_declare_ok);
}

TEST_P(Owed, NoWaitKeepsItsPlaceInTheOrder) {
  open();
  say(1, method::QueueDeclare{"q", false, false, false, false, true});
  say(1, method::BasicQos{});
  expect_nothing();
  sync();
  expect(1, method_id::basic_qos_ok);
}

TEST_P(Owed, AnErrorOfTheChannelComesBehindTheRepliesAndNothingAfterIt) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(1, method::QueueDeclare{"missing", true});
  say(1, method::QueueDeclare{"b"});
  say(2, method::QueueDeclare{"c"});
  expect_nothing();
  EXPECT_FALSE(vhost().queues.contains("b")) << "the channel is closed by then";
  EXPECT_EQ(ids_after_syncs(),
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::channel_close,
                                   method_id::queue_declare_ok}));
  EXPECT_EQ(got.at(0).channel, 1);
  const auto close = as<method::ChannelClose>(got.at(1));
  EXPECT_EQ(close.reply_code, 404);
  EXPECT_EQ(method_id::of(close.failing_class, close.failing_method), method_id::queue_declare);
  EXPECT_EQ(got.at(2).channel, 2);
  EXPECT_FALSE(vhost().queues.contains("b"));
  say(1, method::ChannelCloseOk{});
  vhost().hold_disk = false;
  open_channel(1);
}

TEST_P(Owed, AnErrorOfTheConnectionComesBehindTheRepliesOfAllChannels) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(2, method::QueueDeclare{"b"});
  say(2, method::QueueDeclareOk{"q"});
  say(1, method::QueueDeclare{"never"});
  expect_nothing();
  EXPECT_EQ(ids_after_syncs(),
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::queue_declare_ok,
                                   method_id::connection_close}));
  EXPECT_EQ(as<method::ConnectionClose>(got.at(2)).reply_code, 503);
  EXPECT_FALSE(vhost().queues.contains("never"));
}

TEST_P(Owed, ABrokenFrameEndsTheConnectionBehindTheReplies) {
  open();
  say(1, method::QueueDeclare{"a"});
  raw(std::string("\x01\x00\x01\x00\x00\x00\x01xNO END", 14));
  expect_nothing();
  sync();
  pump();
  ASSERT_EQ(ids(),
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::connection_close}));
  EXPECT_EQ(as<method::ConnectionClose>(got.at(1)).reply_code, 501);
}

TEST_P(Owed, AClientThatClosesItsChannelIsAnsweredInOrder) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(1, method::ChannelClose{200, "bye", 0, 0});
  expect_nothing();
  sync();
  EXPECT_EQ((pump(), ids()),
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::channel_close_ok}));
}

TEST_P(Owed, AClientThatClosesItsConnectionIsAnsweredInOrder) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(0, method::ConnectionClose{200, "bye", 0, 0});
  expect_nothing();
  sync();
  EXPECT_EQ((pump(), ids()),
            (std::vector<uint32_t>{method_id::queue_declare_ok, method_id::connection_close_ok}));
}

TEST_P(Owed, NothingIsSentBehindACloseOfTheBrokers) {
  open();
  say(1, method::QueueDeclare{"a"});
  say(1, method::QueueDeclare{"missing", true});
  pump();
  on_shard([&] { connection->close(320, "operator"); });
  EXPECT_EQ((pump(), ids()), (std::vector<uint32_t>{method_id::connection_close}));
  EXPECT_EQ(ids_after_syncs(), std::vector<uint32_t>{});
}

TEST_P(Owed, ADiskThatComesBackAfterTheConnectionFindsNothing) {
  open();
  say(1, method::QueueDeclare{"a"});
  pump();
  on_shard([&] { connection.reset(); });
  sync();
  connect();  // for the fixture's end
}

TEST_P(Owed, AnEffectThatComesLaterKeepsTheOrder) {
  open();
  say(1, method::QueueDeclare{"a"});
  pump();
  vhost().hold_answers = true;
  say(1, method::QueueDeclare{"b"});
  say(1, method::QueueDeclare{"c"});
  expect_nothing();
  EXPECT_EQ(vhost().calls.size(), 2u) << "b has not taken effect";
  vhost().hold_answers = false;
  on_shard([&] { vhost().release(); });
  pump();
  EXPECT_EQ(vhost().calls.size(), 3u);
  EXPECT_EQ(ids_after_syncs(), (std::vector<uint32_t>(3, method_id::queue_declare_ok)));
  EXPECT_EQ(as<method::QueueDeclareOk>(got.at(2)).queue, "c");
}

TEST_P(Owed, AClientThatOwnsTooManyRepliesIsStoppedAndGoesOn) {
  open();
  const size_t wanted = one_byte_at_a_time ? 1200 : 3000;
  for (size_t i = 0; i < wanted; ++i) say(1, method::QueueDeclare{"q" + std::to_string(i)});
  for (int i = 0; i < (one_byte_at_a_time ? 1000 : 1); ++i) pump();
  EXPECT_EQ(vhost().calls.size(), kOwedMax);
  EXPECT_FALSE(pipe.reading);
  got.clear();
  for (size_t i = 0; parse().size() < wanted && i < 100 * wanted; ++i) {
    sync();
    pump();
  }
  ASSERT_EQ(got.size(), wanted);
  for (size_t i = 0; i < wanted; ++i)
    ASSERT_EQ(as<method::QueueDeclareOk>(got[i]).queue, "q" + std::to_string(i));
}

}  // namespace
}  // namespace tarry::testing
