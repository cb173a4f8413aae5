// Settlements by a publish to amq.retry (retry-spec 35), and retry lag (40).
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

class OwnWords : public QueueWorld {
 protected:
  static OwnWord told(std::string error, std::optional<uint64_t> delay_ms = {},
                      bool permanent = false, uint64_t publish_number = 0) {
    OwnWord word;
    word.error = std::move(error);
    word.delay_ms = delay_ms;
    word.permanent = permanent;
    word.publish_number = publish_number;
    return word;
  }
  std::string letter_error(size_t i) {
    const FieldTable headers = letters_->letters.at(i).headers();
    const FieldValue* value = headers.find("x-last-error");
    return value && value->text() ? *value->text() : "-";
  }
  uint64_t lag_count(size_t from, size_t to) {
    uint64_t count = 0;
    for (size_t i = from; i <= to; ++i) count += queue_->figures().retry_lag[i];
    return count;
  }
};

TEST_F(OwnWords, Rule35_TheDelayReplacesTheComputedOneAndIsCappedTheSame) {
  retry_queue(1000, 2);
  settings_.retry.max_ms = 5000;
  settings_.retry.jitter_percent = 100;  // not for a delay that was told
  declare();
  publish({"m"});
  for (uint64_t delay : {700ull, 5000ull, 99'999ull}) {
    say(*get(), told("", delay));
    const auto waits = static_cast<int64_t>(std::min<uint64_t>(delay, 5000));
    EXPECT_EQ(delayed(), 1u);
    advance(waits - 1);
    EXPECT_EQ(ready(), 0u) << delay;
    advance(1);
    ASSERT_EQ(ready(), 1u) << delay;
  }
  say(*get(), told("", 0));
  turns();
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->counter, 4u);
}

TEST_F(OwnWords, Rule35_WithoutADelayItIsTheComputedOne) {
  retry_queue(100, 2);
  declare();
  publish({"m"});
  settle(Outcome::nack_requeue, {*get()});
  advance(100);
  say(*get(), told("second"));
  advance(199);
  EXPECT_EQ(ready(), 0u);
  advance(1);
  EXPECT_EQ(ready(), 1u);
}

TEST_F(OwnWords, Rule35_TheErrorTextIsOnLaterDeliveriesUntilAnotherIsTold) {
  retry_queue(100, 1);
  declare();
  publish({"m"});
  auto got = get();
  EXPECT_EQ(got->last_error, "");
  say(*got, told("one"));
  advance(100);
  consume(1);
  got = sink_.take().at(0);
  EXPECT_EQ(got->last_error, "one");
  settle(Outcome::nack_requeue, {*got});  // says nothing
  advance(100);
  got = sink_.take().at(0);
  EXPECT_EQ(got->last_error, "one");
  say(*got, told("two"));
  advance(100);
  EXPECT_EQ(sink_.take().at(0).last_error, "two");
}

TEST_F(OwnWords, Rule35_TheErrorTextIsOnTheDeadLetter) {
  retry_queue(100, 1, 1);
  dead_letter_to("dead");
  declare();
  publish({"m", "n"});
  say(*get(), told("first"));
  settle(Outcome::drop, {*get()});
  advance(100);
  say(*get(), told("last"));  // over the limit: at once, whatever the delay
  ASSERT_EQ(letters_->letters.size(), 2u);
  EXPECT_EQ(letter_error(0), "-");
  EXPECT_EQ(letters_->letters[1].reason, DeathReason::delivery_limit);
  EXPECT_EQ(letter_error(1), "last");
}

TEST_F(OwnWords, Rule35_TheLimitComesBeforeTheDelay) {
  retry_queue(100, 1, 0);
  dead_letter_to("dead");
  declare();
  publish({"m"});
  say(*get(), told("", 50));
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::delivery_limit);
  EXPECT_EQ(delayed(), 0u);
}

TEST_F(OwnWords, Rule35_PermanentSkipsWhatIsLeft) {
  retry_queue(100, 1);
  dead_letter_to("dead");
  declare();
  publish({"m"});
  say(*get(), told("bad format", {}, true));
  ASSERT_EQ(letters_->letters.size(), 1u);
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::rejected);
  EXPECT_EQ(letter_error(0), "bad format");
  EXPECT_EQ(figure(&QueueFigures::unacked), 0u);
}

TEST_F(OwnWords, Rule35_AQueueWithoutRetriesRequeuesAtOnceWithTheText) {
  declare();
  publish({"m", "n"});
  say(*get(), told("why"));
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "m");
  EXPECT_TRUE(got->redelivered);
  EXPECT_EQ(got->last_error, "why");
  crash();
  got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->last_error, "why");
}

TEST_F(OwnWords, Rule35_TheConfirmMeansThatTheSettlementSurvivesKill9) {
  retry_queue(1000, 1);
  dead_letter_to("dead");
  declare();
  letters_->answer.reset();  // the target takes its time
  publish({"waits", "dies"});
  const Got waits = *get(), dies = *get();
  say(waits, told("try later", 5000, false, 1));
  say(dies, told("never", {}, true, 2));
  ASSERT_EQ(sink_.confirms.size(), 2u);
  EXPECT_EQ(sink_.confirms[0].last, 1u);
  EXPECT_FALSE(sink_.confirms[0].refused);
  EXPECT_EQ(sink_.confirms[1].last, 2u);
  EXPECT_FALSE(sink_.confirms[1].refused);
  ASSERT_EQ(letters_->letters.size(), 1u);
  crash();
  EXPECT_EQ(ready(), 0u);
  EXPECT_EQ(delayed(), 1u);
  // The letter that had not arrived is written again, with all that was said.
  wait_until([&] { return letters_->letters.size() == 1; });  // its record is read from disk
  EXPECT_EQ(letters_->letters[0].body, "dies");
  EXPECT_EQ(letters_->letters[0].reason, DeathReason::rejected);
  EXPECT_EQ(letter_error(0), "never");
  advance(5000);
  auto got = get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->counter, 1u);
  EXPECT_EQ(got->last_error, "try later");
}

TEST_F(OwnWords, Rule35_ASettlementOfAQueueThatIsGoneIsRefused) {
  retry_queue(100, 1);
  declare();
  publish({"m"});
  const Got got = *get();
  remove();
  say(got, told("", {}, false, 9));
  ASSERT_EQ(sink_.confirms.size(), 1u);
  EXPECT_TRUE(sink_.confirms[0].refused);
}

TEST_F(OwnWords, Rule35_AfterTheSettlementThePrefetchSlotIsFree) {
  retry_queue(100, 1);
  declare();
  publish({"m", "n"});
  consume(1, 1);
  say(sink_.take().at(0), told(""));
  EXPECT_EQ(sink_.take().at(0).body, "n");
}

TEST_F(OwnWords, Rule40_LagBehindTheDueTimeIsCounted) {
  retry_queue(100, 1);
  declare();
  publish({"m"});
  settle(Outcome::nack_requeue, {*get()});
  advance(100);
  EXPECT_EQ(lag_count(0, 0), 1u);  // on the spot
  settle(Outcome::nack_requeue, {*get()});
  advance(100 + 400);
  EXPECT_EQ(figure(&QueueFigures::retries_redelivered), 2u);
  EXPECT_EQ(lag_count(6, 7), 1u);  // a clock that jumped: 400 ms late
  EXPECT_GE(queue_->figures().retry_lag_sum_ms, 400u);
}

}  // namespace
}  // namespace tarry::test
