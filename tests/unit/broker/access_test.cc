#include <algorithm>

#include "broker/login_book.h"
#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

class AccessTest : public BrokerTest {
 protected:
  bool logs_in(std::string user, std::string password, bool loopback = true) {
    return on_shard<bool>([&](auto answer) {
      broker_->access().log_in(
          user, password, {loopback ? "127.0.0.1" : "192.0.2.1", loopback},
          [answer](std::unique_ptr<Login> login) { answer(login != nullptr); });
    });
  }
  void put_user(std::string name, std::string password, std::vector<std::string> tags = {}) {
    UserInfo info;
    info.name = name;
    info.tags = std::move(tags);
    ASSERT_TRUE(
        ask<Answered<bool>>([&](auto answer) { management().put_user(info, password, answer); }));
  }
  Answered<bool> permit(PermissionInfo info) {
    return ask<Answered<bool>>([&](auto answer) { management().put_permission(info, answer); });
  }
};

TEST_F(AccessTest, TheDefaultUserLogsInFromLoopbackOnly) {
  EXPECT_TRUE(logs_in("guest", "guest"));
  EXPECT_FALSE(logs_in("guest", "guest", false));
  EXPECT_FALSE(logs_in("guest", "wrong"));
  EXPECT_FALSE(logs_in("nobody", "guest"));
  ASSERT_TRUE(management().user("guest"));
  EXPECT_TRUE(management().user("guest")->has_tag("administrator"));
}

TEST_F(AccessTest, HttpLogInAnswersWithTheUser) {
  auto good = ask<std::optional<UserInfo>>([&](auto a) {
    management().log_in("guest", "guest", {"127.0.0.1", true}, a);
  });
  ASSERT_TRUE(good);
  EXPECT_EQ(good->name, "guest");
  EXPECT_FALSE(ask<std::optional<UserInfo>>([&](auto a) {
    management().log_in("guest", "x", {"127.0.0.1", true}, a);
  }));
}

TEST_F(AccessTest, LogInsAreCountedByProtocolAndBySource) {
  (void)logs_in("guest", "guest");
  (void)logs_in("guest", "guest");
  (void)logs_in("guest", "wrong");
  (void)logs_in("nobody", "x", false);
  (void)ask<std::optional<UserInfo>>([&](auto a) {
    management().log_in("guest", "guest", {"127.0.0.1", true}, a);
  });
  const auto sums = management().login_attempts(false);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].protocol, "amqp091");
  EXPECT_EQ(sums[0].succeeded, 2u);
  EXPECT_EQ(sums[0].failed, 2u);
  EXPECT_EQ(sums[1].protocol, "http");
  EXPECT_EQ(sums[1].succeeded, 1u);
  EXPECT_EQ(sums[1].failed, 0u);
  const auto sources = management().login_attempts(true);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].address, "127.0.0.1");
  EXPECT_EQ(sources[0].user, "guest");
  EXPECT_EQ(sources[0].failed, 1u);
  EXPECT_EQ(sources[1].address, "192.0.2.1");
  EXPECT_EQ(sources[1].user, "nobody");
  management().forget_login_attempts();
  EXPECT_TRUE(management().login_attempts(false).empty());
  EXPECT_TRUE(management().login_attempts(true).empty());
}

