#include "tarrymq/amqp/properties.h"

#include <gtest/gtest.h>

#include "tarrymq/amqp/table_view.h"
#include "unit/amqp/amqp_support.h"

namespace tarry {
namespace {

using test::ExactCopy;
using test::RandomTable;

PropertiesBuilder with_everything() {
  PropertiesBuilder b;
  b.content_type = "text/plain";
  b.content_encoding = "utf-8";
  b.headers = test::table_of_every_type();
  b.delivery_mode = 2;
  b.priority = 7;
  b.correlation_id = "corr";
  b.reply_to = "reply";
  b.expiration = "60000";
  b.message_id = "id";
  b.timestamp = 1'700'000'000;
  b.type = "type";
  b.user_id = "guest";
  b.app_id = "app";
  b.cluster_id = "cluster";
  return b;
}

PropertiesView view_of(const std::string& payload) {
  auto view = PropertiesView::parse(as_bytes(payload));
  EXPECT_TRUE(view) << view.error();
  return *view;
}

TEST(Properties, ParseGivesWhatWasBuilt) {
  const PropertiesBuilder b = with_everything();
  const std::string payload = b.build(1234);
  const PropertiesView v = view_of(payload);
  EXPECT_EQ(v.body_size, 1234U);
  EXPECT_EQ(v.flags, 0xfffc);
  EXPECT_EQ(as_text(v.headers), b.headers->encode());
  EXPECT_EQ(v.headers_offset, 14U + 11 + 6);
  EXPECT_EQ(v.delivery_mode, 2);
  EXPECT_EQ(v.priority, 7);
  EXPECT_EQ(v.content_type, "text/plain");
  EXPECT_EQ(v.content_encoding, "utf-8");
  EXPECT_EQ(v.correlation_id, "corr");
  EXPECT_EQ(v.reply_to, "reply");
  EXPECT_EQ(v.expiration, "60000");
  EXPECT_EQ(v.message_id, "id");
  EXPECT_EQ(v.timestamp, 1'700'000'000U);
  EXPECT_EQ(v.type, "type");
  EXPECT_EQ(v.user_id, "guest");
  EXPECT_EQ(v.app_id, "app");
  EXPECT_EQ(v.cluster_id, "cluster");
}

TEST(Properties, TheOrderOnTheWireIsTheSpecifications) {
  PropertiesBuilder b;
  b.content_type = "c";
  b.headers = FieldTable{};
  b.delivery_mode = 1;
  b.app_id = "a";
  const std::string_view wire(
      "\0\x3c\0\0"
      "\0\0\0\0\0\0\0\5"
      "\xb0\x08"
      "\1c"
      "\0\0\0\0"
      "\1"
      "\1a",
      23);
  EXPECT_EQ(b.build(5), wire);
}

TEST(Properties, EachPropertyAloneIsFoundAlone) {
  for (int bit = 2; bit < 16; ++bit) {
    PropertiesBuilder all = with_everything();
    PropertiesBuilder one;
    const uint16_t flag = static_cast<uint16_t>(1U << bit);
    using namespace property_flag;
    if (flag == content_type) one.content_type = all.content_type;
    if (flag == content_encoding) one.content_encoding = all.content_encoding;
    if (flag == headers) one.headers = all.headers;
    if (flag == delivery_mode) one.delivery_mode = all.delivery_mode;
    if (flag == priority) one.priority = all.priority;
    if (flag == correlation_id) one.correlation_id = all.correlation_id;
    if (flag == reply_to) one.reply_to = all.reply_to;
    if (flag == expiration) one.expiration = all.expiration;
    if (flag == message_id) one.message_id = all.message_id;
    if (flag == timestamp) one.timestamp = all.timestamp;
    if (flag == property_flag::type) one.type = all.type;
    if (flag == user_id) one.user_id = all.user_id;
    if (flag == app_id) one.app_id = all.app_id;
    if (flag == cluster_id) one.cluster_id = all.cluster_id;
    const std::string payload = one.build(0);
    const PropertiesView v = view_of(payload);
    EXPECT_EQ(v.flags, flag);
    const int there = !v.headers.empty() + (v.delivery_mode != 0) + (v.priority != 0) +
                      v.expiration.has_value() + v.user_id.has_value() + v.reply_to.has_value() +
                      v.content_type.has_value() + v.content_encoding.has_value() +
                      v.correlation_id.has_value() + v.message_id.has_value() + v.type.has_value() +
                      v.app_id.has_value() + v.cluster_id.has_value() + v.timestamp.has_value();
    EXPECT_EQ(there, 1) << bit;
  }
}

TEST(Properties, AViewThatIsUsedAgainHoldsNothingOfTheLastMessage) {
  PropertiesBuilder some;
  some.delivery_mode = 2;
  some.priority = 3;
  const std::string payloads[] = {with_everything().build(1), some.build(2),
                                  PropertiesBuilder{}.build(3), std::string(20, 'x')};
  std::string error;
  for (const std::string& first : payloads) {
    for (const std::string& second : payloads) {
      PropertiesView fresh, used;
      (void)PropertiesView::parse_into(as_bytes(first), used, error);
      const bool well_formed = PropertiesView::parse_into(as_bytes(second), used, error);
      ASSERT_EQ(PropertiesView::parse_into(as_bytes(second), fresh, error), well_formed);
      if (!well_formed) continue;
      EXPECT_EQ(used.body_size, fresh.body_size);
      EXPECT_EQ(used.flags, fresh.flags);
      EXPECT_EQ(used.headers.size(), fresh.headers.size());
      EXPECT_EQ(used.headers_offset, fresh.headers_offset);
      EXPECT_EQ(used.delivery_mode, fresh.delivery_mode);
      EXPECT_EQ(used.priority, fresh.priority);
      EXPECT_EQ(used.expiration, fresh.expiration);
      EXPECT_EQ(used.content_type, fresh.content_type);
      EXPECT_EQ(used.cluster_id, fresh.cluster_id);
      EXPECT_EQ(used.timestamp, fresh.timestamp);
      EXPECT_EQ(used.reply_to, fresh.reply_to);
    }
  }
}

TEST(Properties, EveryCutAndEveryByteBehindIsMalformed) {
  const std::string payload = with_everything().build(99);
  PropertiesView view;
  std::string error;
  for (size_t size = 0; size < payload.size(); ++size) {
    error.clear();
    EXPECT_FALSE(PropertiesView::parse_into(ExactCopy(payload.substr(0, size)).span(), view, error))
        << size;
    EXPECT_FALSE(error.empty());
  }
  EXPECT_FALSE(PropertiesView::parse_into(as_bytes(payload + '\0'), view, error));
  EXPECT_NE(error.find("bytes behind"), std::string::npos) << error;
}

TEST(Properties, UndefinedFlagsAnotherClassAndAWeightAreMalformed) {
  const std::string good = PropertiesBuilder{}.build(0);
  ASSERT_TRUE(PropertiesView::parse(as_bytes(good)));
  for (const auto& [at, value] :
       {std::pair<size_t, char>{13, 1}, {13, 2}, {1, 50}, {0, 1}, {2, 1}, {3, 1}}) {
    std::string bad = good;
    bad[at] = value;
    EXPECT_FALSE(PropertiesView::parse(as_bytes(bad))) << at;
  }
}

TEST(Properties, AMalformedHeaderTableIsMalformedAndItsPlaceSaid) {
  PropertiesBuilder b;
  b.headers = FieldTable{};
  b.headers->set("a", FieldValue::int32(1));
  std::string payload = b.build(0);
  payload[14 + 4 + 2] = 'q';
  const auto result = PropertiesView::parse(as_bytes(payload));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), "unknown type letter at byte 20");
}

TEST(Properties, KnownHeadersAreSeenAtTheTopLevelOnly) {
  const std::pair<const char*, bool PropertiesView::*> names[] = {
      {"CC", &PropertiesView::has_cc},
      {"BCC", &PropertiesView::has_bcc},
      {"x-death", &PropertiesView::has_death},
      {"x-delay", &PropertiesView::has_delay},
      {"x-delivery-count", &PropertiesView::has_delivery_count},
      {"x-deduplication-header", &PropertiesView::has_deduplication}};
  for (const auto& [name, flag] : names) {
    PropertiesBuilder b;
    b.headers = FieldTable{};
    b.headers->set("other", FieldValue::int32(1));
    b.headers->set(name, FieldValue::int32(1));
    const PropertiesView v = view_of(b.build(0));
    for (const auto& [other, other_flag] : names)
      EXPECT_EQ(v.*other_flag, flag == other_flag) << name << other;
    FieldTable outer;
    outer.set("in", FieldValue::table(*b.headers));
    b.headers = outer;
    EXPECT_FALSE(view_of(b.build(0)).*flag) << name;
  }
}

/// What append_with_delivery_count must give, by the slow way.
std::string counted_by_table(const PropertiesBuilder& b, int64_t count) {
  PropertiesBuilder with = b;
  if (!with.headers) with.headers = FieldTable{};
  with.headers->erase("x-delivery-count");
  with.headers->set("x-delivery-count", FieldValue::int64(count));
  return with.build(77);
}

TEST(Properties, Rule14_TheDeliveryCountIsSplicedInAsTheTableWouldBeWritten) {
  std::vector<PropertiesBuilder> cases(4);
  cases[1].headers = FieldTable{};
  cases[2] = with_everything();
  cases[3] = with_everything();
  cases[3].headers->entries.insert(cases[3].headers->entries.begin() + 2,
                                   {"x-delivery-count", FieldValue::text("a client's")});
  cases[3].headers->set("behind", FieldValue::int32(1));
  for (uint32_t seed = 0; seed < 100; ++seed) {
    PropertiesBuilder b = seed % 2 ? with_everything() : PropertiesBuilder{};
    b.headers = RandomTable(seed).table();
    cases.push_back(b);
  }
  for (const PropertiesBuilder& b : cases) {
    for (const int64_t count : {int64_t{1}, int64_t{1} << 40}) {
      const std::string payload = b.build(77);
      std::string out = "kept";
      append_with_delivery_count(out, as_bytes(payload), view_of(payload), count);
      EXPECT_EQ(out, "kept" + counted_by_table(b, count));
      const std::string counted = out.substr(4);
      const auto field = find_field(view_of(counted).headers, "x-delivery-count");
      ASSERT_TRUE(field);
      EXPECT_EQ(field->type, 'l');
      EXPECT_EQ(field_integer(*field), count);
    }
  }
}

TEST(Properties, Rule15_AHeaderIsRemovedAndTheOthersKeptInOrder) {
  PropertiesBuilder b = with_everything();
  const std::string without = b.build(5);
  b.headers->entries.insert(b.headers->entries.begin(),
                            {"BCC", FieldValue::array({FieldValue::text("k")})});
  b.headers->entries.insert(b.headers->entries.begin() + 5, {"BCC", FieldValue::int32(1)});
  b.headers->set("last", FieldValue::int32(1));
  b.headers->erase("last");
  const std::string with = b.build(5);
  std::string out;
  append_without_header(out, as_bytes(with), view_of(with), "BCC");
  EXPECT_EQ(out, without);
  out.clear();
  append_without_header(out, as_bytes(without), view_of(without), "BCC");
  EXPECT_EQ(out, without) << "nothing to remove";
  out.clear();
  const std::string plain = PropertiesBuilder{}.build(1);
  append_without_header(out, as_bytes(plain), view_of(plain), "BCC");
  EXPECT_EQ(out, plain) << "no table at all";
}

TEST(Properties, WithHeadersAndWithoutExpirationChangeNothingElse) {
  FieldTable headers;
  headers.set("x-death", FieldValue::array({}));
  for (PropertiesBuilder b : {with_everything(), PropertiesBuilder{}}) {
    const std::string payload = b.build(8);
    b.headers = headers;
    EXPECT_EQ(with_headers(as_bytes(payload), headers), b.build(8));
    PropertiesBuilder lasting = b;
    lasting.expiration.reset();
    EXPECT_EQ(without_expiration(as_bytes(payload), headers), lasting.build(8));
    b.headers.reset();
    EXPECT_EQ(with_headers(as_bytes(payload), {}), b.build(8))
        << "an empty table: no headers property";
  }
}

}  // namespace
}  // namespace tarry
