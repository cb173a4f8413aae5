#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "http/controllers/common.h"
#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/amqp/table_view.h"
#include "tarrymq/http/management_server.h"
#include "tarrymq/retry/policy.h"
#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/settings.h"

namespace tarry {
namespace {

/// config/LIMITS.md, both tables: the second column by the first.
std::map<std::string, std::string> limits_table() {
  std::ifstream in(TARRY_SOURCE_DIR "/config/LIMITS.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ")) continue;
    const size_t bar = line.find(" | ", 2), next = line.find(" | ", bar + 3);
    std::string name = line.substr(2, bar - 2);
    std::erase(name, '`');
    rows[name] = line.substr(bar + 3, next - bar - 3);
  }
  return rows;
}

TEST(LimitsTable, HasEverySettingWithItsDefault) {
  const auto rows = limits_table();
  for (const SettingRow& row : setting_rows()) {
    const auto found = rows.find(std::string(row.name));
    ASSERT_NE(found, rows.end()) << row.name << " is missing";
    EXPECT_EQ(found->second, row.default_text) << row.name;
  }
}

TEST(LimitsTable, HasWhatIsFixedAsTheProgramHasIt) {
  const auto rows = limits_table();
  const HttpSettings http;
  const std::map<std::string, uint64_t> fixed{
      {"frame before the log-in", kFrameMaxLowest},
      {"table depth", kTableDepthMax},
      {"delivery limit of a retry queue", kDefaultDeliveryLimit},
      {"longest delay, ms", kDelayMsMax},
      {"HTTP connections", http.connections_max},
      {"HTTP header", http.header_bytes_max},
      {"HTTP body of definitions and messages", http.body_bytes_max},
      {"HTTP body of other requests", http.small_body_bytes_max},
      {"arguments over HTTP", http::kArgumentBytesMax},
      {"HTTP header time, ms", http.header_timeout_ms},
      {"HTTP body time, ms", http.body_timeout_ms},
      {"HTTP idle time, ms", http.idle_timeout_ms}};
  for (const auto& [name, value] : fixed) {
    ASSERT_TRUE(rows.contains(name)) << name;
    EXPECT_EQ(rows.at(name), std::to_string(value)) << name;
  }
}

TEST(LimitsTable, NamesEachCounter) {
  std::ifstream in(TARRY_SOURCE_DIR "/config/LIMITS.md");
  std::stringstream text;
  text << in.rdbuf();
  for (const LimitHits& limit : limit_hits()) {
    EXPECT_NE(text.str().find("counter `" + std::string(limit.name) + "`"), std::string::npos)
        << limit.name;
  }
}

TEST(LimitsTable, CountersCountTheirOwn) {
  const auto before = limit_hits();
  count_limit_hit(Limit::table_depth);
  const auto after = limit_hits();
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].hits - before[i].hits, after[i].name == "table_depth" ? 1u : 0u)
        << after[i].name;
  }
}

}  // namespace
}  // namespace tarry
