#include "tarrymq/runtime/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "tarrymq/runtime/log_file.h"

namespace tarry {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%e%z %l %n: %v";
constexpr size_t kKeptLines = 5'000;
constexpr size_t kKeptLineBytes = 4'096;  // of one line's text
constexpr const char* kLevels[] = {"trace", "debug", "info", "warning", "error", "off"};

std::string_view level_word(spdlog::level::level_enum level) {
  const auto word = spdlog::level::to_string_view(level);
  return {word.data(), word.size()};
}

int64_t ms_of(spdlog::log_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// The last lines, for HTTP.
class LineKeeper final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<LogLine> lines(uint64_t after, size_t count, spdlog::level::level_enum least) {
    std::lock_guard lock(mutex_);
    std::vector<LogLine> out;
    for (auto line = kept_.rbegin();
         line != kept_.rend() && out.size() < count && line->line.number > after; ++line) {
      if (line->level >= least) out.push_back(line->line);
    }
    return {out.rbegin(), out.rend()};
  }
  uint64_t last() const { return last_.load(std::memory_order_relaxed); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    LogLine line;
    line.number = last_.load(std::memory_order_relaxed) + 1;
    line.at_ms = ms_of(message.time);
    line.level = level_word(message.level);
    line.category.assign(message.logger_name.data(), message.logger_name.size());
    line.text.assign(message.payload.data(), std::min(message.payload.size(), kKeptLineBytes));
    kept_.push_back({message.level, std::move(line)});
    if (kept_.size() > kKeptLines) kept_.pop_front();
    last_.fetch_add(1, std::memory_order_relaxed);
  }
  void flush_() override {}

 private:
  struct Kept {
    spdlog::level::level_enum level;
    LogLine line;
  };
  std::deque<Kept> kept_;
  std::atomic<uint64_t> last_{0};
};

void append_json_text(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      out += "\\u00";
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

/// One line a message, whatever is in it: names that clients gave (users, queues) could else end a
/// line and write the next one, or steer the terminal that shows it.
class TextFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& into) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (std::none_of(text.begin(), text.end(), is_control)) return pattern_.format(message, into);
    static constexpr char kHex[] = "0123456789abcdef";
    std::string shown;
    for (const char c : text) {
      if (!is_control(c)) {
        shown.push_back(c);
        continue;
      }
      shown += "\\x";
      shown.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      shown.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    }
    spdlog::details::log_msg one_line = message;
    one_line.payload = spdlog::string_view_t(shown.data(), shown.size());
    pattern_.format(one_line, into);
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextFormatter>();
  }

 private:
  static bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
  spdlog::pattern_formatter pattern_{kTextPattern};
};

/// Each line a JSON object, for machines that gather logs.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& into) override {
    std::string line = "{\"time\":";
    spdlog::memory_buf_t time;
    time_.format(message, time);
    append_json_text(line, {time.data(), time.size()});
    line += ",\"level\":";
    append_json_text(line, level_word(message.level));
    line += ",\"category\":";
    append_json_text(line, {message.logger_name.data(), message.logger_name.size()});
    line += ",\"text\":";
    append_json_text(line, {message.payload.data(), message.payload.size()});
    line += "}\n";
    into.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%e%z", spdlog::pattern_time_type::local, ""};
};

/// Lines to stderr or to a file, each with one write, so that nothing is in between when the file
/// changes.
class LineWriter final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ~LineWriter() override { leave(STDERR_FILENO); }
  std::string open(const std::string& path) {
    int fd = STDERR_FILENO;
    if (!path.empty()) fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) return std::strerror(errno);
    std::lock_guard lock(mutex_);
    leave(fd);
    return "";
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // A line that cannot be written (a full disk) is given up: there is nobody to tell.
    for (size_t at = 0; at < line.size();) {
      const ssize_t written = ::write(fd_, line.data() + at, line.size() - at);
      if (written < 0 && errno != EINTR) return;
      if (written > 0) at += static_cast<size_t>(written);
    }
  }
  void flush_() override {}

 private:
  void leave(int next) {
    if (fd_ != STDERR_FILENO) ::close(fd_);
    fd_ = next;
  }
  int fd_ = STDERR_FILENO;
};

