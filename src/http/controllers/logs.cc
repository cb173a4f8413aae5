// The broker's log from afar (http-api H-71): the last lines, and those that came since.
#include <charconv>
#include <set>

#include "http/controllers/common.h"
#include "tarrymq/runtime/log.h"

namespace tarry::http {
namespace {

constexpr uint64_t kLinesDefault = 200;
constexpr uint64_t kLinesMax = 10'000;

Result<uint64_t, std::string> number_in(const Request& request, const char* name, uint64_t fallback,
                                        uint64_t max) {
  const std::string* text = request.query_value(name);
  if (text == nullptr || text->empty()) return fallback;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value > max) {
    return "invalid " + std::string(name) + " '" + *text + "': must be an integer from 0 to " +
           std::to_string(max);
  }
  return value;
}

Response logs(const Request& request) {
  auto after = number_in(request, "after", 0, UINT64_MAX);
  auto count = number_in(request, "count", kLinesDefault, kLinesMax);
  if (!after || !count) return Response::bad_request(!after ? after.error() : count.error());
  const std::string* level = request.query_value("level");
  static const std::set<std::string> kLevels{"",        "trace", "debug",   "info",
                                             "warning", "error", "critical"};
  if (level != nullptr && !kLevels.contains(*level)) {
    return Response::bad_request("invalid level '" + *level +
                                 "': must be trace, debug, info, warning, error or critical");
  }
  const std::string* category = request.query_value("category");
  // Read before the lines, so that none falls between this answer and the next question.
  const uint64_t last = last_log_line();
  const bool as_text =
      request.query_value("format") != nullptr && *request.query_value("format") == "text";
  Json lines = Json::array();
  std::string text;
  for (const LogLine& line : recent_log_lines(*after, *count, level != nullptr ? *level : "")) {
    if (line.number > last ||
        (category != nullptr && !category->empty() && line.category != *category))
      continue;
    if (as_text) {
      text += utc_text(line.at_ms) + "Z " + std::string(line.level) + " " + line.category + ": " +
              line.text + "\n";
    } else {
      lines.push_back(Json{{"number", line.number},
                           {"at", line.at_ms},
                           {"time", utc_text(line.at_ms) + "Z"},
                           {"level", line.level},
                           {"category", line.category},
                           {"text", line.text}});
    }
  }
  if (!as_text) return Response::json(Json{{"lines", std::move(lines)}, {"last", last}});
  Response response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

}  // namespace

void add_log_routes(Router& router, Context&) {
  router.add_direct(Method::get, "/api/logs", Access::monitoring, logs);
}

}  // namespace tarry::http
