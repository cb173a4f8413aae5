#include "tarrymq/runtime/log_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

class LogFileTest : public testing::Test {
 protected:
  LogFileTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tarry-logfile-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~LogFileTest() override {
    (void)set_log_file("");  // stderr can always be had
    std::filesystem::remove_all(directory_);
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string directory_;
};

TEST_F(LogFileTest, AFileThatWasMovedAwayIsLeftWhenItIsOpenedAnew) {
  const std::string path = directory_ + "/log", old = directory_ + "/log.1";
  ASSERT_EQ(set_log_file(path), "");
  log_for("rotation")->warn("first");
  std::filesystem::rename(path, old);
  log_for("rotation")->warn("second");
  ASSERT_EQ(set_log_file(path), "");
  log_for("rotation")->warn("third");
  EXPECT_NE(text_of(old).find("rotation: first\n"), std::string::npos);
  EXPECT_NE(text_of(old).find("rotation: second\n"), std::string::npos);
  EXPECT_EQ(text_of(old).find("third"), std::string::npos);
  EXPECT_NE(text_of(path).find("rotation: third\n"), std::string::npos);
  EXPECT_EQ(text_of(path).find("second"), std::string::npos);
}

TEST_F(LogFileTest, WhatIsThereIsAppendedTo) {
  const std::string path = directory_ + "/log";
  std::ofstream(path) << "before\n";
  ASSERT_EQ(set_log_file(path), "");
  log_for("rotation")->warn("after");
  EXPECT_EQ(text_of(path).substr(0, 7), "before\n");
  EXPECT_NE(text_of(path).find("after\n"), std::string::npos);
}

TEST_F(LogFileTest, AFileThatCannotBeOpenedLeavesTheLogWhereItIs) {
  const std::string path = directory_ + "/log";
  ASSERT_EQ(set_log_file(path), "");
  EXPECT_EQ(set_log_file(directory_ + "/missing/log"), "No such file or directory");
  log_for("rotation")->warn("still here");
  EXPECT_NE(text_of(path).find("still here"), std::string::npos);
}

// A typing error would be no error else, and the hunt goes on without its lines.
TEST(LogLevels, OnlyOfCategoriesThatThereAre) {
  EXPECT_EQ(set_log_levels("net=debug,http=off"), "");
  const std::string error = set_log_levels("nett=debug");
  EXPECT_NE(error.find("'nett=debug'"), std::string::npos) << error;
  EXPECT_NE(error.find("net, queue"), std::string::npos) << error;
  EXPECT_EQ(set_log_levels(""), "");
}

TEST(LogLevels, EachCategoryOfTheSourcesIsKnown) {
  const std::regex use("log_for\\(\"([^\"]*)\"\\)");
  size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TARRY_SOURCE_DIR "/src")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (auto it = std::sregex_iterator(text.begin(), text.end(), use);
         it != std::sregex_iterator(); ++it, ++seen)
      EXPECT_EQ(set_log_levels((*it)[1].str() + "=info"), "") << entry.path();
  }
  EXPECT_GT(seen, 0u);
  EXPECT_EQ(set_log_levels(""), "");
}

}  // namespace
}  // namespace tarry
