#include <set>

#include "tarrymq/broker/retry_operations.h"
#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

using Messages = BrokerTest;

FieldTable to_default(std::string key) {
  return arguments({{"x-dead-letter-exchange", FieldValue::text("")},
                    {"x-dead-letter-routing-key", FieldValue::text(std::move(key))}});
}

FieldTable headers_of(const GotMessage& m) {
  auto view = PropertiesView::parse(as_bytes(m.header));
  EXPECT_TRUE(view);
  if (!view || view->headers.empty()) return {};
  return *FieldTable::decode(view->headers);
}

TEST_F(Messages, PublishTellsWhetherAQueueTookIt) {
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_TRUE(*publish("", "q", "hello"));
  EXPECT_FALSE(*publish("", "nowhere", "hello"));
  EXPECT_EQ(publish("no-exchange", "k", "hello").error().code, 404);
  auto got = get("q", 5);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].body, "hello");
  EXPECT_EQ(got[0].routing_key, "q");
  EXPECT_FALSE(got[0].redelivered);
  EXPECT_TRUE(get("q").empty());
}

TEST_F(Messages, APublishInAnothersNameIsRefused) {
  ASSERT_TRUE(declare(queue("q")));
  const auto publish_as = [&](const char* user_id) {
    PropertiesBuilder properties;
    properties.user_id = user_id;
    PublishMessage message{"/", "", "q", properties.build(1), "m"};
    return ask<Answered<bool>>([&](auto answer) { management().publish(guest, message, answer); });
  };
  const auto refused = publish_as("another");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 400);
  EXPECT_NE(refused.error().text.find("another"), std::string::npos);
  EXPECT_TRUE(get("q").empty());
  EXPECT_TRUE(*publish_as("guest"));
  // A tag counts from when it is given until it is taken away.
  UserInfo info = *management().user("guest");
  const auto tags = info.tags;
  info.tags.push_back("impersonator");
  ASSERT_TRUE(ask<Answered<bool>>([&](auto a) { management().put_user(info, {}, a); }));
  EXPECT_TRUE(*publish_as("another"));
  info.tags = tags;
  ASSERT_TRUE(ask<Answered<bool>>([&](auto a) { management().put_user(info, {}, a); }));
  EXPECT_FALSE(publish_as("another"));
}

TEST_F(Messages, APublishThatNoFrameOrLimitHasRoomForIsRefused) {
  options_.frame_max = 4096;
  options_.max_message_bytes = 10;
  restart();
  ASSERT_TRUE(declare(queue("q")));
  const auto publish_with = [&](size_t header_bytes, const std::string& body) {
    PropertiesBuilder properties;
    properties.headers.emplace().set("a", FieldValue::text(""));
    const size_t rest = properties.build(body.size()).size();
    properties.headers->set("a", FieldValue::text(std::string(header_bytes - rest, 'x')));
    PublishMessage message{"/", "", "q", properties.build(body.size()), body};
    return ask<Answered<bool>>([&](auto answer) { management().publish(guest, message, answer); });
  };
  EXPECT_TRUE(*publish_with(4096 - 8, "1234567890"));
  const auto wide = publish_with(4096 - 7, "m"), long_one = publish_with(100, "12345678901");
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code, 400);
  EXPECT_NE(wide.error().text.find("frame_max is 4096"), std::string::npos) << wide.error().text;
  ASSERT_FALSE(long_one);
  EXPECT_EQ(long_one.error().code, 400);
  EXPECT_NE(long_one.error().text.find("configured max size 10"), std::string::npos)
      << long_one.error().text;
  EXPECT_EQ(get("q", 5).size(), 1u);
}

TEST_F(Messages, AFullQueueWithRejectPublishIsNotRouted) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-max-length", FieldValue::int32(1)},
                                            {"x-overflow", FieldValue::text("reject-publish")}}))));
  EXPECT_TRUE(*publish("", "q", "1"));
  EXPECT_FALSE(*publish("", "q", "2"));
}

TEST_F(Messages, Rule42_PeekingPutsBackInOrderAndRaisesNoCounter) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delivery-limit", FieldValue::int32(2)}}))));
  for (const char* body : {"1", "2", "3"}) ASSERT_TRUE(*publish("", "q", body));
  for (int i = 0; i < 5; ++i) {
    auto got = get("q", 2, GetMode::ack_requeue_true);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].body, "1");
    EXPECT_EQ(got[1].body, "2");
    EXPECT_EQ(headers_of(got[0]).find("x-delivery-count"), nullptr);
  }
}

