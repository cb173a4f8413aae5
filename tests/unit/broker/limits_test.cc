// Limits, topic permissions, default queue types, slow hashes: what HTTP sets and sessions feel.
#include "broker/passwords.h"
#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

class Limits : public BrokerTest {
 protected:
  Answered<void> vhost_limit(std::string limit, std::optional<int64_t> value) {
    return ask<Answered<void>>([&](auto a) { management().put_vhost_limit("/", limit, value, a); });
  }
  Answered<bool> put_vhost(VhostInfo info) {
    return ask<Answered<bool>>([&](auto a) { management().put_vhost(info, a); });
  }
  void put_user(std::string name, std::optional<std::string> password, std::string hash = "",
                std::string algorithm = "") {
    UserInfo info;
    info.name = name;
    info.password_hash = hash;
    if (!algorithm.empty()) info.hashing_algorithm = algorithm;
    ASSERT_TRUE(ask<Answered<bool>>([&](auto a) { management().put_user(info, password, a); }));
    ASSERT_TRUE(ask<Answered<bool>>([&](auto a) {
      management().put_permission({name, "/", ".*", ".*", ".*"}, a);
    }));
  }
  Answered<bool> topic(std::string write, std::string read, std::string exchange = "amq.topic") {
    return ask<Answered<bool>>([&](auto a) {
      management().put_topic_permission({"app", "/", exchange, write, read}, a);
    });
  }
  bool logs_in(std::string user, std::string password) {
    return on_shard<bool>([&](auto answer) {
      broker_->access().log_in(
          user, password, {"127.0.0.1", true},
          [answer](std::unique_ptr<Login> login) { answer(login != nullptr); });
    });
  }
  Answered<Routed> routes(const Login& login, std::string exchange, std::string key) {
    std::vector<std::shared_ptr<QueueHandle>> targets;
    return vhost().route(login, exchange, key, nullptr, targets);
  }
  /// As if a client had connected: the list is what limits are counted by.
  std::shared_ptr<ConnectionFigures> connect(uint64_t id, std::string user, uint32_t channels = 0) {
    ConnectionInfo info;
    info.id = ConnectionId{id};
    info.user = std::move(user);
    info.vhost = "/";
    auto figures = std::make_shared<ConnectionFigures>(info);
    for (uint32_t i = 1; i <= channels; ++i) {
      figures->add_channel(std::make_shared<ChannelFigures>(static_cast<uint16_t>(i)));
    }
    broker_->connections().add(figures, broker_->queue_shard(0));
    return figures;
  }
};

TEST_F(Limits, AVhostTakesNoMoreQueuesThanItsLimit) {
  ASSERT_TRUE(declare(queue("a")));
  ASSERT_TRUE(vhost_limit("max-queues", 1));
  auto refused = declare(queue("b"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 406);
  EXPECT_EQ(refused.error().text,
            "cannot declare queue 'b' in vhost '/': queue limit in vhost '/' (1) is reached");
  EXPECT_TRUE(declare(queue("a")));  // it is there already
  restart();
  EXPECT_FALSE(declare(queue("b")));
  ASSERT_TRUE(vhost_limit("max-queues", std::nullopt));
  EXPECT_TRUE(declare(queue("b")));
  EXPECT_EQ(vhost_limit("max-cows", 1).error().code, 400);
}

TEST_F(Limits, ConnectionsOfAVhostAndOfAUserAreCounted) {
  put_user("app", "pw");
  const Login app{"app"};
  ASSERT_TRUE(vhost_limit("max-connections", 2));
  connect(1, "app");
  ASSERT_TRUE(broker_->access().open_vhost(app, "/"));
  connect(2, "guest");
  auto refused = broker_->access().open_vhost(app, "/");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 530);
  EXPECT_EQ(refused.error().text,
            "access to vhost '/' refused for user 'app': connection limit (2) is reached");
  ASSERT_TRUE(vhost_limit("max-connections", -1));
  ASSERT_TRUE(ask<Answered<void>>(
      [&](auto a) { management().put_user_limit("app", "max-connections", 1, a); }));
  EXPECT_EQ(broker_->access().open_vhost(app, "/").error().text,
            "connection refused for user 'app': user connection limit (1) is reached");
  EXPECT_TRUE(broker_->access().open_vhost(guest, "/"));
  for (uint64_t id : {1, 2}) broker_->connections().remove(ConnectionId{id});
}

