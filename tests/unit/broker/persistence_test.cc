#include <nlohmann/json.hpp>

#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

using nlohmann::json;

class Persistence : public BrokerTest {
 protected:
  void declare_a_little_of_everything() {
    ASSERT_TRUE(declare_exchange(exchange("x", "headers")));
    ExchangeDeclare inner = exchange("inner", "topic");
    inner.internal = true;
    inner.arguments = arguments({{"alternate-exchange", FieldValue::text("amq.fanout")}});
    ASSERT_TRUE(declare_exchange(inner));
    ASSERT_TRUE(declare_exchange(exchange("transient", "fanout", false)));
    ASSERT_TRUE(declare(queue("q", retry_arguments())));
    QueueDeclare transient = queue("short-lived");
    transient.durable = false;
    ASSERT_TRUE(declare(transient));
    ASSERT_TRUE(bind({"x", "q", "", true, binding_arguments()}));
    ASSERT_TRUE(bind({"x", "inner", "k", false, {}}));
    ASSERT_TRUE(bind({"transient", "q", "k", true, {}}));
    ASSERT_TRUE(bind({"amq.topic", "short-lived", "k", true, {}}));
    put_policy({"/", "p", "^q$", "queues", 3, arguments({{"max-length", FieldValue::int32(7)}})});
    put_policy({"/", "o", ".*", "queues", 0, arguments({{"expires", FieldValue::int32(60000)}})},
               true);
  }
  static FieldTable retry_arguments() {
    return arguments({{"x-delayed-retry-min", FieldValue::int32(500)},
                      {"x-delivery-limit", FieldValue::int64(5)},
                      {"x-dead-letter-exchange", FieldValue::text("")}});
  }
  static FieldTable binding_arguments() {
    return arguments({{"x-match", FieldValue::text("all")},
                      {"a", FieldValue::int32(1)},
                      {"b", FieldValue::text("two")}});
  }
  json exported(std::string vhost_name = "") {
    auto text = management().export_definitions(vhost_name);
    EXPECT_TRUE(text);
    return text ? json::parse(*text) : json();
  }
  Answered<ImportReport> import(const json& dump) {
    return ask<Answered<ImportReport>>(
        [&](auto a) { management().import_definitions("", dump.dump(), a); });
  }
  size_t bindings_from(const std::string& source) {
    size_t count = 0;
    for (const BindingInfo& b : management().bindings({})) count += b.source == source;
    return count;
  }
};

TEST_F(Persistence, DurableThingsSurviveARestartAndTransientOnesDoNot) {
  declare_a_little_of_everything();
  ASSERT_TRUE(*publish("", "q", "kept"));
  restart();
  auto q = management().queue("/", "q");
  ASSERT_TRUE(q);
  EXPECT_TRUE(q->arguments.equivalent(retry_arguments()));
  EXPECT_EQ(q->policy, "p");
  EXPECT_EQ(q->operator_policy, "o");
  EXPECT_EQ(q->delivery_limit, 5u);
  EXPECT_TRUE(q->retry_enabled);
  EXPECT_FALSE(management().queue("/", "short-lived"));
  EXPECT_FALSE(management().exchange("/", "transient"));
  auto inner = management().exchange("/", "inner");
  ASSERT_TRUE(inner);
  EXPECT_TRUE(inner->internal);
  EXPECT_EQ(inner->type, "topic");
  EXPECT_EQ(bindings_from("x"), 2u);
  EXPECT_EQ(bindings_from("amq.topic"), 0u);
  auto got = get("q", 5);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].body, "kept");
  EXPECT_TRUE(declare(queue("q", retry_arguments())));
}

TEST_F(Persistence, WhatWasDeletedStaysAway) {
  declare_a_little_of_everything();
  ASSERT_TRUE(unbind({"x", "inner", "k", false, {}}));
  ASSERT_TRUE(delete_queue("q"));
  ASSERT_TRUE(delete_exchange("inner"));
  ASSERT_TRUE(ask<Answered<void>>([&](auto a) { management().delete_policy("/", "p", false, a); }));
  restart();
  EXPECT_FALSE(management().queue("/", "q"));
  EXPECT_FALSE(management().exchange("/", "inner"));
  EXPECT_EQ(bindings_from("x"), 0u);
  EXPECT_EQ(management().policies({}, false).size(), 0u);
  EXPECT_EQ(management().policies({}, true).size(), 1u);
  // The name comes back as another queue, without what the first one held.
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_TRUE(get("q").empty());
}

TEST_F(Persistence, UnbindWithArgumentsInAnotherOrderAndWidthIsDurable) {
  declare_a_little_of_everything();
  ASSERT_TRUE(unbind({"x", "q", "", true,
                      arguments({{"b", FieldValue::text("two")},
                                 {"a", FieldValue::int64(1)},
                                 {"x-match", FieldValue::text("all")}})}));
  restart();
  EXPECT_EQ(bindings_from("x"), 1u);
}

TEST_F(Persistence, ABrokerDoesNotStartEmptyOverData) {
  ASSERT_TRUE(declare(queue("q")));
  ASSERT_TRUE(*publish("", "q", "m"));
  stop();
  std::filesystem::path data = dir_ + "/data";
  ASSERT_GT(std::filesystem::remove_all(data / "definitions-and-index"), 0u);
  ASSERT_FALSE(std::filesystem::is_empty(data / "queues"));
  std::string why = try_start();
  EXPECT_NE(why.find("refusing to start"), std::string::npos) << why;
  if (broker_) end();
}

