// Publishes to amq.retry (retry-spec 35).
#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class OwnWords : public SessionTest {
 protected:
  void open(bool confirms = false) {
    access.vhost->queues["q"] = make_fake_queue(home, "q", true);
    access.vhost->add("plain");
    open_connection();
    open_channel(1);
    consume();
    deliver(0, {"a", "b", "c"});
    take();
    if (!confirms) return;
    say(1, method::ConfirmSelect{});
    expect(1, method_id::confirm_select_ok);
  }
  void word(std::string_view tag, std::vector<std::pair<std::string, FieldValue>> headers = {},
            uint16_t channel = 1) {
    PropertiesBuilder properties;
    if (!headers.empty()) properties.headers = FieldTable{std::move(headers)};
    publish(channel, "amq.retry", tag, "ignored", false, properties);
  }
  void expect_refused(std::string_view part) {
    expect_channel_close(1, 406, part, method_id::basic_publish);
    EXPECT_TRUE(queue().words.empty());
  }
};

TEST_F(OwnWords, Rule35_SettlesTheDeliveryWhoseTagIsTheRoutingKey) {
  open();
  word("2", {{"x-retry-delay", FieldValue::int32(60'000)},
             {"x-retry-error", FieldValue::text("no connection")},
             {"x-retry-permanent", FieldValue::boolean(false)},
             {"trace", FieldValue::text("other headers are the client's")}});
  expect_nothing();
  ASSERT_EQ(queue().words.size(), 1u);
  const auto& said = queue().words[0];
  EXPECT_EQ(said.delivery.run.first.ordinal, 1u);
  EXPECT_EQ(said.delivery.run.count, 1u);
  EXPECT_EQ(said.delay_ms, 60'000u);
  EXPECT_EQ(said.error, "no connection");
  EXPECT_FALSE(said.permanent);
  EXPECT_EQ(said.publish_number, 0u);
  EXPECT_TRUE(queue().published.empty());
  // The others are still there, this one no more.
  say(1, method::BasicAck{1, false});
  say(1, method::BasicAck{3, false});
  expect_nothing();
  EXPECT_EQ(queue().settled.size(), 2u);
  say(1, method::BasicAck{2, false});
  expect_channel_close(1, 406, "unknown delivery tag 2", method_id::basic_ack);
}

TEST_F(OwnWords, Rule35_WithoutHeadersItIsARejectionThatSaysNothing) {
  open();
  word("1");
  expect_nothing();
  ASSERT_EQ(queue().words.size(), 1u);
  EXPECT_FALSE(queue().words[0].delay_ms);
  EXPECT_EQ(queue().words[0].error, "");
  EXPECT_FALSE(queue().words[0].permanent);
}

TEST_F(OwnWords, Rule35_ItComesBehindWhatWasSettledBefore) {
  open();
  queue().order.clear();
  say(1, method::BasicAck{1, false});
  word("2");
  say(1, method::BasicNack{3, false, true});
  expect_nothing();
  EXPECT_EQ(queue().order, (std::vector<std::string>{"settle", "word", "settle"}));
}

TEST_F(OwnWords, Rule35_AnUnknownTagIs406) {
  open();
  word("4");
  expect_refused("unknown delivery tag 4");
}

TEST_F(OwnWords, Rule35_AnotherChannelsTagIs406) {
  open();
  open_channel(2);
  word("1", {}, 2);
  expect_channel_close(2, 406, "unknown delivery tag 1", method_id::basic_publish);
  EXPECT_TRUE(queue().words.empty());
}

TEST_F(OwnWords, Rule35_ATagTwiceIs406) {
  open();
  word("1");
  word("1");
  expect_channel_close(1, 406, "unknown delivery tag 1", method_id::basic_publish);
  EXPECT_EQ(queue().words.size(), 1u);
}

TEST_F(OwnWords, Rule35_ARoutingKeyThatIsNoTagIs406) {
  open();
  uint16_t channel = 1;
  for (const char* key : {"", "0", "1x", "-1", "+1", "one", "18446744073709551616"}) {
    word(key, {}, channel);
    expect_channel_close(channel, 406, "expected a delivery tag", method_id::basic_publish);
    EXPECT_TRUE(queue().words.empty());
    open_channel(++channel);
  }
}

TEST_F(OwnWords, Rule35_ABadHeaderIs406ThatNamesIt) {
  const std::pair<std::pair<std::string, FieldValue>, const char*> cases[] = {
      {{"x-retry-delay", FieldValue::text("500")}, "'x-retry-delay'"},
      {{"x-retry-delay", FieldValue::int32(-1)}, "it was the value '-1'"},
      {{"x-retry-error", FieldValue::int32(5)}, "'x-retry-error'"},
      {{"x-retry-permanent", FieldValue::text("true")}, "allowed is a boolean"},
      {{"x-retry-dely", FieldValue::int32(5)},
       "allowed are x-retry-delay, x-retry-error and x-retry-permanent"}};
  open();
  uint16_t channel = 1;
  for (const auto& [header, part] : cases) {
    word("1", {header}, channel);
    expect_channel_close(channel, 406, part, method_id::basic_publish);
    EXPECT_TRUE(queue().words.empty());
    ++channel;
    open_channel(channel);
    say(channel,
        method::BasicConsume{"q", "t" + std::to_string(channel), false, false, false, false, {}});
    take();
    deliver(queue().consumers.size() - 1, {"again"});
    take();
  }
}

TEST_F(OwnWords, Rule35_ADelayOfAnyIntegerIsTaken) {
  open();
  word("1", {{"x-retry-delay", FieldValue{'L', -1}}});  // 2^64-1: the queue caps it
  expect_nothing();
  ASSERT_EQ(queue().words.size(), 1u);
  EXPECT_EQ(queue().words[0].delay_ms, static_cast<uint64_t>(INT64_MAX));
}

TEST_F(OwnWords, Rule35_ADelayForAQueueWithoutRetriesIs406AndAnErrorTextIsNot) {
  open();
  consume("plain", "p");
  deliver(0, {"x", "y"}, "plain");
  take();
  word("4", {{"x-retry-error", FieldValue::text("why")}});
  expect_nothing();
  EXPECT_EQ(queue("plain").words.size(), 1u);
  word("5", {{"x-retry-delay", FieldValue::int32(5)}});
  expect_channel_close(1, 406, "queue 'plain' in vhost '/' has no retries",
                       method_id::basic_publish);
  EXPECT_EQ(queue("plain").words.size(), 1u);
}

TEST_F(OwnWords, Rule35_AnErrorTextIsCutAt4KiBBetweenCharacters) {
  open();
  std::string text(4095, 'x');
  text += "\u00e9 and more";  // two bytes across the border
  word("1", {{"x-retry-error", FieldValue::text(text)}});
  expect_nothing();
  EXPECT_EQ(queue().words.at(0).error, std::string(4095, 'x'));
}

TEST_F(OwnWords, Rule35_TheConfirmComesWhenTheQueueGivesIt) {
  open(true);
  queue().confirm_at_once = false;
  publish(1, "", "plain", "x");
  word("1");
  publish(1, "", "plain", "y");
  take();
  ASSERT_EQ(queue().words.size(), 1u);
  EXPECT_EQ(queue().words[0].publish_number, 2u);
  EXPECT_EQ(queue().words[0].channel, 1);
  // 1 and 3 are confirmed, 2 is not.
  for (const auto& frame : got) EXPECT_NE(as<method::BasicAck>(frame).delivery_tag, 2u);
  const ConfirmRange range{1, queue().words[0].channel_serial, 2, 2, false};
  on_shard([&] { home.find_sink(queue().words[0].from.connection)->on_confirm({&range, 1}); });
  take();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(as<method::BasicAck>(got[0]).delivery_tag, 2u);
}

TEST_F(OwnWords, Rule35_UnderTxItTakesEffectAtCommit) {
  open();
  say(1, method::TxSelect{});
  expect(1, method_id::tx_select_ok);
  word("1", {{"x-retry-error", FieldValue::text("undone")}});
  say(1, method::TxRollback{});
  expect(1, method_id::tx_rollback_ok);
  EXPECT_TRUE(queue().words.empty());
  word("1", {{"x-retry-error", FieldValue::text("why")}});
  say(1, method::BasicAck{2, false});
  expect_nothing();
  EXPECT_TRUE(queue().words.empty());
  queue().order.clear();
  say(1, method::TxCommit{});
  expect(1, method_id::tx_commit_ok);
  ASSERT_EQ(queue().words.size(), 1u);
  EXPECT_EQ(queue().words[0].error, "why");
  EXPECT_EQ(queue().words[0].publish_number, 0u);
  EXPECT_EQ(queue().order, (std::vector<std::string>{"word", "settle", "sync"}));
}

TEST_F(OwnWords, Rule35_WhoOnlySettlesIsNoPublisherForAnAlarm) {
  open();
  word("1");
  pump();
  on_shard([&] { connection->set_blocked(true, "low on memory"); });
  pump();
  EXPECT_TRUE(pipe.reading);
  publish(1, "", "plain", "x");
  pump();
  EXPECT_FALSE(pipe.reading);
}

TEST_F(OwnWords, Rule35_TheErrorTextIsAHeaderOfTheNextDelivery) {
  open();
  QueueActor::Extra extra;
  extra.counter = 2;
  extra.show_counter = true;
  extra.last_error = "no connection";
  PropertiesBuilder properties;
  properties.headers =
      FieldTable{{{"x-last-error", FieldValue::text("older")}, {"mine", FieldValue::int32(1)}}};
  properties.message_id = "id";
  extra.header = properties.build(1);
  on_shard([&] { queue().deliver(0, {"d"}, extra); });
  take();
  ASSERT_EQ(got.size(), 3u);
  auto view = PropertiesView::parse(as_bytes(got[1].payload));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->message_id, "id");
  auto headers = FieldTable::decode(view->headers);
  ASSERT_TRUE(headers);
  EXPECT_EQ(headers->entries.size(), 3u);
  EXPECT_EQ(*headers->find("x-last-error")->text(), "no connection");
  EXPECT_EQ(headers->find("x-delivery-count")->integer(), 2);
  EXPECT_EQ(headers->find("mine")->integer(), 1);
}

TEST_F(OwnWords, Rule35_AHeaderStillFitsIntoOneFrame) {
  access.vhost->add("q");
  open_connection(4096);
  open_channel(1);
  consume();
  QueueActor::Extra extra;
  extra.last_error = std::string(4096, 'e');
  on_shard([&] { queue().deliver(0, {"d"}, extra); });
  take();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_LE(got[1].payload.size() + kFrameOverheadBytes, 4096u);
  auto view = PropertiesView::parse(as_bytes(got[1].payload));
  ASSERT_TRUE(view);
  EXPECT_GT(FieldTable::decode(view->headers)->find("x-last-error")->text()->size(), 3500u);
}

}  // namespace
}  // namespace tarry::testing