TEST_F(Messages, Rule20_PublishingToACompanionOverHttpIsNotRouted) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(60000)}}))));
  EXPECT_FALSE(*publish("", "amq.retry-q", "m"));
  EXPECT_EQ(ask<Answered<bool>>(
                [&](auto a) { management().declare_queue(guest, "/", queue("amq.retry-z"), a); })
                .error()
                .code,
            400);
  EXPECT_EQ(ask<Answered<std::string>>([&](auto a) {
              management().bind(guest, "/", {"amq.direct", "amq.retry-q", "k", true, {}}, a);
            })
                .error()
                .code,
            400);
}

TEST_F(Messages, Rule21_AnOperatorEmptiesTheCompanion) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(600000)}}))));
  ASSERT_TRUE(*publish("", "q", "m"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_true).size(), 1u);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto waiting = [&] { return management().queue("/", "amq.retry-q")->numbers.ready; };
  while (waiting() != 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(waiting(), 1u);
  EXPECT_EQ(management().queue("/", "q")->numbers.delayed, 1u);
  auto purged = ask<Answered<uint64_t>>(
      [&](auto a) { management().purge_queue(guest, "/", "amq.retry-q", a); });
  ASSERT_TRUE(purged);
  EXPECT_EQ(*purged, 1u);
  while (waiting() != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(waiting(), 0u);
  EXPECT_TRUE(get("q").empty());
}

TEST_F(Messages, ARejectionDeadLettersThroughTheDefaultExchange) {
  ASSERT_TRUE(declare(queue("q", to_default("dead"))));
  ASSERT_TRUE(declare(queue("dead")));
  ASSERT_TRUE(*publish("", "q", "m"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_false).size(), 1u);
  GotMessage dead = need("dead");
  EXPECT_EQ(dead.body, "m");
  EXPECT_EQ(dead.exchange, "");
  EXPECT_EQ(dead.routing_key, "dead");
  FieldTable headers = headers_of(dead);
  ASSERT_NE(headers.find("x-death"), nullptr);
  const FieldTable& entry = *headers.find("x-death")->array()->at(0).table();
  EXPECT_EQ(*entry.find("queue")->text(), "q");
  EXPECT_EQ(*entry.find("reason")->text(), "rejected");
}

TEST_F(Messages, ADeadLetterReachesEveryBoundQueueOnBothShards) {
  ASSERT_TRUE(declare_exchange(exchange("dlx", "fanout")));
  ASSERT_TRUE(
      declare(queue("q", arguments({{"x-dead-letter-exchange", FieldValue::text("dlx")}}))));
  for (std::string name : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(declare(queue(name)));
    ASSERT_TRUE(bind({"dlx", name, "", true, {}}));
  }
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(*publish("", "q", std::to_string(i)));
  ASSERT_EQ(get("q", 10, GetMode::reject_requeue_false).size(), 10u);
  for (std::string name : {"a", "b", "c", "d"}) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(need(name).body, std::to_string(i)) << name;
  }
}

TEST_F(Messages, Rule32_AMissingDeadLetterExchangeDropsAndIsCounted) {
  ASSERT_TRUE(
      declare(queue("q", arguments({{"x-dead-letter-exchange", FieldValue::text("nowhere")}}))));
  ASSERT_TRUE(*publish("", "q", "m"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_false).size(), 1u);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto dropped = [&] { return management().queue("/", "q")->numbers.dropped["rejected"]; };
  while (dropped() != 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(dropped(), 1u);
  EXPECT_EQ(management().queue("/", "q")->numbers.unacked, 0u);
}

TEST_F(Messages, Rule20_DeadLetterKeysSkipTheCompanion) {
  ASSERT_TRUE(declare(queue("r", arguments({{"x-delayed-retry-min", FieldValue::int32(60000)}}))));
  ASSERT_TRUE(declare(queue("q", to_default("amq.retry-r"))));
  ASSERT_TRUE(*publish("", "q", "m"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_false).size(), 1u);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (management().queue("/", "q")->numbers.dropped.empty() &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(management().queue("/", "q")->numbers.dropped["rejected"], 1u);
  EXPECT_EQ(management().queue("/", "amq.retry-r")->numbers.ready, 0u);
}

TEST_F(Messages, APolicyTakesEffectOnALiveQueueAndBackWhenItGoes) {
  ASSERT_TRUE(declare(queue("q.a")));
  put_policy({"/", "p", "^q\\.", "queues", 1, arguments({{"max-length", FieldValue::int32(2)}})});
  EXPECT_EQ(management().queue("/", "q.a")->policy, "p");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(*publish("", "q.a", std::to_string(i)));
  auto got = get("q.a", 10);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].body, "2");
  ASSERT_TRUE(declare(queue("q.new")));
  EXPECT_EQ(management().queue("/", "q.new")->policy, "p");
  ASSERT_TRUE(ask<Answered<void>>([&](auto a) { management().delete_policy("/", "p", false, a); }));
  EXPECT_EQ(management().queue("/", "q.a")->policy, "");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(*publish("", "q.a", std::to_string(i)));
  EXPECT_EQ(get("q.a", 10).size(), 4u);
}

