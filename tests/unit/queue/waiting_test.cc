// What operators see of waiting messages, and do to them (retry-spec 37).
#include <gtest/gtest.h>

#include <set>

#include "support/queue_world.h"
#include "tarrymq/queue/waiting.h"
#include "tarrymq/storage/due_index.h"

namespace tarry::test {
namespace {

class Waiting : public QueueWorld {
 protected:
  Waiting() {
    retry_queue(1000, 1);
    dead_letter_to("dead");
  }
  /// Publishes and rejects: each waits for min, in order, one ms after the other.
  void park(int count, int64_t apart_ms = 1) {
    for (int i = 0; i < count; ++i) {
      FieldTable headers;
      headers.set("n", FieldValue::int64(i));
      publish({.body = "m" + std::to_string(i),
               .headers = headers,
               .key = "key" + std::to_string(i % 3)});
      settle(Outcome::nack_requeue, {*get()});
      if (apart_ms > 0) clock_.advance_ms(apart_ms);
    }
    turns();
  }
  WaitingPage list(WaitingQuery query = {}) {
    std::optional<WaitingPage> page;
    on_shard([&] { queue_->list_waiting(query, [&](WaitingPage p) { page = std::move(p); }); });
    wait_until([&] { return page.has_value(); });
    return std::move(*page);
  }
  WaitingOutcome act(WaitingOrder order) {
    std::optional<WaitingOutcome> outcome;
    on_shard(
        [&] { queue_->act_on_waiting(order, [&](WaitingOutcome o) { outcome = std::move(o); }); });
    wait_until([&] { return outcome.has_value(); });
    turns();
    return std::move(*outcome);
  }
  std::vector<std::string> bodies(const WaitingPage& page) {
    std::vector<std::string> out;
    for (const auto& message : page.messages) out.push_back(message.body);
    return out;
  }
  uint64_t now() { return shard_->now().floor_ms(); }
};

TEST_F(Waiting, Rule37_TheListShowsEachByDueTimeWithAllThatIsKnown) {
  declare();
  park(5, 10);
  const WaitingPage page = list({.payload_bytes = 1});
  EXPECT_EQ(page.total, 5u);
  EXPECT_EQ(page.matching, 5u);
  ASSERT_EQ(page.messages.size(), 5u);
  const WaitingMessage& first = page.messages[0];
  EXPECT_EQ(first.due_ms, now() - 50 + 1000);
  EXPECT_EQ(first.rejected_ms, now() - 50);
  EXPECT_EQ(first.delivery_count, 1u);
  EXPECT_EQ(first.exchange, "ex");
  EXPECT_EQ(first.routing_key, "key0");
  EXPECT_EQ(first.body, "m");
  EXPECT_EQ(first.body_bytes, 2u);
  EXPECT_FALSE(first.expires);
  EXPECT_TRUE(PropertiesView::parse(as_bytes(first.header)));
  EXPECT_EQ(page.next_due_ms, first.due_ms);
  EXPECT_EQ(page.last_due_ms, page.messages[4].due_ms);
  std::set<std::string> ids;
  uint64_t last = 0, counted = 0;
  for (const auto& message : page.messages) {
    ids.insert(message.id);
    EXPECT_GE(message.due_ms, last);
    last = message.due_ms;
  }
  EXPECT_EQ(ids.size(), 5u);
  for (const auto& row : page.histogram) counted += row.count;
  EXPECT_EQ(counted, 5u);
  EXPECT_EQ(delayed(), 5u);  // looking takes nothing
}

TEST_F(Waiting, Rule37_PagesMeetWithoutGapOrOverlapAndABoundOnDueCuts) {
  declare();
  store_->due().set_memory_budget(16);  // most of it goes to disk
  park(60, 3);
  std::vector<std::string> seen, expected;
  for (uint64_t offset = 0; offset < 70; offset += 7) {
    for (auto& body : bodies(list({.offset = offset, .count = 7, .payload_bytes = 99})))
      seen.push_back(body);
  }
  for (int i = 0; i < 60; ++i) expected.push_back("m" + std::to_string(i));
  EXPECT_EQ(seen, expected);
  const uint64_t bound = list().messages[20].due_ms;
  const WaitingPage cut =
      list({.offset = 15, .count = 100, .due_before_ms = bound, .payload_bytes = 99});
  EXPECT_EQ(cut.matching, 20u);
  EXPECT_EQ(cut.total, 60u);
  EXPECT_EQ(bodies(cut), (std::vector<std::string>{"m15", "m16", "m17", "m18", "m19"}));
}

TEST_F(Waiting, Rule37_AfterARestartAllIsListedTreatedAndReturnedAsBefore) {
  declare();
  park(60, 3);
  due_budget_ = 16;  // so that a part of what waits is read at a time
  restart();
  EXPECT_EQ(delayed(), 60u);
  std::vector<std::string> seen, expected;
  for (uint64_t offset = 0; offset < 60; offset += 7) {
    for (auto& body : bodies(list({.offset = offset, .count = 7, .payload_bytes = 99})))
      seen.push_back(body);
  }
  for (int i = 0; i < 60; ++i) expected.push_back("m" + std::to_string(i));
  EXPECT_EQ(seen, expected);
  restart();
  const WaitingPage page = list({.offset = 50, .count = 3});
  EXPECT_EQ(page.total, 60u);
  EXPECT_EQ(act({.act = WaitingAct::drop, .ids = {page.messages[0].id}}).affected, 1u);
  EXPECT_EQ(delayed(), 59u);
  restart();
  EXPECT_EQ(delayed(), 59u);
  for (int i = 0; i < 59; ++i) expected[i] = i < 50 ? expected[i] : expected[i + 1];
  expected.pop_back();
  seen.clear();
  advance(2000);
  for (int i = 0; i < 80; ++i) {
    const std::string body = get_body();
    if (body == "-") break;
    seen.push_back(body);
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(delayed(), 0u);
}

TEST_F(Waiting, Rule37_WhatWaitsLongLeavesMemoryAndIsListedTreatedAndReturnedAllTheSame) {
  retry_queue(20'000, 1);
  store_->due().set_memory_budget(16);
  due_budget_ = 16;
  declare();
  park(60, 3);
  std::vector<std::string> seen, expected;
  for (uint64_t offset = 0; offset < 60; offset += 7) {
    for (auto& body : bodies(list({.offset = offset, .count = 7, .payload_bytes = 99})))
      seen.push_back(body);
  }
  for (int i = 0; i < 60; ++i) expected.push_back("m" + std::to_string(i));
  EXPECT_EQ(seen, expected);
  for (int i = 60; i < 100; ++i) expected.push_back("m" + std::to_string(i - 60));
  advance(5000);
  park(40, 3);
  EXPECT_EQ(delayed(), 100u);
  const uint64_t bytes = figure(&QueueFigures::delayed_bytes);
  const std::string id = list({.offset = 50, .count = 1}).messages[0].id;
  EXPECT_EQ(act({.act = WaitingAct::drop, .ids = {id}}).affected, 1u);
  expected.erase(expected.begin() + 50);
  EXPECT_EQ(figure(&QueueFigures::delayed_bytes), bytes - 3);
  seen.clear();
  for (int n = 0; n < 30; ++n) {
    advance(1000);
    for (auto got = get(); got; got = get()) {
      seen.push_back(got->body);
      settle(Outcome::ack, {*got});
    }
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(figure(&QueueFigures::delayed_bytes), 0u);
}

TEST_F(Waiting, Rule21_AnOperatorsPurgeTakesWhatIsOnDiskAtOnce) {
  store_->due().set_memory_budget(16);
  due_budget_ = 16;
  declare();
  park(60, 3);
  on_shard([&] { queue_->purge_delayed(); });
  for (int i = 0; i < 50 && delayed() > 0; ++i) advance(10);  // by its timer
  EXPECT_EQ(delayed(), 0u);
  park(60, 3);
  restart();
  EXPECT_EQ(delayed(), 60u);
  on_shard([&] { queue_->purge_delayed(); });
  for (int i = 0; i < 50 && delayed() > 0; ++i) advance(10);  // by its timer
  EXPECT_EQ(delayed(), 0u);
  advance(2000);
  EXPECT_EQ(get_body(), "-");
}

TEST_F(Waiting, Rule37_AQueueWhereNothingWaitsHasAnEmptyPage) {
  declare();
  const WaitingPage page = list();
  EXPECT_EQ(page.total, 0u);
  EXPECT_TRUE(page.messages.empty());
  EXPECT_FALSE(page.next_due_ms);
  EXPECT_EQ(act({.act = WaitingAct::drop}).affected, 0u);
}

TEST_F(Waiting, Rule37_RedeliverNowBringsThemAtOnceAndOnlyOnceWithTheirCounter) {
  declare();
  park(4);
  const WaitingPage page = list();
  EXPECT_EQ(act({.act = WaitingAct::redeliver, .ids = {page.messages[2].id, page.messages[1].id}})
                .affected,
            2u);
  EXPECT_EQ(delayed(), 2u);
  auto first = get(), second = get();
  ASSERT_TRUE(first && second);
  EXPECT_EQ((std::set{first->body, second->body}), (std::set<std::string>{"m1", "m2"}));
  EXPECT_EQ(first->counter, 1u);
  EXPECT_TRUE(first->redelivered);
  EXPECT_EQ(get_body(), "-");
  settle(Outcome::ack, {*first, *second});
  advance(2000);
  EXPECT_EQ(get_body(), "m0");
  EXPECT_EQ(get_body(), "m3");
  EXPECT_EQ(get_body(), "-");
}

TEST_F(Waiting, Rule37_AnIdIsOfOneWaitOnly) {
  declare();
  park(1);
  const std::string id = list().messages[0].id;
  EXPECT_EQ(act({.act = WaitingAct::redeliver, .ids = {id}}).affected, 1u);
  clock_.advance_ms(5);
  settle(Outcome::nack_requeue, {*get()});
  EXPECT_EQ(act({.act = WaitingAct::drop, .ids = {id}}).affected, 0u);
  EXPECT_EQ(delayed(), 1u);
  EXPECT_EQ(
      act({.act = WaitingAct::drop, .ids = {list().messages[0].id, "no id", "1-0-1-99"}}).affected,
      1u);
  EXPECT_EQ(delayed(), 0u);
}

TEST_F(Waiting, Rule37_RedeliverNowSurvivesARestart) {
  declare();
  park(3);
  EXPECT_EQ(act({.act = WaitingAct::redeliver}).affected, 3u);
  restart();
  turns();
  EXPECT_EQ(ready(), 3u);
  EXPECT_EQ(get_body(), "m0");
}

TEST_F(Waiting, Rule37_DroppedOnesAreGoneAlsoAfterARestart) {
  declare();
  park(3);
  EXPECT_EQ(act({.act = WaitingAct::drop, .ids = {list().messages[1].id}}).affected, 1u);
  restart();
  EXPECT_EQ(delayed(), 2u);
  EXPECT_EQ(act({.act = WaitingAct::drop}).affected, 2u);
  EXPECT_TRUE(letters_->letters.empty());
  restart();
  EXPECT_EQ(delayed(), 0u);
  advance(5000);
  EXPECT_EQ(get_body(), "-");
}

TEST_F(Waiting, Rule37_DeadLetterNowGoesThroughTheStageWithReasonRejected) {
  declare();
  park(3);
  EXPECT_EQ(act({.act = WaitingAct::dead_letter, .ids = {list().messages[0].id}}).affected, 1u);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "m0");
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::rejected);
  EXPECT_EQ(letters_->letters[0].origin.queue, queue_->id);
  EXPECT_EQ(letters_->dropped.size(),
            1u);  // the source is gone durably, and the target hears of it
  EXPECT_EQ(queue_->figures().dead_lettered[0].load(), 1u);
  EXPECT_EQ(delayed(), 2u);
  restart();
  EXPECT_EQ(delayed(), 2u);
}

TEST_F(Waiting, WhatRecoveryFindsOnItsWayOutIsNotListedOrCounted) {
  declare();
  park(3);
  const auto id = *WaitingId::parse(list().messages[1].id);
  restart();
  letters_->answer.reset();
  const Origin origin{queue_->id, id.lane, id.segment, id.ordinal};
  on_shard([&] { EXPECT_TRUE(queues_->finish_move(*queue_, origin, {})); });
  EXPECT_EQ(delayed(), 2u);
  EXPECT_EQ(list().total, 2u);
  EXPECT_EQ(list().messages.size(), 2u);
}

TEST_F(Waiting, Rule37_WhatNoTargetTakesGoesOnWaiting) {
  declare();
  park(3);
  letters_->answer = DeadLetterResult::no_route;
  const WaitingOutcome outcome = act({.act = WaitingAct::dead_letter});
  EXPECT_EQ(outcome.affected, 0u);
  EXPECT_EQ(outcome.failed, 3u);
  EXPECT_EQ(outcome.reason, "no queue is bound for it");
  EXPECT_EQ(delayed(), 3u);
  advance(1000);
  EXPECT_EQ(get_body(), "m0");
  restart();
  EXPECT_EQ(ready() + delayed(), 3u);
}

TEST_F(Waiting, Rule37_DeadLetterNowNeedsAnExchange) {
  settings_.dead_letter_exchange.reset();
  declare();
  park(1);
  const WaitingOutcome outcome = act({.act = WaitingAct::dead_letter});
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, 406);
  EXPECT_EQ(delayed(), 1u);
}

TEST_F(Waiting, Rule37_AFilterChoosesByHeaderKeyCounterAndDue) {
  declare();
  park(9);
  WaitingFilter by_key;
  by_key.routing_key = "key1";
  EXPECT_EQ(act({.act = WaitingAct::drop, .filter = by_key}).affected, 3u);
  WaitingFilter by_header;
  by_header.header = "n";
  by_header.value = "5";
  EXPECT_EQ(act({.act = WaitingAct::drop, .filter = by_header}).affected, 1u);
  by_header.value = "nobody";
  EXPECT_EQ(act({.act = WaitingAct::drop, .filter = by_header}).affected, 0u);
  WaitingFilter by_count;
  by_count.count_min = 2;
  EXPECT_EQ(act({.act = WaitingAct::drop, .filter = by_count}).affected, 0u);
  WaitingFilter by_due;
  by_due.due_before_ms = list().messages[2].due_ms;
  EXPECT_EQ(act({.act = WaitingAct::redeliver, .filter = by_due}).affected, 2u);
  EXPECT_EQ(bodies(list({.payload_bytes = 9})), (std::vector<std::string>{"m3", "m6", "m8"}));
}

TEST_F(Waiting, Rule37_AllMeansWhatWaitedWhenItWasAsked) {
  declare();
  consume(1);
  on_shard([&] {
    for (int i = 0; i < 300; ++i) publish_here({.body = "m" + std::to_string(i)});
  });
  settle(Outcome::nack_requeue, sink_.take());
  ASSERT_EQ(delayed(), 300u);
  // Each is rejected again as soon as it comes, so that it waits anew while the order is carried
  // out.
  sink_.after_deliver = [&](ConsumerId) {
    shard_->post([&] {
      for (const Got& got : sink_.take()) {
        const SettleRun run = got.run();
        queue_->settle(Outcome::nack_requeue, std::span(&run, 1));
      }
    });
  };
  EXPECT_EQ(act({.act = WaitingAct::redeliver}).affected, 300u);
  turns();
  EXPECT_EQ(delayed(), 300u);
  for (const auto& message : list({.count = 1000}).messages) EXPECT_EQ(message.delivery_count, 2u);
  sink_.after_deliver = nullptr;
}

TEST_F(Waiting, Rule37_AMassActionOverDiskAndMemoryTreatsEachOnce) {
  declare();
  store_->due().set_memory_budget(64);
  consume(1);
  on_shard([&] {
    for (int i = 0; i < 3000; ++i)
      publish_here({.body = "m" + std::to_string(i), .persistent = i % 2 == 0});
  });
  settle(Outcome::nack_requeue, sink_.take());
  ASSERT_EQ(delayed(), 3000u);
  EXPECT_EQ(act({.act = WaitingAct::dead_letter}).affected, 3000u);
  EXPECT_EQ(letters_->letters.size(), 3000u);
  std::set<std::string> bodies;
  for (const auto& letter : letters_->letters) bodies.insert(letter.body);
  EXPECT_EQ(bodies.size(), 3000u);
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(ready(), 0u);
}

TEST_F(Waiting, Rule26_WhatExpiresWhileItWaitsIsListedByItsExpiry) {
  settings_.message_ttl_ms = 300;
  declare();
  park(1, 0);
  const WaitingPage page = list();
  ASSERT_EQ(page.messages.size(), 1u);
  EXPECT_TRUE(page.messages[0].expires);
  EXPECT_EQ(page.messages[0].due_ms, now() + 300);
  EXPECT_EQ(act({.act = WaitingAct::redeliver}).affected, 1u);
  EXPECT_EQ(get_body(), "m0");
}

TEST_F(Waiting, Rule26_ATtlThatAPolicySetsHoldsForWhatWaits) {
  retry_queue(60'000, 1);
  declare();
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  advance(1000);
  publish({"b"});
  settle(Outcome::nack_requeue, {*get()});
  settings_.message_ttl_ms = 5000;
  on_shard([&] { queue_->apply(settings_); });
  advance(3999);
  EXPECT_TRUE(letters_->letters.empty());
  advance(1);
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].body, "a");
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::expired);
  // Without it the other one waits on, until it is due.
  settings_.message_ttl_ms.reset();
  on_shard([&] { queue_->apply(settings_); });
  advance(55'999);
  EXPECT_EQ(get_body(), "-");
  EXPECT_EQ(delayed(), 1u);
  advance(1);
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "b");
  EXPECT_EQ(got->counter, 1u);
  EXPECT_EQ(letters_->letters.size(), 1u);
}

