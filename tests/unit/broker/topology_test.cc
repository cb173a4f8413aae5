#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

using Topology = BrokerTest;
using Names = std::vector<std::string>;

std::string error_of(const Result<void, PeerError>& r) {
  return r ? "" : std::to_string(r.error().code) + " " + r.error().text;
}
template <class T>
std::string error_of(const Result<T, PeerError>& r) {
  return r ? "" : std::to_string(r.error().code) + " " + r.error().text;
}

TEST_F(Topology, AQueueIsDeclaredFoundAndRoutedToByItsName) {
  auto declared = declare(queue("q"));
  ASSERT_TRUE(declared) << declared.error().text;
  EXPECT_EQ(declared->name, "q");
  EXPECT_EQ(declared->message_count, 0u);
  EXPECT_EQ(routed_to("", "q"), Names{"q"});
  EXPECT_EQ(routed_to("", "other"), Names{});
  EXPECT_TRUE(vhost().open_queue(actor(), "q"));
  EXPECT_EQ(error_of(vhost().open_queue(actor(), "x")), "404 no queue 'x' in vhost '/'");
}

TEST_F(Topology, ARedeclarationGivesTheCountsAndADifferentOneIsRefused) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-max-length", FieldValue::int32(5)}}))));
  ASSERT_TRUE(*publish("", "q", "m"));
  auto again = declare(queue("q", arguments({{"x-max-length", FieldValue::int64(5)}})));
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(again->message_count, 1u);
  EXPECT_EQ(error_of(declare(queue("q"))),
            "406 inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but "
            "current is the value '5' of "
            "type 'signedint'");
}

TEST_F(Topology, PassiveDeclareSeesWhatIsThereAndMakesNothing) {
  QueueDeclare passive = queue("q");
  passive.passive = true;
  EXPECT_EQ(error_of(declare(passive)), "404 no queue 'q' in vhost '/'");
  ASSERT_TRUE(declare(queue("q")));
  passive.durable = false;
  EXPECT_TRUE(declare(passive));
}

TEST_F(Topology, ServerNamedQueuesDiffer) {
  auto a = declare(queue("")), b = declare(queue(""));
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(a->name.starts_with("amq.gen-"));
  EXPECT_EQ(a->name.size(), 8u + 22u);
  EXPECT_NE(a->name, b->name);
}

TEST_F(Topology, ReservedNamesAreRefused) {
  EXPECT_EQ(error_of(declare(queue("amq.mine"))),
            "403 queue name 'amq.mine' contains reserved prefix 'amq.*'");
  EXPECT_EQ(error_of(declare_exchange(exchange("amq.mine", "direct"))),
            "403 exchange name 'amq.mine' contains reserved prefix 'amq.*'");
  EXPECT_EQ(error_of(declare_exchange(exchange("", "direct"))),
            "403 operation not permitted on the default exchange");
  EXPECT_EQ(error_of(delete_exchange("amq.direct")),
            "403 deletion of system exchange 'amq.direct' in vhost '/' not allowed");
  EXPECT_EQ(error_of(delete_exchange("")), "403 operation not permitted on the default exchange");
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_EQ(error_of(bind({"", "q", "k", true, {}})),
            "403 operation not permitted on the default exchange");
  // A system exchange as it is may be declared.
  EXPECT_TRUE(declare_exchange(exchange("amq.direct", "direct")));
}

TEST_F(Topology, Rule20_EveryOperationOnACompanionIs403WhetherItExistsOrNot) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(100)}}))));
  for (std::string name : {"amq.retry-q", "amq.retry-nothing"}) {
    QueueDeclare passive = queue(name);
    passive.passive = true;
    EXPECT_EQ(declare(queue(name)).error().code, 403) << name;
    EXPECT_EQ(declare(passive).error().code, 403) << name;
    EXPECT_EQ(delete_queue(name).error().code, 403) << name;
    EXPECT_EQ(bind({"amq.direct", name, "k", true, {}}).error().code, 403) << name;
    EXPECT_EQ(unbind({"amq.direct", name, "k", true, {}}).error().code, 403) << name;
    EXPECT_EQ(vhost().open_queue(actor(), name).error().code, 403) << name;
    auto purged = on_shard<Answered<uint64_t>>(
        [&](auto answer) { vhost().purge_queue(actor(), name, answer); });
    EXPECT_EQ(purged.error().code, 403) << name;
    std::vector<std::shared_ptr<QueueHandle>> targets;
    EXPECT_EQ(vhost().route(guest, "", name, nullptr, targets).error().code, 403) << name;
  }
}

