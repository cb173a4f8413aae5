// amq.retry as an exchange, the retry override, and the dead-letter strategy (retry-spec 35, 36,
// 41).
#include "broker_fixture.h"

namespace tarry {
namespace {

class RetryOverrides : public BrokerTest {
 protected:
  static FieldTable retry_arguments_of(int64_t min, int64_t limit) {
    return arguments({{"x-delayed-retry-min", FieldValue::int64(min)},
                      {"x-delivery-limit", FieldValue::int64(limit)}});
  }
  Answered<void> put_override(std::string name, RetryOverride changes) {
    return ask<Answered<void>>(
        [&](auto answer) { management().put_retry_override(guest, "/", name, changes, answer); });
  }
  static RetryOverride changes_of(std::optional<uint64_t> min, std::optional<uint64_t> limit) {
    RetryOverride changes;
    changes.min_ms = min;
    changes.limit = limit;
    return changes;
  }
  PeerError refused(Answered<void> answer) {
    EXPECT_FALSE(answer);
    return answer ? PeerError{} : answer.error();
  }
};

TEST_F(RetryOverrides, Rule36_ItIsDurableAndShownBesideWhatWasDeclared) {
  ASSERT_TRUE(declare(queue("q", retry_arguments_of(500, 5))));
  ASSERT_TRUE(put_override("q", changes_of(20, 2)));
  for (bool after_restart : {false, true}) {
    if (after_restart) restart();
    auto info = management().queue_retry("/", "q");
    ASSERT_TRUE(info);
    EXPECT_EQ(info->declared.min_ms, 500u);
    EXPECT_EQ(info->declared_limit, 5u);
    EXPECT_EQ(info->changes, changes_of(20, 2));
    EXPECT_EQ(info->effective.min_ms, 20u);
    EXPECT_EQ(info->effective_limit, 2u);
    EXPECT_EQ(management().queue("/", "q")->delivery_limit, 2u);
    // What was declared rules equivalence.
    EXPECT_TRUE(declare(queue("q", retry_arguments_of(500, 5))));
    EXPECT_FALSE(declare(queue("q", retry_arguments_of(20, 2))));
  }
  ASSERT_TRUE(put_override("q", {}));
  EXPECT_EQ(management().queue_retry("/", "q")->effective.min_ms, 500u);
  restart();
  EXPECT_EQ(management().queue_retry("/", "q")->effective.min_ms, 500u);
}

TEST_F(RetryOverrides, Rule36_ItEndsWithItsQueue) {
  ASSERT_TRUE(declare(queue("q", retry_arguments_of(500, 5))));
  ASSERT_TRUE(put_override("q", changes_of(20, {})));
  ASSERT_TRUE(delete_queue("q"));
  ASSERT_TRUE(declare(queue("q", retry_arguments_of(500, 5))));
  EXPECT_TRUE(management().queue_retry("/", "q")->changes.empty());
}

TEST_F(RetryOverrides, Rule36_APolicysDeliveryLimitStillCountsIfItIsLower) {
  ASSERT_TRUE(declare(queue("q", retry_arguments_of(500, 5))));
  put_policy({"/", "p", "q", "queues", 0, arguments({{"delivery-limit", FieldValue::int64(3)}})});
  ASSERT_TRUE(put_override("q", changes_of({}, 9)));
  EXPECT_EQ(management().queue_retry("/", "q")->effective_limit, 3u);
  ASSERT_TRUE(put_override("q", changes_of({}, 1)));
  EXPECT_EQ(management().queue_retry("/", "q")->effective_limit, 1u);
}

TEST_F(RetryOverrides, Rule36_OnlyForQueuesWithRetriesAndForWhoMayConfigureThem) {
  ASSERT_TRUE(declare(queue("plain")));
  EXPECT_EQ(refused(put_override("plain", changes_of(20, {}))).code, 400);
  EXPECT_EQ(refused(put_override("missing", changes_of(20, {}))).code, 404);
  EXPECT_EQ(management().queue_retry("/", "plain").error().code, 400);
  EXPECT_EQ(management().queue_retry("nowhere", "q").error().code, 404);
  const auto companion = management().queue_retry("/", "amq.retry-q");
  EXPECT_EQ(companion.error().code, 400);
  EXPECT_EQ(
      companion.error().text,
      "queue 'amq.retry-q' in vhost '/' is internal: the retry settings are those of queue 'q'");
  ASSERT_TRUE(declare(queue("q", retry_arguments_of(500, 5))));
  const Login stranger{"stranger"};
  auto answer = ask<Answered<void>>([&](auto done) {
    management().put_retry_override(stranger, "/", "q", changes_of(20, {}), done);
  });
  EXPECT_EQ(refused(answer).code, 403);
  EXPECT_TRUE(management().queue_retry("/", "q")->changes.empty());
}

TEST_F(RetryOverrides, Rule36_ItCountsForRejectionsFromThenOn) {
  ASSERT_TRUE(declare(queue("q", retry_arguments_of(3'600'000, 5))));
  ASSERT_TRUE(publish("", "q", "waits long"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_true).size(), 1u);
  const auto one_waits = [&] { return management().queue("/", "q")->numbers.delayed == 1; };
  // The rejection is on its way when the message is there.
  ASSERT_TRUE(comes_true(one_waits));
  ASSERT_TRUE(put_override("q", changes_of(1, {})));
  ASSERT_TRUE(publish("", "q", "comes soon"));
  ASSERT_EQ(get("q", 1, GetMode::reject_requeue_true).size(), 1u);
  EXPECT_EQ(need("q").body, "comes soon");
  EXPECT_TRUE(comes_true(one_waits));  // keeps its due time
}

TEST_F(RetryOverrides, Rule35_TheExchangeIsThereAndNobodysToChange) {
  auto info = management().exchange("/", "amq.retry");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->type, "x-retry");
  EXPECT_TRUE(info->durable);
  EXPECT_EQ(refused(declare_exchange(exchange("amq.retry", "x-retry"))).code, 403);
  EXPECT_EQ(refused(declare_exchange(exchange("amq.retry", "direct"))).code, 403);
  ExchangeDeclare passive = exchange("amq.retry", "");
  passive.passive = true;
  EXPECT_TRUE(declare_exchange(passive));  // who asks whether it is there may know
  EXPECT_EQ(refused(delete_exchange("amq.retry")).code, 403);
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_EQ(refused(bind({"amq.retry", "q", "k", true, {}})).code, 403);
  EXPECT_EQ(refused(unbind({"amq.retry", "q", "k", true, {}})).code, 403);
  EXPECT_EQ(refused(bind({"amq.retry", "amq.fanout", "k", false, {}})).code, 403);
  EXPECT_EQ(refused(bind({"amq.fanout", "amq.retry", "k", false, {}})).code, 403);
  auto exported = management().export_definitions("");
  ASSERT_TRUE(exported);
  EXPECT_EQ(exported->find("amq.retry"), std::string::npos);
  EXPECT_TRUE(management().exchange("/", "amq.retry"));
}

TEST_F(RetryOverrides, Rule35_OverHttpThereIsNoChannelToSettleOn) {
  auto answer = publish("amq.retry", "1", "x");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, 400);
}

