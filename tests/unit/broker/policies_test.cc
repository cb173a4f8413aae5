#include "broker/policies.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

PolicyInfo info(std::string name, std::string pattern, int64_t priority, FieldTable definition,
                std::string apply_to = "all") {
  return {"/",      std::move(name),      std::move(pattern), std::move(apply_to),
          priority, std::move(definition)};
}

FieldTable number(std::string key, int64_t value) {
  return {{{std::move(key), FieldValue::int64(value)}}};
}

std::string refusal(PolicyInfo policy, bool operators = false) {
  auto checked = check_policy(std::move(policy), operators);
  return checked ? "" : std::to_string(checked.error().code) + " " + checked.error().text;
}

TEST(Policies, Rule7_RetryKeysAre400AndTheReasonPointsAtTheOverride) {
  for (bool operators : {false, true}) {
    for (const char* key : {"delayed-retry-min", "delayed-retry-multiplier", "delayed-retry-max",
                            "delayed-retry-type"}) {
      std::string text = refusal(info("p", ".*", 0, number(key, 5)), operators);
      EXPECT_TRUE(text.starts_with("400 ")) << text;
      EXPECT_NE(text.find("override"), std::string::npos) << text;
    }
  }
}

TEST(Policies, BadThingsAre400AndNameTheKey) {
  EXPECT_NE(refusal(info("p", ".*", 0, number("max-lenght", 5))).find("max-lenght"),
            std::string::npos);
  EXPECT_TRUE(refusal(info("p", ".*", 0, number("expires", 0))).starts_with("400 "));
  EXPECT_TRUE(refusal(info("p", ".*", 0, number("dead-letter-exchange", 1))).starts_with("400 "));
  const std::string as_text =
      refusal(info("p", ".*", 0, {{{"max-length", FieldValue::text("5")}}}));
  EXPECT_TRUE(as_text.starts_with("400 "));
  EXPECT_NE(as_text.find("got the text '5'"), std::string::npos) << as_text;
  EXPECT_TRUE(
      refusal(info("p", ".*", 0, {{{"overflow", FieldValue::text("spill")}}})).starts_with("400 "));
  EXPECT_TRUE(refusal(info("p", "(", 0, number("max-length", 5))).starts_with("400 "));
  EXPECT_TRUE(
      refusal(info("p", ".*", 0, number("max-length", 5), "everything")).starts_with("400 "));
  EXPECT_TRUE(refusal(info("p", ".*", 0, {})).starts_with("400 "));
  // The second of two keys is looked at as well.
  EXPECT_TRUE(
      refusal(info("p", ".*", 0,
                   {{{"max-length", FieldValue::int32(1)}, {"expires", FieldValue::text("x")}}}))
          .starts_with("400 "));
  EXPECT_TRUE(refusal(info("p", ".*", 0, {{{"dead-letter-exchange", FieldValue::text("x")}}}), true)
                  .starts_with("400 "));
  EXPECT_EQ(refusal(info("p", ".*", 0, number("max-length", 5))), "");
}

TEST(Policies, HighestPriorityThatMatchesRules) {
  PolicySet set;
  auto add = [&](PolicyInfo p) { set[p.name] = *check_policy(p, false); };
  add(info("low", "^a", 1, number("max-length", 1)));
  add(info("high", "^ab", 5, number("max-length", 2), "queues"));
  add(info("exchanges", "", 9, {{{"alternate-exchange", FieldValue::text("x")}}}, "exchanges"));
  add(info("quorum", "^abq", 7, number("max-length", 3), "quorum_queues"));
  EXPECT_EQ(ruling_policy(set, "abc", PolicyTarget::classic_queue)->info.name, "high");
  EXPECT_EQ(ruling_policy(set, "axc", PolicyTarget::classic_queue)->info.name, "low");
  EXPECT_EQ(ruling_policy(set, "abq", PolicyTarget::quorum_queue)->info.name, "quorum");
  EXPECT_EQ(ruling_policy(set, "abq", PolicyTarget::classic_queue)->info.name, "high");
  EXPECT_EQ(ruling_policy(set, "abc", PolicyTarget::exchange)->info.name, "low");
  EXPECT_EQ(ruling_policy(set, "zzz", PolicyTarget::classic_queue), nullptr);
}

