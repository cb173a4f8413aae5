#include "queue/dead_letter.h"

#include <gtest/gtest.h>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/properties.h"

namespace tarry {
namespace {

/// A message on its way through one death after another.
struct Letter {
  FieldTable headers;
  std::optional<std::string> expiration;
  std::string exchange = "ex", key = "key";
  uint8_t hops = 0;
  Rewritten last;

  void die(std::string queue, DeathReason reason, std::optional<std::string_view> new_key = {},
           uint64_t delivery_count = 0) {
    PropertiesBuilder builder;
    if (!headers.empty()) builder.headers = headers;
    builder.expiration = expiration;
    builder.message_id = "id";
    builder.priority = 4;
    const std::string header = builder.build(3);
    std::string route;
    route.push_back(static_cast<char>(exchange.size()));
    route += exchange;
    route.push_back(static_cast<char>(key.size()));
    route += key;
    Death death;
    death.queue = queue;
    death.reason = reason;
    death.time_s = 1'700'000'000;
    death.route = as_bytes(route);
    death.header = as_bytes(header);
    death.hops = hops;
    death.new_routing_key = new_key;
    death.delivery_count = delivery_count;
    last = rewrite_dead_letter(death);
    auto view = PropertiesView::parse(as_bytes(last.header));
    ASSERT_TRUE(view);
    headers = *FieldTable::decode(view->headers);
    expiration.reset();
    if (view->expiration) expiration = std::string(*view->expiration);
    EXPECT_EQ(view->message_id, "id");
    hops = last.hops;
    key = last.routing_keys[0];
  }
  const FieldArray& deaths() const { return *headers.find("x-death")->array(); }
  const FieldTable& death(size_t i) const { return *deaths()[i].table(); }
  std::string text(size_t i, std::string_view name) const { return *death(i).find(name)->text(); }
  int64_t count(size_t i) const { return *death(i).find("count")->integer(); }
  std::string header(std::string_view name) const {
    const FieldValue* value = headers.find(name);
    return value && value->text() ? *value->text() : "-";
  }
};

TEST(DeadLetter, Rule30_AnEntrySaysWhereWhenAndWhy) {
  Letter letter;
  letter.headers.set("h", FieldValue::int32(1));
  letter.die("q", DeathReason::rejected);
  ASSERT_EQ(letter.deaths().size(), 1u);
  EXPECT_EQ(letter.text(0, "queue"), "q");
  EXPECT_EQ(letter.text(0, "reason"), "rejected");
  EXPECT_EQ(letter.text(0, "exchange"), "ex");
  EXPECT_EQ(letter.death(0).find("count")->type, 'l');
  EXPECT_EQ(letter.count(0), 1);
  EXPECT_EQ(letter.death(0).find("time")->type, 'T');
  const FieldArray& keys = *letter.death(0).find("routing-keys")->array();
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(*keys[0].text(), "key");
  for (const char* which : {"first", "last"}) {
    const std::string prefix = std::string("x-") + which + "-death-";
    EXPECT_EQ(letter.header(prefix + "queue"), "q");
    EXPECT_EQ(letter.header(prefix + "reason"), "rejected");
    EXPECT_EQ(letter.header(prefix + "exchange"), "ex");
  }
  EXPECT_EQ(letter.headers.find("h")->integer(), 1);
  EXPECT_EQ(letter.last.priority, 4);
}

TEST(DeadLetter, Rule30_NewestFirstAndOneEntryPerQueueAndReason) {
  Letter letter;
  letter.die("a", DeathReason::expired);
  letter.die("b", DeathReason::rejected);
  letter.die("a", DeathReason::rejected);
  letter.die("a", DeathReason::expired);
  ASSERT_EQ(letter.deaths().size(), 3u);
  EXPECT_EQ(letter.text(0, "queue") + letter.text(0, "reason"), "aexpired");
  EXPECT_EQ(letter.count(0), 2);
  EXPECT_EQ(letter.text(1, "queue") + letter.text(1, "reason"), "arejected");
  EXPECT_EQ(letter.text(2, "queue") + letter.text(2, "reason"), "brejected");
  EXPECT_EQ(letter.header("x-first-death-queue"), "a");
  EXPECT_EQ(letter.header("x-first-death-reason"), "expired");
  EXPECT_EQ(letter.header("x-last-death-queue"), "a");
}

TEST(DeadLetter, Rule30_ExpirationMovesIntoTheEntry) {
  Letter letter;
  letter.expiration = "200";
  letter.die("q", DeathReason::expired);
  EXPECT_FALSE(letter.expiration);
  EXPECT_EQ(letter.text(0, "original-expiration"), "200");
}

TEST(DeadLetter, Rule30_CcKeysRouteUnlessTheKeyIsReplaced) {
  Letter letter;
  letter.headers.set("CC", FieldValue::array({FieldValue::text("extra")}));
  letter.die("q", DeathReason::rejected);
  EXPECT_EQ(letter.last.routing_keys, (std::vector<std::string>{"key", "extra"}));
  EXPECT_EQ(letter.death(0).find("routing-keys")->array()->size(), 2u);
  EXPECT_NE(letter.headers.find("CC"), nullptr);
  letter.die("q2", DeathReason::rejected, "other");
  EXPECT_EQ(letter.last.routing_keys, (std::vector<std::string>{"other"}));
  EXPECT_EQ(letter.headers.find("CC"), nullptr);
}

TEST(DeadLetter, Rule30_MalformedEntriesOfAClientPassThrough) {
  Letter letter;
  FieldTable no_count;
  no_count.set("queue", FieldValue::text("q"));
  no_count.set("reason", FieldValue::text("rejected"));
  FieldTable text_count = no_count;
  text_count.set("count", FieldValue::text("many"));
  const FieldArray odd{FieldValue::int32(5), FieldValue::table(no_count),
                       FieldValue::table(text_count)};
  letter.headers.set("x-death", FieldValue::array(odd));
  letter.die("q", DeathReason::rejected);
  ASSERT_EQ(letter.deaths().size(), 4u);
  EXPECT_EQ(letter.count(0), 1);
  for (size_t i = 0; i < odd.size(); ++i) EXPECT_EQ(letter.deaths()[i + 1], odd[i]) << i;
}

TEST(DeadLetter, Rule30_AnXDeathThatIsNoArrayIsReplaced) {
  Letter letter;
  letter.headers.set("x-death", FieldValue::text("what"));
  letter.die("q", DeathReason::rejected);
  ASSERT_EQ(letter.deaths().size(), 1u);
  EXPECT_EQ(letter.count(0), 1);
}

TEST(DeadLetter, Rule30_ACountOfAClientGoesOn) {
  Letter letter;
  FieldTable entry;
  entry.set("queue", FieldValue::text("q"));
  entry.set("reason", FieldValue::text("rejected"));
  entry.set("count", FieldValue::int32(41));  // of another width
  letter.headers.set("x-death", FieldValue::array({FieldValue::table(entry)}));
  letter.die("q", DeathReason::rejected);
  ASSERT_EQ(letter.deaths().size(), 1u);
  EXPECT_EQ(letter.count(0), 42);
  EXPECT_EQ(letter.death(0).find("count")->type, 'l');
}

TEST(DeadLetter, Rule15_TheLastDeliverysCountTravelsWithTheDeadLetter) {
  Letter letter;
  letter.die("q", DeathReason::delivery_limit, {}, 5);
  EXPECT_EQ(letter.headers.find("x-delivery-count")->integer(), 5);
  EXPECT_TRUE(letter.last.has_delivery_count);
  Letter plain;
  plain.die("q", DeathReason::rejected);
  EXPECT_EQ(plain.headers.find("x-delivery-count"), nullptr);
}

TEST(DeadLetter, Rule31_AnAutomaticDeathForbidsEveryQueueBackToAConsumersDoing) {
  Letter letter;
  letter.die("a", DeathReason::expired);
  EXPECT_EQ(letter.last.cycle_queues, (std::vector<std::string>{"a"}));
  letter.die("b", DeathReason::maxlen);
  EXPECT_EQ(letter.last.cycle_queues, (std::vector<std::string>{"b", "a"}));
  letter.die("c", DeathReason::rejected);
  EXPECT_TRUE(letter.last.cycle_queues.empty());
  letter.die("d", DeathReason::expired);
  EXPECT_EQ(letter.last.cycle_queues, (std::vector<std::string>{"d"}));
}

TEST(DeadLetter, Rule31_LimitThenParkingQueueThenBackGoesOn) {
  Letter letter;
  for (int round = 1; round <= 3; ++round) {
    letter.die("work", DeathReason::delivery_limit);
    EXPECT_TRUE(letter.last.cycle_queues.empty());
    letter.die("parking", DeathReason::expired);
    EXPECT_EQ(letter.last.cycle_queues, (std::vector<std::string>{"parking"}));
    EXPECT_EQ(letter.count(0), round);
  }
}

TEST(DeadLetter, Rule31_DeathsBeforeAClientsPublishDoNotCount) {
  Letter letter;
  letter.die("a", DeathReason::expired);
  letter.die("b", DeathReason::expired);
  letter.hops = 0;  // a client publishes it again with its headers
  letter.die("a", DeathReason::expired);
  EXPECT_EQ(letter.last.cycle_queues, (std::vector<std::string>{"a"}));
  EXPECT_EQ(letter.count(0), 2);
  letter.die("c", DeathReason::expired);
  EXPECT_EQ(letter.last.cycle_queues, (std::vector<std::string>{"c", "a"}));
}

TEST(DeadLetter, RouteNamesOfACutOffRouteAreEmpty) {
  EXPECT_EQ(route_names({}).routing_key, "");
  const auto names = route_names(as_bytes(std::string_view("\3abc\2de", 7)));
  EXPECT_EQ(names.exchange, "abc");
  EXPECT_EQ(names.routing_key, "de");
}

}  // namespace
}  // namespace tarry
