#include "tarrymq/retry/retry_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tarry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Arguments = std::map<std::string, ArgumentValue, std::less<>>;

ArgumentValue integer(int64_t value) { return value; }
ArgumentValue string(std::string_view text) {
  return OtherArgument{"string \"" + std::string(text) + "\"", text, true, {}};
}
ArgumentValue boolean(bool value) {
  return OtherArgument{value ? "boolean true" : "boolean false", {}, false, value};
}
ArgumentValue other(std::string what) { return OtherArgument{std::move(what), {}, false, {}}; }

Result<RetryArguments, std::string> check(const Arguments& arguments,
                                          std::string_view queue = "orders") {
  return check_retry_arguments(queue, [&](std::string_view name) -> std::optional<ArgumentValue> {
    auto found = arguments.find(name);
    if (found == arguments.end()) return std::nullopt;
    return found->second;
  });
}

std::string error(const Arguments& arguments, std::string_view queue = "orders") {
  auto result = check(arguments, queue);
  return result ? "(accepted)" : result.error();
}

TEST(RetryArguments, NothingDeclaredMeansNoRetriesAndNoLimit) {
  auto result = check({});
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->enabled);
  EXPECT_EQ(result->own_limit(), std::nullopt);
}

TEST(RetryArguments, Rule1_MinAloneTurnsRetriesOnWithTheDefaultLimit) {
  auto result = check({{"x-delayed-retry-min", integer(500)}});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->enabled);
  RetrySettings only_min;
  only_min.min_ms = 500;
  EXPECT_EQ(result->settings, only_min);
  EXPECT_EQ(result->delivery_limit, std::nullopt);
  EXPECT_EQ(result->own_limit(), 20u);
}