TEST(Policies, OperatorNumbersWinWhereLower) {
  Policy mine = *check_policy(
      info("p", ".*", 0,
           {{{"max-length", FieldValue::int32(10)}, {"expires", FieldValue::int32(5)}}}),
      false);
  Policy theirs = *check_policy(
      info("o", ".*", 0,
           {{{"max-length", FieldValue::int32(3)}, {"expires", FieldValue::int32(9)}}}),
      true);
  FieldTable merged = merge_definitions(&mine, &theirs);
  EXPECT_EQ(merged.find("max-length")->integer(), 3);
  EXPECT_EQ(merged.find("expires")->integer(), 5);
}

TEST(Policies, NumbersLowerWinsTextsArgumentWins) {
  QueueSettings declared;
  declared.max_length = 10;
  declared.message_ttl_ms = 100;
  declared.dead_letter_exchange = "mine";
  FieldTable definition{{{"max-length", FieldValue::int32(5)},
                         {"message-ttl", FieldValue::int32(500)},
                         {"dead-letter-exchange", FieldValue::text("theirs")},
                         {"dead-letter-routing-key", FieldValue::text("key")},
                         {"overflow", FieldValue::text("reject-publish")}}};
  QueueSettings merged = effective_settings(declared, false, false, definition);
  EXPECT_EQ(merged.max_length, 5u);
  EXPECT_EQ(merged.message_ttl_ms, 100u);
  EXPECT_EQ(merged.dead_letter_exchange, "mine");
  EXPECT_EQ(merged.dead_letter_routing_key, "key");
  EXPECT_EQ(merged.overflow, Overflow::reject_publish);
  EXPECT_EQ(effective_settings(declared, true, false, definition).overflow, Overflow::drop_head);
}

TEST(Policies, Rule7_DefaultLimitCountsOnlyIfNeitherArgumentNorPolicySaysOne) {
  QueueSettings none, three;
  three.delivery_limit = 3;
  EXPECT_EQ(effective_settings(none, false, true, {}).delivery_limit, 20u);
  EXPECT_EQ(effective_settings(none, false, false, {}).delivery_limit, std::nullopt);
  EXPECT_EQ(effective_settings(none, false, true, number("delivery-limit", 50)).delivery_limit,
            50u);
  EXPECT_EQ(effective_settings(three, false, true, number("delivery-limit", 50)).delivery_limit,
            3u);
  EXPECT_EQ(effective_settings(three, false, true, number("delivery-limit", 1)).delivery_limit, 1u);
  EXPECT_EQ(effective_settings(none, false, true, number("delivery-limit", -1)).delivery_limit,
            20u);
  EXPECT_EQ(effective_settings(none, false, true, number("delivery-limit", 0)).delivery_limit, 0u);
}

TEST(Policies, AnEmptyPatternAllowsNothing) {
  EXPECT_FALSE(Pattern::compile("")->matches("anything"));
  EXPECT_FALSE(Pattern::compile("")->matches(""));
  EXPECT_TRUE(Pattern::compile("an")->matches("banana"));
  EXPECT_FALSE(Pattern::compile("^an")->matches("banana"));
  EXPECT_TRUE(Pattern::compile(".*")->matches(""));
}

TEST(Policies, ImportedPoliciesLoseWhatIsNotOurs) {
  PolicyInfo p = info("p", ".*", 0,
                      {{{"max-length", FieldValue::int32(1)},
                        {"delayed-retry-min", FieldValue::int32(1)},
                        {"ha-mode", FieldValue::text("all")}}});
  EXPECT_EQ(remove_unknown_keys(p, false),
            (std::vector<std::string>{"delayed-retry-min", "ha-mode"}));
  EXPECT_EQ(refusal(p), "");
}

}  // namespace
}  // namespace tarry
