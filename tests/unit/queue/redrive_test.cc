// Dead letters go back (retry-spec 38).
#include <gtest/gtest.h>

#include <set>

#include "support/queue_world.h"
#include "tarrymq/queue/redrive.h"

namespace tarry::test {
namespace {

class Redrive : public QueueWorld {
 protected:
  /// As the dead-letter stage leaves it.
  Message dead(const std::string& body, const std::string& from = "orders",
               const std::string& why = "rejected") {
    FieldTable entry, headers;
    entry.set("count", FieldValue::int64(1));
    entry.set("reason", FieldValue::text(why));
    entry.set("queue", FieldValue::text(from));
    entry.set("exchange", FieldValue::text("shop"));
    entry.set("routing-keys", FieldValue::array({FieldValue::text("order.new")}));
    headers.set("x-death", FieldValue::array({FieldValue::table(entry)}));
    headers.set("x-delivery-count", FieldValue::int64(4));
    headers.set("tenant", FieldValue::text("t" + std::to_string(body.size())));
    return {.body = body, .headers = headers, .exchange = "", .key = "dead", .hops = 1};
  }
  void start(RedriveOrder order) {
    order.id = order.id == 0 ? 1 : order.id;
    ended.reset();
    plan.reset();
    progress = std::make_shared<RedriveProgress>();
    RedriveEvents events;
    events.planned = [this](RedrivePlan p) { plan = std::move(p); };
    events.counted = [this](RedriveTargets t) { targets = std::move(t); };
    events.ended = [this](RedriveEnd end, std::string why) {
      ended = end;
      reason = std::move(why);
    };
    on_shard([&] { queue_->redrive(order, progress, events); });
    wait_until([&] { return plan || ended || order.plan; });
  }
  void go() {
    on_shard([&] { queue_->go_redrive(1); });
  }
  void run(RedriveOrder order) {
    start(std::move(order));
    go();
    wait_until([&] { return ended.has_value(); });
    turns();
  }
  std::vector<std::string> moved_bodies() {
    std::vector<std::string> out;
    for (const auto& letter : letters_->letters) out.push_back(letter.body);
    return out;
  }