TEST_F(Messages, BccIsKeptWhileAMessageWaitsForItsDelay) {
  ExchangeDeclare later = exchange("later", "x-delayed-message");
  later.arguments = arguments({{"x-delayed-type", FieldValue::text("direct")}});
  ASSERT_TRUE(declare_exchange(later));
  for (const char* name : {"to", "hidden"}) {
    ASSERT_TRUE(declare(queue(name)));
    ASSERT_TRUE(bind({"later", name, name, true, {}}));
  }
  FieldArray keys{FieldValue::text("hidden")};
  EXPECT_TRUE(
      *publish("later", "to", "m",
               arguments({{"x-delay", FieldValue::int32(1)}, {"BCC", FieldValue::array(keys)}})));
  for (const char* name : {"to", "hidden"}) {
    const GotMessage got = need(name);
    EXPECT_EQ(got.body, "m");
    EXPECT_EQ(headers_of(got).find("BCC"), nullptr);
  }
}

TEST_F(Messages, Rule38_ADryRunNamesTargetsThatAreMissing) {
  ASSERT_TRUE(declare(queue("dead")));
  ASSERT_TRUE(declare(queue("gone", to_default("dead"))));
  ASSERT_TRUE(declare(queue("here", to_default("dead"))));
  for (const char* name : {"gone", "here", "here"}) {
    ASSERT_TRUE(*publish("", name, "m"));
    (void)get(name, 1, GetMode::reject_requeue_false);
  }
  const auto wait_for = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (management().queue("/", "dead")->numbers.ready < 3)
    ASSERT_LT(std::chrono::steady_clock::now(), wait_for);
  const auto count = [&](const std::string& queue_name, const std::string& target) {
    RedriveRequest request;
    request.target = target;
    request.dry_run = true;
    return ask<Answered<RedriveStarted>>([&](auto answer) {
      management().retry_operations()->start_redrive(guest, "/", queue_name, request, answer);
    });
  };
  ASSERT_TRUE(ask<Answered<uint64_t>>(
      [&](auto a) { management().delete_queue(guest, "/", "gone", false, false, a); }));
  EXPECT_EQ(count("dead", "")->matched, 3u);
  EXPECT_EQ(count("dead", "")->missing, (RedriveTargets{{"gone", 1}}));
  EXPECT_EQ(count("dead", "here")->missing, RedriveTargets{});
  EXPECT_EQ(count("dead", "nowhere")->missing, (RedriveTargets{{"nowhere", 3}}));
  for (const char* internal : {"amq.retry-here", "amq.delayed-x"}) {
    const auto refused = count(internal, "");
    ASSERT_FALSE(refused) << internal;
    EXPECT_EQ(refused.error().code, 400);
    EXPECT_NE(refused.error().text.find("delayed/redeliver"), std::string::npos);
  }
}

TEST_F(Messages, BindingsShowNoInternalQueue) {
  ExchangeDeclare later = exchange("later", "x-delayed-message");
  later.arguments = arguments({{"x-delayed-type", FieldValue::text("direct")}});
  ASSERT_TRUE(declare_exchange(later));
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(500)}}))));
  ASSERT_TRUE(management().queue("/", "amq.delayed-later"));
  ASSERT_TRUE(management().queue("/", "amq.retry-q"));
  ASSERT_TRUE(bind({"later", "q", "k", true, {}}));
  std::multiset<std::string> destinations;
  for (const BindingInfo& binding : management().bindings({}))
    destinations.insert(binding.destination);
  EXPECT_EQ(destinations, (std::multiset<std::string>{"q", "q"}));
}

}  // namespace
}  // namespace tarry
