#include "http/url.h"

#include <gtest/gtest.h>

namespace tarry::http {
namespace {

TEST(Url, SegmentsAreSplitBeforeTheyAreDecoded) {
  const auto target = Target::parse("/api/queues/%2F/a%2Fb");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (std::vector<std::string>{"api", "queues", "/", "a/b"}));
}

TEST(Url, NamesOfEveryKindComeBack) {
  for (const std::string name : {"plain", "a/b", "a b", "a%2Fb", "a+b", "q?x=1", "#h",
                                 "\xC3\xBC\xE6\xB6\x88", "..", "a;b,c", "[br]", "&=", "%"}) {
    const auto target = Target::parse("/api/queues/%2F/" + percent_encode(name) + "?columns=a");
    ASSERT_TRUE(target) << name;
    EXPECT_EQ(target->segments.back(), name);
    EXPECT_EQ(target->query, (QueryPairs{{"columns", "a"}}));
  }
}

TEST(Url, PlusIsASpaceInTheQueryOnly) {
  const auto target = Target::parse("/a+b?name=c+d%2B");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (std::vector<std::string>{"a+b"}));
  EXPECT_EQ(target->query, (QueryPairs{{"name", "c d+"}}));
}

TEST(Url, DotsAreNotResolved) {
  const auto target = Target::parse("/api/queues/%2F/..");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments.size(), 4u);
  EXPECT_EQ(target->segments.back(), "..");
}

TEST(Url, MisplacedPercentSignsAreRefused) {
  for (const char* bad : {"/a%", "/a%2", "/a%zz", "/a?b=%f", "no-slash", ""})
    EXPECT_FALSE(Target::parse(bad)) << bad;
}

TEST(Url, OneTrailingSlashIsIgnored) {
  EXPECT_EQ(Target::parse("/api/overview/")->segments, Target::parse("/api/overview")->segments);
  EXPECT_TRUE(Target::parse("/")->segments.empty());
}

TEST(Url, Base64RoundTrips) {
  EXPECT_EQ(base64_encode("guest:guest"), "Z3Vlc3Q6Z3Vlc3Q=");
  for (size_t n = 0; n < 20; ++n) {
    std::string bytes;
    for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(i * 37 + 200));
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
  }
  for (const char* bad : {"a", "ab=c", "a===", "@@@@", "ab="})
    EXPECT_FALSE(base64_decode(bad)) << bad;
}

}  // namespace
}  // namespace tarry::http
