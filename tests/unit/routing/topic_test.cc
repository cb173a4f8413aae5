#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "tarrymq/routing/exchange.h"
#include "unit/routing/routing_support.h"

namespace tarry {
namespace {

using test::make_exchange;
using test::matched;
using test::naive_topic_match;
using test::queue;

TEST(Topic, TheTableOfPatternsHolds) {
  const std::vector<std::string> patterns = {"a.*", "a.#", "#", "#.b", "*.b", "a.#.b",
                                             "a.b", "*",   "",  "*.*", "#.#", "a.*.#"};
  const std::vector<std::string> keys = {"a",       "a.b", "a.x.b", "b", "x.b",
                                         "a.x.y.b", "c",   "a.x",   "",  "a.b.c"};
  auto exchange = make_exchange("topic");
  for (size_t i = 0; i < patterns.size(); ++i) {
    ASSERT_TRUE(*exchange->bind(queue(i + 1), patterns[i], {}));
  }
  for (const std::string& key : keys) {
    std::vector<uint64_t> expected;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (naive_topic_match(patterns[i], key)) expected.push_back(i + 1);
    }
    EXPECT_EQ(matched(*exchange, key), expected) << "'" << key << "'";
  }
}

TEST(Topic, EmptyWordsCountAndTheEmptyKeyHasNone) {
  struct Row {
    const char* pattern;
    const char* key;
    bool matches;
  };
  for (const Row& row : {Row{"", "", true},       {"", "a", false},       {"#", "", true},
                         {"*", "", false},        {"*", ".", false},      {"*.*", ".", true},
                         {"#.#", "", true},       {"a.*", "a.", true},    {"a.#", "a.", true},
                         {"a.", "a.", true},      {"a.", "a", false},     {"a..b", "a..b", true},
                         {"a.*.b", "a..b", true}, {"a.b", "a..b", false}, {"#.a", ".a", true},
                         {"*.a", ".a", true},     {"a", ".a", false},     {"*", "*", true},
                         {"a", "*", false},       {"#", "#", true},       {"a.*", "a.*", true},
                         {"a.b", "a.#", false},   {"#.*.#", "", false},   {"#.*.#", "a", true},
                         {"*.#.*", "a", false},   {"*.#.*", "a.b", true}, {"a*", "ab", false},
                         {"a*", "a*", true},      {"a#", "a#", true}}) {
    auto exchange = make_exchange("topic");
    ASSERT_TRUE(*exchange->bind(queue(1), row.pattern, {}));
    EXPECT_EQ(!matched(*exchange, row.key).empty(), row.matches) << row.pattern << " | " << row.key;
    EXPECT_EQ(naive_topic_match(row.pattern, row.key), row.matches)
        << row.pattern << " | " << row.key;
  }
}

/// Few different words, so that much matches.
std::string random_key(std::mt19937& random, bool pattern) {
  constexpr std::string_view kWords[] = {"a", "b", "", "*", "#", "#"};
  std::string out;
  const unsigned words = random() % 6;
  for (unsigned i = 0; i < words; ++i) {
    if (i > 0) out += '.';
    out += kWords[random() % (pattern ? 6 : 3)];
  }
  return out;
}

TEST(Topic, AgreesWithTheNaiveMatcherWhileBindingsComeAndGo) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    auto exchange = make_exchange("topic");
    std::vector<std::pair<uint64_t, std::string>> bound;
    for (int round = 0; round < 300; ++round) {
      const uint64_t id = 1 + random() % 20;
      const std::string pattern = random_key(random, true);
      const auto at = std::ranges::find(bound, std::pair(id, pattern));
      if (random() % 3 != 0) {
        ASSERT_EQ(*exchange->bind(queue(id), pattern, {}), at == bound.end());
        if (at == bound.end()) bound.emplace_back(id, pattern);
      } else {
        ASSERT_EQ(exchange->unbind(queue(id), pattern, {}), at != bound.end());
        if (at != bound.end()) bound.erase(at);
        if (!bound.empty()) {
          const auto victim = bound[random() % bound.size()];
          ASSERT_TRUE(exchange->unbind(queue(victim.first), victim.second, {}));
          std::erase(bound, victim);
        }
      }
      const std::string key = random_key(random, false);
      std::vector<uint64_t> expected;
      for (const auto& [to, to_pattern] : bound) {
        if (naive_topic_match(to_pattern, key)) expected.push_back(to);
      }
      std::ranges::sort(expected);
      expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
      ASSERT_EQ(matched(*exchange, key), expected) << seed << " '" << key << "'";
      ASSERT_EQ(exchange->binding_count(), bound.size());
    }
    while (!bound.empty()) {
      ASSERT_TRUE(exchange->unbind(queue(bound.back().first), bound.back().second, {}));
      bound.pop_back();
    }
    EXPECT_TRUE(exchange->empty());
    EXPECT_TRUE(matched(*exchange, "a.b").empty());
  }
}

TEST(Topic, ManyHashesDoNotBlowUp) {
  // Tried one way after the other, this has about 10^20 ways to fail.
  auto exchange = make_exchange("topic");
  std::string pattern, key;
  for (int i = 0; i < 40; ++i) pattern += "#.a.";
  for (int i = 0; i < 120; ++i) key += "a.";
  ASSERT_TRUE(*exchange->bind(queue(1), pattern + "b", {}));
  ASSERT_TRUE(*exchange->bind(queue(2), pattern + "#", {}));
  EXPECT_EQ(matched(*exchange, key + "a"), std::vector<uint64_t>{2});
}

TEST(Topic, AMatchAmong100000BindingsLooksAtFewOfThem) {
  auto exchange = make_exchange("topic");
  for (uint64_t i = 1; i <= 100'000; ++i) {
    ASSERT_TRUE(*exchange->bind(queue(i), "site." + std::to_string(i) + (i % 2 ? ".*" : ".#"), {}));
  }
  RouteMatches out;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 1; i <= 10'000; ++i) {
    out.clear();
    exchange->match("site." + std::to_string(i) + ".up", {}, out);
    ASSERT_EQ(out.queues, std::vector<QueueId>{QueueId(i)});
  }
  const auto took = std::chrono::steady_clock::now() - start;
  // A look at each binding would be 10^9 looks; the bound is far from both.
  EXPECT_LT(std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), 3000);
}

}  // namespace
}  // namespace tarry
