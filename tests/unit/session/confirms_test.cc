#include "session/confirms.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace tarry {
namespace {

std::string told(Confirms& confirms) {
  std::string out;
  confirms.flush([&](uint64_t tag, bool multiple, bool ack) {
    out += (ack ? "a" : "n") + std::to_string(tag) + (multiple ? "*" : "") + " ";
  });
  return out;
}

TEST(Confirms, MultipleOnlyOverAContiguousPrefix) {
  Confirms c;
  for (int i = 0; i < 6; ++i) c.add(1);
  c.settle(4, 5, false);
  EXPECT_EQ(told(c), "a4 a5 ");
  c.settle(1, 2, false);
  EXPECT_EQ(told(c), "a2* ");
  c.settle(3, 3, false);
  EXPECT_EQ(told(c), "a3 ");
  EXPECT_EQ(c.outstanding(), 1u);
  c.settle(6, 6, false);
  EXPECT_EQ(told(c), "a6 ");
  EXPECT_EQ(c.outstanding(), 0u);
}

TEST(Confirms, NoMultipleEverSpansANack) {
  Confirms c;
  for (int i = 0; i < 6; ++i) c.add(1);
  c.settle(1, 2, false);
  c.settle(3, 3, true);
  c.settle(4, 6, false);
  EXPECT_EQ(told(c), "a2* n3 a4 a5 a6 ");
}

TEST(Confirms, UnroutableIsSettledAtOnceButKeepsTheOrderRules) {
  Confirms c;
  c.add(1);
  c.add(0);
  EXPECT_EQ(told(c), "a2 ");
  c.settle(1, 1, false);
  EXPECT_EQ(told(c), "a1 ");
}

TEST(Confirms, CountsDownOverSeveralQueues) {
  Confirms c;
  c.add(3);
  c.settle(1, 1, false);
  c.settle(1, 1, true);
  EXPECT_EQ(told(c), "");
  c.settle(1, 1, false);
  EXPECT_EQ(told(c), "n1 ");
}

TEST(Confirms, NumbersThatAreNotOutstandingAreIgnored) {
  Confirms c;
  c.add(1);
  c.settle(1, 1, false);
  c.settle(1, 9, true);
  EXPECT_EQ(told(c), "a1 ");
}

// Against a plain model: every number is told exactly once, with the right word, and no multiple
// covers a number that is outstanding or was nacked.
TEST(Confirms, AgreesWithAModelOverRandomOrders) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Confirms c;
    std::map<uint64_t, int> left;
    std::map<uint64_t, bool> refused;
    std::map<uint64_t, char> heard;
    const bool with_nacks = seed % 2 == 0;
    auto flush = [&] {
      c.flush([&](uint64_t tag, bool multiple, bool ack) {
        for (uint64_t n = multiple ? 1 : tag; n <= tag; ++n) {
          ASSERT_EQ(left[n], 0) << "seed " << seed;
          if (heard.count(n)) {
            ASSERT_TRUE(multiple && n != tag && heard[n] == (ack ? 'a' : 'n'))
                << "seed " << seed << " number " << n;
          }
          heard[n] = ack ? 'a' : 'n';
          ASSERT_EQ(refused[n], !ack) << "seed " << seed;
        }
      });
    };
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0) {
        const uint32_t queues = random() % 3;
        left[c.add(queues)] = static_cast<int>(queues);
      } else if (!left.empty()) {
        const uint64_t n = 1 + random() % left.size();
        if (left[n] > 0) {
          const bool refuse = with_nacks && random() % 5 == 0;
          refused[n] = refused[n] || refuse;
          --left[n];
          c.settle(n, n, refuse);
        }
      }
      if (random() % 4 == 0) flush();
    }
    for (auto& [n, count] : left) {
      while (count > 0) {
        --count;
        c.settle(n, n, false);
      }
    }
    flush();
    ASSERT_EQ(heard.size(), left.size()) << "seed " << seed;
    ASSERT_EQ(c.outstanding(), 0u);
  }
}

}  // namespace
}  // namespace tarry
