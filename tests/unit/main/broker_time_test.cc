#include "main/broker_time.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tarry {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;

class BrokerTime : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "broker_time_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string text() const {
    std::ifstream file(directory_ + "/clock");
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  void set_text(const std::string& text) const { std::ofstream(directory_ + "/clock") << text; }

  std::string directory_;
};

TEST_F(BrokerTime, WithoutAFileThereIsNoOffset) {
  EXPECT_FALSE(BrokerTimeFile(directory_).read().has_value());
}

TEST_F(BrokerTime, Rule29_TheOffsetSurvivesARestart) {
  SystemClock before(2 * kHourNs);
  BrokerTimeFile(directory_).keep(before, true);
  auto stored = BrokerTimeFile(directory_).read();
  ASSERT_TRUE(stored.has_value());
  EXPECT_NEAR(static_cast<double>(stored->offset_ns), 2.0 * kHourNs, 1e9);
  SystemClock after(stored->offset_ns, WallTime{stored->broker_ns});
  EXPECT_GE(after.wall_now().ns, stored->broker_ns);
  EXPECT_NEAR(static_cast<double>(after.wall_now().ns - before.wall_now().ns), 0, 1e9);
}

TEST_F(BrokerTime, Rule29_ASystemClockSetBackBetweenRunsDoesNotSetBrokerTimeBack) {
  // As if the last run had ended an hour ahead of what the system's clock shows now.
  SystemClock last(kHourNs);
  BrokerTimeFile(directory_).keep(last, true);
  auto stored = BrokerTimeFile(directory_).read();
  ASSERT_TRUE(stored.has_value());
  SystemClock next(0, WallTime{stored->broker_ns});
  EXPECT_GE(next.wall_now().ns, stored->broker_ns);
}

TEST_F(BrokerTime, Rule29_WithinOneStartOfTheMachineNoStepOfItsClockMattersAtAStart) {
  const StoredTime stored{5, 1000 * kHourNs, {"this", 7 * kHourNs}};
  for (int64_t system_hours : {1'000, 990, 1'024, 0}) {
    const WallTime system{system_hours * kHourNs};
    const int64_t offset = offset_at_start(stored, {"this", 9 * kHourNs}, system);
    EXPECT_EQ(system.ns + offset, 1002 * kHourNs) << "two hours have passed since it was written";
  }
}

TEST_F(BrokerTime, AfterAStartOfTheMachineTheStoredOffsetIsAllThereIs) {
  const StoredTime stored{5, 1000 * kHourNs, {"this", 7 * kHourNs}};
  const WallTime system{2000 * kHourNs};
  EXPECT_EQ(offset_at_start(stored, {"another", 9 * kHourNs}, system), 5);
  EXPECT_EQ(offset_at_start(stored, {"", 9 * kHourNs}, system), 5);
  EXPECT_EQ(offset_at_start(stored, {"this", 6 * kHourNs}, system), 5)
      << "a clock that went back says nothing";
  EXPECT_EQ(offset_at_start({5, 1000 * kHourNs, {}}, {"", 9 * kHourNs}, system), 5)
      << "written by an older version";
}

TEST_F(BrokerTime, TheMachinesOwnTimeIsStored) {
  const BootTime before = boot_time_now();
  BrokerTimeFile(directory_).keep(SystemClock(), true);
  const auto stored = BrokerTimeFile(directory_).read();
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->boot.id, before.id);
  EXPECT_GE(stored->boot.ns, before.ns);
  EXPECT_LE(stored->boot.ns, boot_time_now().ns);
}

TEST_F(BrokerTime, NothingIsWrittenWhileNothingHasChanged) {
  SystemClock clock;
  BrokerTimeFile file(directory_);
  file.keep(clock);
  std::string first = text();
  EXPECT_FALSE(first.empty());
  file.keep(clock);
  EXPECT_EQ(text(), first);
  SystemClock stepped(kHourNs);
  file.keep(stepped);
  EXPECT_NE(text(), first);
}

TEST_F(BrokerTime, AnyByteThatChangedIsNoticed) {
  BrokerTimeFile(directory_).keep(SystemClock(kHourNs), true);
  const std::string whole = text();
  ASSERT_TRUE(BrokerTimeFile(directory_).read().has_value());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (char other : {'0', '1', '2', '9', '-', ' ', '\n', 'f'}) {
      std::string changed = whole;
      if (changed[at] == other) continue;
      changed[at] = other;
      set_text(changed);
      EXPECT_FALSE(BrokerTimeFile(directory_).read().has_value()) << changed;
    }
    set_text(whole.substr(0, at));
    EXPECT_FALSE(BrokerTimeFile(directory_).read().has_value()) << at;
  }
}

TEST_F(BrokerTime, AFileThatIsSomethingElseIsNotBelieved) {
  for (std::string bad :
       {"", "tarrymq-clock", "tarrymq-clock 2 1 1\n", "other 1 5 5\n", "tarrymq-clock 1 x 5\n"}) {
    set_text(bad);
    EXPECT_FALSE(BrokerTimeFile(directory_).read().has_value()) << bad;
  }
  set_text("tarrymq-clock 1 -5 7\n");
  auto stored = BrokerTimeFile(directory_).read();
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->offset_ns, -5);
  EXPECT_EQ(stored->broker_ns, 7);
  set_text("tarrymq-clock 2 -5 7 f4dfc867\n");
  EXPECT_TRUE(BrokerTimeFile(directory_).read().has_value());
}

}  // namespace
}  // namespace tarry
