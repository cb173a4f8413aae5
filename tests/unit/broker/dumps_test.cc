// Definitions of other brokers: what is in them comes over, and what cannot be honoured is named.
#include <nlohmann/json.hpp>

#include "storage/definition_store.h"
#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

using nlohmann::json;

class Dumps : public BrokerTest {
 protected:
  std::vector<std::string> import(const json& dump, const std::string& vhost = "") {
    auto report = ask<Answered<ImportReport>>(
        [&](auto a) { management().import_definitions(vhost, dump.dump(), a); });
    EXPECT_TRUE(report) << report.error().text;
    return report ? report->skipped : std::vector<std::string>();
  }
  json exported(const std::string& vhost = "") {
    auto text = management().export_definitions(vhost);
    return text ? json::parse(*text) : json();
  }
  static bool names(const std::vector<std::string>& lines, std::string_view word) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(word) != std::string::npos;
    });
  }
};

TEST_F(Dumps, OneOfRabbitMq3ComesOver) {
  const auto skipped = import(json::parse(R"({
    "rabbit_version": "3.10.8", "rabbitmq_version": "3.10.8", "product_name": "RabbitMQ", "product_version": "3.10.8",
    "users": [{"name": "ops", "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
               "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ["administrator"], "limits": {"max-channels": 9}},
              {"name": "old", "password_hash": "x", "hashing_algorithm": "rabbit_password_hashing_md5", "tags": ""}],
    "vhosts": [{"name": "/"}, {"name": "v", "description": "d", "tags": ["t"],
                "metadata": {"description": "d", "tags": ["t"]}}],
    "permissions": [{"user": "ops", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "ops", "vhost": "v", "exchange": "amq.topic", "write": "^a", "read": "^b"}],
    "parameters": [{"value": {"max-length": 5}, "vhost": "v", "component": "vhost-limits", "name": "limits"},
                   {"value": {"max-queues": 50}, "vhost": "v", "component": "vhost-limits", "name": "limits"},
                   {"value": {"pattern": "^q", "definition": {"max-length": 10}, "priority": 1, "apply-to": "queues"},
                    "vhost": "v", "component": "operator_policy", "name": "op"},
                   {"value": {"src-uri": "amqp://"}, "vhost": "v", "component": "shovel", "name": "s"},
                   {"value": {"a": 1}, "vhost": "v", "component": "plugin-of-ours", "name": "n"}],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@x"}, {"name": "internal_cluster_id", "value": "y"}],
    "policies": [{"vhost": "v", "name": "ha", "pattern": ".*", "apply-to": "all", "priority": 0,
                  "definition": {"ha-mode": "all", "max-length": 100}}],
    "queues": [{"name": "q", "vhost": "v", "durable": true, "auto_delete": false,
                "arguments": {"x-queue-type": "classic", "x-queue-mode": "lazy"}},
               {"name": "s", "vhost": "v", "durable": true, "auto_delete": false, "arguments": {"x-queue-type": "stream"}}],
    "exchanges": [{"name": "x", "vhost": "v", "type": "topic", "durable": true, "auto_delete": false, "internal": false, "arguments": {}},
                  {"name": "later", "vhost": "v", "type": "x-delayed-message", "durable": true, "auto_delete": false,
                   "internal": false, "arguments": {"x-delayed-type": "direct"}}],
    "bindings": [{"source": "x", "vhost": "v", "destination": "q", "destination_type": "queue", "routing_key": "k", "arguments": {}},
                 {"source": "x", "vhost": "v", "destination": "s", "destination_type": "queue", "routing_key": "k", "arguments": {}}]
  })"));
  EXPECT_TRUE(management().user("ops"));
  EXPECT_EQ(management().user("ops")->limits.at("max-channels"), 9);
  EXPECT_EQ(management().topic_permissions().size(), 1u);
  EXPECT_EQ(management().policies({"v"}, true)[0].definition,
            arguments({{"max-length", FieldValue::int32(10)}}));
  EXPECT_EQ(management().queue("v", "q")->operator_policy, "op");
  EXPECT_EQ(management().queue("v", "q")->policy, "ha");
  for (const VhostInfo& v : management().vhosts()) {
    if (v.name != "v") continue;
    EXPECT_EQ(v.limits.at("max-queues"), 50);
    EXPECT_EQ(v.tags, std::vector<std::string>{"t"});
  }
  for (const char* word :
       {"user 'old'", "queue 's'", "ha-mode", "x-queue-mode", "component 'shovel'",
        "component 'plugin-of-ours'", "binding from 'x' to 's'", "max-length"}) {
    EXPECT_TRUE(names(skipped, word)) << word;
  }
  EXPECT_EQ(skipped.size(), 8u);
  EXPECT_EQ(management().parameters().size(), 2u) << "the two global ones";
}

TEST_F(Dumps, ASectionThatNothingIsMadeOfIsNamed) {
  const json dump =
      json::parse(R"({"rabbit_version": "4.1.0", "policies": [], "strange": [1], "empty": [],
    "metadata": {"description": "d"}, "tags": ["t"],
    "users": [{"name": "u", "password_hash": "", "tags": "administrator"}]})");
  const auto skipped = import(dump);
  EXPECT_EQ(skipped.size(), 1u);
  EXPECT_TRUE(names(skipped, "'strange' left out"));
  const auto into_one = import(dump, "/");
  EXPECT_EQ(into_one.size(), 3u);
  EXPECT_TRUE(names(into_one, "description of vhost '/' left out"));
  EXPECT_TRUE(names(into_one, "'strange' left out"));
  EXPECT_TRUE(names(into_one, "'users' left out"));
}

