#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tarry {

/// One logger a room; `log_for("queue")`. Lines name the vhost and queue or the connection. Any
/// thread may call. Levels follow set_log_level and set_log_levels.
std::shared_ptr<spdlog::logger> log_for(std::string_view room);
/// `trace`, `debug`, `info`, `warning`, `error` or `off`; false for any other word. Of all rooms.
bool set_log_level(std::string_view level);
/// Rooms that differ from that, as "queue=debug,http=warning". "" is none. The error says what is
/// wrong with the text, and nothing changes.
std::string set_log_levels(std::string_view levels);
/// True: each line is a JSON object {"time", "level", "category", "text"}; false: text.
void set_log_json(bool json);
/// Writes what is buffered.
void flush_logs();

/// A line as it was logged, for those who look from afar.
struct LogLine {
  uint64_t number = 0;     // from 1, by one each
  int64_t at_ms = 0;       // system time, ms since 1970
  std::string_view level;  // trace, debug, info, warning, error, critical
  std::string category, text;
};
/// The last lines (some thousands are kept) behind number `after` that are at least as grave as
/// `level` ("" is all), at most `count`: the newest of them, oldest first. Any thread.
std::vector<LogLine> recent_log_lines(uint64_t after, size_t count, std::string_view level);
/// The number of the newest line, whatever its level; 0: none yet.
uint64_t last_log_line();

}  // namespace tarry
