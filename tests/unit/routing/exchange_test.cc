#include "tarrymq/routing/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "unit/amqp/amqp_support.h"
#include "unit/routing/routing_support.h"

namespace tarry {
namespace {

using test::make_exchange;
using test::matched;
using test::queue;
using Ids = std::vector<uint64_t>;

FieldTable one(std::string_view name, FieldValue value) {
  FieldTable t;
  t.set(name, std::move(value));
  return t;
}

TEST(ExchangeTypes, HaveTheirNamesAndXRetryIsNobodysToDeclare) {
  for (const char* name : {"direct", "fanout", "topic", "headers"}) {
    ASSERT_TRUE(exchange_type_of(name));
    EXPECT_EQ(exchange_type_name(*exchange_type_of(name)), name);
  }
  EXPECT_EQ(exchange_type_name(ExchangeType::retry), "x-retry");
  EXPECT_FALSE(exchange_type_of("x-retry"));
  EXPECT_FALSE(exchange_type_of("x"));
}

TEST(Direct, MatchesItsKeyOnly) {
  auto x = make_exchange("direct");
  ASSERT_TRUE(*x->bind(queue(2), "k", {}));
  ASSERT_TRUE(*x->bind(queue(1), "k", {}));
  ASSERT_TRUE(*x->bind(queue(3), "", {}));
  EXPECT_EQ(matched(*x, "k"), (Ids{1, 2}));
  EXPECT_EQ(matched(*x, ""), (Ids{3}));
  EXPECT_EQ(matched(*x, "K"), (Ids{}));
  EXPECT_FALSE(x->depends_on_headers());
  EXPECT_TRUE(x->cacheable());
}

TEST(Fanout, MatchesWhateverTheKey) {
  auto x = make_exchange("fanout");
  ASSERT_TRUE(*x->bind(queue(1), "a", {}));
  ASSERT_TRUE(*x->bind(queue(1), "b", {}));
  ASSERT_TRUE(*x->bind(queue(2), "", {}));
  EXPECT_EQ(matched(*x, "zzz"), (Ids{1, 2})) << "bound twice, out once";
  ASSERT_TRUE(x->unbind(queue(1), "a", {}));
  EXPECT_EQ(matched(*x, ""), (Ids{1, 2})) << "one of its two bindings is left";
  ASSERT_TRUE(x->unbind(queue(1), "b", {}));
  EXPECT_EQ(matched(*x, ""), (Ids{2}));
}

TEST(Bindings, AreTheSameOnDestinationKeyAndArguments) {
  for (const char* type : {"direct", "fanout", "topic", "headers"}) {
    auto x = make_exchange(type);
    const FieldTable narrow = one("n", {'b', int64_t{5}});
    EXPECT_TRUE(*x->bind(queue(1), "k", {}));
    EXPECT_FALSE(*x->bind(queue(1), "k", {}));
    EXPECT_TRUE(*x->bind(queue(1), "k", narrow));
    EXPECT_FALSE(*x->bind(queue(1), "k", one("n", FieldValue::int64(5)))) << "5 is 5 in any width";
    EXPECT_TRUE(*x->bind(queue(1), "l", {}));
    EXPECT_TRUE(*x->bind(queue(2), "k", {}));
    EXPECT_TRUE(*x->bind(Destination::to_exchange("q1"), "k", {})) << "an exchange is no queue";
    EXPECT_EQ(x->binding_count(), 5U);
    EXPECT_EQ(x->bindings().size(), 5U);
    EXPECT_EQ(x->bindings_to(queue(1)).size(), 3U);
    EXPECT_FALSE(x->unbind(queue(1), "k", one("n", FieldValue::int64(6))));
    EXPECT_FALSE(x->unbind(queue(3), "k", {}));
    EXPECT_TRUE(x->unbind(queue(1), "k", one("n", FieldValue::int64(5))));
    EXPECT_FALSE(x->unbind(queue(1), "k", narrow));
    EXPECT_EQ(x->binding_count(), 4U);
  }
}

TEST(Bindings, OfADestinationGoTogether) {
  for (const char* type : {"direct", "fanout", "topic", "headers"}) {
    auto x = make_exchange(type);
    for (const char* key : {"k", "l", "k.*", "#"}) {
      ASSERT_TRUE(*x->bind(queue(1), key, {}));
      ASSERT_TRUE(*x->bind(queue(2), key, {}));
    }
    EXPECT_EQ(x->unbind_all(queue(1)).size(), 4U);
    EXPECT_EQ(x->unbind_all(queue(1)).size(), 0U);
    EXPECT_EQ(x->binding_count(), 4U);
    EXPECT_EQ(matched(*x, "k"), (Ids{2})) << type;
    EXPECT_EQ(x->unbind_all(queue(2)).size(), 4U);
    EXPECT_TRUE(x->empty());
    EXPECT_EQ(matched(*x, "k"), (Ids{}));
  }
}

TEST(Bindings, ListWhatWasBound) {
  auto x = make_exchange("headers");
  const FieldTable arguments = one("x-match", FieldValue::text("any"));
  ASSERT_TRUE(*x->bind(queue(7), "the key", arguments));
  const auto list = x->bindings();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].destination, queue(7));
  EXPECT_EQ(list[0].key, "the key");
  EXPECT_EQ(list[0].arguments, arguments);
}