struct Logs {
  std::mutex mutex;  // guards what follows
  std::shared_ptr<LineWriter> out = std::make_shared<LineWriter>();
  std::shared_ptr<LineKeeper> keeper = std::make_shared<LineKeeper>();
  spdlog::level::level_enum level = spdlog::level::info;
  std::map<std::string, spdlog::level::level_enum, std::less<>> levels;  // of rooms that differ

  Logs() { out->set_formatter(std::make_unique<TextFormatter>()); }
  spdlog::level::level_enum level_of(std::string_view room) const {
    const auto own = levels.find(room);
    return own == levels.end() ? level : own->second;
  }
  void apply() {
    spdlog::set_level(level);
    spdlog::apply_all([this](const std::shared_ptr<spdlog::logger>& logger) {
      logger->set_level(level_of(logger->name()));
    });
  }
};

Logs& logs() {
  static auto* all = new Logs;  // outlives whoever logs while the process ends
  return *all;
}

/// Those that log, as the table of settings has them for people.
constexpr std::string_view kCategories[] = {"broker", "http",    "invariant", "main", "net",
                                            "queue",  "session", "storage",   "tls"};

/// "" or what to write instead.
std::string unknown_category(std::string_view name) {
  std::string all;
  for (std::string_view known : kCategories) {
    if (known == name) return "";
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  return "no such category; there are " + all;
}

bool is_level(std::string_view word) {
  return std::any_of(std::begin(kLevels), std::end(kLevels),
                     [&](const char* known) { return word == known; });
}

}  // namespace

std::shared_ptr<spdlog::logger> log_for(std::string_view room) {
  Logs& all = logs();
  std::lock_guard lock(all.mutex);
  std::string name(room);
  if (auto known = spdlog::get(name)) return known;
  auto logger =
      std::make_shared<spdlog::logger>(name, spdlog::sinks_init_list{all.out, all.keeper});
  logger->set_level(all.level_of(name));
  logger->flush_on(spdlog::level::warn);
  spdlog::register_logger(logger);
  return logger;
}

bool set_log_level(std::string_view level) {
  if (!is_level(level)) return false;
  Logs& all = logs();
  std::lock_guard lock(all.mutex);
  all.level = spdlog::level::from_str(std::string(level));
  all.apply();
  return true;
}

std::string set_log_levels(std::string_view levels) {
  std::map<std::string, spdlog::level::level_enum, std::less<>> wanted;
  while (!levels.empty()) {
    const std::string_view one = levels.substr(0, levels.find(','));
    levels.remove_prefix(std::min(one.size() + 1, levels.size()));
    if (one.empty()) continue;
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0 || !is_level(one.substr(equals + 1))) {
      return "'" + std::string(one) +
             "': expected category=level with a level of trace, debug, info, warning, error, off";
    }
    if (const std::string error = unknown_category(one.substr(0, equals)); !error.empty())
      return "'" + std::string(one) + "': " + error;
    wanted[std::string(one.substr(0, equals))] =
        spdlog::level::from_str(std::string(one.substr(equals + 1)));
  }
  Logs& all = logs();
  std::lock_guard lock(all.mutex);
  all.levels = std::move(wanted);
  all.apply();
  return "";
}

void set_log_json(bool json) {
  Logs& all = logs();
  std::lock_guard lock(all.mutex);
  if (json)
    all.out->set_formatter(std::make_unique<JsonFormatter>());
  else
    all.out->set_formatter(std::make_unique<TextFormatter>());
}

std::string set_log_file(const std::string& path) { return logs().out->open(path); }

void flush_logs() {
  spdlog::apply_all([](const std::shared_ptr<spdlog::logger>& logger) { logger->flush(); });
}

std::vector<LogLine> recent_log_lines(uint64_t after, size_t count, std::string_view level) {
  const auto least =
      level.empty() ? spdlog::level::trace : spdlog::level::from_str(std::string(level));
  return logs().keeper->lines(after, count, least);
}

uint64_t last_log_line() { return logs().keeper->last(); }

}  // namespace tarry