TEST_F(Dumps, EachEntryOfADumpOfAllVhostsSaysInWhichItBelongs) {
  const std::string text = R"({"queues": [{"name": "q", "durable": true}]})";
  auto of_all =
      ask<Answered<ImportReport>>([&](auto a) { management().import_definitions("", text, a); });
  ASSERT_FALSE(of_all);
  EXPECT_EQ(of_all.error().code, 400);
  EXPECT_EQ(of_all.error().text, "queues: 'q' has no vhost: expected its name as a string");
  EXPECT_TRUE(
      ask<Answered<ImportReport>>([&](auto a) { management().import_definitions("/", text, a); }));
  EXPECT_TRUE(management().queue("/", "q"));
}

/// More queues than there are ids at hand: some wait for the disk, and what is bound to them must
/// not be left out.
TEST_F(Dumps, BindingsComeOverAlsoWhereAQueueHadToWaitForItsId) {
  stop();
  queue_id_block = 4;
  start();
  json dump{{"queues", json::array()}, {"bindings", json::array()}};
  for (int i = 0; i < 30; ++i) {
    const std::string name = "q" + std::to_string(i);
    dump["queues"].push_back({{"name", name}, {"vhost", "/"}, {"durable", true}});
    dump["bindings"].push_back({{"source", "amq.fanout"},
                                {"vhost", "/"},
                                {"destination", name},
                                {"destination_type", "queue"},
                                {"routing_key", ""},
                                {"arguments", json::object()}});
  }
  EXPECT_TRUE(import(dump).empty());
  EXPECT_EQ(exported()["bindings"].size(), 30u);
  queue_id_block = 10'000;
}

TEST_F(Dumps, AQueueIsNotLostForAnArgumentWithoutEffect) {
  const auto skipped = import(json::parse(R"({
    "queues": [{"name": "a", "vhost": "/", "durable": true, "auto_delete": false,
                "arguments": {"x-max-age": "1D", "x-queue-mode": "fast", "x-max-length": 5}},
               {"name": "b", "vhost": "/", "durable": true, "auto_delete": false,
                "arguments": {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3}}]
  })"));
  ASSERT_TRUE(management().queue("/", "a"));
  EXPECT_EQ(management().queue("/", "a")->arguments,
            arguments({{"x-max-length", FieldValue::int32(5)}}));
  EXPECT_TRUE(management().queue("/", "b"));
  EXPECT_TRUE(names(skipped,
                    "queue 'a' in vhost '/': argument x-max-age left out: not allowed of queue "
                    "type rabbit_classic_queue"));
  EXPECT_TRUE(names(skipped,
                    "argument x-queue-mode left out: not allowed: expected default or lazy, got "
                    "the value 'fast'"));
  EXPECT_TRUE(
      names(skipped, "argument x-quorum-initial-group-size is kept and has no effect here"));
  EXPECT_EQ(skipped.size(), 3u);
}

