// The holding queue of an x-delayed-message exchange (queue/delayed.cc), and deduplication.
#include <gtest/gtest.h>

#include "support/queue_world.h"

namespace tarry::test {
namespace {

class Holding : public QueueWorld {
 protected:
  Holding() {
    identity_.name = "amq.delayed-ex";
    identity_.holds_for = "ex";
  }
  static Message delayed_by(int64_t ms, std::string body) {
    Message m;
    m.body = std::move(body);
    m.headers.set("x-delay", FieldValue::int64(ms));
    return m;
  }
  std::vector<std::string> sent() {
    std::vector<std::string> bodies;
    for (auto& letter : letters_->letters) bodies.push_back(letter.body);
    letters_->letters.clear();
    return bodies;
  }
};

using Strings = std::vector<std::string>;

TEST_F(Holding, SendsOnInDueOrderAndNeverEarly) {
  declare();
  publish(delayed_by(300, "c"));
  publish(delayed_by(100, "a"));
  publish(delayed_by(200, "b"));
  EXPECT_EQ(delayed(), 3u);
  EXPECT_EQ(ready(), 0u);
  advance(99);
  EXPECT_TRUE(letters_->letters.empty());
  advance(1);
  EXPECT_EQ(sent(), (Strings{"a"}));
  advance(200);
  EXPECT_EQ(sent(), (Strings{"b", "c"}));
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(letters_->dropped.size(), 3u);
}

TEST_F(Holding, WhatItSendsIsTheMessageWithItsDelayNegated) {
  declare();
  Message m = delayed_by(50, "m");
  m.exchange = "front";
  m.key = "k";
  m.expiration = "10";
  m.headers.set("CC", FieldValue::array({FieldValue::text("cc")}));
  m.headers.set("BCC", FieldValue::array({FieldValue::text("bcc")}));
  publish(m);
  advance(50);
  ASSERT_EQ(letters_->letters.size(), 1u) << "its expiration counts from here on";
  const auto& letter = letters_->letters[0];
  EXPECT_EQ(letter.exchange, "ex");
  EXPECT_EQ(letter.routing_keys, (Strings{"k", "cc", "bcc"}));
  const FieldTable headers = letter.headers();
  EXPECT_EQ(headers.find("x-delay")->integer(), -50);
  EXPECT_NE(headers.find("CC"), nullptr);
  EXPECT_EQ(headers.find("BCC"), nullptr);
  EXPECT_EQ(headers.find("x-death"), nullptr);
  EXPECT_EQ(PropertiesView::parse(as_bytes(letter.header))->expiration, "10");
  EXPECT_TRUE(letter.persistent);
}

TEST_F(Holding, TheLongestDelayWaitsAndDoesNotWrap) {
  declare();
  publish(delayed_by(INT64_MAX, "never"));
  publish(delayed_by(int64_t{1} << 32, "in 49 days"));
  advance(int64_t{1} << 31);
  EXPECT_TRUE(letters_->letters.empty());
  EXPECT_EQ(delayed(), 2u);
  EXPECT_EQ(figure(&QueueFigures::last_due_ms), 253'402'300'799'999u);
}

TEST_F(Holding, ARestartForgetsNothing) {
  declare();
  publish(delayed_by(1000, "late"));
  publish(delayed_by(100, "soon"));
  restart();
  EXPECT_EQ(delayed(), 2u);
  EXPECT_TRUE(letters_->letters.empty());
  // They are read from the disk.
  advance(100);
  wait_until([&] { return !letters_->letters.empty(); });
  EXPECT_EQ(sent(), (Strings{"soon"}));
  advance(900);
  wait_until([&] { return !letters_->letters.empty(); });
  EXPECT_EQ(sent(), (Strings{"late"}));
}

TEST_F(Holding, WhatNobodyTakesIsDroppedAndWhatIsOnItsWayIsKept) {
  declare();
  letters_->answer = DeadLetterResult::no_route;
  publish(delayed_by(10, "a"));
  advance(10);
  EXPECT_EQ(sent(), (Strings{"a"}));
  letters_->answer.reset();
  publish(delayed_by(10, "b"));
  advance(10);
  EXPECT_EQ(sent(), (Strings{"b"}));
  EXPECT_TRUE(letters_->dropped.empty()) << "its source must be there until the targets have it";
}

TEST_F(Holding, WhatFindsNoRoomOnTheDiskIsTriedAgain) {
  declare();
  letters_->answer = DeadLetterResult::no_room;
  publish(delayed_by(10, "a"));
  advance(10);
  EXPECT_EQ(sent(), (Strings{"a"}));
  letters_->answer = DeadLetterResult::stored;
  advance(100);
  EXPECT_EQ(sent(), (Strings{"a"}));
  wait_until([&] { return letters_->dropped.size() == 1; });
  advance(60'000);
  EXPECT_EQ(sent(), (Strings{}));
}

TEST_F(Holding, APurgeTakesWhatWaitsHoweverLong) {
  declare();
  publish(delayed_by(1000, "a"));
  publish(delayed_by(INT64_MAX, "b"));
  on_shard([&] { queue_->purge_delayed(); });
  EXPECT_EQ(delayed(), 0u);
  publish(delayed_by(1000, "c"));
  advance(1000);
  EXPECT_EQ(sent(), (Strings{"c"}));
}

TEST_F(QueueWorld, ADuplicateIsConfirmedAndNotKept) {
  identity_.deduplication = Deduplication{};
  declare();
  auto with = [](const char* value, uint64_t number) {
    Message m;
    m.body = value;
    m.publish_number = number;
    m.headers.set("x-deduplication-header", FieldValue::text(value));
    return m;
  };
  publish(with("a", 1));
  publish(with("a", 2));
  publish(with("b", 3));
  EXPECT_EQ(ready(), 2u);
  uint64_t confirmed = 0;
  for (const ConfirmRange& range : sink_.confirms) {
    EXPECT_FALSE(range.refused);
    confirmed += range.last - range.first + 1;
  }
  EXPECT_EQ(confirmed, 3u);
}

TEST_F(QueueWorld, WhatTheDiskRefusedIsNoDuplicateWhenItComesAgain) {
  identity_.deduplication = Deduplication{};
  declare();
  auto with = [](const char* value, uint64_t number) {
    Message m;
    m.publish_number = number;
    m.headers.set("x-deduplication-header", FieldValue::text(value));
    return m;
  };
  files_.full = true;
  wait_until([&] { return store_->refuses_appends(); });
  publish(with("a", 1));
  EXPECT_EQ(ready(), 0u);
  files_.full = false;
  wait_until([&] { return !store_->refuses_appends(); });
  publish(with("a", 2));
  publish(with("a", 3));
  EXPECT_EQ(ready(), 1u);
}

}  // namespace
}  // namespace tarry::test
