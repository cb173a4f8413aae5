#include "tarrymq/routing/route_walk.h"

#include <gtest/gtest.h>

#include <map>

#include "unit/amqp/amqp_support.h"
#include "unit/routing/routing_support.h"

namespace tarry {
namespace {

using test::make_exchange;
using test::queue;
using Ids = std::vector<uint64_t>;

class RouteWalk : public ::testing::Test, public RouteLookup {
 public:
  const Exchange* find_exchange(std::string_view name) override {
    EXPECT_FALSE(name.empty());
    const auto found = exchanges.find(std::string(name));
    return found == exchanges.end() ? nullptr : found->second.get();
  }
  QueueId find_queue(std::string_view name) override {
    const auto found = queues.find(std::string(name));
    return found == queues.end() ? QueueId{} : QueueId(found->second);
  }

  Exchange& add(std::string_view type, const std::string& name,
                std::optional<std::string> alternate = {}) {
    FieldTable arguments;
    if (alternate) arguments.set("alternate-exchange", FieldValue::text(*alternate));
    return *(exchanges[name] = make_exchange(type, name, arguments));
  }
  static void to_queue(Exchange& x, uint64_t id, std::string_view key) {
    ASSERT_TRUE(*x.bind(queue(id), key, {}));
  }
  static void to_exchange(Exchange& x, const std::string& name, std::string_view key) {
    ASSERT_TRUE(*x.bind(Destination::to_exchange(name), key, {}));
  }
  Ids walk(std::string_view exchange, std::string_view key, std::vector<std::string_view> more = {},
           ByteSpan headers = {}) {
    walk_route(*this, {exchange, key, more, headers}, result);
    Ids ids;
    for (const QueueId id : result.queues) ids.push_back(id.value);
    return ids;
  }