TEST_F(Persistence, ExportedDefinitionsAreRabbitMqsShape) {
  declare_a_little_of_everything();
  json dump = exported();
  EXPECT_EQ(dump["users"][0]["name"], "guest");
  EXPECT_EQ(dump["vhosts"][0]["name"], "/");
  EXPECT_EQ(dump["permissions"][0]["configure"], ".*");
  EXPECT_EQ(dump["exchanges"].size(), 2u);
  ASSERT_EQ(dump["queues"].size(),
            1u);  // neither the transient one nor the companion (retry-spec 21)
  EXPECT_EQ(dump["queues"][0]["arguments"], json({{"x-delayed-retry-min", 500},
                                                  {"x-delivery-limit", 5},
                                                  {"x-dead-letter-exchange", ""}}));
  EXPECT_EQ(dump["bindings"].size(), 2u);
  EXPECT_EQ(dump["policies"][0]["definition"], json({{"max-length", 7}}));
  EXPECT_EQ(dump["operator_policies"][0]["name"], "o");
  EXPECT_FALSE(exported("/")["queues"][0].contains("vhost"));
}

TEST_F(Persistence, DefinitionsGoRound) {
  declare_a_little_of_everything();
  json dump = exported();
  ASSERT_TRUE(import(dump));
  EXPECT_EQ(exported(), dump);
  ASSERT_TRUE(delete_queue("q"));
  ASSERT_TRUE(delete_exchange("x"));
  ASSERT_TRUE(delete_exchange("inner"));
  auto imported = import(dump);
  ASSERT_TRUE(imported) << imported.error().text;
  EXPECT_EQ(imported->skipped, std::vector<std::string>{});
  EXPECT_EQ(exported(), dump);
  EXPECT_TRUE(declare(queue("q", retry_arguments())));
  restart();
  EXPECT_EQ(exported(), dump);
}

TEST_F(Persistence, AnArgumentAbove63BitsGoesRound) {
  const QueueDeclare declared = queue("q", FieldTable{{{"x-delayed-retry-min", FieldValue{'L', -1}},
                                                       {"own", FieldValue{'L', -2}}}});
  ASSERT_TRUE(declare(declared));
  const json dump = exported();
  EXPECT_EQ(dump["queues"][0]["arguments"]["x-delayed-retry-min"], UINT64_MAX);
  ASSERT_TRUE(delete_queue("q"));
  auto imported = import(dump);
  ASSERT_TRUE(imported) << imported.error().text;
  EXPECT_EQ(exported(), dump);
  EXPECT_TRUE(declare(declared));
}

TEST_F(Persistence, Rule21_ImportLeavesCompanionsOutAndNamesThem) {
  auto report =
      import({{"queues", json::array({{{"name", "amq.retry-q"}, {"vhost", "/"}, {"durable", true}},
                                      {{"name", "q"}, {"vhost", "/"}, {"durable", true}}})}});
  ASSERT_TRUE(report);
  ASSERT_EQ(report->skipped.size(), 1u);
  EXPECT_NE(report->skipped[0].find("amq.retry-q"), std::string::npos);
  EXPECT_TRUE(management().queue("/", "q"));
  EXPECT_FALSE(management().queue("/", "amq.retry-q"));
}

TEST_F(Persistence, Rule7_ImportedPoliciesLoseTheirRetryKeysAndTheAnswerNamesThem) {
  auto report =
      import({{"policies",
               json::array({{{"name", "p"},
                             {"vhost", "/"},
                             {"pattern", ".*"},
                             {"definition", {{"delayed-retry-min", 5}, {"max-length", 3}}}}})}});
  ASSERT_TRUE(report);
  ASSERT_EQ(report->skipped.size(), 1u);
  EXPECT_NE(report->skipped[0].find("delayed-retry-min"), std::string::npos);
  auto policies = management().policies({}, false);
  ASSERT_EQ(policies.size(), 1u);
  EXPECT_EQ(policies[0].definition, arguments({{"max-length", FieldValue::int32(3)}}));
}

TEST_F(Persistence, AMalformedImportDoesNothing) {
  EXPECT_EQ(
      ask<Answered<ImportReport>>([&](auto a) { management().import_definitions("", "{", a); })
          .error()
          .code,
      400);
  EXPECT_EQ(import({{"queues", json::array({{{"name", "q"}, {"vhost", "/"}}, 5})}}).error().code,
            400);
  EXPECT_FALSE(management().queue("/", "q"));
}

TEST_F(Persistence, AVhostGoesWithEverythingInIt) {
  ASSERT_TRUE(*ask<Answered<bool>>([&](auto a) {
    management().put_vhost(VhostInfo{.name = "v", .description = "for tests"}, a);
  }));
  ASSERT_TRUE(ask<Answered<bool>>([&](auto a) {
    management().put_permission({"guest", "v", ".*", ".*", ".*"}, a);
  }));
  ASSERT_TRUE(
      ask<Answered<bool>>([&](auto a) { management().declare_queue(guest, "v", queue("q"), a); }));
  restart();
  ASSERT_TRUE(management().queue("v", "q"));
  ASSERT_TRUE(ask<Answered<void>>([&](auto a) { management().delete_vhost("v", a); }));
  EXPECT_FALSE(management().queue("v", "q"));
  restart();
  EXPECT_EQ(management().vhosts().size(), 1u);
  EXPECT_EQ(management().permissions().size(), 1u);
}

}  // namespace
}  // namespace tarry