TEST_F(Topology, WhatIsNotThereIsUnboundWithoutAnError) {
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_TRUE(unbind({"amq.direct", "q", "no such key", true, {}}));
  EXPECT_TRUE(unbind({"amq.direct", "no.such.queue", "k", true, {}}));
  EXPECT_TRUE(unbind({"no.such.exchange", "q", "k", true, {}}));
  EXPECT_TRUE(unbind({"no.such.exchange", "no.such.queue", "k", true, {}}));
  EXPECT_TRUE(unbind({"amq.direct", "no.such.exchange", "k", false, {}}));
  EXPECT_EQ(bind({"amq.direct", "no.such.queue", "k", true, {}}).error().code, 404);
}

TEST_F(Topology, WhatIsNotBoundIsUnboundFromAnothersQueueToo) {
  QueueDeclare d = queue("mine");
  d.exclusive = true;
  ASSERT_TRUE(declare(d, 8));
  EXPECT_TRUE(unbind({"amq.direct", "mine", "no such key", true, {}}));
  auto bound = on_shard<Answered<void>>([&](auto answer) {
    vhost().bind(actor(8), {"amq.direct", "mine", "k", true, {}}, answer);
  });
  ASSERT_TRUE(bound);
  EXPECT_EQ(unbind({"amq.direct", "mine", "k", true, {}}).error().code, 405);
}

TEST_F(Topology, AnExclusiveQueueMayBeRedeclaredWithAnotherDurable) {
  for (bool durable : {false, true}) {
    QueueDeclare d = queue(durable ? "a" : "b");
    d.exclusive = true;
    d.durable = durable;
    ASSERT_TRUE(declare(d));
    d.durable = !durable;
    EXPECT_TRUE(declare(d));
    d.auto_delete = true;
    EXPECT_EQ(declare(d).error().code, 406);
  }
}

TEST_F(Topology, AnAlternateExchangeOfAWrongTypeIs406AndTheTextNamesTheVhost) {
  ExchangeDeclare d = exchange("x", "direct");
  d.arguments = arguments({{"alternate-exchange", FieldValue::int32(5)}});
  EXPECT_EQ(error_of(declare_exchange(d)),
            "406 invalid arg 'alternate-exchange' for exchange 'x' in vhost '/': expected the name "
            "of an exchange as "
            "longstr, got the value '5' of type 'signedint'");
}

TEST_F(Topology, AnUnknownVhostIs530) {
  auto opened = broker_->access().open_vhost(guest, "v");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, 530);
  EXPECT_EQ(opened.error().text, "vhost v not found");
}

TEST_F(Topology, ArgumentsForOtherTypesOfQueueAre406) {
  EXPECT_EQ(
      error_of(declare(queue("q", arguments({{"x-max-age", FieldValue::text("1D")}})))),
      "406 invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_classic_queue");
  EXPECT_FALSE(vhost().find_queue("q"));
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_EQ(
      declare(queue("q", arguments({{"x-queue-version", FieldValue::int32(9)}}))).error().code,
      406);
  EXPECT_TRUE(declare(queue("q", arguments({{"x-queue-version", FieldValue::int32(2)}}))));
}

TEST_F(Topology, AnArgumentOfTheSameValueMustStillBeOfATypeThatItMayHave) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-message-ttl", FieldValue::int32(10)}}))));
  EXPECT_TRUE(declare(queue("q", arguments({{"x-message-ttl", FieldValue::int64(10)}}))));
  const std::string error =
      error_of(declare(queue("q", arguments({{"x-message-ttl", FieldValue{'d', 10.0}}}))));
  EXPECT_TRUE(error.starts_with("406 invalid arg 'x-message-ttl'")) << error;
}

TEST_F(Topology, Rule21_TheCompanionIsListedAsInternalWithItsOwner) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(100)}}))));
  auto companion = management().queue("/", "amq.retry-q");
  ASSERT_TRUE(companion);
  EXPECT_TRUE(companion->internal);
  EXPECT_EQ(companion->owner, "q");
  EXPECT_EQ(management().queues({}).size(), 2u);
  EXPECT_EQ(management().queue("/", "q")->delivery_limit, 20u);
  ASSERT_TRUE(declare(queue("plain")));
  EXPECT_FALSE(management().queue("/", "amq.retry-plain"));
}

