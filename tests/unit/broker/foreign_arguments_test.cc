// Arguments for another broker's placement and storage: what RabbitMQ refuses is refused, the rest
// has no effect.
#include "broker/foreign_arguments.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

std::string refused_foreign(const char* type, const char* argument, FieldValue value) {
  QueueDeclare d;
  d.name = "q";
  d.arguments.entries = {{argument, std::move(value)}};
  if (type) d.arguments.set("x-queue-type", FieldValue::text(type));
  auto checked = check_foreign_arguments("/", d);
  return checked ? "" : std::to_string(checked.error().code) + " " + checked.error().text;
}

TEST(ForeignArguments, ThoseOfStreamsAreRefusedOnEveryOtherType) {
  for (const char* argument : {"x-max-age", "x-stream-max-segment-size-bytes",
                               "x-stream-filter-size-bytes", "x-initial-cluster-size"}) {
    const std::string begin =
        "406 invalid arg '" + std::string(argument) + "' for queue 'q' in vhost '/' of queue type ";
    EXPECT_EQ(refused_foreign(nullptr, argument, FieldValue::int32(1)),
              begin + "rabbit_classic_queue");
    EXPECT_EQ(refused_foreign("classic", argument, FieldValue::text("1D")),
              begin + "rabbit_classic_queue");
    EXPECT_EQ(refused_foreign("quorum", argument, FieldValue::int32(1)),
              begin + "rabbit_quorum_queue");
  }
}

TEST(ForeignArguments, ThoseOfQuorumQueuesGoWithTheseAlone) {
  for (const char* argument : {"x-quorum-initial-group-size", "x-quorum-target-group-size",
                               "x-max-in-memory-length", "x-max-in-memory-bytes"}) {
    EXPECT_EQ(refused_foreign("quorum", argument, FieldValue::int32(3)), "");
    EXPECT_TRUE(refused_foreign(nullptr, argument, FieldValue::int32(3))
                    .ends_with(" of queue type rabbit_classic_queue"));
    EXPECT_TRUE(refused_foreign("quorum", argument, FieldValue::int32(-1)).starts_with("406 "))
        << argument;
    EXPECT_TRUE(refused_foreign("quorum", argument, FieldValue::text("3")).starts_with("406 "))
        << argument;
  }
  EXPECT_EQ(refused_foreign("quorum", "x-quorum-initial-group-size", FieldValue::int32(0)),
            "406 invalid arg 'x-quorum-initial-group-size' for queue 'q' in vhost '/': expected an "
            "integer of at least 1, "
            "got the value '0' of type 'signedint'");
}

TEST(ForeignArguments, ValuesAndTypesAreCheckedAndTheTextNamesWhatIsAllowed) {
  EXPECT_EQ(refused_foreign(nullptr, "x-queue-mode", FieldValue::text("lazy")), "");
  EXPECT_EQ(refused_foreign(nullptr, "x-queue-mode", FieldValue::text("bar")),
            "406 invalid arg 'x-queue-mode' for queue 'q' in vhost '/': expected default or lazy, "
            "got the value 'bar' of "
            "type 'longstr'");
  EXPECT_TRUE(refused_foreign(nullptr, "x-queue-mode", FieldValue::int32(5)).starts_with("406 "));
  EXPECT_EQ(refused_foreign(nullptr, "x-queue-version", FieldValue::int64(2)), "");
  EXPECT_EQ(refused_foreign(nullptr, "x-queue-version", FieldValue::int32(9)),
            "406 invalid arg 'x-queue-version' for queue 'q' in vhost '/': expected 1 or 2, got "
            "the value '9' of type "
            "'signedint'");
  EXPECT_TRUE(
      refused_foreign(nullptr, "x-queue-version", FieldValue::text("2")).starts_with("406 "));
  EXPECT_EQ(refused_foreign("quorum", "x-consumer-disconnected-timeout", FieldValue::int32(60'000)),
            "");
  EXPECT_TRUE(refused_foreign("quorum", "x-consumer-disconnected-timeout", FieldValue::int32(-1))
                  .starts_with("406 "));
  EXPECT_TRUE(refused_foreign("quorum", "x-consumer-disconnected-timeout", FieldValue::text("1m"))
                  .starts_with("406 "));
  for (const char* type : {"classic", "quorum"}) {
    EXPECT_EQ(refused_foreign(type, "x-queue-leader-locator", FieldValue::text("client-local")),
              "");
    EXPECT_TRUE(refused_foreign(type, "x-queue-leader-locator", FieldValue::text("foo"))
                    .starts_with("406 "));
  }
  EXPECT_EQ(refused_foreign(nullptr, "x-queue-master-locator", FieldValue::text("min-masters")),
            "");
  EXPECT_EQ(refused_foreign(nullptr, "my-own", FieldValue::boolean(true)), "");
}

}  // namespace
}  // namespace tarry