TEST(LoginBook, SourcesAreBoundedAndTheLatestAreKept) {
  LoginBook book;
  for (size_t i = 0; i < kLoginSourcesMax + 10; ++i) {
    book.note("http", {"192.0.2." + std::to_string(i), false}, "u", false);
    book.note("http", {"10.0.0.1", false}, std::string(1'000, 'x'), true);  // one that goes on
  }
  const auto sources = book.by_source();
  EXPECT_EQ(sources.size(), kLoginSourcesMax);
  EXPECT_EQ(book.by_protocol().at(0).failed, kLoginSourcesMax + 10);
  EXPECT_TRUE(std::ranges::any_of(sources, [](const LoginAttempts& a) {
    return a.address == "10.0.0.1" && a.succeeded == kLoginSourcesMax + 10 &&
           a.user == std::string(255, 'x');
  }));
  EXPECT_FALSE(std::ranges::any_of(
      sources, [](const LoginAttempts& a) { return a.address == "192.0.2.3"; }));
}

TEST_F(AccessTest, AVhostOpensOnlyForThoseWithPermissions) {
  put_user("app", "pw");
  EXPECT_TRUE(logs_in("app", "pw", false));
  Login app{"app"};
  auto refused = broker_->access().open_vhost(app, "/");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, 530);
  EXPECT_EQ(refused.error().text, "access to vhost '/' refused for user 'app'");
  EXPECT_EQ(broker_->access().open_vhost(app, "nope").error().code, 530);
  ASSERT_TRUE(permit({"app", "/", "", "", ""}));
  EXPECT_TRUE(broker_->access().open_vhost(app, "/"));
  EXPECT_TRUE(management().may_access("app", "/"));
}

TEST_F(AccessTest, EachOperationNeedsItsRightInRabbitMqsWords) {
  put_user("app", "pw");
  Login app{"app"};
  ASSERT_TRUE(declare(queue("q")));
  ASSERT_TRUE(declare_exchange(exchange("x", "fanout")));
  ASSERT_TRUE(permit({"app", "/", "^mine", "^(mine|q$)", "^mine"}));
  EXPECT_EQ(declare(queue("theirs"), 7, &app).error().text,
            "configure access to queue 'theirs' in vhost '/' refused for user 'app'");
  EXPECT_TRUE(declare(queue("mine"), 7, &app));
  EXPECT_EQ(bind({"x", "q", "", true, {}}, &app).error().text,
            "read access to exchange 'x' in vhost '/' refused for user 'app'");
  EXPECT_EQ(vhost().open_queue(actor(7, &app), "q").error().text,
            "read access to queue 'q' in vhost '/' refused for user 'app'");
  std::vector<std::shared_ptr<QueueHandle>> targets;
  EXPECT_EQ(vhost().route(app, "", "q", nullptr, targets).error().text,
            "write access to exchange 'amq.default' in vhost '/' refused for user 'app'");
  EXPECT_EQ(declare_exchange(exchange("x2", "fanout"), &app).error().code, 403);
}

TEST_F(AccessTest, ADeadLetterExchangeNeedsReadOnTheQueueAndWriteOnTheExchange) {
  put_user("app", "pw");
  Login app{"app"};
  ASSERT_TRUE(permit({"app", "/", ".*", "^ok", ".*"}));
  EXPECT_EQ(declare(queue("a", arguments({{"x-dead-letter-exchange", FieldValue::text("other")}})),
                    7, &app)
                .error()
                .text,
            "write access to exchange 'other' in vhost '/' refused for user 'app'");
  EXPECT_TRUE(declare(queue("a", arguments({{"x-dead-letter-exchange", FieldValue::text("ok")}})),
                      7, &app));
}

TEST_F(AccessTest, ChangedPermissionsRuleAtOnceAndMoveTheVersion) {
  put_user("app", "pw");
  Login app{"app"};
  ASSERT_TRUE(permit({"app", "/", ".*", ".*", ".*"}));
  uint64_t before = vhost().topology_version();
  EXPECT_TRUE(declare(queue("a"), 7, &app));
  ASSERT_TRUE(permit({"app", "/", "", ".*", ".*"}));
  EXPECT_NE(vhost().topology_version(), before);
  EXPECT_EQ(declare(queue("b"), 7, &app).error().code, 403);
  auto bad = permit({"app", "/", "(", ".*", ".*"});
  EXPECT_EQ(bad.error().code, 400);
}

TEST_F(AccessTest, UsersAndPermissionsSurviveARestart) {
  put_user("app", "pw", {"management"});
  ASSERT_TRUE(permit({"app", "/", "^a", "^b", "^c"}));
  restart();
  EXPECT_TRUE(logs_in("app", "pw", false));
  EXPECT_TRUE(management().user("app")->has_tag("management"));
  bool found = false;
  for (const PermissionInfo& p : management().permissions()) {
    found = found || (p.user == "app" && p.configure == "^a" && p.write == "^b" && p.read == "^c");
  }
  EXPECT_TRUE(found);
  ASSERT_TRUE(ask<Answered<void>>([&](auto a) { management().delete_user("app", a); }));
  EXPECT_FALSE(logs_in("app", "pw"));
  restart();
  EXPECT_FALSE(management().user("app"));
}

}  // namespace
}  // namespace tarry
