// Fields that tools of RabbitMQ read (http-api 4.2 and 4.3).
#include <gtest/gtest.h>

#include "management_world.h"

namespace tarry::http_test {
namespace {

using Json = nlohmann::json;

class FieldsOf : public ManagementWorld {
 protected:
  static constexpr uint64_t kNowMs = 1'800'000'000'000;  // 2027-01-15T08:00:00Z
  FieldsOf() { broker.overview_info.now_ms = kNowMs; }
  static int64_t before_ms(uint64_t ms) { return WallTime::from_ms(kNowMs - ms).ns; }
  std::shared_ptr<ConnectionFigures> connect(uint64_t id) {
    ConnectionInfo info;
    info.id = ConnectionId{id};
    info.name = "peer" + std::to_string(id);
    info.peer_host = "192.0.2.7";
    info.peer_port = 40'001;
    info.local_host = "192.0.2.1";
    info.local_port = 5672;
    info.vhost = "/";
    auto figures = std::make_shared<ConnectionFigures>(info);
    broker.connection_list.push_back(figures);
    return figures;
  }
  Json queue() { return get("/api/queues/%2F/q").json(); }
};

TEST_F(FieldsOf, AConnectionTellsBothEndsAndItsSocketsWork) {
  auto figures = connect(1);
  figures->receives = 3;
  figures->sends = 4;
  figures->unsent_bytes = 5;
  const Json got = get("/api/connections/peer1").json();
  EXPECT_EQ(got["host"], "192.0.2.1");
  EXPECT_EQ(got["port"], 5672);
  EXPECT_EQ(got["peer_host"], "192.0.2.7");
  EXPECT_EQ(got["recv_cnt"], 3);
  EXPECT_EQ(got["send_cnt"], 4);
  EXPECT_EQ(got["send_pend"], 5);
}

TEST_F(FieldsOf, AChannelCountsDeliveriesByTheirKindWithRates) {
  auto channel = std::make_shared<ChannelFigures>(uint16_t{1});
  channel->delivered = 1;
  channel->delivered_no_ack = 2;
  channel->got = 3;
  channel->got_no_ack = 4;
  channel->got_empty = 5;
  channel->redelivered = 6;
  channel->unroutable = 7;
  channel->active_at_ns = before_ms(90'000);
  connect(1)->add_channel(channel);
  const Json got = get("/api/channels").json().at(0);
  const Json& stats = got["message_stats"];
  for (const auto& [name, count] : {std::pair{"deliver", 1},
                                    {"deliver_no_ack", 2},
                                    {"get", 3},
                                    {"get_no_ack", 4},
                                    {"get_empty", 5},
                                    {"deliver_get", 10},
                                    {"redeliver", 6},
                                    {"drop_unroutable", 7}}) {
    EXPECT_EQ(stats[name], count) << name;
    EXPECT_TRUE(stats[std::string(name) + "_details"]["rate"].is_number()) << name;
  }
  EXPECT_EQ(got["idle_since"], "2027-01-15T07:58:30.000+00:00");
}

TEST_F(FieldsOf, WhatIsBusyIsNotIdle) {
  auto channel = std::make_shared<ChannelFigures>(uint16_t{1});
  channel->active_at_ns = before_ms(900);
  connect(1)->add_channel(channel);
  broker.queue_list = {make_queue("/", "q", 0)};
  broker.queue_list[0].numbers.active_at_ns = before_ms(0);
  EXPECT_FALSE(get("/api/channels").json().at(0).contains("idle_since"));
  EXPECT_FALSE(queue().contains("idle_since"));
  broker.queue_list[0].numbers.active_at_ns = before_ms(1'234);
  EXPECT_EQ(queue()["idle_since"], "2027-01-15T07:59:58.766+00:00");
  EXPECT_EQ(get("/api/queues?columns=idle_since").json().at(0),
            (Json{{"idle_since", "2027-01-15T07:59:58.766+00:00"}}));
}

TEST_F(FieldsOf, AnExclusiveQueueTellsWhoseItIs) {
  (void)connect(1);
  QueueInfo mine = make_queue("/", "q", 0);
  mine.exclusive = true;
  mine.exclusive_owner = ConnectionId{1};
  broker.queue_list = {mine, make_queue("/", "anyones", 0)};
  const Json owner{{"name", "peer1"}, {"peer_host", "192.0.2.7"}, {"peer_port", 40'001}};
  EXPECT_EQ(queue()["owner_pid_details"], owner);
  const Json list = get("/api/queues").json();
  EXPECT_FALSE(list.at(0).contains("owner_pid_details"));
  EXPECT_EQ(list.at(1)["owner_pid_details"], owner);
}

TEST_F(FieldsOf, ConsumerCapacityIsAShareOfTheLastSeconds) {
  broker.queue_list = {make_queue("/", "q", 0)};
  QueueNumbers& n = broker.queue_list[0].numbers;
  n.consumer_use = {true, before_ms(0), 0.5};
  EXPECT_EQ(queue()["consumer_capacity"], 0.0) << "nobody is there";
  n.consumers = 2;
  EXPECT_EQ(queue()["consumer_capacity"], 0.5);
  n.consumer_use.since_ns = before_ms(2'500);
  EXPECT_EQ(queue()["consumer_capacity"], 0.75);
  n.consumer_use.since_ns = before_ms(60'000);
  EXPECT_EQ(queue()["consumer_utilisation"], 1.0);
}

TEST_F(FieldsOf, PersistentBytesAreExactWithoutOthersAndElseAShare) {
  broker.queue_list = {make_queue("/", "q", 6)};
  QueueNumbers& n = broker.queue_list[0].numbers;
  n.unacked = 2;
  n.ready_bytes = 600;
  n.unacked_bytes = 200;
  EXPECT_EQ(queue()["message_bytes_persistent"], 0);
  n.persistent = 8;
  EXPECT_EQ(queue()["message_bytes_persistent"], 800);
  n.persistent = 2;
  EXPECT_EQ(queue()["message_bytes_persistent"], 200);
}

TEST_F(FieldsOf, TheNextMessagesTimestampIsToldByTheQueueItself) {
  broker.queue_list = {make_queue("/", "q", 1)};
  EXPECT_TRUE(queue()["head_message_timestamp"].is_null());
  broker.head_timestamp_s = 1'700'000'000;
  EXPECT_EQ(queue()["head_message_timestamp"], 1'700'000'000);
  EXPECT_TRUE(get("/api/queues").json().at(0)["head_message_timestamp"].is_null());
  EXPECT_EQ(get("/api/queues/%2F/q?columns=head_message_timestamp").json(),
            (Json{{"head_message_timestamp", 1'700'000'000}}));
}

TEST_F(FieldsOf, AConsumerShowsItsArguments) {
  FieldTable arguments;
  arguments.set("x-priority", FieldValue::int32(5));
  ConsumerInfo with, without;
  with.tag = "with";
  with.arguments = arguments.encode();
  broker.consumer_list = {{"/", "q", with}, {"/", "q", without}};
  const Json list = get("/api/consumers").json();
  EXPECT_EQ(list.at(0)["arguments"], (Json{{"x-priority", 5}}));
  EXPECT_EQ(list.at(1)["arguments"], Json::object());
}

TEST_F(FieldsOf, LogInsAreListedByProtocolAndBySource) {
  broker.attempts_list = {{"amqp091", "", "", 5, 2}};
  broker.attempts_by_source = {{"amqp091", "192.0.2.9", "app", 0, 2}};
  const std::string path = "/api/auth/attempts/tarrymq@test";
  EXPECT_EQ(get(path).json(), (Json::array({{{"protocol", "amqp091"},
                                             {"auth_attempts", 7},
                                             {"auth_attempts_succeeded", 5},
                                             {"auth_attempts_failed", 2}}})));
  EXPECT_EQ(get(path + "/source").json(), (Json::array({{{"protocol", "amqp091"},
                                                         {"remote_address", "192.0.2.9"},
                                                         {"username", "app"},
                                                         {"auth_attempts", 2},
                                                         {"auth_attempts_succeeded", 0},
                                                         {"auth_attempts_failed", 2}}})));
  EXPECT_NE(
      get("/metrics").body.find("rabbitmq_auth_attempts_failed_total{protocol=\"amqp091\"} 2"),
      std::string::npos);
  EXPECT_EQ(get("/api/auth/attempts/rabbit@other").status, 404);
  EXPECT_EQ(client->call("GET", path, "", TestClient::kTenant).status, 403);
  EXPECT_EQ(client->call("DELETE", path, "", TestClient::kTenant).status, 403);
  EXPECT_EQ(client->call("DELETE", path + "/source").status, 204);
  EXPECT_EQ(get(path).json(), Json::array());
}

// A page and a bare list are made in slices; what comes out is the same as ever.
TEST_F(FieldsOf, ALongListIsWhole) {
  for (uint64_t i = 0; i < 3'000; ++i)
    broker.queue_list.push_back(make_queue("/", "q" + std::to_string(10'000 + i), i % 100));
  const Json all = get("/api/queues?columns=name").json();
  ASSERT_EQ(all.size(), 3'000u);
  for (uint64_t i = 0; i < 3'000; ++i) EXPECT_EQ(all[i]["name"], "q" + std::to_string(10'000 + i));
  const Json page =
      get("/api/queues?page=2&page_size=1000&sort=messages&sort_reverse=true&columns=messages")
          .json();
  EXPECT_EQ(page["item_count"], 1000);
  EXPECT_EQ(page["total_count"], 3'000);
  EXPECT_EQ(page["page_count"], 3);
  EXPECT_EQ(page["items"][0]["messages"], 66);
  EXPECT_EQ(page["items"][999]["messages"], 33);
  EXPECT_EQ(get("/api/queues?page=4&page_size=1000").status, 400);
}

}  // namespace
}  // namespace tarry::http_test
