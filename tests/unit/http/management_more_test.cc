// What tools of RabbitMQ need besides the plain resources: history, limits, topic permissions,
// parameters, uploads, health, metrics, logs, the API's description.
#include <gtest/gtest.h>

#include <set>

#include "held_sink.h"
#include "http/api.h"
#include "http/controllers/shovel_move.h"
#include "http/metrics_series.h"
#include "http/openapi.h"
#include "management_world.h"
#include "tarrymq/runtime/log.h"

namespace tarry::http_test {
namespace {

using Json = nlohmann::json;

class ManagementMore : public ManagementWorld {
 protected:
  ManagementMore() {
    broker.overview_info.version = "9.9.9";
    settings.sample_interval_ms = 20;
  }
};

// -- History

TEST_F(ManagementMore, RatesCarrySamplesWhenARangeIsAskedFor) {
  broker.overview_info.totals.published = 40;
  broker.overview_info.totals.ready = 7;
  const Json body =
      get("/api/overview?msg_rates_age=60&msg_rates_incr=5&lengths_age=30&lengths_incr=10").json();
  const Json& publish = body["message_stats"]["publish_details"];
  ASSERT_EQ(publish["samples"].size(), 13u);
  EXPECT_GT(publish["samples"][0]["timestamp"], publish["samples"][12]["timestamp"]);
  EXPECT_TRUE(publish.contains("avg") && publish.contains("avg_rate") && publish.contains("rate"));
  EXPECT_EQ(body["queue_totals"]["messages_ready_details"]["samples"].size(), 4u);
  EXPECT_FALSE(get("/api/overview").json()["message_stats"]["publish_details"].contains("samples"));
}

TEST_F(ManagementMore, RangesThatMakeNoSenseAre400) {
  for (const char* query :
       {"lengths_age=60", "lengths_age=x&lengths_incr=5", "msg_rates_age=0&msg_rates_incr=5",
        "data_rates_age=86400&data_rates_incr=1"}) {
    for (const char* path : {"/api/overview", "/api/queues", "/api/connections", "/api/exchanges",
                             "/api/vhosts", "/api/nodes"}) {
      EXPECT_EQ(get(std::string(path) + "?" + query).status, 400) << path << "?" << query;
    }
  }
}

TEST_F(ManagementMore, ACompanionShowsTheHistoryOfWhatWaits) {
  QueueInfo queue = make_queue("/", "q"), companion = make_queue("/", "amq.retry-q", 5);
  queue.id = companion.id = 9;
  queue.numbers.delayed = 5;
  companion.internal = true;
  companion.owner = "q";
  broker.queue_list = {queue, companion};
  const Json body = get("/api/queues/%2F/amq.retry-q?lengths_age=5&lengths_incr=5").json();
  EXPECT_EQ(body["messages"], 5);
  EXPECT_EQ(body["messages_details"]["samples"][0]["sample"], 5);
  EXPECT_EQ(get("/api/queues/%2F/q?lengths_age=5&lengths_incr=5")
                .json()["messages_delayed_details"]["samples"][0]["sample"],
            5);
}

TEST_F(ManagementMore, QueuesWithoutStatsAreShort) {
  broker.queue_list = {make_queue("/", "q", 3)};
  const Json plain = get("/api/queues?disable_stats=true").json()[0];
  EXPECT_FALSE(plain.contains("messages") || plain.contains("message_stats"));
  EXPECT_EQ(plain["name"], "q");
  const Json totals = get("/api/queues?disable_stats=true&enable_queue_totals=true").json()[0];
  EXPECT_EQ(totals["messages_ready"], 3);
  EXPECT_FALSE(totals.contains("message_stats"));
}

TEST_F(ManagementMore, SortingByANestedRateMakesThatRateAlone) {
  QueueInfo slow = make_queue("/", "slow"), fast = make_queue("/", "fast");
  slow.id = 1, fast.id = 2;
  slow.numbers.published = 1, fast.numbers.published = 2;
  broker.queue_list = {slow, fast};
  const Json list =
      get("/api/"
          "queues?sort=message_stats.publish&sort_reverse=true&columns=name,message_stats.publish")
          .json();
  EXPECT_EQ(list, (Json::array({{{"name", "fast"}, {"message_stats", {{"publish", 2}}}},
                                {{"name", "slow"}, {"message_stats", {{"publish", 1}}}}})));
}

// -- Limits, topic permissions, parameters, vhosts

TEST_F(ManagementMore, LimitsAreSetListedAndTakenAway) {
  broker.vhost_list[0].limits = {{"max-queues", 3}};
  EXPECT_EQ(get("/api/vhost-limits").json(),
            (Json::array({{{"vhost", "/"}, {"value", {{"max-queues", 3}}}}})));
  EXPECT_EQ(get("/api/vhost-limits/tenant").json(), Json::array());
  EXPECT_EQ(client->call("PUT", "/api/vhost-limits/%2F/max-connections", R"({"value": 10})").status,
            204);
  EXPECT_EQ(
      client->call("PUT", "/api/vhost-limits/%2F/max-connections", R"({"value": "11"})").status,
      204);
  EXPECT_EQ(client->call("DELETE", "/api/user-limits/guest/max-channels").status, 204);
  ASSERT_EQ(broker.put_limits.size(), 3u);
  EXPECT_EQ(broker.put_limits[1].value, 11);
  EXPECT_FALSE(broker.put_limits[2].value);
  EXPECT_EQ(
      client->call("PUT", "/api/user-limits/guest/max-channels", R"({"value": "many"})").status,
      400);
  EXPECT_EQ(client->call("PUT", "/api/user-limits/guest/max-channels", "{}").status, 400);
  EXPECT_EQ(get("/api/user-limits/nobody-there").status, 404);
  EXPECT_EQ(client->call("GET", "/api/user-limits", "", TestClient::kWatcher).status, 403);
}

TEST_F(ManagementMore, TopicPermissionsByVhostUserAndExchange) {
  EXPECT_EQ(client
                ->call("PUT", "/api/topic-permissions/%2F/guest",
                       R"({"exchange":"amq.topic","write":"a","read":"b"})")
                .status,
            201);
  const Json mine = Json::array({{{"user", "guest"},
                                  {"vhost", "/"},
                                  {"exchange", "amq.topic"},
                                  {"write", "a"},
                                  {"read", "b"}}});
  for (const char* path :
       {"/api/topic-permissions", "/api/topic-permissions/%2F", "/api/topic-permissions/%2F/guest",
        "/api/vhosts/%2F/topic-permissions", "/api/users/guest/topic-permissions"}) {
    EXPECT_EQ(get(path).json(), mine) << path;
  }
  EXPECT_EQ(
      client->call("PUT", "/api/topic-permissions/%2F/guest", R"({"write":"a","read":"b"})").status,
      400);
  EXPECT_EQ(client->call("DELETE", "/api/topic-permissions/%2F/guest/amq.topic").status, 204);
  EXPECT_EQ(broker.deleted_topic_exchange, "amq.topic");
}

TEST_F(ManagementMore, AParameterNeedsAComponentThatTakesIt) {
  const Reply unknown = client->call("PUT", "/api/parameters/mine/%2F/n", R"({"value": {"a": 1}})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(unknown.json()["reason"], "component 'mine' not found");
  EXPECT_EQ(client->call("PUT", "/api/parameters/mine/none/n", R"({"value": 1})").status, 404);
  EXPECT_EQ(client->call("PUT", "/api/parameters/shovel/%2F/n", R"({"value": {}})").status, 400);
  EXPECT_EQ(client->call("PUT", "/api/parameters/mine/%2F/n", "{}").status, 400);
  EXPECT_TRUE(broker.parameter_list.empty());
  for (const char* other : {"vhost-limits", "policy", "operator_policy"}) {
    const Reply reply = client->call("PUT", std::string("/api/parameters/") + other + "/%2F/n",
                                     R"({"value": {"max-queues": 1}})");
    EXPECT_EQ(reply.status, 400) << other;
    EXPECT_NE(reply.json()["reason"].get<std::string>().find("PUT /api/"), std::string::npos);
  }
  EXPECT_EQ(client->call("PUT", "/api/global-parameters/g", R"({"value": "v"})").status, 201);
  EXPECT_EQ(client->call("PUT", "/api/cluster-name", R"({"name": "night"})").status, 204);
  EXPECT_EQ(get("/api/cluster-name").json()["name"], "night");
  EXPECT_EQ(get("/api/overview").json()["cluster_name"], "night");
}

TEST_F(ManagementMore, AnOldVersionsParametersAreShownAndMayBeDeleted) {
  broker.parameter_list = {{"mine", "/", "n", R"({"a": 1})"}};
  EXPECT_EQ(get("/api/parameters/mine/%2F/n").json()["value"], (Json{{"a", 1}}));
  EXPECT_EQ(client->call("DELETE", "/api/parameters/mine/%2F/n").status, 204);
  EXPECT_EQ(get("/api/parameters/mine/%2F/n").status, 404);
}

TEST_F(ManagementMore, AVhostKeepsWhatIsNotSaid) {
  broker.vhost_list[1].description = "old";
  broker.vhost_list[1].tags = {"x"};
  EXPECT_EQ(client->call("PUT", "/api/vhosts/tenant", R"({"default_queue_type": "quorum"})").status,
            201);
  EXPECT_EQ(broker.put_vhost_info.description, "old");
  EXPECT_EQ(broker.put_vhost_info.default_queue_type, "quorum");
  EXPECT_EQ(client->call("PUT", "/api/vhosts/tenant", R"({"tags": "a, b"})").status, 201);
  EXPECT_EQ(broker.put_vhost_info.tags, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(client->call("POST", "/api/vhosts/tenant/deletion/protection").status, 204);
  EXPECT_TRUE(broker.put_vhost_info.protected_from_deletion);
  broker.next_error = PeerError::soft(412, "protected");
  EXPECT_EQ(client->call("DELETE", "/api/vhosts/tenant").status, 412);
}

// -- Definitions

TEST_F(ManagementMore, AFormsFileIsImported) {
  const std::string form =
      "--X1\r\nContent-Disposition: form-data; name=\"vhost\"\r\n\r\nignored\r\n--X1\r\n"
      "Content-Disposition: form-data; name=\"file\"; filename=\"d.json\"\r\n\r\n"
      "{\"queues\":\r\n []}\r\n--X1--\r\n";
  const auto post = [&](std::string_view path, const std::string& body, std::string_view type) {
    return client
        ->call("POST", path, body, TestClient::kGuest,
               "Content-Type: " + std::string(type) + "\r\n")
        .status;
  };
  for (const char* path : {"/api/definitions", "/api/definitions/upload", "/api/definitions/%2F",
                           "/api/definitions/%2F/upload"}) {
    EXPECT_EQ(post(path, form, "multipart/form-data; boundary=X1"), 204) << path;
    EXPECT_EQ(broker.imported, "{\"queues\":\r\n []}") << path;
  }
  EXPECT_EQ(post("/api/definitions", form, "multipart/form-data; boundary=\"X1\""), 204);
  EXPECT_EQ(post("/api/definitions", form, "multipart/form-data; boundary=X2"), 400);
  EXPECT_EQ(post("/api/definitions", form, "multipart/form-data"), 400);
  EXPECT_EQ(post("/api/definitions/none/upload", form, "multipart/form-data; boundary=X1"), 404);
}

// -- Health, metrics, logs

TEST_F(ManagementMore, ALateRetryFailsItsCheck) {
  QueueInfo companion = make_queue("/", "amq.retry-q", 1);
  companion.internal = true;
  companion.owner = "q";
  companion.numbers.next_due_ms = 900'000;
  companion.numbers.owed_since_ms = 1'000'000;
  broker.queue_list = {companion};
  broker.overview_info.now_ms = 1'005'000;
  EXPECT_EQ(get("/api/health/checks/retries-on-time/5000").status, 200);
  const Reply late = get("/api/health/checks/retries-on-time/4999");
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.json()["late"],
            (Json::array({{{"vhost", "/"}, {"queue", "q"}, {"late_ms", 5000}}})));
  EXPECT_NE(late.json()["reason"].get<std::string>().find("5000 ms"), std::string::npos);
  EXPECT_EQ(get("/api/health/checks/retries-on-time/soon").status, 400);
  // Due, but what came back before is taken by nobody, and there is no room.
  broker.queue_list[0].numbers.owed_since_ms = 0;
  EXPECT_EQ(get("/api/health/checks/retries-on-time/0").status, 200);
}

TEST_F(ManagementMore, AlarmsFailTheirChecks) {
  broker.overview_info.listeners = {{"amqp", "127.0.0.1", 5672}};
  EXPECT_EQ(get("/api/health/checks/ready-to-serve-clients").status, 200);
  broker.overview_info.memory_alarm = true;
  EXPECT_EQ(get("/api/health/checks/alarms").json()["alarms"][0]["resource"], "memory");
  EXPECT_EQ(get("/api/health/checks/ready-to-serve-clients").status, 503);
}

TEST_F(ManagementMore, MetricsTellSumsAndOnRequestEachQueue) {
  QueueInfo queue = make_queue("/", "a\"b\\c", 4);
  queue.retry_enabled = true;
  queue.numbers.dead_lettered = {{"delivery_limit", 2}};
  broker.queue_list = {queue};
  broker.overview_info.totals = queue.numbers;
  const Reply sums = get("/metrics");
  EXPECT_EQ(sums.headers.at("content-type").substr(0, 10), "text/plain");
  for (const char* line :
       {"tarrymq_queue_messages_ready 4", "rabbitmq_queue_messages_ready 4",
        "tarrymq_dead_lettered_total{reason=\"delivery_limit\"} 2",
        "rabbitmq_build_info{rabbitmq_version=\"4.0.0\"",  // what dashboards can parse
        "tarrymq_retries_scheduled_total 0", "tarrymq_dropped_total{reason=\"expired\"} 0",
        "# TYPE tarrymq_retries_postponed_total counter"}) {
    EXPECT_NE(sums.body.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(sums.body.find("vhost="), std::string::npos);
  const std::string each = get("/metrics/per-object").body;
  EXPECT_NE(each.find("tarrymq_queue_messages_ready{vhost=\"/\",queue=\"a\\\"b\\\\c\"} 4"),
            std::string::npos)
      << each;
  const std::string other = get("/metrics/detailed?family=queue_metrics&vhost=tenant").body;
  EXPECT_EQ(other.find("queue="), std::string::npos);
  EXPECT_EQ(client->call("GET", "/metrics", "", TestClient::kTenant).status, 403);
}

// The choice of families and vhosts, with what RabbitMQ calls them.
TEST_F(ManagementMore, DetailedMetricsAreOfTheChosenFamiliesAlone) {
  broker.queue_list = {make_queue("/", "q", 3), make_queue("tenant", "t", 1)};
  const std::string queues = get("/metrics/detailed?family=queue_coarse_metrics&vhost=%2F").body;
  EXPECT_NE(queues.find("rabbitmq_detailed_queue_messages_ready{vhost=\"/\",queue=\"q\"} 3\n"),
            std::string::npos);
  EXPECT_EQ(queues.find("tenant"), std::string::npos);
  EXPECT_EQ(queues.find("exchange"), std::string::npos);
  const std::string exchanges = get("/metrics/detailed?family=exchange_metrics").body;
  EXPECT_NE(exchanges.find("# TYPE rabbitmq_detailed_exchange_messages_published_in_total counter\n"
                           "rabbitmq_detailed_exchange_messages_published_in_total{vhost=\"/\","
                           "exchange=\"\"} 0\n"),
            std::string::npos)
      << exchanges;
  EXPECT_EQ(get("/metrics/detailed").body, "");
}

// Clients with typed answers (rabbitmqadmin 2) want every one of these.
TEST_F(ManagementMore, WhatTypedClientsWantIsThere) {
  const Json memory = get("/api/nodes/tarrymq@test/memory").json()["memory"];
  for (const char* part : {"connection_readers", "quorum_queue_procs", "stream_queue_procs", "code",
                           "metadata_store", "reserved_unallocated", "mgmt_db", "binary"})
    EXPECT_TRUE(memory[part].is_number()) << part;
  const Json overview = get("/api/overview").json();
  EXPECT_TRUE(overview["erlang_version"].is_string());
  EXPECT_TRUE(overview["erlang_full_version"].is_string());
  std::set<std::string> types;
  for (const Json& type : overview["exchange_types"]) types.insert(type["name"]);
  EXPECT_TRUE(types.contains("x-delayed-message") && types.contains("x-consistent-hash"));
  EXPECT_EQ(get("/api/nodes").json()[0]["exchange_types"], overview["exchange_types"]);
}

TEST_F(ManagementMore, AConsumerTellsWithinWhichTimeItMustAcknowledge) {
  QueueInfo limited = make_queue("/", "limited"), by_policy = make_queue("/", "by-policy");
  limited.arguments.set("x-consumer-timeout", FieldValue::int64(1500));
  limited.effective_policy_definition.set("consumer-timeout", FieldValue::int64(9000));
  by_policy.effective_policy_definition.set("consumer-timeout", FieldValue::int64(2500));
  broker.queue_list = {limited, by_policy, make_queue("/", "plain")};
  ConsumerInfo own;
  FieldTable arguments;
  arguments.set("x-consumer-timeout", FieldValue::int64(700));
  own.arguments = arguments.encode();
  broker.consumer_list = {
      {"/", "limited", {}}, {"/", "limited", own}, {"/", "by-policy", {}}, {"/", "plain", {}}};
  std::vector<uint64_t> timeouts;
  for (const Json& one : get("/api/consumers").json()) timeouts.push_back(one["consumer_timeout"]);
  EXPECT_EQ(timeouts, (std::vector<uint64_t>{1500, 700, 2500, 0}));
}

TEST_F(ManagementMore, AHealthCheckOfAVhostThatIsNotThereIs404) {
  const std::string check = "/api/health/checks/quorum-queues-without-elected-leaders/vhost/";
  EXPECT_EQ(get(check + "%2F").status, 200);
  EXPECT_EQ(get(check + "nope").status, 404);
  EXPECT_EQ(get(check + "nope/pattern/x").status, 404);
}

TEST_F(ManagementMore, Rule40_MetricsTellHowLateRetriesAreAsAHistogram) {
  QueueInfo queue = make_queue("/", "q", 0);
  queue.retry_enabled = true;
  queue.numbers.retry_lag[0] = 5;                         // up to 1 ms
  queue.numbers.retry_lag[8] = 2;                         // up to 1 s
  queue.numbers.retry_lag[kRetryLagBoundsMs.size()] = 1;  // above all bounds
  queue.numbers.retry_lag_sum_ms = 401'250;
  QueueInfo plain = make_queue("/", "plain", 0);
  broker.queue_list = {queue, plain};
  broker.overview_info.totals = queue.numbers;
  const std::string sums = get("/metrics").body;
  for (const char* line :
       {"# TYPE tarrymq_retry_lag_seconds histogram",
        "tarrymq_retry_lag_seconds_bucket{le=\"0.001\"} 5\n",
        "tarrymq_retry_lag_seconds_bucket{le=\"0.5\"} 5\n",
        "tarrymq_retry_lag_seconds_bucket{le=\"1\"} 7\n",
        "tarrymq_retry_lag_seconds_bucket{le=\"300\"} 7\n",
        "tarrymq_retry_lag_seconds_bucket{le=\"+Inf\"} 8\n", "tarrymq_retry_lag_seconds_count 8\n",
        "tarrymq_retry_lag_seconds_sum 401.25\n"}) {
    EXPECT_NE(sums.find(line), std::string::npos) << line << sums;
  }
  EXPECT_EQ(get("/api/queues/%2F/q").json()["retry_stats"]["lag"],
            (Json{{"count", 8}, {"mean_ms", 50'156}, {"p99_ms", nullptr}}));
  broker.queue_list[0].numbers.retry_lag[0] = 1000;
  EXPECT_EQ(get("/api/queues/%2F/q").json()["retry_stats"]["lag"]["p99_ms"], 1);
  EXPECT_EQ(get("/api/queues/%2F/plain").json()["retry_stats"]["lag"],
            (Json{{"count", 0}, {"mean_ms", nullptr}, {"p99_ms", nullptr}}));
  broker.queue_list[0].numbers.retry_lag[0] = 5;
  for (const char* path : {"/metrics/per-object", "/metrics/detailed?family=queue_metrics"}) {
    const std::string each = get(path).body;
    EXPECT_NE(each.find("tarrymq_retry_lag_seconds_count{vhost=\"/\",queue=\"q\"} 8\n"),
              std::string::npos)
        << each;
    EXPECT_EQ(each.find("tarrymq_retry_lag_seconds_count{vhost=\"/\",queue=\"plain\"}"),
              std::string::npos)
        << each;
  }
}

TEST_F(ManagementMore, LogLinesAreReadFromWhereOneLeftOff) {
  const uint64_t before = last_log_line();
  log_for("test-room")->warn("first \"quoted\"");
  log_for("test-room")->info("second");
  const Json body = get("/api/logs?category=test-room&after=" + std::to_string(before)).json();
  ASSERT_EQ(body["lines"].size(), 2u);
  EXPECT_EQ(body["lines"][0]["text"], "first \"quoted\"");
  EXPECT_EQ(body["lines"][0]["level"], "warning");
  EXPECT_GT(body["lines"][1]["number"], body["lines"][0]["number"]);
  const std::string last = std::to_string(body["last"].get<uint64_t>());
  EXPECT_EQ(get("/api/logs?category=test-room&after=" + last).json()["lines"], Json::array());
  EXPECT_EQ(get("/api/logs?category=test-room&level=warning&after=" + std::to_string(before))
                .json()["lines"]
                .size(),
            1u);
  EXPECT_NE(get("/api/logs?format=text&category=test-room").body.find("warning test-room: first"),
            std::string::npos);
  EXPECT_EQ(get("/api/logs?level=loud").status, 400);
  EXPECT_EQ(client->call("GET", "/api/logs", "", TestClient::kTenant).status, 403);
}

// -- The description of the API

TEST(OpenApi, DescribesEachRouteAndNoOther) {
  FakeManagement broker;
  const http::ManagementApi api(broker);
  std::set<std::string> routes, described;
  for (const http::Route& route : api.routes()) {
    const bool page = !route.text.starts_with("/api") && !route.text.starts_with("/metrics");
    if (!page) routes.insert(http::operation_key(route.method, route.text));
  }
  for (const http::ApiOperation& operation : http::api_operations()) {
    const std::string key = http::operation_key(operation.method, operation.path);
    EXPECT_TRUE(described.insert(key).second) << key << " is described twice";
    // Those of retry-spec 8 that are still to come are left out of what is served.
    const bool may_miss = std::string_view(operation.tag) == "Retries";
    EXPECT_TRUE(may_miss || routes.contains(key)) << key << " is not there";
  }
  for (const std::string& route : routes)
    EXPECT_TRUE(described.contains(route)) << route << " is not in openapi_operations.cc";
}

TEST_F(ManagementMore, TheDescriptionIsServedToAnyone) {
  const Reply reply = client->call("GET", "/api/openapi.json", "", "");
  EXPECT_EQ(reply.status, 200);
  const Json document = reply.json();
  EXPECT_EQ(document["openapi"], "3.1.0");
  EXPECT_EQ(document["info"]["version"], "9.9.9");
  const Json& get_queue = document["paths"]["/api/queues/{vhost}/{name}"]["get"];
  EXPECT_EQ(get_queue["parameters"][0]["name"], "vhost");
  EXPECT_EQ(get_queue["parameters"][0]["in"], "path");
}

TEST_F(ManagementMore, NumbersMayBeTextAsOldToolsSendThem) {
  EXPECT_EQ(client
                ->call("POST", "/api/queues/%2F/q/get",
                       R"({"count": "2", "ackmode": "ack_requeue_true"})")
                .status,
            200);
  EXPECT_EQ(broker.got_count, 2u);
  EXPECT_EQ(client->call("POST", "/api/queues/%2F/q/get", R"({"count": "two"})").status, 400);
}

// -- "Move messages", which tools write as a shovel

Json moving(Json changes = Json::object()) {
  Json value{{"src-uri", "amqp:///%2F"},   {"src-queue", "from"},
             {"dest-uri", "amqp:///%2F"},  {"dest-queue", "to"},
             {"ack-mode", "on-confirm"},   {"src-delete-after", "queue-length"},
             {"src-prefetch-count", 1000}, {"add-forward-headers", false}};
  for (const auto& [key, is] : changes.items()) {
    if (is.is_null())
      value.erase(key);
    else
      value[key] = is;
  }
  return value;
}

TEST(ShovelMove, WhatToolsWriteIsUnderstood) {
  for (const Json& changes :
       {Json::object(), Json{{"src-uri", "amqp://"}, {"dest-uri", Json{"amqp://"}}},
        Json{{"src-uri", "amqp://u:p%40@127.0.0.1:5673/%2F?heartbeat=5"}},
        Json{{"dest-uri", "amqp://localhost:5673"}}, Json{{"dest-uri", "amqp://[::1]:5673/%2f"}},
        Json{{"src-protocol", "amqp091"}, {"dest-protocol", "amqp091"}, {"ack-mode", nullptr}},
        Json{{"src-delete-after", nullptr}, {"delete-after", "queue-length"}}}) {
    const auto move = http::move_of_shovel(moving(changes), "/", {5673});
    ASSERT_TRUE(move) << changes << move.error();
    EXPECT_EQ(move->source, "from");
    EXPECT_EQ(move->target, "to");
  }
}

TEST(ShovelMove, WhatIsMoreThanAMoveIsRefusedByName) {
  for (const Json& changes : {Json{{"src-uri", "amqp://other"}},
                              Json{{"src-uri", "amqp://127.0.0.1"}},
                              Json{{"src-uri", "amqp://127.0.0.1:99999"}},
                              Json{{"src-uri", "amqps:///%2F"}},
                              Json{{"src-uri", "amqp:///"}},
                              Json{{"src-uri", "amqp:///%"}},
                              Json{{"src-uri", Json::array()}},
                              Json{{"dest-uri", Json{"amqp://", "amqp://"}}},
                              Json{{"dest-uri", "amqp://[::1]"}},
                              Json{{"dest-uri", 5}},
                              Json{{"dest-uri", nullptr}},
                              Json{{"dest-queue", ""}},
                              Json{{"dest-queue", nullptr}},
                              Json{{"src-queue", 1}},
                              Json{{"dest-exchange", "x"}},
                              Json{{"dest-protocol", "amqp10"}},
                              Json{{"add-forward-headers", true}},
                              Json{{"ack-mode", "never"}},
                              Json{{"src-delete-after", "never"}},
                              Json{{"src-delete-after", 10}},
                              Json{{"src-delete-after", nullptr}}}) {
    const auto move = http::move_of_shovel(moving(changes), "/", {5673});
    ASSERT_FALSE(move) << changes;
    EXPECT_NE(move.error().find("'" + changes.items().begin().key() + "'"), std::string::npos)
        << changes << move.error();
  }
  EXPECT_FALSE(http::move_of_shovel(moving({{"dest-queue", "from"}}), "/", {}));
  EXPECT_FALSE(http::move_of_shovel(moving(), "other", {}));
  EXPECT_FALSE(http::move_of_shovel(Json("text"), "/", {}));
}

// -- Metrics of many objects

using http::MetricSeries;
using http::send_metrics;
using prometheus::ClientMetric;
using prometheus::MetricType;

/// Runs an answer to its end; how many slices it took. None may make more than `slice_max` samples.
struct SlicedAnswer {
  size_t slices = 1;
  std::string body;

  SlicedAnswer(std::string head, std::vector<MetricSeries> series, const size_t& made,
               size_t slice_max) {
    std::vector<std::function<void()>> later;
    std::optional<http::Response> answer;
    send_metrics(http::Responder(std::make_shared<HeldSink>(later, answer)), std::move(head),
                 std::move(series));
    while (!answer) {
      EXPECT_EQ(later.size(), 1u) << "one slice at a time";
      const size_t before = made;
      auto next = std::move(later.back());
      later.clear();
      next();
      EXPECT_LE(made - before, slice_max) << "a slice is short";
      ++slices;
    }
    body = answer->body;
    EXPECT_EQ(answer->content_type, "text/plain; version=0.0.4; charset=utf-8");
  }
};

MetricSeries counted(std::string name, size_t rows, size_t& made) {
  return {std::move(name), "Help", MetricType::Gauge, rows,
          [&made](size_t row, std::vector<ClientMetric>& samples) {
            ++made;
            ClientMetric& sample = samples.emplace_back();
            sample.label = {{"queue", "q" + std::to_string(row)}};
            sample.gauge.value = static_cast<double>(row);
          }};
}

TEST(MetricSeries, AFamilyKeepsTogetherOverItsSlices) {
  size_t made = 0;
  const SlicedAnswer run("# head\n", {counted("a", 2, made), counted("b", 1, made)}, made, 10);
  EXPECT_EQ(run.body,
            "# head\n"
            "# HELP a Help\n# TYPE a gauge\na{queue=\"q0\"} 0\na{queue=\"q1\"} 1\n"
            "# HELP b Help\n# TYPE b gauge\nb{queue=\"q0\"} 0\n");
}

TEST(MetricSeries, WhatIsLongLeavesTheThreadToOthersInBetween) {
  size_t made = 0;
  const SlicedAnswer run("", {counted("a", 10'000, made), counted("b", 10'000, made)}, made, 4'000);
  EXPECT_EQ(made, 20'000u);
  EXPECT_GE(run.slices, 5u);
  size_t heads = 0;
  for (size_t at = run.body.find('#'); at != std::string::npos; at = run.body.find('#', at + 1))
    ++heads;
  EXPECT_EQ(heads, 4u) << "HELP and TYPE of each, once";
  EXPECT_LT(run.body.find("a{queue=\"q9999\"} 9999\n"), run.body.find("# HELP b"));
  EXPECT_NE(run.body.find("b{queue=\"q9999\"} 9999\n"), std::string::npos);
}

TEST(MetricSeries, ASeriesWithoutSamplesIsLeftOut) {
  size_t made = 0;
  MetricSeries none{"none", "Help", MetricType::Counter, 10'000,
                    [&made](size_t, std::vector<ClientMetric>&) { ++made; }};
  const SlicedAnswer run("", {none, counted("b", 0, made)}, made, 4'000);
  EXPECT_EQ(run.body, "");
  EXPECT_EQ(made, 10'000u);
  EXPECT_GE(run.slices, 2u);
}

TEST(MetricSeries, TheLinesOfAHistogramCount) {
  size_t made = 0;
  const MetricSeries lag{"lag", "Help", MetricType::Histogram, 2'000,
                         [&made](size_t row, std::vector<ClientMetric>& samples) {
                           ++made;
                           ClientMetric& sample = samples.emplace_back();
                           sample.label = {{"queue", "q" + std::to_string(row)}};
                           for (int i = 0; i < 19; ++i)
                             sample.histogram.bucket.push_back({1, static_cast<double>(i)});
                         }};
  const SlicedAnswer run("", {lag}, made, 200);
  EXPECT_GE(run.slices, 10u);
}

}  // namespace
}  // namespace tarry::http_test
