#include <gtest/gtest.h>

#include "tarrymq/routing/exchange.h"
#include "unit/amqp/amqp_support.h"
#include "unit/routing/routing_support.h"

namespace tarry {
namespace {

using test::make_exchange;
using Entries = std::vector<std::pair<std::string, FieldValue>>;

bool routes(const Entries& arguments, const Entries& headers) {
  auto x = make_exchange("headers");
  const auto bound = x->bind(test::queue(1), "", FieldTable{arguments});
  EXPECT_TRUE(bound) << bound.error().text;
  const std::string wire = FieldTable{headers}.encode();
  return !test::matched(*x, "ignored", as_bytes(wire)).empty();
}

FieldValue text(std::string v) { return FieldValue::text(std::move(v)); }
FieldValue number(int32_t v) { return FieldValue::int32(v); }
const FieldValue kVoid{'V', std::monostate{}};

TEST(Headers, AllIsTheDefaultAndWantsEveryOne) {
  for (const Entries& mode : {Entries{}, Entries{{"x-match", text("all")}}}) {
    Entries arguments = mode;
    arguments.push_back({"a", number(1)});
    arguments.push_back({"b", text("two")});
    EXPECT_TRUE(routes(arguments, {{"b", text("two")}, {"c", text("more")}, {"a", number(1)}}));
    EXPECT_FALSE(routes(arguments, {{"a", number(1)}}));
    EXPECT_FALSE(routes(arguments, {{"a", number(1)}, {"b", text("three")}}));
    EXPECT_FALSE(routes(arguments, {}));
  }
}

TEST(Headers, AnyWantsOne) {
  const Entries arguments = {{"x-match", text("any")}, {"a", number(1)}, {"b", text("two")}};
  EXPECT_TRUE(routes(arguments, {{"a", number(1)}}));
  EXPECT_TRUE(routes(arguments, {{"a", number(2)}, {"b", text("two")}}));
  EXPECT_FALSE(routes(arguments, {{"a", number(2)}}));
  EXPECT_FALSE(routes(arguments, {}));
}

TEST(Headers, WithoutCriteriaAllMatchesEverythingAndAnyNothing) {
  EXPECT_TRUE(routes({}, {}));
  EXPECT_TRUE(routes({{"x-match", text("all")}}, {{"a", number(1)}}));
  EXPECT_FALSE(routes({{"x-match", text("any")}}, {{"a", number(1)}}));
}

TEST(Headers, XKeysCountOnlyWithX) {
  const Entries message = {{"a", number(1)}};
  const Entries x_message = {{"x-a", number(1)}};
  auto arguments = [](const char* mode) {
    return Entries{{"x-match", text(mode)}, {"x-a", number(1)}, {"a", number(1)}};
  };
  EXPECT_TRUE(routes(arguments("all"), message));
  EXPECT_FALSE(routes(arguments("all-with-x"), message));
  EXPECT_TRUE(routes(arguments("all-with-x"), {{"a", number(1)}, {"x-a", number(1)}}));
  EXPECT_FALSE(routes(arguments("any"), x_message));
  EXPECT_TRUE(routes(arguments("any-with-x"), x_message));
}

TEST(Headers, AVoidValueMatchesPresence) {
  EXPECT_TRUE(routes({{"a", kVoid}}, {{"a", text("whatever")}}));
  EXPECT_TRUE(routes({{"a", kVoid}}, {{"a", kVoid}}));
  EXPECT_FALSE(routes({{"a", kVoid}}, {{"b", text("whatever")}}));
  EXPECT_FALSE(routes({{"a", number(0)}}, {{"a", kVoid}})) << "but not the other way";
}

TEST(Headers, NumbersAreEqualByValueAndNothingElseAcrossTypes) {
  const std::vector<FieldValue> ones = {
      {'b', int64_t{1}}, {'B', int64_t{1}}, {'s', int64_t{1}}, {'u', int64_t{1}}, {'I', int64_t{1}},
      {'i', int64_t{1}}, {'l', int64_t{1}}, {'L', int64_t{1}}, {'f', 1.0F},       {'d', 1.0}};
  for (const auto& a : ones) {
    for (const auto& b : ones) EXPECT_TRUE(routes({{"n", a}}, {{"n", b}})) << a.type << b.type;
    for (const auto& b :
         {FieldValue::boolean(true), text("1"), FieldValue::timestamp(1), number(2)}) {
      EXPECT_FALSE(routes({{"n", a}}, {{"n", b}})) << a.type << b.type;
      EXPECT_FALSE(routes({{"n", b}}, {{"n", a}})) << a.type << b.type;
    }
  }
  EXPECT_FALSE(routes({{"n", text("a")}}, {{"n", FieldValue{'x', std::string("a")}}}));
}

TEST(Headers, TheFirstHeaderOfANameCounts) {
  Entries many;
  for (int i = 0; i < 20; ++i) many.push_back({"h" + std::to_string(i), number(i)});
  for (const Entries& filler : {Entries{}, many}) {  // few are scanned, many searched
    Entries message = {{"a", number(1)}, {"a", number(2)}};
    message.insert(message.end(), filler.begin(), filler.end());
    EXPECT_TRUE(routes({{"a", number(1)}}, message));
    EXPECT_FALSE(routes({{"a", number(2)}}, message));
  }
}

TEST(Headers, AnotherXMatchIsRefusedAndNothingIsBound) {
  for (const FieldValue& bad : {text("ALL"), text(""), number(1), FieldValue::boolean(true)}) {
    auto x = make_exchange("headers");
    const auto result = x->bind(test::queue(1), "", FieldTable{{{"x-match", bad}}});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, 406);
    EXPECT_FALSE(result.error().hard);
    EXPECT_NE(result.error().text.find(bad.to_text()), std::string::npos) << result.error().text;
    EXPECT_TRUE(x->empty());
    EXPECT_TRUE(test::matched(*x, "").empty());
  }
  auto direct = make_exchange("direct");
  EXPECT_TRUE(*direct->bind(test::queue(1), "", FieldTable{{{"x-match", text("whatever")}}}));
}

TEST(Headers, SaysThatItDependsOnHeaders) {
  EXPECT_TRUE(make_exchange("headers")->depends_on_headers());
  EXPECT_FALSE(make_exchange("headers")->cacheable());
}

/// The rules said once more, over tables.
bool naive_headers_match(const FieldTable& arguments, const FieldTable& headers) {
  std::string mode = "all";
  if (const FieldValue* m = arguments.find("x-match")) mode = *m->text();
  bool all = true, any = false;
  for (const auto& [name, value] : arguments.entries) {
    if (name == "x-match") continue;
    if (name.substr(0, 2) == "x-" && (mode == "all" || mode == "any")) continue;
    const FieldValue* there = headers.find(name);
    const bool holds = there != nullptr && (value.type == 'V' || value.equivalent(*there));
    all = all && holds;
    any = any || holds;
  }
  return mode.starts_with("all") ? all : any;
}

TEST(Headers, AgreesWithTheNaiveMatcher) {
  int hits = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    test::RandomTable random(seed);
    auto entries = [&](int most, bool is_binding) {
      constexpr const char* kNames[] = {"a", "b", "c", "x-a", "x-b"};
      FieldTable t;
      for (int n = random.below(most); n > 0; --n) {
        FieldValue value = number(random.below(2));
        if (random.below(4) == 0) value = text(random.below(2) ? "s" : "t");
        if (random.below(6) == 0) value = FieldValue::int64(random.below(2));
        if (is_binding && random.below(5) == 0) value = kVoid;
        if (random.below(8) == 0) value = FieldValue::array({number(random.below(2))});
        t.entries.emplace_back(kNames[random.below(5)], value);
      }
      return t;
    };
    auto x = make_exchange("headers");
    FieldTable arguments = entries(4, true);
    constexpr const char* kModes[] = {"all", "any", "all-with-x", "any-with-x"};
    if (random.below(5) != 0) arguments.set("x-match", text(kModes[random.below(4)]));
    ASSERT_TRUE(*x->bind(test::queue(1), "", arguments));
    for (int round = 0; round < 5; ++round) {
      const FieldTable headers = entries(14, false);
      const bool expected = naive_headers_match(arguments, headers);
      hits += expected;
      const std::string wire = headers.encode();
      ASSERT_EQ(!test::matched(*x, "", as_bytes(wire)).empty(), expected)
          << FieldValue::table(arguments).to_text() << " | "
          << FieldValue::table(headers).to_text();
    }
  }
  EXPECT_GT(hits, 2000) << "else the test looks at too few matches";
  EXPECT_LT(hits, 13000);
}

}  // namespace
}  // namespace tarry
