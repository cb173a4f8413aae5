#include "main/command_line.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

using Action = CommandLine::Action;

CommandLine read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tarrymq");
  return read_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST(CommandLine, EverySettingIsAFlag) {
  for (const auto& row : setting_rows()) {
    std::string flag = "--" + setting_flag(row), value(row.default_text);
    auto line = read({flag.c_str(), value.c_str()});
    ASSERT_EQ(line.action, Action::run) << flag << ": " << line.output;
    ASSERT_EQ(line.flags.values.size(), 1u) << flag;
    EXPECT_EQ(line.flags.values[0].first, row.name);
    EXPECT_EQ(line.flags.values[0].second, value);
  }
}

TEST(CommandLine, WhatIsNotGivenIsNoFlag) {
  auto line = read({});
  EXPECT_EQ(line.action, Action::run);
  EXPECT_TRUE(line.flags.values.empty());
  EXPECT_TRUE(line.config_path.empty());
}

TEST(CommandLine, TheLastOfTwoFlagsCounts) {
  auto line = read({"--amqp-port", "1", "--amqp-port=2"});
  ASSERT_EQ(line.flags.values.size(), 1u);
  EXPECT_EQ(line.flags.values[0].second, "2");
}

TEST(CommandLine, AnUnknownFlagIsOneLineAndRefused) {
  auto line = read({"--ampq-port", "1"});
  EXPECT_EQ(line.action, Action::exit_badly);
  EXPECT_NE(line.output.find("--ampq-port"), std::string::npos);
  EXPECT_EQ(line.output.find('\n'), line.output.size() - 1);
}

TEST(CommandLine, VersionHelpAndTheFileGoToStdout) {
  EXPECT_EQ(read({"--version"}).action, Action::exit_well);
  EXPECT_NE(read({"--version"}).output.find(TARRYMQ_VERSION), std::string::npos);
  auto help = read({"--help"});
  EXPECT_EQ(help.action, Action::exit_well);
  for (const auto& row : setting_rows()) {
    EXPECT_NE(help.output.find("--" + setting_flag(row)), std::string::npos) << row.name;
  }
  EXPECT_EQ(read({"--print-config"}).output, render_settings_toml());
}

TEST(CommandLine, SettingsComeFromTheFileThatIsNamed) {
  auto line = read({"--config", TARRY_SOURCE_DIR "/config/tarrymq.toml", "--http-port", "1"});
  auto settings = load_settings(line);
  ASSERT_TRUE(settings.has_value()) << settings.error().line;
  EXPECT_EQ(settings->http_port, 1u);
  EXPECT_EQ(settings->amqp_port, 5672u);
  EXPECT_FALSE(load_settings(read({"--config", "no/such.toml"})).has_value());
}

}  // namespace
}  // namespace tarry
