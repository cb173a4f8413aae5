// x-consistent-hash, x-random, and what the arguments of exchanges may be.
#include <gtest/gtest.h>

#include <map>

#include "unit/routing/routing_support.h"

namespace tarry::test {
namespace {

TEST(ConsistentHash, SharesGoByWeightAndAKeyStays) {
  auto x = make_exchange("x-consistent-hash");
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(x->bind(queue(id), std::to_string(id), {}));
  std::map<uint64_t, int> shares;
  std::map<std::string, uint64_t> at;
  for (int i = 0; i < 6000; ++i) {
    const std::string key = "key-" + std::to_string(i);
    const auto ids = matched(*x, key);
    ASSERT_EQ(ids.size(), 1u);
    ++shares[ids[0]];
    at[key] = ids[0];
  }
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_NEAR(shares[id], 1000 * static_cast<int>(id), 150);
  ASSERT_TRUE(x->unbind(queue(2), "2", {}));
  for (const auto& [key, id] : at) {
    const auto ids = matched(*x, key);
    ASSERT_EQ(ids.size(), 1u);
    if (id != 2) {
      ASSERT_EQ(ids[0], id) << "only what was at the lost one moves";
    }
  }
}

TEST(ConsistentHash, BindingsOfOneDestinationAddUp) {
  auto x = make_exchange("x-consistent-hash");
  ASSERT_TRUE(x->bind(queue(1), "1", {}));
  ASSERT_TRUE(x->bind(queue(1), "2", {}));
  ASSERT_TRUE(x->bind(queue(2), "1", {}));
  int first = 0;
  for (int i = 0; i < 4000; ++i) first += matched(*x, std::to_string(i))[0] == 1;
  EXPECT_NEAR(first, 3000, 150);
  ASSERT_TRUE(x->unbind(queue(1), "2", {}));
  ASSERT_TRUE(x->unbind(queue(1), "1", {}));
  EXPECT_EQ(matched(*x, "any"), (std::vector<uint64_t>{2}));
  ASSERT_TRUE(x->unbind(queue(2), "1", {}));
  EXPECT_TRUE(matched(*x, "any").empty());
}

TEST(ConsistentHash, AWeightIsAPositiveInteger) {
  auto x = make_exchange("x-consistent-hash");
  for (const char* key :
       {"", "0", "-1", "+1", "1.5", "a", "1 ", "1000000001", "99999999999999999999"}) {
    const auto bound = x->bind(queue(1), key, {});
    ASSERT_FALSE(bound) << key;
    EXPECT_EQ(bound.error().code, 406) << key;
  }
  EXPECT_TRUE(x->empty());
}

TEST(Random, EveryDestinationHasTheSameChance) {
  auto x = make_exchange("x-random");
  EXPECT_FALSE(x->cacheable());
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(x->bind(queue(id), "", {}));
  ASSERT_TRUE(x->bind(queue(4), "again", {}));
  std::map<uint64_t, int> shares;
  for (int i = 0; i < 4000; ++i) ++shares[matched(*x, "k")[0]];
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_NEAR(shares[id], 1000, 170);
}

TEST(ModulusHash, OneDestinationAKeyAndAlwaysTheSame) {
  auto x = make_exchange("x-modulus-hash");
  EXPECT_TRUE(matched(*x, "k").empty());
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(x->bind(queue(id), "", {}));
  ASSERT_TRUE(x->bind(queue(3), "again", {}));
  std::map<uint64_t, int> shares;
  for (int i = 0; i < 3000; ++i) {
    const auto ids = matched(*x, std::to_string(i));
    ASSERT_EQ(ids.size(), 1u);
    ASSERT_EQ(matched(*x, std::to_string(i)), ids);
    ++shares[ids[0]];
  }
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_NEAR(shares[id], 1000, 150);
  ASSERT_TRUE(x->unbind(queue(3), "", {}));
  ASSERT_TRUE(x->unbind(queue(3), "again", {}));
  for (int i = 0; i < 100; ++i) EXPECT_NE(matched(*x, std::to_string(i))[0], 3u);
}

TEST(LocalRandom, BindingKeysAreEmpty) {
  auto x = make_exchange("x-local-random");
  EXPECT_FALSE(x->bind(queue(1), "k", {}));
  ASSERT_TRUE(x->bind(queue(1), "", {}));
  EXPECT_EQ(matched(*x, "any"), (std::vector<uint64_t>{1}));
}

std::optional<PeerError> error_of(std::string_view type,
                                  std::vector<std::pair<const char*, FieldValue>> arguments) {
  ExchangeSpec spec;
  spec.name = "x";
  spec.type = exchange_type_of(type).value();
  for (auto& [name, value] : arguments) spec.arguments.set(name, value);
  auto made = Exchange::create(std::move(spec));
  if (made) return std::nullopt;
  return made.error();
}

TEST(ExchangeArguments, ABadOneIsNamedWithWhatIsAllowed) {
  const FieldValue five = FieldValue::int32(5);
  struct Case {
    const char *type, *argument, *says;
    FieldValue value;
  };
  for (const Case& c :
       {Case{"direct", "alternate-exchange", "name of an exchange", five},
        Case{"x-delayed-message", "x-delayed-type", "direct, fanout", five},
        Case{"x-delayed-message", "x-delayed-type", "direct, fanout",
             FieldValue::text("x-delayed-message")},
        Case{"x-delayed-message", "x-delayed-type", "direct, fanout", FieldValue::text("x-retry")},
        Case{"direct", "x-delayed-exchange", "a boolean", five},
        Case{"x-consistent-hash", "hash-header", "name of a header", five},
        Case{"x-consistent-hash", "hash-property", "correlation_id", FieldValue::text("priority")},
        Case{"x-consistent-hash", "x-algorithm", "ring or jump", FieldValue::text("md5")},
        Case{"direct", "x-message-deduplication", "a boolean", five},
        Case{"direct", "x-cache-size", "x-message-deduplication", five}}) {
    const auto error = error_of(c.type, {{c.argument, c.value}});
    ASSERT_TRUE(error) << c.argument;
    EXPECT_EQ(error->code, 406);
    EXPECT_NE(error->text.find(std::string("invalid arg '") + c.argument + "' for exchange 'x'"),
              std::string::npos)
        << error->text;
    EXPECT_NE(error->text.find(c.says), std::string::npos) << error->text;
  }
  EXPECT_TRUE(error_of("x-delayed-message", {}));
  EXPECT_FALSE(
      error_of("x-delayed-message", {{"x-delayed-type", FieldValue::text("x-consistent-hash")}}));
  EXPECT_FALSE(error_of("topic", {{"x-delayed-exchange", FieldValue::boolean(true)}}));
}

TEST(ExchangeArguments, WhatDependsOnMoreThanTheKeyIsNotCached) {
  auto with = [](std::string_view type, const char* name, FieldValue value) {
    FieldTable arguments;
    arguments.set(name, std::move(value));
    return make_exchange(type, "x", arguments)->cacheable();
  };
  EXPECT_TRUE(make_exchange("x-consistent-hash")->cacheable());
  EXPECT_FALSE(with("x-consistent-hash", "hash-header", FieldValue::text("h")));
  EXPECT_FALSE(with("x-delayed-message", "x-delayed-type", FieldValue::text("direct")));
  EXPECT_FALSE(with("direct", "x-message-deduplication", FieldValue::boolean(true)));
}

}  // namespace
}  // namespace tarry::test