TEST_F(Limits, ChannelsOfAUserAreCountedOverHisConnections) {
  put_user("app", "pw");
  const Login app{"app"};
  EXPECT_TRUE(vhost().may_open_channel(app));
  ASSERT_TRUE(ask<Answered<void>>(
      [&](auto a) { management().put_user_limit("app", "max-channels", 3, a); }));
  connect(1, "app", 2);
  EXPECT_TRUE(vhost().may_open_channel(app));
  connect(2, "app", 1);
  EXPECT_EQ(vhost().may_open_channel(app).error().code, 530);
  EXPECT_TRUE(vhost().may_open_channel(guest));
  for (uint64_t id : {1, 2}) broker_->connections().remove(ConnectionId{id});
}

TEST_F(Limits, TopicPermissionsRuleKeysOfThatExchangeAtOnce) {
  put_user("app", "pw");
  const Login app{"app"};
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_TRUE(routes(app, "amq.topic", "secret.1"));
  ASSERT_TRUE(topic("^{username}\\.", "^pub\\."));
  EXPECT_TRUE(routes(app, "amq.topic", "app.1"));
  auto refused = routes(app, "amq.topic", "secret.1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 403);
  EXPECT_EQ(refused.error().text,
            "write access to topic 'secret.1' in exchange 'amq.topic' in vhost '/' refused for "
            "user 'app'");
  EXPECT_TRUE(routes(app, "amq.direct", "secret.1"));
  EXPECT_TRUE(routes(guest, "amq.topic", "secret.1"));
  EXPECT_FALSE(bind({"amq.topic", "q", "secret.#", true, {}}, &app));
  EXPECT_TRUE(bind({"amq.topic", "q", "pub.#", true, {}}, &app));
  restart();
  EXPECT_FALSE(routes(app, "amq.topic", "secret.1"));
  ASSERT_TRUE(ask<Answered<void>>(
      [&](auto a) { management().delete_topic_permission("app", "/", "", a); }));
  EXPECT_TRUE(routes(app, "amq.topic", "secret.1"));
  EXPECT_EQ(topic("(", "x").error().code, 400);
}

TEST_F(Limits, AUserNameInATopicPermissionIsTakenLiterally) {
  put_user("app", "pw");
  ASSERT_TRUE(topic("^{username}$", ".*"));
  Login dotted{"a.p"};
  put_user("a.p", "pw");
  ASSERT_TRUE(ask<Answered<bool>>([&](auto a) {
    management().put_topic_permission({"a.p", "/", "amq.topic", "^{username}$", ""}, a);
  }));
  EXPECT_TRUE(routes(dotted, "amq.topic", "a.p"));
  EXPECT_FALSE(routes(dotted, "amq.topic", "axp"));
}

TEST_F(Limits, AVhostsDefaultQueueTypeGoesToQueuesThatNameNone) {
  VhostInfo info = management().vhosts()[0];
  info.default_queue_type = "quorum";
  ASSERT_TRUE(put_vhost(info));
  ASSERT_TRUE(declare(queue("q")));
  EXPECT_EQ(management().queue("/", "q")->type, "quorum");
  EXPECT_TRUE(declare(queue("q")));
  EXPECT_TRUE(declare(queue("c", arguments({{"x-queue-type", FieldValue::text("classic")}}))));
  EXPECT_EQ(management().queue("/", "c")->type, "classic");
  info.default_queue_type = "classic";
  ASSERT_TRUE(put_vhost(info));
  EXPECT_TRUE(declare(queue("q")));  // one that is there keeps its type
  info.default_queue_type = "stream";
  EXPECT_EQ(put_vhost(info).error().code, 400);
}

TEST_F(Limits, AProtectedVhostIsNotDeleted) {
  VhostInfo info;
  info.name = "v";
  info.protected_from_deletion = true;
  ASSERT_TRUE(put_vhost(info));
  EXPECT_EQ(ask<Answered<void>>([&](auto a) { management().delete_vhost("v", a); }).error().code,
            412);
  info.protected_from_deletion = false;
  ASSERT_TRUE(put_vhost(info));
  EXPECT_TRUE(ask<Answered<void>>([&](auto a) { management().delete_vhost("v", a); }));
}

TEST_F(Limits, BcryptHashesOfOtherBrokersLogIn) {
  // bcrypt of "secret" with cost 4.
  put_user("lavin", std::nullopt, "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
           "bcrypt");
  UserInfo made = *management().user("lavin");
  EXPECT_EQ(made.hashing_algorithm, "bcrypt");
  EXPECT_FALSE(logs_in("lavin", "wrong"));
  EXPECT_TRUE(logs_in("lavin", "secret"));
  EXPECT_TRUE(logs_in("lavin", "secret"));  // remembered
  EXPECT_FALSE(logs_in("lavin", "wrong"));
}

TEST_F(Limits, ARefusalTakesAsLongAsASlowHashWhoeverIsNamed) {
  // What matches it nobody knows; cost 9.
  const std::string hash = "$2b$09$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
  const auto time_of = [](const auto& act) {
    const auto began = std::chrono::steady_clock::now();
    act();
    return std::chrono::steady_clock::now() - began;
  };
  auto check = time_of([&] { EXPECT_FALSE(slow_password_matches(hash, "wrong")); });
  for (int i = 0; i < 4; ++i)
    check = std::min(check, time_of([&] { (void)slow_password_matches(hash, "wrong"); }));
  put_user("lavin", std::nullopt, hash, "bcrypt");
  for (const char* user : {"nobody", "guest", "lavin", "nobody"})
    EXPECT_GE(time_of([&] { EXPECT_FALSE(logs_in(user, "wrong")); }), check) << user;
  EXPECT_TRUE(logs_in("guest", "guest"));
}

TEST_F(Limits, Sha512HashesAreMadeAndChecked) {
  put_user("five", "pw", "", "rabbit_password_hashing_sha512");
  EXPECT_TRUE(logs_in("five", "pw"));
  EXPECT_FALSE(logs_in("five", "pW"));
  EXPECT_EQ(management().user("five")->hashing_algorithm, "rabbit_password_hashing_sha512");
}

TEST_F(Limits, CountersOutliveTheirQueueAndVhost) {
  ASSERT_TRUE(declare(queue("q")));
  ASSERT_TRUE(publish("", "q", "m"));
  ASSERT_EQ(get("q").size(), 1u);
  ASSERT_TRUE(delete_queue("q"));
  EXPECT_EQ(management().overview({}).totals.published, 1u);
  EXPECT_EQ(management().overview({}).totals.ready, 0u);
  EXPECT_EQ(management().vhosts()[0].totals.published, 1u);
}

TEST_F(Limits, ExchangesCountWhatComesInAndWhatLeaves) {
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(declare(queue(name)));
    ASSERT_TRUE(bind({"amq.fanout", name, "", true, {}}));
  }
  ASSERT_TRUE(publish("amq.fanout", "", "m"));
  ASSERT_TRUE(publish("", "a", "m"));
  ASSERT_TRUE(publish("", "nowhere", "m"));
  const ExchangeInfo fanout = *management().exchange("/", "amq.fanout");
  EXPECT_EQ(fanout.published_in, 1u);
  EXPECT_EQ(fanout.published_out, 2u);
  EXPECT_EQ(management().exchange("/", "")->published_in, 2u);
  EXPECT_EQ(management().exchange("/", "")->published_out, 1u);
}

TEST_F(Limits, ConnectionTotalsOutliveConnections) {
  auto figures = connect(1, "guest", 2);
  figures->bytes_in = 100;
  broker_->connections().remove(ConnectionId{1});
  const OverviewInfo info = management().overview({});
  EXPECT_EQ(info.bytes_in, 100u);
  EXPECT_EQ(info.channels_opened, 2u);
}

}  // namespace
}  // namespace tarry
