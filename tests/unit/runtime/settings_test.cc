#include "tarrymq/runtime/settings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace tarry {
namespace {

SettingLayer layer(std::string source, std::vector<std::pair<std::string, std::string>> values) {
  return {std::move(source), std::move(values)};
}

Result<Settings, SettingError> resolve(std::vector<SettingLayer> layers) {
  return resolve_settings(layers);
}

std::string error_of(std::vector<SettingLayer> layers) {
  auto settings = resolve(std::move(layers));
  return settings ? std::string("no error") : settings.error().line;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Settings, TheDefaultsAreWithinTheirOwnBounds) {
  auto settings = resolve({});
  ASSERT_TRUE(settings.has_value()) << error_of({});
  EXPECT_EQ(settings->bind, "127.0.0.1");
  EXPECT_EQ(settings->amqp_port, 5672u);
  EXPECT_EQ(settings->http_port, 15672u);
  EXPECT_EQ(settings->default_user, "guest");
  EXPECT_EQ(settings->durability, "fsync");
}

TEST(Settings, EachNameFlagAndFieldIsUsedOnce) {
  std::set<std::string> names;
  auto defaults = resolve({});
  ASSERT_TRUE(defaults.has_value());
  for (const auto& row : setting_rows()) {
    EXPECT_TRUE(names.insert(setting_flag(row)).second) << row.name;
    EXPECT_TRUE(names.insert(setting_environment_name(row)).second) << row.name;
    EXPECT_TRUE(row.text.ends_with('.')) << row.name;
    if (auto* field = std::get_if<uint64_t Settings::*>(&row.field)) {
      EXPECT_LT(row.min, row.max) << row.name;
      // A row that points at another row's field would leave this one's value where it was.
      uint64_t other = (*defaults).*(*field) == row.max ? row.min : row.max;
      auto changed = resolve({layer(
          "t",
          {{"tls_cert", "c"}, {"tls_key", "k"}, {std::string(row.name), std::to_string(other)}})});
      ASSERT_TRUE(changed.has_value()) << row.name;
      for (const auto& seen : setting_rows()) {
        auto* seen_field = std::get_if<uint64_t Settings::*>(&seen.field);
        if (!seen_field) continue;
        bool differs = (*changed).*(*seen_field) != (*defaults).*(*seen_field);
        EXPECT_EQ(differs, seen.name == row.name) << row.name << " moved " << seen.name;
      }
    }
  }
}

TEST(Settings, FlagGoesOverEnvironmentOverFileOverDefault) {
  auto file = layer("f.toml", {{"amqp_port", "1"}, {"http_port", "2"}, {"workers", "3"}});
  auto environment = layer("the environment", {{"amqp_port", "11"}, {"http_port", "12"}});
  auto flags = layer("the command line", {{"amqp_port", "21"}});
  auto settings = resolve({file, environment, flags});
  ASSERT_TRUE(settings.has_value());
  EXPECT_EQ(settings->amqp_port, 21u);
  EXPECT_EQ(settings->http_port, 12u);
  EXPECT_EQ(settings->workers, 3u);
  EXPECT_EQ(settings->frame_max, 131072u);
}

TEST(Settings, AnUnknownNameIsAnErrorThatNamesTheNearest) {
  EXPECT_EQ(error_of({layer("f.toml", {{"ampq_port", "1"}})}),
            "unknown setting ampq_port (from f.toml): did you mean amqp_port?");
  EXPECT_EQ(error_of({layer("f.toml", {{"foo", "5"}})}),
            "unknown setting foo (from f.toml): tarrymq --print-config shows all there are");
}

TEST(Settings, ABadValueIsOneLineWithNameValueAndAllowedRange) {
  EXPECT_EQ(error_of({layer("the command line", {{"amqp_port", "65536"}})}),
            "bad setting amqp_port = \"65536\" (from the command line): must be a whole number "
            "0..65535");
  EXPECT_EQ(error_of({layer("f.toml", {{"durability", "maybe"}})}),
            "bad setting durability = \"maybe\" (from f.toml): must be one of fsync, os");
  for (std::string bad : {"-1", "", " 1", "1 ", "0x10", "1.5", "99999999999999999999", "4095"}) {
    EXPECT_NE(error_of({layer("t", {{"frame_max", bad}})}), "no error") << bad;
  }
  EXPECT_EQ(error_of({layer("t", {{"bind", "a\nb"}, {"log_level", "a\nb"}})}).find('\n'),
            std::string::npos);
  EXPECT_NE(error_of({layer("t", {{"data_dir", ""}})}), "no error");
  EXPECT_EQ(error_of({layer("t", {{"default_password", ""}})}), "no error");
}

TEST(Settings, TwoListenersOnOnePortAreRefusedButTwoThatAreOffAreNot) {
  EXPECT_NE(error_of({layer("t", {{"amqp_port", "15672"}})}), "no error");
  EXPECT_EQ(error_of({layer("t", {{"amqps_port", "0"}, {"http_port", "0"}})}), "no error");
}

TEST(Settings, AListenerWithTlsNeedsACertificateAndItsKey) {
  for (const char* port : {"amqps_port", "https_port"}) {
    EXPECT_EQ(error_of({layer("t", {{port, "1"}})}),
              "bad setting tls_cert = \"\": " + std::string(port) +
                  " needs a certificate and its key (PEM files)");
    EXPECT_EQ(error_of({layer("t", {{port, "1"}, {"tls_cert", "c"}})}),
              "bad setting tls_key = \"\": " + std::string(port) +
                  " needs a certificate and its key (PEM files)");
    EXPECT_EQ(error_of({layer("t", {{port, "1"}, {"tls_cert", "c"}, {"tls_key", "k"}})}),
              "no error");
  }
  EXPECT_EQ(
      error_of({layer(
          "t",
          {{"amqps_port", "1"}, {"tls_cert", "c"}, {"tls_key", "k"}, {"tls_verify", "required"}})}),
      "bad setting tls_ca = \"\": tls_verify = \"required\" needs to know who may sign (a PEM "
      "file)");
}

TEST(Settings, UsersFromCertificatesNeedThatThoseAreAskedFor) {
  const auto with = [](std::string verify, std::string port) {
    return layer("t", {{"amqps_port", std::move(port)},
                       {"tls_cert", "c"},
                       {"tls_key", "k"},
                       {"tls_ca", "a"},
                       {"tls_user_from", "dns"},
                       {"tls_verify", std::move(verify)}});
  };
  const std::string error = error_of({with("none", "5671")});
  EXPECT_NE(error.find("tls_user_from = \"dns\""), std::string::npos) << error;
  EXPECT_NE(error.find("tls_verify"), std::string::npos) << error;
  EXPECT_EQ(error_of({with("peer", "5671")}), "no error");
  EXPECT_EQ(error_of({with("required", "5671")}), "no error");
  EXPECT_EQ(error_of({with("none", "0")}), "no error");
}

TEST(Settings, WhatTakesARestartIsNamed) {
  const auto running = resolve({}),
             read = resolve({layer("t", {{"amqp_port", "5673"},
                                         {"log_level", "debug"},
                                         {"data_dir", "/elsewhere"},
                                         {"default_user_loopback_only", "false"}})});
  ASSERT_TRUE(running && read);
  EXPECT_TRUE(changed_until_restart(*running, *running).empty());
  EXPECT_EQ(changed_until_restart(*running, *read),
            (std::vector<std::string_view>{"data_dir", "amqp_port", "default_user_loopback_only"}));
}

TEST(Settings, TrustedProxiesAreAddressesAndNetworks) {
  for (const std::string name :
       {"proxy_protocol_trusted_sources", "http_proxy_protocol_trusted_sources"}) {
    EXPECT_EQ(error_of({layer("t", {{name, "10.0.0.0/8, ::1"}})}), "no error");
    EXPECT_EQ(error_of({layer("t", {{name, "everybody"}})}),
              "bad setting " + name +
                  " = \"everybody\": 'everybody' is no numeric address; allowed are addresses and "
                  "networks (as 10.0.0.0/8) with commas between them");
  }
}

TEST(Settings, TomlGivesNumbersAndWordsAndSaysWhereItIsBroken) {
  auto read = read_settings_toml("amqp_port = 1\nbind = \"::1\"  # why\n", "f.toml");
  ASSERT_TRUE(read.has_value()) << read.error().line;
  auto settings = resolve({*read});
  ASSERT_TRUE(settings.has_value());
  EXPECT_EQ(settings->amqp_port, 1u);
  EXPECT_EQ(settings->bind, "::1");
  auto broken = read_settings_toml("amqp_port = 1\nbind = \n", "f.toml");
  ASSERT_FALSE(broken.has_value());
  EXPECT_NE(broken.error().line.find("f.toml, line 2"), std::string::npos) << broken.error().line;
  auto twice = read_settings_toml("bind = \"a\"\nbind = \"b\"\n", "f.toml");
  EXPECT_FALSE(twice.has_value());
}

/// The library that reads TOML has assertions that texts like the first of these fail, and promises
/// to the compiler that the last one breaks.
TEST(Settings, TomlThatItsReaderTakesForImpossibleIsRefused) {
  for (std::string toml :
       {"bind = 1979-05-27Tx7:32:00Z", "bind = 1979-05-27T", "bind = 07:3",
        "bind = 1979-05-27T07:32:00+x", "bind = [1979-05-27 :]", "bind = \xcf\xa1"}) {
    auto read = read_settings_toml(toml, "f.toml");
    ASSERT_FALSE(read.has_value()) << toml;
    EXPECT_TRUE(read.error().line.starts_with("bad file f.toml")) << read.error().line;
  }
}

TEST(Settings, TomlOfAnotherTypeIsRefusedByName) {
  for (std::string toml : {"amqp_port = 1.5", "amqp_port = true", "amqp_port = [1]",
                           "amqp_port = \"x\"", "amqp_port = -1", "[amqp_port]\na = 1"}) {
    auto read = read_settings_toml(toml, "f.toml");
    ASSERT_TRUE(read.has_value()) << toml;
    EXPECT_TRUE(error_of({*read}).starts_with("bad setting amqp_port = ")) << error_of({*read});
  }
}

/// The TOML library's own text for a list casts the logarithm of what is in it to an integer.
TEST(Settings, TomlListsAndTablesAreNamedWithoutWhatIsInThem) {
  for (const auto& [toml, shown] : std::map<std::string, std::string>{
           {"amqp_port = [1, inf]", "[...]"}, {"amqp_port = {a = [1, -inf, nan]}", "{...}"}}) {
    auto read = read_settings_toml(toml, "f.toml");
    ASSERT_TRUE(read.has_value()) << toml;
    EXPECT_TRUE(error_of({*read}).starts_with("bad setting amqp_port = \"" + shown + "\""))
        << error_of({*read});
  }
}

TEST(Settings, TomlListsAndTablesAreNoTexts) {
  for (const auto& [toml, shown] : std::map<std::string, std::string>{
           {"tls_ca = [\"a.pem\", \"b.pem\"]", "[...]"}, {"bind = {a = 1}", "{...}"}}) {
    auto read = read_settings_toml("\n" + toml, "f.toml");
    ASSERT_FALSE(read.has_value()) << toml;
    EXPECT_EQ(read.error().line, "bad setting " + toml.substr(0, toml.find(' ')) + " = " + shown +
                                     " (from f.toml, line 2): must be a text");
  }
}

TEST(Settings, TheEnvironmentIsReadByPrefixAlone) {
  const char* environment[] = {"PATH=/bin", "TARRYMQ_HTTP_PORT=7", "TARRYMQ_LOG_LEVEL=off",
                               nullptr};
  std::vector<std::string> unknown;
  auto settings = resolve({read_settings_environment(environment, unknown)});
  ASSERT_TRUE(settings.has_value());
  EXPECT_EQ(settings->http_port, 7u);
  EXPECT_EQ(settings->log_level, "off");
  EXPECT_TRUE(unknown.empty());
  const char* others[] = {"TARRYMQ_SERVICE_HOST=10.0.0.1", nullptr};
  EXPECT_TRUE(read_settings_environment(others, unknown).values.empty());
  EXPECT_EQ(unknown, std::vector<std::string>{"TARRYMQ_SERVICE_HOST"});
}

TEST(Settings, ABooleanIsTrueOrFalseAndNothingElse) {
  auto read = read_settings_toml("default_user_loopback_only = false", "f.toml");
  ASSERT_TRUE(read.has_value());
  auto settings = resolve({*read});
  ASSERT_TRUE(settings.has_value());
  EXPECT_FALSE(settings->default_user_loopback_only);
  EXPECT_EQ(error_of({layer("t", {{"default_user_loopback_only", "1"}})}),
            "bad setting default_user_loopback_only = \"1\" (from t): must be true or false");
}

TEST(Settings, AMissingFileIsAnErrorThatNamesIt) {
  auto read = read_settings_file("no/such/file.toml");
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().line.find("no/such/file.toml"), std::string::npos);
}

TEST(Settings, TheFileInConfigIsTheTableWritten) {
  std::string path = TARRY_SOURCE_DIR "/config/tarrymq.toml";
  EXPECT_EQ(read_text(path), render_settings_toml())
      << "write it anew: tarrymq --print-config > config/tarrymq.toml";
  auto file = read_settings_file(path);
  ASSERT_TRUE(file.has_value()) << file.error().line;
  EXPECT_EQ(file->values.size(), setting_rows().size());
  for (const auto& row : setting_rows()) {
    bool found = false;
    for (const auto& [name, value] : file->values) {
      found = found || (name == row.name && value == row.default_text);
    }
    EXPECT_TRUE(found) << row.name;
  }
  EXPECT_EQ(error_of({*file}), "no error");
}

}  // namespace
}  // namespace tarry