TEST_F(Dumps, OneOfRabbitMq4ComesOver) {
  const auto skipped = import(json::parse(R"({
    "rabbitmq_version": "4.1.0", "original_vhost_name": "/",
    "vhosts": [{"name": "q", "description": "", "tags": [], "default_queue_type": "quorum", "tracing": false,
                "metadata": {"description": "", "tags": [], "default_queue_type": "quorum"}, "limits": []}],
    "users": [{"name": "u", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha512", "tags": ["management"], "limits": {}}],
    "queues": [{"name": "r", "vhost": "q", "durable": true, "auto_delete": false, "type": "quorum",
                "arguments": {"x-queue-type": "quorum", "x-delayed-retry-type": "all", "x-delayed-retry-min": 500,
                              "x-delayed-retry-max": 9000, "x-delivery-limit": 6}}]
  })"));
  EXPECT_EQ(skipped, std::vector<std::string>{});
  EXPECT_TRUE(management().queue("q", "r")->retry_enabled);
  EXPECT_EQ(management().queue("q", "r")->type, "quorum");
}

TEST_F(Dumps, OneOfLavinMqComesOver) {
  const auto skipped = import(json::parse(R"({
    "lavinmq_version": "2.9.1", "rabbit_version": "3.12.0",
    "users": [{"name": "guest", "password_hash": "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+",
               "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": "administrator"},
              {"name": "b", "password_hash": "$2a$04$abcdefghijklmnopqrstuuZ9xAQYfUX5DPlUEVRRKM0dtWTxmkTVi",
               "hashing_algorithm": "Bcrypt", "tags": "monitoring,management"}],
    "vhosts": [{"name": "/", "dir": "/var/lib/lavinmq/x"}],
    "queues": [{"name": "q", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {"x-delayed-retry-min": 500}},
               {"name": "amq.retry-q", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}],
    "exchanges": [{"name": "d", "vhost": "/", "type": "direct", "durable": true, "auto_delete": false, "internal": false,
                   "delayed": true, "arguments": {}}],
    "bindings": [], "permissions": [], "policies": [], "parameters": [], "global_parameters": []
  })"));
  EXPECT_EQ(management().user("b")->hashing_algorithm, "bcrypt");
  EXPECT_EQ(management().user("b")->tags, (std::vector<std::string>{"monitoring", "management"}));
  EXPECT_TRUE(management().queue("/", "q")->retry_enabled);
  EXPECT_TRUE(names(skipped, "amq.retry-q"));
  EXPECT_EQ(skipped.size(), 1u);
  // Its exchange that delays is one here, too.
  EXPECT_EQ(management().exchange("/", "d")->arguments,
            arguments({{"x-delayed-exchange", FieldValue::boolean(true)}}));
  EXPECT_TRUE(management().queue("/", "amq.delayed-d"));
}

TEST_F(Dumps, ARetryOverrideThatCannotBeHonouredIsNamed) {
  const json dump = json::parse(R"({"queues": [
      {"name": "q", "vhost": "/", "durable": true, "arguments": {"x-delayed-retry-min": 5}, "retry_override": {"limit": 2}}]})");
  EXPECT_EQ(import(dump), std::vector<std::string>{});
  EXPECT_EQ(import(dump), std::vector<std::string>{}) << "the same again";
  EXPECT_EQ(management().queue_retry("/", "q")->effective_limit, 2u);
  json other = dump;
  other["queues"][0]["retry_override"] = {{"limit", 3}};
  EXPECT_TRUE(names(import(other),
                    "queue 'q' in vhost '/': retry_override left out: the queue was there before"));
  EXPECT_EQ(management().queue_retry("/", "q")->effective_limit, 2u);
  other["queues"][0]["name"] = "bad";
  other["queues"][0]["retry_override"] = {{"limit", "many"}};
  EXPECT_TRUE(
      names(import(other),
            "queue 'bad' in vhost '/': retry_override left out: limit: it was string \"many\""));
  other["queues"][0]["name"] = "plain";
  other["queues"][0]["arguments"] = json::object();
  other["queues"][0]["retry_override"] = {{"limit", 3}};
  EXPECT_TRUE(names(import(other), "queue 'plain' in vhost '/' has no retries"));
  EXPECT_TRUE(management().queue("/", "plain"));
}

