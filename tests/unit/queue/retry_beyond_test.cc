// Jitter, age and x-delayed-retry-type (retry-spec 33, 34 and 39).
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

class RetriesBeyond : public QueueWorld {};

TEST_F(RetriesBeyond, Rule33_JitterDrawsTheDelayFromItsRange) {
  retry_queue(1000, 1, 200);
  settings_.retry.jitter_percent = 50;
  declare();
  publish({"m"});
  for (int n = 0; n < 50; ++n) {
    settle(Outcome::nack_requeue, {*get()});
    advance(499);
    EXPECT_EQ(get_body(), "-") << n;
    advance(1001);
    ASSERT_EQ(ready(), 1u) << n;
  }
}

TEST_F(RetriesBeyond, Rule34_ARejectionOfATooOldMessageDeadLettersAsMaxAge) {
  retry_queue(100, 1);
  settings_.retry.max_age_ms = 250;
  dead_letter_to("dead");
  declare();
  publish({"m"});
  for (int n = 0; n < 2; ++n) {
    settle(Outcome::nack_requeue, {*get()});
    advance(100);
  }
  advance(50);
  settle(Outcome::nack_requeue, {*get()});  // 250 old: not older
  EXPECT_TRUE(letters_->letters.empty());
  advance(100);
  settle(Outcome::nack_requeue, {*get()});
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::max_age);
}

TEST_F(RetriesBeyond, Rule34_TheLimitGoesBeforeTheAgeAndTheAgeBeforeExpiry) {
  retry_queue(10, 1, 1);
  settings_.retry.max_age_ms = 50;
  settings_.message_ttl_ms = 60;
  dead_letter_to("dead");
  declare();
  publish({"twice", "once"});
  settle(Outcome::nack_requeue, {*get()});
  const Got once = *get();
  advance(10);
  const Got twice = *get();
  advance(100);  // both are too old, and expired, and one has been here before
  settle(Outcome::nack_requeue, {twice, once});
  ASSERT_EQ(letters_->letters.size(), 2u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::delivery_limit);
  EXPECT_EQ(letters_->letters[1].reason, DeathReason::max_age);
}

TEST_F(RetriesBeyond, Rule34_WithoutMaxAgeNoRejectionIsTooLate) {
  retry_queue(10, 1);
  dead_letter_to("dead");
  declare();
  publish({"m"});
  const Got got = *get();
  advance(3'600'000);
  settle(Outcome::nack_requeue, {got});
  EXPECT_TRUE(letters_->letters.empty());
  EXPECT_EQ(delayed(), 1u);
}

TEST_F(RetriesBeyond, Rule39_AQueueWithAnyTypeHasNoCapUnlessItIsDeclared) {
  retry_queue(1000, {}, 200);
  settings_.retry.type = RetryType::returned;
  declare();
  publish({"m"});
  for (int64_t n = 1; n <= 5; ++n) {
    settle(Outcome::nack_requeue, {*get()});
    advance(1000 * n - 1);
    EXPECT_EQ(ready(), 0u) << n;
    advance(1);
    ASSERT_EQ(ready(), 1u) << n;
  }
}

TEST_F(RetriesBeyond, Rule39_OnlyWhatTheTypeListsWaits) {
  struct {
    RetryType type;
    Outcome waits, at_once;
  } const cases[] = {{RetryType::failed, Outcome::reject_requeue, Outcome::nack_requeue},
                     {RetryType::failed, Outcome::channel_closed, Outcome::timed_out},
                     {RetryType::returned, Outcome::nack_requeue, Outcome::reject_requeue},
                     {RetryType::returned, Outcome::timed_out, Outcome::channel_closed},
                     {RetryType::all, Outcome::timed_out, Outcome::recovered},
                     {RetryType::rejections, Outcome::nack_requeue, Outcome::channel_closed}};
  retry_queue(100, 1, 200);
  declare();
  publish({"m"});
  uint32_t counter = 0;
  for (const auto& c : cases) {
    settings_.retry.type = c.type;
    on_shard([&] { queue_->apply(settings_); });
    settle(c.waits, {*get()});
    EXPECT_EQ(get_body(), "-");
    advance(100);
    auto got = get();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->counter, ++counter);
    settle(c.at_once, {*got});
    EXPECT_EQ(ready(), 1u);
    ++counter;
  }
}

}  // namespace
}  // namespace tarry::test
