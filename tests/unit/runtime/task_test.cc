#include "tarrymq/runtime/task.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace tarry {
namespace {

TEST(Task, CallsWhatItHoldsSmallOrLarge) {
  int calls = 0;
  Task small([&] { ++calls; });
  std::array<char, 500> block{};
  block[499] = 3;
  Task large([&calls, block] { calls += block[499]; });
  small();
  EXPECT_EQ(calls, 1);
  large();
  EXPECT_EQ(calls, 4);
}

TEST(Task, EmptyOnesSayTheyAre) {
  Task empty;
  EXPECT_FALSE(empty);
  Task full([] {});
  EXPECT_TRUE(full);
  Task moved(std::move(full));
  EXPECT_TRUE(moved);
  EXPECT_FALSE(full);  // NOLINT(bugprone-use-after-move): a moved-from task is empty
}

template <size_t kPadding>
void check_lifetime() {
  auto token = std::make_shared<int>(7);
  int seen = 0;
  {
    Task task([token, &seen, pad = std::array<char, kPadding>{}] { seen = *token + pad[0]; });
    EXPECT_EQ(token.use_count(), 2);
    std::vector<Task> tasks;
    for (int i = 0; i < 10; ++i) tasks.emplace_back([] {});
    tasks.push_back(std::move(task));
    for (int i = 0; i < 100; ++i) tasks.emplace_back([] {});  // moves it around
    EXPECT_EQ(token.use_count(), 2);
    tasks[10]();
    EXPECT_EQ(seen, 7);
    tasks[10] = Task([] {});
    EXPECT_EQ(token.use_count(), 1) << "assignment destroys what was there";
    Task other([token] {});
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Task, WhatItCapturesIsDestroyedOnceInline) { check_lifetime<8>(); }
TEST(Task, WhatItCapturesIsDestroyedOnceOnTheHeap) { check_lifetime<300>(); }

TEST(Task, TakesWhatCanOnlyBeMoved) {
  auto owned = std::make_unique<int>(5);
  int seen = 0;
  Task task([owned = std::move(owned), &seen] { seen = *owned; });
  Task moved = std::move(task);
  moved();
  EXPECT_EQ(seen, 5);
}

}  // namespace
}  // namespace tarry