TEST_F(Dumps, ExportThenImportIntoAnEmptyBrokerGivesTheSame) {
  const json everything = json::parse(R"({
    "vhosts": [{"name": "v", "description": "d", "tags": ["a", "b"], "default_queue_type": "quorum", "protected_from_deletion": true}],
    "users": [{"name": "u", "password": "pw", "tags": ["monitoring"], "limits": {"max-connections": 3}}],
    "permissions": [{"user": "u", "vhost": "v", "configure": "a", "write": "b", "read": "c"}],
    "topic_permissions": [{"user": "u", "vhost": "v", "exchange": "amq.topic", "write": "^{username}", "read": ".*"}],
    "parameters": [{"component": "vhost-limits", "vhost": "v", "name": "limits", "value": {"max-queues": 10}}],
    "global_parameters": [{"name": "g", "value": {"deep": {"er": true}}}],
    "policies": [{"vhost": "v", "name": "p", "pattern": ".", "apply-to": "queues", "priority": 2, "definition": {"max-length": 3}}],
    "operator_policies": [{"vhost": "v", "name": "o", "pattern": ".", "apply-to": "queues", "priority": 0, "definition": {"expires": 300000}}],
    "exchanges": [{"name": "x", "vhost": "v", "type": "headers", "durable": true, "auto_delete": false, "internal": true,
                   "arguments": {"alternate-exchange": "amq.fanout"}}],
    "queues": [{"name": "q", "vhost": "v", "durable": true, "auto_delete": false,
                "arguments": {"x-queue-type": "classic", "x-delayed-retry-min": 5},
                "retry_override": {"min": 7, "multiplier": 2, "max": 900, "limit": 0, "jitter": 10, "max_age": 60000}}],
    "bindings": [{"source": "x", "vhost": "v", "destination": "q", "destination_type": "queue", "routing_key": "",
                  "arguments": {"x-match": "any", "h": "1"}},
                 {"source": "amq.topic", "vhost": "v", "destination": "x", "destination_type": "exchange", "routing_key": "#", "arguments": {}}]
  })");
  EXPECT_EQ(import(everything), std::vector<std::string>{});
  const json first = exported();
  EXPECT_EQ(first["queues"][0]["retry_override"], everything["queues"][0]["retry_override"]);
  EXPECT_EQ(import(first), std::vector<std::string>{});
  EXPECT_EQ(exported(), first) << "not idempotent";
  stop();
  std::filesystem::remove_all(dir_ + "/data");
  start();
  EXPECT_EQ(import(first), std::vector<std::string>{});
  json second = exported();
  EXPECT_EQ(second, first);
  const json one = exported("v");
  EXPECT_FALSE(one["queues"][0].contains("vhost"));
  VhostInfo copy;
  copy.name = "copy";
  ASSERT_TRUE(ask<Answered<bool>>([&](auto a) { management().put_vhost(copy, a); }));
  const auto of_the_vhost = import(one, "copy");
  EXPECT_EQ(of_the_vhost.size(), 3u);
  for (const char* what : {"description of vhost 'copy'", "tags of vhost 'copy'",
                           "default queue type of vhost 'copy'"})
    EXPECT_TRUE(names(of_the_vhost, what)) << what;
  EXPECT_EQ(import(one, "v"), std::vector<std::string>{});
  json again = exported("copy");
  again["description"] = one["description"], again["metadata"] = one["metadata"];
  EXPECT_EQ(again, one);
}

// Exchanges that are always there are no news; another one of a reserved name cannot be made.
TEST_F(Dumps, AnExchangeWithAReservedNameIsNamed) {
  json dump = {{"exchanges", json::array()}};
  for (const char* name : {"", "amq.default", "amq.direct", "amq.ours", "ours"}) {
    dump["exchanges"].push_back({{"name", name},
                                 {"vhost", "/"},
                                 {"type", "direct"},
                                 {"durable", true},
                                 {"auto_delete", false},
                                 {"internal", false},
                                 {"arguments", json::object()}});
  }
  const auto skipped = import(dump);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_TRUE(names(skipped, "exchange 'amq.ours' in vhost '/'"));
  EXPECT_TRUE(management().exchange("/", "ours"));
}

}  // namespace
}  // namespace tarry
