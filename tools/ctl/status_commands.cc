// How the broker is, and its health checks.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kStatusGroup = "Status";

std::string in_units(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit < 4) value /= 1000, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string in_days(uint64_t ms) {
  const uint64_t s = ms / 1000;
  char text[64];
  std::snprintf(
      text, sizeof text, "%llu d %02llu:%02llu:%02llu", static_cast<unsigned long long>(s / 86400),
      static_cast<unsigned long long>(s / 3600 % 24), static_cast<unsigned long long>(s / 60 % 60),
      static_cast<unsigned long long>(s % 60));
  return text;
}

void status(Session& session) {
  const Json overview = session.client().get("/api/overview");
  const Answer nodes = session.client().try_call("GET", "/api/nodes");
  const Json node = nodes.status == 200 && !nodes.json().empty() ? nodes.json()[0] : Json::object();
  if (session.format() == Format::json)
    return print_object(Json{{"overview", overview}, {"node", node}}, Format::json);
  const auto number = [](const Json& object, const std::string& path) {
    const Json value = at_path(object, path);
    return value.is_number() ? value.get<uint64_t>() : uint64_t{0};
  };
  const auto line = [](const std::string& name, const std::string& value) {
    std::cout << name << std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') << value << "\n";
  };
  line("Broker", overview.value("product_name", "") + " " + overview.value("product_version", "") +
                     ", " + overview.value("node", ""));
  line("Up for", in_days(number(overview, "uptime")));
  for (const Json& listener : overview.value("listeners", Json::array())) {
    line("Listens", listener.value("protocol", "") + " " + listener.value("ip_address", "") + ":" +
                        std::to_string(listener.value("port", 0)));
  }
  for (const char* what : {"connections", "channels", "queues", "exchanges", "consumers"}) {
    line(std::string(1, static_cast<char>(what[0] - 32)) + (what + 1),
         std::to_string(number(overview, "object_totals." + std::string(what))));
  }
  line("Messages ready", std::to_string(number(overview, "queue_totals.messages_ready")));
  line("Unacknowledged", std::to_string(number(overview, "queue_totals.messages_unacknowledged")));
  line("Waiting for a retry", std::to_string(number(overview, "queue_totals.messages_delayed")));
  if (node.empty()) return;
  line("Memory", in_units(number(node, "mem_used")) + " of " + in_units(number(node, "mem_limit")) +
                     (node.value("mem_alarm", false) ? "  ALARM: publishers are blocked" : ""));
  line("Disk free",
       in_units(number(node, "disk_free")) + ", limit " +
           in_units(number(node, "disk_free_limit")) +
           (node.value("disk_free_alarm", false) ? "  ALARM: publishers are blocked" : ""));
  line("File descriptors",
       std::to_string(number(node, "fd_used")) + " of " + std::to_string(number(node, "fd_total")));
}

/// Prints what the check says; a failed one ends with 1.
void health_check(Session& session, const std::string& path) {
  const Answer answer = session.client().try_call("GET", path);
  if (answer.status == 200) {
    if (session.format() == Format::json)
      print_object(answer.json(), Format::json);
    else if (!session.quiet)
      std::cout << "ok\n";
    return;
  }
  if (answer.status != 503) (void)session.client().call("GET", path);  // says why in the usual way
  const Json details = answer.json();
  if (session.format() == Format::json) print_object(details, Format::json);
  throw Failure{kExitRefused, "check failed: " + details.value("reason", "no reason given")};
}

void print_log_line(const Json& line, Format format) {
  if (format == Format::json) {
    std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    std::cout << line.value("time", "") << " " << line.value("level", "") << " "
              << line.value("category", "") << ": " << cell(line.value("text", Json(""))) << "\n";
  }
}

void log_tail(Session& session, uint32_t count, const std::string& level, bool follow) {
  Query query{{"count", std::to_string(count)}};
  if (!level.empty()) query.emplace_back("level", level);
  for (;;) {
    const Json answer = session.client().get("/api/logs", query);
    for (const Json& line : answer["lines"]) print_log_line(line, session.format());
    std::cout.flush();
    if (!follow) return;
    query = {{"after", std::to_string(answer["last"].get<uint64_t>())}, {"count", "10000"}};
    if (!level.empty()) query.emplace_back("level", level);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

void add_check(CLI::App& app, Session& session) {
  struct Options {
    std::string what;
    uint64_t argument = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* check = add_command(
      app, kStatusGroup, "check",
      "A health check: ends with 0 if all is well, with 1 and the reason if not", [=, &session] {
        const std::string base = "/api/health/checks/";
        if (options->what == "port")
          return health_check(session, base + "port-listener/" + std::to_string(options->argument));
        if (options->what == "retries") {
          const uint64_t limit = options->argument == 0 ? 60'000 : options->argument;
          return health_check(session, base + "retries-on-time/" + std::to_string(limit));
        }
        health_check(session, base + (options->what == "alive"   ? "is-in-service"
                                      : options->what == "ready" ? "ready-to-serve-clients"
                                                                 : "alarms"));
      });
  check
      ->add_option("what", options->what,
                   "alive, ready, alarms, port (with a number) or retries (with a limit in ms)")
      ->required()
      ->check(CLI::IsMember({"alive", "ready", "alarms", "port", "retries"}));
  check->add_option("argument", options->argument,
                    "Port number, or the most ms that a due message may be late (60000)");
}

/// Without a log-in nothing is refused, and so nothing logged: for who asks every few seconds.
void ping_broker(Session& session, bool no_login) {
  static constexpr const char* kAnything = "/api/whoami";
  if (no_login) {
    session.target.user.clear();
    const Answer answer = session.client().try_call("GET", kAnything);
    if (answer.status >= 500)
      throw Failure{kExitRefused,
                    "the broker answers with HTTP status " + std::to_string(answer.status)};
  } else {
    (void)session.client().get(kAnything);
  }
  session.say("the broker answers");
}

}  // namespace

void add_status_commands(CLI::App& app, Session& session) {
  add_command(app, kStatusGroup, "status",
              "Version, uptime, listeners, objects, messages, memory, disk",
              [&session] { status(session); });
  auto no_login = std::make_shared<bool>(false);
  CLI::App* ping = add_command(app, kStatusGroup, "ping", "Whether the broker answers",
                               [=, &session] { ping_broker(session, *no_login); });
  ping->add_flag("--no-login", *no_login, "Without a user: \"who are you\" is an answer, too");
  add_check(app, session);
  struct LogOptions {
    uint32_t count = 50;
    std::string level;
    bool follow = false;
  };
  auto log = std::make_shared<LogOptions>();
  CLI::App* tail =
      add_command(app, kStatusGroup, "log_tail", "The last lines of the broker's log",
                  [=, &session] { log_tail(session, log->count, log->level, log->follow); });
  tail->add_option("-n,--lines", log->count, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  tail->add_option("--level", log->level, "Only lines this grave or graver")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}));
  tail->add_flag("--follow", log->follow, "Go on with lines to come, until interrupted");
}

}  // namespace ctl