  std::map<std::string, std::unique_ptr<Exchange>> exchanges;
  std::map<std::string, uint64_t> queues;
  RouteResult result;
};

TEST_F(RouteWalk, TheDefaultExchangeLeadsToTheQueueOfThatName) {
  queues = {{"work", 4}, {"other", 2}};
  EXPECT_EQ(walk("", "work"), (Ids{4}));
  EXPECT_TRUE(result.cacheable);
  EXPECT_EQ(walk("", "nobody"), (Ids{}));
  EXPECT_FALSE(result.exchange_missing);
  EXPECT_EQ(walk("", "work", {"other", "nobody", "work"}), (Ids{2, 4}));
  EXPECT_FALSE(result.cacheable) << "CC is not in the key";
}

TEST_F(RouteWalk, AMissingExchangeIsSaid) {
  EXPECT_EQ(walk("nowhere", "k"), (Ids{}));
  EXPECT_TRUE(result.exchange_missing);
  add("direct", "x");
  EXPECT_EQ(walk("x", "k"), (Ids{}));
  EXPECT_FALSE(result.exchange_missing);
}

TEST_F(RouteWalk, ExchangesLeadToExchangesAndEachQueueComesOnce) {
  Exchange& a = add("topic", "a");
  Exchange& b = add("fanout", "b");
  Exchange& c = add("direct", "c");
  to_queue(a, 1, "k.#");
  to_exchange(a, "b", "k.*");
  to_exchange(a, "c", "#");
  to_exchange(a, "missing", "#");
  to_queue(b, 1, "");
  to_queue(b, 2, "");
  to_queue(c, 3, "k.x");
  EXPECT_EQ(walk("a", "k.x"), (Ids{1, 2, 3}));
  EXPECT_EQ(walk("a", "k.x.y"), (Ids{1}));
  EXPECT_TRUE(result.cacheable);
}

TEST_F(RouteWalk, CyclesEnd) {
  Exchange& a = add("fanout", "a");
  Exchange& b = add("fanout", "b");
  to_exchange(a, "a", "");
  to_exchange(a, "b", "");
  to_exchange(b, "a", "");
  to_queue(b, 1, "");
  EXPECT_EQ(walk("a", ""), (Ids{1}));
  EXPECT_EQ(walk("b", ""), (Ids{1}));
}

TEST_F(RouteWalk, TheAlternateExchangeTakesWhatMatchesNothing) {
  Exchange& a = add("direct", "a", "spare");
  Exchange& spare = add("fanout", "spare");
  to_queue(a, 1, "k");
  to_queue(spare, 2, "");
  EXPECT_EQ(walk("a", "k"), (Ids{1}));
  EXPECT_EQ(walk("a", "other"), (Ids{2}));
  EXPECT_TRUE(result.cacheable);
  EXPECT_EQ(walk("a", "other", {"k"}), (Ids{1})) << "one of its keys matches";
}

TEST_F(RouteWalk, AlternatesChainEndInCyclesAndMayBeTheDefaultExchange) {
  add("direct", "a", "b");
  Exchange& b = add("direct", "b", "a");
  queues = {{"k", 9}};
  EXPECT_EQ(walk("a", "k"), (Ids{})) << "a, b, and not for ever";
  to_queue(b, 5, "k");
  EXPECT_EQ(walk("a", "k"), (Ids{5}));
  add("direct", "self", "self");
  EXPECT_EQ(walk("self", "k"), (Ids{}));
  add("direct", "to default", "");
  EXPECT_EQ(walk("to default", "k"), (Ids{9}));
  add("direct", "to nowhere", "missing");
  EXPECT_EQ(walk("to nowhere", "k"), (Ids{}));
  EXPECT_FALSE(result.exchange_missing) << "only the first one must be there";
}

TEST_F(RouteWalk, TheAlternateOfAnExchangeOnTheWayIsUsedToo) {
  Exchange& a = add("fanout", "a", "spare of a");
  add("direct", "b", "spare of b");
  Exchange& spare_a = add("fanout", "spare of a");
  Exchange& spare_b = add("fanout", "spare of b");
  to_exchange(a, "b", "");
  to_queue(spare_a, 1, "");
  to_queue(spare_b, 2, "");
  EXPECT_EQ(walk("a", "k"), (Ids{2})) << "a matched b, so its own spare is not asked";
}

TEST_F(RouteWalk, AHeadersExchangeOnTheWayForbidsCaching) {
  Exchange& a = add("fanout", "a");
  Exchange& h = add("headers", "h");
  to_exchange(a, "h", "");
  FieldTable arguments;
  arguments.set("n", FieldValue::int32(1));
  ASSERT_TRUE(*h.bind(queue(3), "", arguments));
  const std::string headers = arguments.encode();
  EXPECT_EQ(walk("a", "k", {}, as_bytes(headers)), (Ids{3}));
  EXPECT_FALSE(result.cacheable);
  EXPECT_EQ(walk("a", "k"), (Ids{}));
  EXPECT_FALSE(result.cacheable) << "also when nothing matched";
}

TEST_F(RouteWalk, CarriesNothingFromOneWalkToTheNext) {
  Exchange& a = add("fanout", "a");
  add("fanout", "b");
  to_exchange(a, "b", "");
  to_queue(*exchanges["b"], 1, "");
  EXPECT_EQ(walk("a", ""), (Ids{1}));
  EXPECT_EQ(walk("a", ""), (Ids{1}));
  EXPECT_EQ(walk("b", ""), (Ids{1}));
  EXPECT_EQ(walk("nowhere", ""), (Ids{}));
  EXPECT_EQ(walk("a", ""), (Ids{1}));
  EXPECT_FALSE(result.exchange_missing);
}

class SenderKeys : public ::testing::Test {
 public:
  std::optional<PeerError> read(FieldTable headers, bool with_bcc) {
    PropertiesBuilder b;
    b.headers = std::move(headers);
    payload = b.build(0);
    keys.clear();
    return append_sender_keys(*PropertiesView::parse(as_bytes(payload)), with_bcc, keys);
  }
  std::string payload;
  std::vector<std::string_view> keys;
};

TEST_F(SenderKeys, AreThoseOfCcAndBcc) {
  FieldTable headers;
  headers.set("BCC", FieldValue::array({FieldValue::text("c")}));
  headers.set("CC", FieldValue::array({FieldValue::text("a"), FieldValue::text("")}));
  EXPECT_FALSE(read(headers, true));
  EXPECT_EQ(keys, (std::vector<std::string_view>{"a", "", "c"}));
  EXPECT_FALSE(read(headers, false));
  EXPECT_EQ(keys, (std::vector<std::string_view>{"a", ""}));
  EXPECT_FALSE(read({}, true));
  EXPECT_TRUE(keys.empty());
}

TEST_F(SenderKeys, MustBeAnArrayOfTexts) {
  for (const char* name : {"CC", "BCC"}) {
    for (const FieldValue& bad :
         {FieldValue::text("k"), FieldValue::int32(1), FieldValue::array({FieldValue::int32(1)})}) {
      FieldTable headers;
      headers.set(name, bad);
      const auto error = read(headers, true);
      ASSERT_TRUE(error) << name;
      EXPECT_EQ(error->code, 406);
      EXPECT_FALSE(error->hard);
      EXPECT_NE(error->text.find(name), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tarry