  std::optional<RedriveEnd> ended;
  std::optional<RedrivePlan> plan;
  RedriveTargets targets;
  std::string reason;
  std::shared_ptr<RedriveProgress> progress;
};

// Else a crash could keep the copy at the target and lose the one here, and the queue it came from,
// which has not dropped its own yet, would send another one.
TEST_F(Redrive, Rule38_NothingMovesOnBeforeItsOwnArrivalIsDurable) {
  declare();
  publish(dead("a"));
  start({});
  // Something is not durable yet.
  shard_->post([&] {
    publish_here({.body = "late"});
    queue_->go_redrive(1);
  });
  shard_->run_turn_for_test();
  EXPECT_TRUE(letters_->letters.empty());
  wait_until([&] { return ended.has_value(); });
  EXPECT_EQ(moved_bodies(), (std::vector<std::string>{"a"}));
}

TEST_F(Redrive, Rule38_EachGoesToTheQueueItDiedInAsItWasPublished) {
  declare();
  publish(dead("a", "orders"));
  publish(dead("b", "bills", "delivery_limit"));
  run({});
  EXPECT_EQ(ended, RedriveEnd::completed);
  ASSERT_EQ(letters_->letters.size(), 2u);
  const auto& letter = letters_->letters[0];
  EXPECT_EQ(letter.exchange, "");
  EXPECT_EQ(letter.routing_keys, (std::vector<std::string>{"orders"}));
  EXPECT_EQ(letters_->letters[1].routing_keys, (std::vector<std::string>{"bills"}));
  EXPECT_EQ(letter.shown_route, std::string("\4shop\11order.new", 15));
  EXPECT_EQ(letter.hops, 0);
  EXPECT_EQ(letter.counter, 0u);
  EXPECT_TRUE(letter.persistent);
  EXPECT_FALSE(letter.headers().find("x-delivery-count"));
  EXPECT_TRUE(letter.headers().find("x-death"));
  EXPECT_TRUE(letter.origin.sole);
  EXPECT_EQ(letters_->dropped.size(), 2u);
  EXPECT_EQ(progress->moved.load(), 2u);
  EXPECT_EQ(ready(), 0u);
  restart();
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Redrive, Rule38_NothingMovesBeforeThePlanIsDurable) {
  declare();
  publish(dead("a"));
  start({});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->matched, 1u);
  EXPECT_TRUE(letters_->letters.empty());
  EXPECT_EQ(ready(), 1u);
  go();
  EXPECT_EQ(letters_->letters.size(), 1u);
}

TEST_F(Redrive, Rule38_TheBudgetCanBeKept) {
  declare();
  publish(dead("a"));
  run({.reset_budget = false});
  EXPECT_EQ(letters_->letters.at(0).counter, 4u);
}

TEST_F(Redrive, Rule38_AnotherTargetTakesAlsoWhatHasNoHistory) {
  declare();
  publish({.body = "plain"});
  run({});
  EXPECT_EQ(ended, RedriveEnd::completed);
  EXPECT_EQ(progress->skipped.load(), 1u);
  EXPECT_EQ(ready(), 1u);
  run({.target = "other"});
  EXPECT_EQ(letters_->letters.at(0).routing_keys, (std::vector<std::string>{"other"}));
  EXPECT_EQ(letters_->letters.at(0).shown_route, std::string("\2ex\3key", 7));
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Redrive, Rule38_FilterAndLimitChooseTheOldestThatMatchAndLeaveTheRestInPlace) {
  declare();
  for (const char* body : {"a", "bb", "c", "dd", "e", "ff"})
    publish(dead(body, "orders", body[1] ? "expired" : "rejected"));
  run({.limit = 2, .filter = {.reason = "rejected"}});
  EXPECT_EQ(moved_bodies(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(progress->matched.load(), 2u);
  run({.filter = {.header = "tenant", .value = "t1"}});
  EXPECT_EQ(moved_bodies(), (std::vector<std::string>{"a", "c", "e"}));
  run({.filter = {.queue = "nobody"}});
  EXPECT_EQ(ended, RedriveEnd::completed);
  EXPECT_EQ(get_body(), "bb");
  EXPECT_EQ(get_body(), "dd");
  EXPECT_EQ(get_body(), "ff");
}

TEST_F(Redrive, Rule38_ADryRunCountsAndMovesNothing) {
  declare();
  publish(dead("a"));
  publish(dead("b"));
  start({.dry_run = true});
  EXPECT_EQ(ended, RedriveEnd::completed);
  EXPECT_EQ(progress->matched.load(), 2u);
  EXPECT_TRUE(letters_->letters.empty());
  EXPECT_EQ(get_body(), "a");
}

TEST_F(Redrive, Rule38_ADryRunTellsWhereTo) {
  declare();
  for (const char* queue : {"orders", "bills", "orders"}) publish(dead("a", queue));
  start({.dry_run = true});
  EXPECT_EQ(targets, (RedriveTargets{{"bills", 1}, {"orders", 2}}));
  start({.target = "other", .filter = {.queue = "bills"}, .dry_run = true});
  EXPECT_EQ(targets, (RedriveTargets{{"other", 1}}));
  start({.target = "other", .filter = {.queue = "nobody"}, .dry_run = true});
  EXPECT_EQ(targets, (RedriveTargets{{"other", 0}})) << "named, so it is asked about";
  EXPECT_EQ(reason, "nothing matches");
}

TEST_F(Redrive, Rule38_NothingToMoveIsExplained) {
  declare();
  run({});
  EXPECT_EQ(reason, "nothing is ready there");
  publish({.body = "plain"});
  run({});
  EXPECT_NE(reason.find("name a target"), std::string::npos) << reason;
  start({.dry_run = true});
  EXPECT_NE(reason.find("name a target"), std::string::npos) << reason;
}

TEST_F(Redrive, Rule38_ARateIsKept) {
  declare();
  for (int i = 0; i < 5; ++i) publish(dead("m" + std::to_string(i)));
  start({.rate = 10});
  go();
  for (size_t n = 1; n <= 5; ++n) {
    EXPECT_EQ(letters_->letters.size(), n);
    advance(99);
    EXPECT_EQ(letters_->letters.size(), n);
    advance(1);
  }
  EXPECT_EQ(ended, RedriveEnd::completed);
}

TEST_F(Redrive, Rule38_AMissingOrFullTargetStopsItWithTheRestUntouched) {
  declare();
  for (int i = 0; i < 3; ++i) publish(dead("m" + std::to_string(i)));
  letters_->answer = DeadLetterResult::no_route;
  run({});
  EXPECT_EQ(ended, RedriveEnd::stopped);
  EXPECT_EQ(reason, "queue 'orders' in vhost '/' does not exist");
  EXPECT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(progress->failed.load(), 1u);
  EXPECT_EQ(ready(), 3u);
  letters_->answer = DeadLetterResult::refused;
  run({});
  EXPECT_EQ(ended, RedriveEnd::stopped);
  EXPECT_NE(reason.find("refuses"), std::string::npos);
  restart();
  EXPECT_EQ(ready(), 3u);
  for (const char* body : {"m0", "m1", "m2"}) EXPECT_EQ(get_body(), body);
}

TEST_F(Redrive, Rule38_ARefusalAfterAllWereSentStopsItToo) {
  letters_->answer.reset();
  declare();
  for (int i = 0; i < 3; ++i) publish(dead("m" + std::to_string(i)));
  start({});
  go();
  ASSERT_EQ(letters_->letters.size(), 3u);
  const auto sent = letters_->letters;
  for (size_t i = 0; i < 3; ++i) {
    const auto result = i == 0 ? DeadLetterResult::stored : DeadLetterResult::refused;
    on_shard([&] { queues_->dead_letter_done(*queue_, sent[i].token, result); });
  }
  EXPECT_EQ(ended, RedriveEnd::stopped);
  EXPECT_EQ(progress->moved.load(), 1u);
  EXPECT_EQ(progress->failed.load(), 2u);
  EXPECT_EQ(ready(), 2u);
}

TEST_F(Redrive, Rule38_ACancelledOneStopsBetweenMessages) {
  declare();
  for (int i = 0; i < 5; ++i) publish(dead("m" + std::to_string(i)));
  start({.rate = 10});
  go();
  advance(100);
  on_shard([&] { queue_->cancel_redrive(1); });
  EXPECT_EQ(ended, RedriveEnd::cancelled);
  EXPECT_EQ(letters_->letters.size(), 2u);
  advance(1000);
  EXPECT_EQ(letters_->letters.size(), 2u);
  EXPECT_EQ(ready(), 3u);
}

TEST_F(Redrive, Rule38_WhatComesInMeanwhileIsNotMoved) {
  declare();
  publish(dead("old"));
  start({});
  advance(1);
  publish(dead("new"));
  go();
  EXPECT_EQ(ended, RedriveEnd::completed);
  EXPECT_EQ(moved_bodies(), (std::vector<std::string>{"old"}));
  EXPECT_EQ(get_body(), "new");
}

TEST_F(Redrive, Rule38_TheLimitHoldsOverARestart) {
  declare();
  for (int i = 0; i < 10; ++i) publish(dead("m" + std::to_string(i)));
  start({.limit = 6, .rate = 10});
  const RedrivePlan kept = *RedrivePlan::parse(plan->text());
  go();
  advance(100);
  EXPECT_EQ(letters_->letters.size(), 2u);
  restart();
  start({.limit = 6, .plan = kept});
  wait_until([&] { return ended.has_value(); });
  EXPECT_EQ(ended, RedriveEnd::completed);
  EXPECT_EQ(moved_bodies(),
            (std::vector<std::string>{"m2", "m3", "m4", "m5"}));  // since the restart
  EXPECT_EQ(progress->moved.load(), 6u);
  EXPECT_EQ(ready(), 4u);
}

TEST_F(Redrive, Rule38_AMessageIsHereUntilItsTargetHasIt) {
  letters_->answer.reset();
  declare();
  publish(dead("a"));
  start({});
  go();
  ASSERT_EQ(letters_->letters.size(), 1u);
  restart();  // no answer came
  EXPECT_EQ(ready(), 1u);
}

TEST_F(Redrive, Rule38_AMoveThatACrashInterruptedEndsAtItsOneTarget) {
  dead_letter_to("parked");  // a dead letter of this queue would have other targets
  letters_->answer.reset();
  declare();
  publish(dead("a"));
  publish(dead("b"));
  start({});
  go();
  const Origin origin = letters_->letters.at(0).origin;
  restart();
  ASSERT_EQ(ready(), 2u);
  on_shard([&] { EXPECT_TRUE(queues_->finish_move(*queue_, origin, {QueueId(55)})); });
  turns();
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].already_in, (std::vector<QueueId>{QueueId(55)}));
  EXPECT_EQ(letters_->letters[0].routing_keys, (std::vector<std::string>{""}));  // to nobody else
  EXPECT_EQ(letters_->dropped.size(), 1u);
  EXPECT_EQ(get_body(), "b");
  EXPECT_EQ(get_body(), "-");
}

TEST_F(Redrive, Rule38_RecoveryTellsARedriveFromADeadLetter) {
  declare();
  for (const uint8_t hops : {uint8_t{0}, uint8_t{1}}) {
    const Origin origin{QueueId(9), 0, 4, 5u + hops};
    on_shard([&] {
      const std::string route("\1e\1k", 4);
      const std::string header = PropertiesBuilder{}.build(1);
      PublishRequest request;
      request.route = as_bytes(route);
      request.header = as_bytes(header);
      request.body = as_bytes("m");
      request.persistent = true;
      request.hops = hops;
      request.origin = &origin;
      queue_->publish(request);
    });
  }
  restart();
  ASSERT_EQ(origins_.size(), 2u);
  for (const auto& [origin, holder] : origins_) EXPECT_EQ(origin.sole, origin.ordinal == 5);
}

TEST_F(Redrive, Rule38_RequeuedOnesGoTooAndThoseThatAreOutStay) {
  declare();
  for (const char* body : {"a", "b", "c"}) publish(dead(body));
  auto a = get(), b = get();
  settle(Outcome::put_back, {*a});
  run({});
  EXPECT_EQ(moved_bodies(), (std::vector<std::string>{"a", "c"}));
  settle(Outcome::put_back, {*b});
  EXPECT_EQ(get_body(), "b");
}

TEST_F(Redrive, Rule38_ADeletedQueueEndsIt) {
  declare();
  publish(dead("a"));
  start({});
  remove();
  EXPECT_EQ(ended, RedriveEnd::stopped);
}

TEST_F(Redrive, Rule38_ManyGoInBoundedStepsEachOnce) {
  declare();
  on_shard([&] {
    for (int i = 0; i < 5000; ++i) publish_here(dead("m" + std::to_string(i)));
  });
  run({});
  EXPECT_EQ(letters_->letters.size(), 5000u);
  auto bodies = moved_bodies();
  EXPECT_EQ(std::set<std::string>(bodies.begin(), bodies.end()).size(), 5000u);
  EXPECT_EQ(ready(), 0u);
}

TEST(RedrivePlanText, TextAndBack) {
  const RedrivePlan plan{77, {{5, {1, 2, 0}}, {0, {0xFFFFFFFF, 9, 0}}}};
  const auto back = RedrivePlan::parse(plan.text());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->matched, 77u);
  ASSERT_EQ(back->ends.size(), 2u);
  EXPECT_EQ(back->ends[0].lane, 5);
  EXPECT_EQ(back->ends[1].last, (Position{0xFFFFFFFF, 9, 0}));
  for (const char* bad : {"", "x;", "1", "1;2", "1;2-3;", "1;2-3-g;"})
    EXPECT_FALSE(RedrivePlan::parse(bad)) << bad;
}

}  // namespace
}  // namespace tarry::test
