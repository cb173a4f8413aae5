#include <algorithm>

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

/// Publishes in a row that have all but the body in common are not taken apart one by one: nobody
/// may see a difference.
class PublishAlike : public SessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  PublishAlike() { one_byte_at_a_time = GetParam(); }
  void open(uint32_t frame_max = 0) {
    access.vhost->add("q");
    access.vhost->add("r");
    open_connection(frame_max);
    open_channel(1);
  }
  static PropertiesBuilder with_id(const std::string& id) {
    PropertiesBuilder p;
    p.message_id = id;
    p.headers = FieldTable{};
    p.headers->set("k", FieldValue::text(id));
    return p;
  }
};
INSTANTIATE_TEST_SUITE_P(Cuts, PublishAlike, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ByteByByte" : "OneWrite"; });

TEST_P(PublishAlike, EachArrivesWithItsOwnBodyAndProperties) {
  open();
  PropertiesBuilder plain, urgent, dying;
  urgent.delivery_mode = 2;
  urgent.priority = 7;
  dying.expiration = "1000";
  struct One {
    PropertiesBuilder properties;
    std::string body;
  };
  const std::vector<One> all{{plain, "a"},          {plain, "b"},
                             {plain, ""},           {plain, std::string(300, 'c')},
                             {plain, ""},           {urgent, "d"},
                             {urgent, "e"},         {urgent, "ff"},
                             {plain, "g"},          {dying, "h"},
                             {dying, "i"},          {dying, "j"},
                             {with_id("1"), "k"},   {with_id("2"), "k"},
                             {with_id("2"), "l"},   {with_id("2"), "mm"},
                             {with_id("33"), "mm"}, {plain, "n"}};
  for (const One& one : all) publish(1, "", "q", one.body, false, one.properties);
  expect_nothing();
  ASSERT_EQ(queue().published.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& m = queue().published[i];
    EXPECT_EQ(m.body, all[i].body) << i;
    EXPECT_EQ(m.header, all[i].properties.build(all[i].body.size())) << i;
    EXPECT_EQ(m.route, make_route("", "q")) << i;
    EXPECT_EQ(m.persistent, all[i].properties.delivery_mode == 2) << i;
    EXPECT_EQ(m.priority, all[i].properties.priority.value_or(0)) << i;
    EXPECT_EQ(m.ttl_ms, all[i].properties.expiration ? 1000u : kNoTtl) << i;
    EXPECT_EQ(m.number, 0u) << i;
  }
}

TEST_P(PublishAlike, RoutesThatAlternateKeepApart) {
  open();
  for (int i = 0; i < 12; ++i) publish(1, "", i % 4 < 3 ? "q" : "r", std::to_string(i));
  expect_nothing();
  ASSERT_EQ(queue("q").published.size(), 9u);
  ASSERT_EQ(queue("r").published.size(), 3u);
  EXPECT_EQ(queue("q").published[3].body, "4");
  EXPECT_EQ(queue("r").published[1].body, "7");
  EXPECT_EQ(queue("r").published[1].route, make_route("", "r"));
  EXPECT_EQ(access.vhost->routes_asked, 2);
}

TEST_P(PublishAlike, ChannelsKeepApart) {
  open();
  open_channel(2);
  for (int i = 0; i < 6; ++i) publish(1, "", "q", "one");
  for (int i = 0; i < 6; ++i) publish(2, "", "q", "two");
  publish(1, "", "q", "one");
  expect_nothing();
  ASSERT_EQ(queue().published.size(), 13u);
  EXPECT_EQ(queue().published[5].body, "one");
  EXPECT_EQ(queue().published[6].body, "two");
}

TEST_P(PublishAlike, OtherMethodsBetweenThemTakeTheirTurn) {
  open();
  say(1, method::ConfirmSelect{});
  expect(1, method_id::confirm_select_ok);
  for (int i = 0; i < 4; ++i) publish(1, "", "q", "x");
  say(1, method::BasicQos{0, 5, false});
  for (int i = 0; i < 4; ++i) publish(1, "", "q", "x");
  take();
  EXPECT_EQ(std::ranges::count(got, method_id::basic_qos_ok, &Got::id), 1);
  ASSERT_EQ(queue().published.size(), 8u);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(queue().published[i].number, i + 1);
    EXPECT_EQ(queue().published[i].channel, 1);
  }
}

TEST_P(PublishAlike, ATransactionHoldsThemBack) {
  open();
  for (int i = 0; i < 3; ++i) publish(1, "", "q", "before");
  expect_nothing();
  say(1, method::TxSelect{});
  expect(1, method_id::tx_select_ok);
  for (int i = 0; i < 3; ++i) publish(1, "", "q", "x");
  expect_nothing();
  EXPECT_EQ(queue().published.size(), 3u) << "not before the commit";
}

TEST_P(PublishAlike, BodiesInSeveralFramesAreTakenBetweenThem) {
  open(4096);
  const std::string large(9'000, 'y');
  for (int i = 0; i < 3; ++i) {
    publish(1, "", "q", "small");
    publish(1, "", "q", "small");
    say(1, method::BasicPublish{"", "q"});
    frame(FrameType::header, 1, PropertiesBuilder{}.build(large.size()));
    for (size_t at = 0; at < large.size(); at += 4088)
      frame(FrameType::body, 1, large.substr(at, 4088));
  }
  expect_nothing();
  ASSERT_EQ(queue().published.size(), 9u);
  EXPECT_EQ(queue().published[7].body, "small");
  EXPECT_EQ(queue().published[8].body, large);
}

TEST_P(PublishAlike, ABodyThatIsTooLargeIsRefusedAfterThoseBeforeIt) {
  settings.max_message_bytes = 10;
  open();
  for (int i = 0; i < 5; ++i) publish(1, "", "q", "ten bytes.");
  publish(1, "", "q", "eleven byte");
  publish(1, "", "q", "ten bytes.");
  expect_channel_close(1, 406, "11", method_id::basic_publish);
  EXPECT_EQ(queue().published.size(), 5u);
}

TEST_P(PublishAlike, ABrokenFrameBehindThemIsFound) {
  open();
  for (int i = 0; i < 5; ++i) publish(1, "", "q", "x");
  input.back() = 0;
  expect_connection_close(501, "", 0);
  EXPECT_EQ(queue().published.size(), 4u);
}

TEST_P(PublishAlike, MandatoryOnesThatGoNowhereAllComeBack) {
  open();
  access.vhost->exchanges["empty"];
  for (int i = 0; i < 4; ++i) publish(1, "empty", "q", std::to_string(i), true);
  take();
  ASSERT_EQ(got.size(), 12u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got[3 * i].id(), method_id::basic_return);
    EXPECT_EQ(got[3 * i + 2].payload, std::to_string(i));
  }
}

}  // namespace
}  // namespace tarry::testing