TEST_F(RetryOverrides, Rule41_TheStrategyIsAnArgumentOrAPolicy) {
  const auto to_nowhere = [](std::optional<std::string> strategy) {
    FieldTable args = arguments({{"x-dead-letter-exchange", FieldValue::text("")},
                                 {"x-dead-letter-routing-key", FieldValue::text("target")}});
    if (strategy) args.set("x-dead-letter-strategy", FieldValue::text(*strategy));
    return args;
  };
  ASSERT_TRUE(declare(queue("argument", to_nowhere("at-least-once"))));
  ASSERT_TRUE(declare(queue("policy", to_nowhere({}))));
  ASSERT_TRUE(declare(queue("once", to_nowhere("at-most-once"))));
  EXPECT_FALSE(declare(queue("bad", to_nowhere("sometimes"))));
  put_policy({"/", "p", ".*", "queues", 0,
              arguments({{"dead-letter-strategy", FieldValue::text("at-least-once")}})});
  for (const char* name : {"argument", "policy", "once"}) {
    ASSERT_TRUE(publish("", name, name));
    ASSERT_EQ(get(name, 1, GetMode::reject_requeue_false).size(), 1u);
  }
  const auto numbers = [&](const char* name) { return management().queue("/", name)->numbers; };
  while (numbers("once").dropped.empty()) std::this_thread::yield();
  EXPECT_EQ(numbers("argument").dead_lettering, 1u);
  EXPECT_EQ(numbers("policy").dead_lettering, 1u);
  EXPECT_EQ(numbers("once").dead_lettering, 0u);
  restart();
  ASSERT_TRUE(declare(queue("target")));
  std::vector<std::string> came{need("target").body, need("target").body};
  std::sort(came.begin(), came.end());
  EXPECT_EQ(came, (std::vector<std::string>{"argument", "policy"}));
}

}  // namespace
}  // namespace tarry