TEST(RetryArguments, AllTogether) {
  auto result = check({{"x-delayed-retry-min", integer(500)},
                       {"x-delayed-retry-multiplier", integer(2)},
                       {"x-delayed-retry-max", integer(30'000)},
                       {"x-delayed-retry-jitter", integer(10)},
                       {"x-delayed-retry-max-age", integer(60'000)},
                       {"x-delivery-limit", integer(5)},
                       {"x-queue-type", string("quorum")},
                       {"x-message-deduplication", boolean(false)}});
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(result->settings.min_ms, 500u);
  EXPECT_EQ(result->settings.multiplier, 2u);
  EXPECT_EQ(result->settings.max_ms, 30'000u);
  EXPECT_EQ(result->settings.jitter_percent, 10);
  EXPECT_EQ(result->settings.max_age_ms, 60'000u);
  EXPECT_EQ(result->own_limit(), 5u);
}

TEST(RetryArguments, Rule1_LimitZeroIsRespected) {
  auto result = check({{"x-delayed-retry-min", integer(1)}, {"x-delivery-limit", integer(0)}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->own_limit(), 0u);
}

TEST(RetryArguments, Rule2_MaxBelowMinIsAccepted) {
  EXPECT_TRUE(check({{"x-delayed-retry-min", integer(500)}, {"x-delayed-retry-max", integer(1)}}));
}

TEST(RetryArguments, Rule2_TheLargestIntegersAreAccepted) {
  auto result = check({{"x-delayed-retry-min", integer(INT64_MAX)},
                       {"x-delayed-retry-multiplier", integer(INT64_MAX)},
                       {"x-delayed-retry-max", integer(INT64_MAX)},
                       {"x-delivery-limit", integer(INT64_MAX)}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->settings.min_ms, static_cast<uint64_t>(INT64_MAX));
}

TEST(RetryArguments, Rule3_ValuesOutOfRangeNameArgumentValueAndRange) {
  for (std::string name : {"x-delayed-retry-min", "x-delayed-retry-multiplier",
                           "x-delayed-retry-max", "x-delayed-retry-max-age"}) {
    for (int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
      Arguments arguments{{"x-delayed-retry-min", integer(500)}};
      arguments[name] = integer(value);
      EXPECT_THAT(error(arguments),
                  AllOf(HasSubstr(name), HasSubstr("it was " + std::to_string(value) + ","),
                        HasSubstr("integer >= 1"), HasSubstr("'orders'")));
    }
  }
  for (int64_t value : {-1, 101}) {
    EXPECT_THAT(
        error({{"x-delayed-retry-min", integer(5)}, {"x-delayed-retry-jitter", integer(value)}}),
        AllOf(HasSubstr("x-delayed-retry-jitter"),
              HasSubstr("it was " + std::to_string(value) + ","), HasSubstr("from 0 to 100")));
  }
}

TEST(RetryArguments, Rule3_OtherTypesAreRefusedForEachArgument) {
  for (std::string name :
       {"x-delayed-retry-min", "x-delayed-retry-multiplier", "x-delayed-retry-max",
        "x-delayed-retry-jitter", "x-delayed-retry-max-age", "x-delivery-limit"}) {
    for (const auto& [value, text] :
         std::vector<std::pair<ArgumentValue, std::string>>{{string("500"), "string \"500\""},
                                                            {boolean(true), "boolean true"},
                                                            {other("double 0.5"), "double 0.5"},
                                                            {other("void"), "void"}}) {
      Arguments arguments{{"x-delayed-retry-min", integer(500)}};
      arguments.insert_or_assign(name, value);
      EXPECT_THAT(error(arguments),
                  AllOf(HasSubstr(name), HasSubstr(text), HasSubstr("an integer")));
    }
  }
}

TEST(RetryArguments, Rule3_LimitMinusOneMeansNoLimitOnlyWithoutRetries) {
  auto result = check({{"x-delivery-limit", integer(-1)}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->own_limit(), std::nullopt);
  EXPECT_THAT(
      error({{"x-delivery-limit", integer(-1)}, {"x-delayed-retry-min", integer(1)}}),
      AllOf(HasSubstr("x-delivery-limit"), HasSubstr("it was -1"), HasSubstr("integer >= 0")));
  EXPECT_THAT(error({{"x-delivery-limit", integer(-2)}}),
              AllOf(HasSubstr("x-delivery-limit"), HasSubstr("it was -2"),
                    HasSubstr("integer >= 0"), HasSubstr("-1 for no limit")));
  EXPECT_THAT(error({{"x-delivery-limit", string("5")}}), HasSubstr("x-delivery-limit"));
}

TEST(RetryArguments, ALimitWithoutRetriesCounts) {
  auto result = check({{"x-delivery-limit", integer(3)}});
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->enabled);
  EXPECT_EQ(result->own_limit(), 3u);
}

TEST(RetryArguments, Rule4_EachCompanionArgumentNeedsMin) {
  for (std::string name : {"x-delayed-retry-multiplier", "x-delayed-retry-max",
                           "x-delayed-retry-jitter", "x-delayed-retry-max-age"}) {
    EXPECT_THAT(
        error({{name, integer(5)}}),
        AllOf(HasSubstr("'" + name + "'"), HasSubstr("x-delayed-retry-min"), HasSubstr("missing")));
  }
}

TEST(RetryArguments, Rule5_DeduplicationAndStreamsExcludeRetries) {
  const std::pair<const std::string, ArgumentValue> min{"x-delayed-retry-min", integer(1)};
  EXPECT_THAT(error({min, {"x-message-deduplication", boolean(true)}}),
              HasSubstr("x-message-deduplication"));
  EXPECT_THAT(error({min, {"x-queue-type", string("stream")}}),
              AllOf(HasSubstr("x-queue-type"), HasSubstr("stream")));
  EXPECT_TRUE(check({min, {"x-queue-type", string("classic")}}));
  EXPECT_TRUE(
      check({{"x-message-deduplication", boolean(true)}}));  // no business of ours without retries
  EXPECT_TRUE(check({{"x-queue-type", string("stream")}}));
}

TEST(RetryArguments, Rule5_TheQueueNameLeavesRoomForThePrefix) {
  const Arguments arguments{{"x-delayed-retry-min", integer(1)}};
  EXPECT_EQ(kRetryQueueNameBytesMax, 245u);
  EXPECT_TRUE(check(arguments, std::string(245, 'q')));
  EXPECT_THAT(error(arguments, std::string(246, 'q')),
              AllOf(HasSubstr("amq.retry-"), HasSubstr("246")));
  EXPECT_TRUE(check({}, std::string(255, 'q')));
  EXPECT_EQ(companion_name(std::string(245, 'q')).size(), 255u);
}

TEST(RetryArguments, Rule33And34_JitterAndMaxAgeAreTaken) {
  auto checked = check({{"x-delayed-retry-min", integer(5)},
                        {"x-delayed-retry-jitter", integer(30)},
                        {"x-delayed-retry-max-age", integer(60'000)}});
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->settings.jitter_percent, 30);
  EXPECT_EQ(checked->settings.max_age_ms, 60'000u);
}

TEST(RetryArguments, Rule39_TheTypeSaysWhatWaits) {
  const std::pair<const std::string, ArgumentValue> min{"x-delayed-retry-min", integer(5)};
  EXPECT_EQ(check({min})->settings.type, RetryType::rejections);
  EXPECT_EQ(check({min, {"x-delayed-retry-type", string("all")}})->settings.type, RetryType::all);
  EXPECT_EQ(check({min, {"x-delayed-retry-type", string("failed")}})->settings.type,
            RetryType::failed);
  EXPECT_EQ(check({min, {"x-delayed-retry-type", string("returned")}})->settings.type,
            RetryType::returned);
  EXPECT_THAT(error({min, {"x-delayed-retry-type", string("some")}}),
              AllOf(HasSubstr("x-delayed-retry-type"), HasSubstr("disabled")));
  EXPECT_THAT(error({min, {"x-delayed-retry-type", integer(1)}}),
              HasSubstr("x-delayed-retry-type"));
  EXPECT_THAT(error({{"x-delayed-retry-type", string("all")}}), HasSubstr("x-delayed-retry-min"));
}

TEST(RetryArguments, Rule39_DisabledNeedsNoMinAndGivesNoDefaultLimit) {
  auto checked =
      check({{"x-delayed-retry-type", string("disabled")}, {"x-delayed-retry-max", integer(9)}});
  ASSERT_TRUE(checked);
  EXPECT_FALSE(checked->enabled);
  EXPECT_FALSE(checked->own_limit());
  checked =
      check({{"x-delayed-retry-min", integer(5)}, {"x-delayed-retry-type", string("disabled")}});
  ASSERT_TRUE(checked);
  EXPECT_FALSE(checked->enabled);
}

TEST(RetryArguments, Rule18_CompanionNames) {
  EXPECT_EQ(companion_name("orders"), "amq.retry-orders");
  EXPECT_TRUE(is_companion_name("amq.retry-orders"));
  EXPECT_TRUE(is_companion_name("amq.retry-"));
  EXPECT_FALSE(is_companion_name("amq.retry"));  // the exchange
  EXPECT_FALSE(is_companion_name("orders"));
}

}  // namespace
}  // namespace tarry