TEST_F(Topology, Rule18_ADeletedCompanionIsGoneUntilTheNextRejection) {
  ASSERT_TRUE(
      declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(600'000)}}))));
  auto drop = [&] {
    return ask<Answered<uint64_t>>(
        [&](auto a) { management().delete_queue(guest, "/", "amq.retry-q", false, false, a); });
  };
  ASSERT_TRUE(drop());
  EXPECT_FALSE(management().queue("/", "amq.retry-q"));
  EXPECT_EQ(management().queues({}).size(), 1u);
  EXPECT_EQ(drop().error().code, 404);
  ASSERT_TRUE(publish("", "q", "x"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_true).size(), 1u);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto waiting = [&] {
    const auto companion = management().queue("/", "amq.retry-q");
    return companion ? companion->numbers.ready : 0;
  };
  while (waiting() != 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(waiting(), 1u);
}

TEST_F(Topology, Rule30_SenderKeysSkipTheCompanion) {
  ASSERT_TRUE(declare(queue("q", arguments({{"x-delayed-retry-min", FieldValue::int32(100)}}))));
  ASSERT_TRUE(declare(queue("p")));
  PropertiesBuilder builder;
  builder.headers = arguments(
      {{"CC", FieldValue::array({FieldValue::text("amq.retry-q"), FieldValue::text("p")})}});
  std::string header = builder.build(0);
  auto view = PropertiesView::parse(as_bytes(header));
  ASSERT_TRUE(view);
  EXPECT_EQ(routed_to("", "q", &*view), (Names{"p", "q"}));
}

TEST_F(Topology, AnExclusiveQueueIsLockedForOthersAndGoesWithItsConnection) {
  QueueDeclare d = queue("mine");
  d.exclusive = true;
  ASSERT_TRUE(declare(d, 7));
  EXPECT_TRUE(declare(d, 7));
  EXPECT_EQ(declare(d, 8).error().code, 405);
  EXPECT_EQ(delete_queue("mine", 8).error().code, 405);
  EXPECT_EQ(vhost().open_queue(actor(8), "mine").error().code, 405);
  QueueDeclare not_exclusive = queue("mine");
  EXPECT_TRUE(
      error_of(declare(not_exclusive, 7))
          .starts_with("405 cannot obtain exclusive access to locked queue 'mine' in vhost '/'"));
  on_shard<bool>([&](auto answer) {
    vhost().connection_closed(ConnectionId{7});
    answer(true);
  });
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (vhost().find_queue("mine") && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(vhost().find_queue("mine"), nullptr);
}

TEST_F(Topology, DeletingTakesBindingsAlongAndTheNameIsFree) {
  ASSERT_TRUE(declare_exchange(exchange("x", "topic")));
  ASSERT_TRUE(declare(queue("q")));
  ASSERT_TRUE(bind({"x", "q", "a.#", true, {}}));
  ASSERT_TRUE(*publish("x", "a.b", "m"));
  EXPECT_EQ(routed_to("x", "a.b"), Names{"q"});
  auto deleted = delete_queue("q");
  ASSERT_TRUE(deleted);
  EXPECT_EQ(*deleted, 1u);
  EXPECT_EQ(routed_to("x", "a.b"), Names{});
  EXPECT_EQ(*delete_queue("q"), 0u);
  EXPECT_TRUE(declare(queue("q", arguments({{"x-max-length", FieldValue::int32(1)}}))));
  EXPECT_EQ(routed_to("x", "a.b"), Names{});
}

TEST_F(Topology, AnAutoDeleteExchangeGoesWithItsLastBinding) {
  ExchangeDeclare d = exchange("x", "fanout");
  d.auto_delete = true;
  ASSERT_TRUE(declare_exchange(d));
  ASSERT_TRUE(declare_exchange(exchange("from", "fanout")));
  ASSERT_TRUE(declare(queue("a")));
  ASSERT_TRUE(declare(queue("b")));
  ASSERT_TRUE(bind({"x", "a", "", true, {}}));
  ASSERT_TRUE(bind({"x", "b", "", true, {}}));
  ASSERT_TRUE(bind({"from", "x", "", false, {}}));
  EXPECT_EQ(routed_to("from", "k"), (Names{"a", "b"}));
  ASSERT_TRUE(unbind({"x", "a", "", true, {}}));
  EXPECT_TRUE(management().exchange("/", "x"));
  ASSERT_TRUE(delete_queue("b"));
  EXPECT_FALSE(management().exchange("/", "x"));
  EXPECT_EQ(routed_to("from", "k"), Names{});
  // The binding that led to it is gone too, so one of that name starts without.
  ASSERT_TRUE(declare_exchange(exchange("x", "fanout")));
  ASSERT_TRUE(bind({"x", "a", "", true, {}}));
  EXPECT_EQ(routed_to("from", "k"), Names{});
}

TEST_F(Topology, DeleteIfUnusedOfABoundExchangeIs406) {
  ASSERT_TRUE(declare_exchange(exchange("x", "fanout")));
  ASSERT_TRUE(declare(queue("q")));
  ASSERT_TRUE(bind({"x", "q", "", true, {}}));
  EXPECT_EQ(error_of(delete_exchange("x", true)), "406 exchange 'x' in vhost '/' in use");
  EXPECT_TRUE(delete_exchange("x", false));
  EXPECT_TRUE(delete_exchange("x", false));
}

TEST_F(Topology, ExchangesRedeclaredDifferentlyAre406) {
  ASSERT_TRUE(declare_exchange(exchange("x", "fanout")));
  EXPECT_EQ(error_of(declare_exchange(exchange("x", "topic"))),
            "406 inequivalent arg 'type' for exchange 'x' in vhost '/': received 'topic' but "
            "current is 'fanout'");
  EXPECT_EQ(error_of(declare_exchange(exchange("x", "fanout", false))),
            "406 inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'false' but "
            "current is 'true'");
  EXPECT_EQ(error_of(declare_exchange(exchange("y", "jelly"))),
            "406 unknown exchange type 'jelly'");
  ExchangeDeclare passive = exchange("y", "");
  passive.passive = true;
  EXPECT_EQ(error_of(declare_exchange(passive)), "404 no exchange 'y' in vhost '/'");
}

TEST_F(Topology, TheAlternateExchangeTakesWhatMatchesNothing) {
  ExchangeDeclare d = exchange("x", "direct");
  d.arguments = arguments({{"alternate-exchange", FieldValue::text("amq.fanout")}});
  ASSERT_TRUE(declare_exchange(d));
  ASSERT_TRUE(declare(queue("bound")));
  ASSERT_TRUE(declare(queue("rest")));
  ASSERT_TRUE(bind({"x", "bound", "k", true, {}}));
  ASSERT_TRUE(bind({"amq.fanout", "rest", "", true, {}}));
  EXPECT_EQ(routed_to("x", "k"), Names{"bound"});
  EXPECT_EQ(routed_to("x", "other"), Names{"rest"});
}

TEST_F(Topology, PublishingToMissingOrInternalExchangesIsRefused) {
  ExchangeDeclare d = exchange("inner", "fanout");
  d.internal = true;
  ASSERT_TRUE(declare_exchange(d));
  std::vector<std::shared_ptr<QueueHandle>> targets;
  EXPECT_EQ(error_of(vhost().route(guest, "nope", "k", nullptr, targets)),
            "404 no exchange 'nope' in vhost '/'");
  EXPECT_EQ(vhost().route(guest, "inner", "k", nullptr, targets).error().code, 403);
}

TEST_F(Topology, TheVersionMovesWithEveryChange) {
  uint64_t last = vhost().topology_version();
  auto moved = [&] {
    uint64_t now = vhost().topology_version();
    return std::exchange(last, now) != now;
  };
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_TRUE(moved());
  ASSERT_TRUE(bind({"amq.topic", "q", "k", true, {}}));
  EXPECT_TRUE(moved());
  ASSERT_TRUE(bind({"amq.topic", "q", "k", true, {}}));
  EXPECT_FALSE(moved());
  ASSERT_TRUE(unbind({"amq.topic", "q", "k", true, {}}));
  EXPECT_TRUE(moved());
  ASSERT_TRUE(delete_queue("q"));
  EXPECT_TRUE(moved());
}

}  // namespace
}  // namespace tarry