TEST(Bindings, ThousandsOfQueuesOnOneKeyComeAndGoQuickly) {
  auto x = make_exchange("direct");
  for (uint64_t i = 1; i <= 50'000; ++i) ASSERT_TRUE(*x->bind(queue(i), "k", {}));
  EXPECT_EQ(matched(*x, "k").size(), 50'000U);
  for (uint64_t i = 1; i <= 50'000; i += 2) ASSERT_TRUE(x->unbind(queue(i), "k", {}));
  const Ids left = matched(*x, "k");
  ASSERT_EQ(left.size(), 25'000U);
  EXPECT_TRUE(std::ranges::all_of(left, [](uint64_t id) { return id % 2 == 0; }));
}

TEST(Bindings, ChangeWhileOthersMatch) {
  auto x = make_exchange("topic");
  ASSERT_TRUE(*x->bind(queue(1), "always.#", {}));
  std::atomic<bool> stop = false;
  std::atomic<int> missed = 0, matches = 0;
  std::thread reader([&] {
    while (!stop) {
      const Ids ids = matched(*x, "always.a.b");
      if (ids.empty() || ids.front() != 1) ++missed;
      ++matches;
    }
  });
  for (int round = 0; round < 200 || matches < 50; ++round) {
    const auto id = 2 + static_cast<uint64_t>(round % 7);
    (void)*x->bind(queue(id), "#.b", {});
    (void)x->unbind(queue(id), "#.b", {});
  }
  stop = true;
  reader.join();
  EXPECT_EQ(missed, 0);
}

TEST(Alternate, TheArgumentWinsOverThePolicyAndMustBeAName) {
  auto plain = make_exchange("direct");
  EXPECT_EQ(plain->alternate(), std::nullopt);
  plain->set_policy_alternate("by policy");
  EXPECT_EQ(plain->alternate(), "by policy");
  auto with =
      make_exchange("direct", "x", one("alternate-exchange", FieldValue::text("by argument")));
  with->set_policy_alternate("by policy");
  EXPECT_EQ(with->alternate(), "by argument");
  ExchangeSpec bad;
  bad.name = "x";
  bad.arguments = one("alternate-exchange", FieldValue::int32(1));
  const auto refused = Exchange::create(bad);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 406);
  EXPECT_FALSE(refused.error().hard);
}

TEST(RetryExchange, TakesNoBindingsAndMatchesNothing) {
  ExchangeSpec spec;
  spec.name = "amq.retry";
  spec.type = ExchangeType::retry;
  auto made = Exchange::create(spec);
  ASSERT_TRUE(made);
  auto x = std::move(*made);
  const auto refused = x->bind(queue(1), "k", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 403);
  EXPECT_EQ(matched(*x, "k"), (Ids{}));
  EXPECT_FALSE(x->unbind(queue(1), "k", {}));
}

}  // namespace
}  // namespace tarry