// One that ends its wait before the walk over all has come to it.
TEST_F(Waiting, Rule26_AChangedTtlHoldsFromThatMoment) {
  settings_.message_ttl_ms = 500;
  declare();
  publish({"a"});
  settle(Outcome::nack_requeue, {*get()});
  clock_.advance_ms(500);
  shard_->post([&] {
    settings_.message_ttl_ms = 900;
    queue_->apply(settings_);
  });
  turns();
  EXPECT_TRUE(letters_->letters.empty());
  EXPECT_EQ(delayed(), 1u);
  advance(400);
  EXPECT_EQ(letters_->letters.size(), 1u);
}

TEST_F(Waiting, Rule26_ATtlThatIsSetHoldsForWhatLiesOnDiskToo) {
  retry_queue(60'000, 1);
  declare();
  store_->due().set_memory_budget(16);
  park(60, 3);
  due_budget_ = 16;  // so that a part of what waits is read at a time
  restart();
  settings_.message_ttl_ms = 2000;
  on_shard([&] { queue_->apply(settings_); });
  // Once the last of them is to expire, all are.
  wait_until([&] {
    const WaitingPage page = list({.offset = 59, .count = 1});
    return !page.messages.empty() && page.messages[0].expires;
  });
  advance(1820);  // the first has been there for as long as that
  wait_until([&] { return !letters_->letters.empty(); });
  EXPECT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(list().total, 59u);
  advance(180);
  wait_until([&] { return letters_->letters.size() == 60; });
  turns();
  for (const auto& letter : letters_->letters) EXPECT_EQ(letter.reason, DeathReason::expired);
  EXPECT_EQ(delayed(), 0u);
}

// Nobody consumes, and of so many due returns only a part is held: the rest is not late.
TEST_F(Waiting, Rule40_WhatWaitsForRoomAmongTheReturnsIsNotLate) {
  constexpr int kCount = 66'000;
  declare();
  consume(1);
  on_shard([&] {
    for (int i = 0; i < kCount; ++i) publish_here({.body = "m"});
  });
  wait_until([&] { return sink_.deliveries.size() == kCount; });
  settle(Outcome::nack_requeue, sink_.take());
  on_shard([&] { queue_->cancel(ConsumerId(1), here(), ++token_); });
  EXPECT_EQ(act({.act = WaitingAct::redeliver}).affected, static_cast<uint64_t>(kCount));
  wait_until([&] { return ready() >= 65'536; });
  advance(60'000);
  EXPECT_EQ(ready() + delayed(), static_cast<uint64_t>(kCount));
  EXPECT_GT(delayed(), 0u);
  EXPECT_EQ(figure(&QueueFigures::owed_since_ms), 0u);
  consume(2);
  wait_until([&] { return sink_.deliveries.size() == kCount; });
  turns();
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(figure(&QueueFigures::retries_redelivered), static_cast<uint64_t>(kCount));
  EXPECT_EQ(figure(&QueueFigures::retry_lag_sum_ms), 0u);
}

TEST_F(Waiting, Rule25_AFullQueueLetsARedeliveryWaitOnePeriodMore) {
  settings_.max_length = 1;
  settings_.overflow = Overflow::reject_publish;
  declare();
  park(1);
  publish({"fresh"});
  EXPECT_EQ(act({.act = WaitingAct::redeliver}).affected, 1u);
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(delayed(), 1u);
  EXPECT_EQ(list().messages[0].due_ms, now() + 1000);
}

TEST_F(Waiting, Rule37_APurgeOrDeleteMeanwhileIsAnswered) {
  declare();
  park(2);
  EXPECT_EQ(purge(), 2u);
  EXPECT_EQ(act({.act = WaitingAct::redeliver}).affected, 0u);
  remove();
  EXPECT_EQ(list().error->code, 404);
  EXPECT_EQ(act({.act = WaitingAct::drop}).error->code, 404);
}

TEST_F(Waiting, Rule37_ErrorsOfTheConsumerAreListedAndFilteredBy) {
  declare();
  std::optional<WaitingOutcome> parked;
  std::vector<GivenMessage> given(2);
  given[0].header = given[1].header = PropertiesBuilder{}.build(1);
  given[0].body = given[1].body = "x";
  given[0].delay_ms = given[1].delay_ms = 500;
  given[0].last_error = "timeout of the bank";
  on_shard([&] { queue_->park_given(given, [&](WaitingOutcome o) { parked = o; }); });
  wait_until([&] { return parked.has_value(); });
  EXPECT_EQ(list().messages[0].last_error, "timeout of the bank");
  EXPECT_EQ(list().messages[1].last_error, "");
  WaitingFilter filter;
  filter.error = "bank";
  EXPECT_EQ(act({.act = WaitingAct::redeliver, .filter = filter}).affected, 1u);
  EXPECT_EQ(delayed(), 1u);
}

// -- Messages that come to wait here from elsewhere (issue 6, point 9)

TEST_F(Waiting, GivenMessagesWaitOnWithTheirDelayAndCounterAlsoAfterARestart) {
  declare();
  std::vector<GivenMessage> given(2);
  FieldTable headers;
  headers.set("x-delivery-count", FieldValue::int64(77));
  headers.set("kept", FieldValue::text("yes"));
  PropertiesBuilder builder;
  builder.delivery_mode = 2;
  builder.headers = headers;
  for (int i = 0; i < 2; ++i) {
    given[static_cast<size_t>(i)] = {
        "orig", "rk", builder.build(4), i == 0 ? "late" : "soon", i == 0 ? 800u : 300u, 3, "why",
        true,   0};
  }
  std::optional<WaitingOutcome> parked;
  on_shard([&] { queue_->park_given(given, [&](WaitingOutcome o) { parked = o; }); });
  wait_until([&] { return parked.has_value(); });
  EXPECT_EQ(parked->affected, 2u);
  EXPECT_FALSE(parked->error);
  EXPECT_EQ(ready(), 0u);
  EXPECT_EQ(delayed(), 2u);
  advance(299);
  EXPECT_EQ(get_body(), "-");
  restart();
  advance(1);
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "soon");
  EXPECT_EQ(got->counter, 3u);
  EXPECT_EQ(got->exchange, "orig");
  EXPECT_FALSE(got->headers().find("x-delivery-count"));
  EXPECT_EQ(*got->headers().find("kept")->text(), "yes");
  settle(Outcome::nack_requeue, {*got});
  EXPECT_EQ(list({.payload_bytes = 9}).messages[0].delivery_count, 3u);
  advance(500);
  EXPECT_EQ(get()->body, "late");
}

TEST_F(Waiting, GivenMessagesNeedAQueueWithRetries) {
  identity_.retry_enabled = false;
  declare();
  std::optional<WaitingOutcome> parked;
  on_shard([&] { queue_->park_given({GivenMessage{}}, [&](WaitingOutcome o) { parked = o; }); });
  ASSERT_TRUE(parked && parked->error);
  EXPECT_EQ(parked->error->code, 406);
}

TEST(WaitingId, TextAndBack) {
  const WaitingId id{1'700'000'000'123, 255, 0xFFFFFFFF, 7};
  EXPECT_EQ(WaitingId::parse(id.text()), id);
  for (const char* bad :
       {"", "-", "1-2-3", "1-2-3-", "1-2-3-g", "1-2-3-4-5", "1-100-3-4", "-1-2-3-4", "1--2-3"}) {
    EXPECT_FALSE(WaitingId::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace tarry::test
