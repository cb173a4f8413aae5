// /api/queues/{vhost}/{queue}/retry and /api/retry-preview (retry-spec 36 and section 8).
#include <gtest/gtest.h>

#include "management_world.h"

namespace tarry::http_test {
namespace {

using Json = nlohmann::json;
constexpr const char* kRetryPath = "/api/queues/%2F/q/retry";

class RetryApi : public ManagementWorld {
 protected:
  RetryApi() {
    broker.retry_info.declared.min_ms = broker.retry_info.effective.min_ms = 500;
    broker.retry_info.declared.multiplier = broker.retry_info.effective.multiplier = 2;
    broker.retry_info.effective.max_ms = 3000;
    broker.retry_info.changes.max_ms = 3000;
    broker.retry_info.declared_limit = broker.retry_info.effective_limit = 4;
  }
};

TEST_F(RetryApi, Rule36_GetShowsDeclaredOverrideEffectiveAndTheSchedule) {
  const auto reply = client->call("GET", kRetryPath);
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json(), Json::parse(R"({
    "declared": {"min": 500, "multiplier": 2, "max": null, "limit": 4, "jitter": 0, "max_age": null, "type": null},
    "override": {"max": 3000},
    "effective": {"min": 500, "multiplier": 2, "max": 3000, "limit": 4, "jitter": 0, "max_age": null, "type": null},
    "schedule": [500, 1000, 2000, 3000], "total_ms": 6500, "deliveries_max": 5})"));
}

TEST_F(RetryApi, Rule36_PutReplacesTheWholeOverride) {
  EXPECT_EQ(
      client->call("PUT", kRetryPath, R"({"min": 100, "limit": 0, "jitter": 10, "max_age": 60000})")
          .status,
      204);
  EXPECT_EQ(broker.overridden_queue, "q");
  RetryOverride wanted;
  wanted.min_ms = 100;
  wanted.limit = 0;
  wanted.jitter_percent = 10;
  wanted.max_age_ms = 60'000;
  EXPECT_EQ(broker.retry_info.changes, wanted);
}

TEST_F(RetryApi, Rule36_DeleteTakesItAway) {
  EXPECT_EQ(client->call("DELETE", kRetryPath).status, 204);
  EXPECT_TRUE(broker.retry_info.changes.empty());
}

TEST_F(RetryApi, Rule36_ABadValueIs400AndChangesNothing) {
  const RetryOverride before = broker.retry_info.changes;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"min": 0})", "min: it was 0, allowed is an integer >= 1 (milliseconds)"},
      {R"({"min": "500"})",
       "min: it was string \"500\", allowed is an integer >= 1 (milliseconds)"},
      {R"({"multiplier": 1.5})", "multiplier: it was number 1.5, allowed is an integer >= 1"},
      {R"({"limit": null})", "limit: it was null, allowed is an integer >= 0"},
      {R"({"type": "all"})",
       "unknown key 'type': allowed are min, multiplier, max, limit, jitter and max_age"}};
  for (const auto& [body, reason] : cases) {
    const auto reply = client->call("PUT", kRetryPath, body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.json()["reason"], reason);
  }
  EXPECT_EQ(broker.retry_info.changes, before);
}

TEST_F(RetryApi, Rule36_WhatTheBrokerRefusesIsShown) {
  broker.next_error = PeerError::not_found("no queue 'q' in vhost '/'");
  EXPECT_EQ(client->call("GET", kRetryPath).status, 404);
  broker.next_error = PeerError::soft(400, "queue 'q' in vhost '/' has no retries");
  EXPECT_EQ(client->call("PUT", kRetryPath, R"({"min": 5})").status, 400);
  EXPECT_EQ(client->call("GET", kRetryPath, "", TestClient::kTenant).status, 403);
}

TEST_F(RetryApi, Rule36_PreviewOfASchedule) {
  auto reply = client->call("GET", "/api/retry-preview?min=500&multiplier=2&max=30000&limit=5");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json(),
            Json::parse(R"({"schedule": [500, 1000, 2000, 4000, 8000], "total_ms": 15500,
                                          "deliveries_max": 6})"));
  reply = client->call("GET", "/api/retry-preview?min=100");  // linear, limit 20
  EXPECT_EQ(reply.json()["deliveries_max"], 21);
  EXPECT_EQ(reply.json()["total_ms"], 21'000);
  reply = client->call("GET", "/api/retry-preview?min=1&limit=5000");
  EXPECT_EQ(reply.json()["schedule"].size(), 1000u);
  EXPECT_EQ(reply.json()["schedule_truncated"], true);
  EXPECT_EQ(reply.json()["total_ms"], 5000 * 5001 / 2);
}

TEST_F(RetryApi, Rule36_APreviewTakesTheNumbersThatADeclarationTakes) {
  const auto reply =
      client->call("GET", "/api/retry-preview?min=18446744073709551615&multiplier=2&limit=1");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json()["schedule"], (std::vector<uint64_t>{4294967295}));
}

TEST_F(RetryApi, Rule36_ABadPreviewSaysWhatIsAllowed) {
  const std::pair<const char*, const char*> cases[] = {
      {"?limit=5", "min is missing: the first delay in milliseconds"},
      {"?min=0", "min: it was 0, allowed is an integer >= 1 (milliseconds)"},
      {"?min=5s", "min: it was string \"5s\", allowed is an integer >= 1 (milliseconds)"},
      {"?min=5&type=never", "type: it was 'never', allowed are all, failed and returned"}};
  for (const auto& [query, reason] : cases) {
    const auto reply = client->call("GET", std::string("/api/retry-preview") + query);
    EXPECT_EQ(reply.status, 400) << query;
    EXPECT_EQ(reply.json()["reason"], reason);
  }
}

}  // namespace
}  // namespace tarry::http_test
