#include "tarrymq/amqp/delay.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tarrymq/amqp/deduplication.h"

namespace tarry {
namespace {

std::string header_with(std::string_view name, FieldValue value) {
  PropertiesBuilder builder;
  builder.headers.emplace();
  builder.headers->set(name, std::move(value));
  return builder.build(0);
}

Delay delay_with(FieldValue value) {
  const std::string header = header_with("x-delay", std::move(value));
  return delay_of(*PropertiesView::parse(as_bytes(header)));
}

TEST(Delay, AnyNumberCounts) {
  for (const char type : {'b', 'B', 's', 'u', 'I', 'i', 'l', 'L'}) {
    EXPECT_EQ(delay_with({type, int64_t{77}}).ms, 77u) << type;
  }
  EXPECT_EQ(delay_with(FieldValue::int64(INT64_MAX)).ms, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(delay_with({'L', int64_t{-1}}).ms, UINT64_MAX) << "unsigned";
  EXPECT_EQ(delay_with({'d', 20.25}).ms, 21u);
  EXPECT_EQ(delay_with({'d', 1e300}).ms, UINT64_MAX);
  EXPECT_EQ(delay_with({'f', 5.0f}).ms, 5u);
}

TEST(Delay, ANegativeOneIsNone) {
  for (const int64_t ms : {int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(delay_with(FieldValue::int64(ms)).ms, 0u);
    EXPECT_TRUE(delay_with(FieldValue::int64(ms)).is_number);
  }
  EXPECT_EQ(delay_with({'d', -0.5}).ms, 0u);
}

TEST(Delay, WhatIsNoNumberIsSaid) {
  EXPECT_FALSE(delay_with(FieldValue::text("5000")).is_number);
  EXPECT_FALSE(delay_with(FieldValue::boolean(true)).is_number);
  EXPECT_FALSE(delay_with({'d', std::nan("")}).is_number);
  EXPECT_FALSE(delay_with(FieldValue::timestamp(5)).is_number);
}

TEST(Delay, TheInstantSaturates) {
  EXPECT_EQ(delayed_until(1'000, 500), 1'500u);
  EXPECT_EQ(delayed_until(1'000, UINT64_MAX), 253'402'300'799'999u);
  EXPECT_EQ(delayed_until(UINT64_MAX, 1), UINT64_MAX);
}

TEST(Delay, TheNegatedHeaderSaturatesToo) {
  struct Pair {
    FieldValue given;
    int64_t shown;
  };
  for (const Pair& pair :
       {Pair{FieldValue::int32(5), -5}, Pair{FieldValue::int64(INT64_MAX), -INT64_MAX},
        Pair{{'L', int64_t{-1}}, INT64_MIN}}) {
    const std::string header = header_with("x-delay", pair.given);
    const ReleasedMessage released =
        release_from_delay(as_bytes(header), *PropertiesView::parse(as_bytes(header)));
    const auto view = PropertiesView::parse(as_bytes(released.header));
    ASSERT_TRUE(view);
    EXPECT_EQ(FieldTable::decode(view->headers)->find("x-delay")->integer(), pair.shown);
    EXPECT_EQ(delay_of(*view).ms, 0u) << "nobody delays it again";
  }
}

// -- Deduplication

std::string table_with(const char* name, FieldValue value) {
  FieldTable table;
  table.set(name, std::move(value));
  return table.encode();
}

bool seen(Deduplicator& deduplicator, const std::string& table, uint64_t now_ms) {
  return deduplicator.seen_before(as_bytes(table), now_ms);
}

TEST(Deduplicator, TheOldestLeavesWhenItIsFull) {
  Deduplicator d({2, std::nullopt, "h"});
  auto value = [](const char* v) { return table_with("h", FieldValue::text(v)); };
  EXPECT_FALSE(seen(d, value("a"), 0));
  EXPECT_FALSE(seen(d, value("b"), 0));
  EXPECT_TRUE(seen(d, value("a"), 0));
  EXPECT_FALSE(seen(d, value("c"), 0));  // a leaves, however lately it was asked for
  EXPECT_TRUE(seen(d, value("b"), 0));
  EXPECT_FALSE(seen(d, value("a"), 0));
  EXPECT_EQ(d.size(), 2u);
}

TEST(Deduplicator, ForgetsAfterTheTtlAndAMessageMayHaveItsOwn) {
  Deduplicator d({10, 100, "h"});
  const std::string plain = table_with("h", FieldValue::text("a"));
  FieldTable with_own;
  with_own.set("h", FieldValue::text("b"));
  with_own.set("x-cache-ttl", FieldValue::int32(500));
  const std::string longer = with_own.encode();
  EXPECT_FALSE(seen(d, plain, 1000));
  EXPECT_FALSE(seen(d, longer, 1000));
  EXPECT_TRUE(seen(d, plain, 1099));
  EXPECT_FALSE(seen(d, plain, 1100));
  EXPECT_TRUE(seen(d, longer, 1499));
  EXPECT_FALSE(seen(d, longer, 1500));
  EXPECT_EQ(d.size(), 2u);
}

TEST(Deduplicator, ValuesOfAnotherTypeAreOthersAndNoHeaderIsNoDuplicate) {
  Deduplicator d({10, std::nullopt, "h"});
  EXPECT_FALSE(seen(d, table_with("h", FieldValue::text("1")), 0));
  EXPECT_FALSE(seen(d, table_with("h", FieldValue::int32(1)), 0));
  EXPECT_FALSE(seen(d, table_with("x", FieldValue::int32(1)), 0));
  EXPECT_FALSE(seen(d, table_with("x", FieldValue::int32(1)), 0));
  EXPECT_FALSE(d.seen_before({}, 0));
}

TEST(Deduplicator, ANumberIsTheSameInEveryIntegerType) {
  Deduplicator d({10, std::nullopt, "h"});
  EXPECT_FALSE(seen(d, table_with("h", FieldValue::int32(5)), 0));
  EXPECT_TRUE(seen(d, table_with("h", FieldValue::int64(5)), 0));
  EXPECT_FALSE(seen(d, table_with("h", FieldValue::int64(-5)), 0));
  EXPECT_FALSE(seen(d, table_with("h", FieldValue::text("5")), 0));
  EXPECT_FALSE(seen(d, table_with("h", FieldValue::text("i5")), 0));
  EXPECT_TRUE(seen(d, table_with("h", FieldValue::int32(-5)), 0));
}

TEST(Deduplicator, WhatIsForgottenMayComeAgain) {
  Deduplicator d({10, std::nullopt, "h"});
  const std::string a = table_with("h", FieldValue::text("a"));
  EXPECT_FALSE(seen(d, a, 0));
  d.forget(*d.value_of(as_bytes(a)));
  EXPECT_EQ(d.size(), 0u);
  d.forget(*d.value_of(as_bytes(a)));
  EXPECT_FALSE(seen(d, a, 0));
  EXPECT_TRUE(seen(d, a, 0));
}

}  // namespace
}  // namespace tarry
