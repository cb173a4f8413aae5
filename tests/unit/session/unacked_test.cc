#include "session/unacked.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tarry {
namespace {

UnackedRun one(uint64_t tag, uint32_t ordinal, QueueRef* queue = nullptr, uint32_t counter = 0) {
  return {
      tag, queue, {Run{{1, ordinal, ordinal * 100 + 16}, 1}, 0, counter, ConsumerId(1), 10}, {}};
}

TEST(Unacked, ContiguousDeliveriesAreOneRun) {
  Unacked u;
  EXPECT_TRUE(u.push(one(1, 5)));
  EXPECT_FALSE(u.push(one(2, 6)));
  EXPECT_TRUE(u.push(one(3, 8))) << "a record between went elsewhere";
  EXPECT_TRUE(u.push(one(4, 9, nullptr, 1))) << "another counter";
  int runs = 0;
  u.take_through(2, [&](const UnackedRun& run, bool whole) {
    ++runs;
    EXPECT_TRUE(whole);
    EXPECT_EQ(run.count(), 2u);
    EXPECT_EQ(run.settle.body_bytes, 20u);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(u.count(), 2u);
}

TEST(Unacked, OneOutOfTheMiddleSplitsTheRun) {
  Unacked u;
  for (uint32_t i = 1; i <= 5; ++i) u.push(one(i, i));
  ASSERT_TRUE(u.take_one(3, [](const UnackedRun& run, int entries) {
    EXPECT_EQ(run.settle.run.first.ordinal, 3u);
    EXPECT_EQ(entries, 1);
  }));
  EXPECT_FALSE(u.contains(3));
  EXPECT_FALSE(u.take_one(3, [](const UnackedRun&, int) { FAIL(); }));
  EXPECT_TRUE(u.contains(2));
  EXPECT_TRUE(u.contains(4));
  std::vector<std::pair<uint32_t, uint32_t>> parts;
  u.take_all([&](const UnackedRun& run, bool) {
    parts.push_back({run.settle.run.first.ordinal, run.count()});
  });
  EXPECT_EQ(parts, (std::vector<std::pair<uint32_t, uint32_t>>{{1, 2}, {4, 2}}));
}

TEST(Unacked, AgreesWithAModelOverRandomOrders) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    Unacked u;
    std::map<uint64_t, uint32_t> model;  // tag to ordinal
    std::vector<UnackedRun> taken;       // for put_back
    int64_t entries = 0;
    uint64_t tag = 0;
    uint32_t ordinal = 0;
    auto take = [&](const UnackedRun& run) {
      for (uint32_t i = 0; i < run.count(); ++i) {
        auto it = model.find(run.first_tag + i);
        ASSERT_TRUE(it != model.end()) << "seed " << seed;
        ASSERT_EQ(it->second, run.settle.run.first.ordinal + i) << "seed " << seed;
        model.erase(it);
      }
      if (random() % 2 == 0) taken.push_back(run);
    };
    for (int step = 0; step < 2000; ++step) {
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
        case 3:
          if (random() % 10 == 0) ++ordinal;
          entries += u.push(one(++tag, ++ordinal));
          model[tag] = ordinal;
          break;
        case 4:
        case 5:
        case 6: {
          if (tag == 0) break;
          const uint64_t t = tag - random() % std::min<uint64_t>(tag, 300);
          const bool known = model.contains(t);
          ASSERT_EQ(u.contains(t), known) << "seed " << seed;
          ASSERT_EQ(u.take_one(t,
                               [&](const UnackedRun& run, int change) {
                                 entries += change;
                                 take(run);
                               }),
                    known);
          break;
        }
        default:
          if (random() % 4 == 0 && tag > 0) {
            u.take_through(tag - random() % std::min<uint64_t>(tag, 50),
                           [&](const UnackedRun& run, bool whole) {
                             entries -= whole;
                             take(run);
                           });
          } else {
            for (const auto& run : taken) {
              u.put_back(run);
              ++entries;
              for (uint32_t i = 0; i < run.count(); ++i)
                model[run.first_tag + i] = run.settle.run.first.ordinal + i;
            }
            taken.clear();
          }
      }
      ASSERT_EQ(u.count(), model.size()) << "seed " << seed;
      ASSERT_GE(entries, 0);
    }
    u.take_all([&](const UnackedRun& run, bool whole) {
      entries -= whole;
      take(run);
    });
    ASSERT_TRUE(model.empty());
    ASSERT_EQ(entries, 0) << "a use of a queue would leak";
  }
}

}  // namespace
}  // namespace tarry
