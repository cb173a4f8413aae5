// Retries: a queue's schedule and its override, and what waits.
#include <ctime>
#include <iostream>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kRetryGroup = "Retries";

/// The keys of a retry schedule, as options.
struct Schedule {
  int64_t min = -1, multiplier = -1, max = -1, limit = -1, jitter = -1, max_age = -1;

  void add_options(CLI::App& command) {
    command.add_option("--min", min, "First delay in ms");
    command.add_option("--multiplier", multiplier,
                       "Not set: linear; 1: constant; 2 and more: exponential");
    command.add_option("--max", max, "Longest single delay in ms");
    command.add_option("--limit", limit, "Most redeliveries");
    command.add_option("--jitter", jitter, "Percent around each delay");
    command.add_option("--max-age", max_age, "Age in ms over which a rejection dead-letters");
  }
  std::vector<std::pair<std::string, int64_t>> given() const {
    std::vector<std::pair<std::string, int64_t>> out;
    for (const auto& [name, value] :
         {std::pair{"min", min}, std::pair{"multiplier", multiplier}, std::pair{"max", max},
          std::pair{"limit", limit}, std::pair{"jitter", jitter}, std::pair{"max_age", max_age}}) {
      if (value >= 0) out.emplace_back(name, value);
    }
    return out;
  }
};

std::string in_seconds(int64_t ms) {
  char text[48];
  if (ms < 1000)
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(ms));
  else if (ms < 120'000)
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(ms / 3'600'000),
                  static_cast<long long>(ms / 60'000 % 60), static_cast<long long>(ms / 1000 % 60));
  return text;
}

void print_schedule(const Json& answer) {
  int64_t after = 0;
  int attempt = 0;
  for (const Json& delay : answer.value("schedule", Json::array())) {
    after += delay.get<int64_t>();
    std::cout << "retry " << ++attempt << ": " << in_seconds(delay.get<int64_t>()) << " later, "
              << in_seconds(after) << " after the first rejection\n";
  }
  if (answer.value("schedule_truncated", false)) std::cout << "... and so on\n";
  const Json most = answer.value("deliveries_max", Json());
  std::cout << "deliveries at most: " << (most.is_null() ? "no limit" : cell(most)) << ", over "
            << in_seconds(answer.value("total_ms", int64_t{0})) << "\n";
}

/// "3 delivery_limit, 1 rejected", or "none".
std::string by_reason(const Json& counts) {
  std::string out;
  for (const auto& [reason, count] : counts.items())
    out += (out.empty() ? "" : ", ") + cell(count) + " " + reason;
  return out.empty() ? "none" : out;
}

/// What has happened since the broker started (retry-spec 40).
void show_so_far(const Json& queue) {
  const Json stats = queue.value("retry_stats", Json::object());
  const auto number = [&](const char* key) { return cell(stats.value(key, Json(0))); };
  std::cout << "so far: " << number("scheduled") << " began to wait, " << number("redelivered")
            << " came due, " << number("postponed") << " postponed, "
            << cell(queue.value("messages_delayed", Json(0))) << " wait now\n"
            << "dead-lettered: " << by_reason(stats.value("dead_lettered", Json::object()))
            << "; dropped: " << by_reason(stats.value("dropped", Json::object())) << "\n";
  const Json lag = stats.value("lag", Json::object());
  if (lag.value("count", uint64_t{0}) == 0) return;
  std::cout << "behind the due time: on average " << cell(lag["mean_ms"]) << " ms, 99 % "
            << (lag["p99_ms"].is_null() ? "not even within 300000"
                                        : "within " + cell(lag["p99_ms"]))
            << " ms\n";
}

void show_retry(Session& session, const std::string& queue) {
  const Json answer = session.client().get(path("queues", session.vhost, queue) + "/retry");
  if (session.format() == Format::json) return print_object(answer, Format::json);
  for (const char* part : {"declared", "override", "effective"}) {
    std::cout << part << ":";
    const Json values = answer.value(part, Json::object());
    for (const auto& [name, value] : values.items()) {
      if (!value.is_null()) std::cout << " " << name << "=" << cell(value);
    }
    std::cout << (values.empty() ? " none\n" : "\n");
  }
  print_schedule(answer);
  show_so_far(session.client().get(path("queues", session.vhost, queue),
                                   {{"columns", "retry_stats,messages_delayed"}}));
}

void add_schedules(CLI::App& app, Session& session) {
  struct Options {
    std::string queue;
    Schedule schedule;
  };
  auto o = std::make_shared<Options>();
  add_command(app, kRetryGroup, "retry", "A queue's retry settings and its schedule",
              [=, &session] { show_retry(session, o->queue); })
      ->add_option("queue", o->queue)
      ->required();
  CLI::App* set = add_command(
      app, kRetryGroup, "retry_set",
      "Overrides a queue's retry settings, for rejections from now on", [=, &session] {
        Json body = Json::object();
        for (const auto& [name, value] : o->schedule.given()) body[name] = value;
        if (body.empty()) {
          throw Failure{kExitUsage,
                        "retry_set needs at least one of --min, --multiplier, --max, --limit, "
                        "--jitter, --max-age"};
        }
        session.client().send("PUT", path("queues", session.vhost, o->queue) + "/retry", body);
      });
  set->add_option("queue", o->queue)->required();
  o->schedule.add_options(*set);
  add_command(app, kRetryGroup, "retry_clear", "Takes the override away: as declared again",
              [=, &session] {
                session.client().remove(path("queues", session.vhost, o->queue) + "/retry");
              })
      ->add_option("queue", o->queue)
      ->required();
  CLI::App* preview = add_command(app, kRetryGroup, "retry_preview",
                                  "What a schedule would be, without any queue", [=, &session] {
                                    Query query;
                                    for (const auto& [name, value] : o->schedule.given())
                                      query.emplace_back(name, std::to_string(value));
                                    const Json answer =
                                        session.client().get("/api/retry-preview", query);
                                    if (session.format() == Format::json)
                                      print_object(answer, Format::json);
                                    else
                                      print_schedule(answer);
                                  });
  o->schedule.add_options(*preview);
}

struct DelayedOptions {
  std::string queue, action, filter;
  std::vector<std::string> ids;
  bool all = false;
  uint32_t count = 100;
};

/// As people read it: 2026-01-31T12:00:00Z.
std::string in_utc(int64_t ms) {
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  char text[40];
  if (gmtime_r(&seconds, &parts) == nullptr) return std::to_string(ms);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void list_delayed(Session& session, const DelayedOptions& o) {
  const Json page = session.client().get(
      path("queues", session.vhost, o.queue) + "/delayed",
      {{"page", "1"}, {"page_size", std::to_string(o.count)}, {"payload_bytes", "60"}});
  Json rows = page.value("items", Json::array());
  if (session.format() == Format::table) {
    for (Json& row : rows) row["due_at"] = in_utc(row.value("due_at", int64_t{0}));
  }
  print_rows(rows, {"id", "due_at", "attempt", "last_error", "routing_key", "payload"},
             session.format(), !session.quiet);
}

void show_delayed(Session& session, const DelayedOptions& o) {
  print_object(
      session.client().get(path("queues", session.vhost, o.queue) + "/delayed/" + o.ids.at(0)),
      session.format());
}

void act_on_delayed(Session& session, const DelayedOptions& o) {
  Json body = Json::object();
  if (o.all) body["all"] = true;
  if (!o.ids.empty()) {
    body["ids"] = Json::array();
    for (const std::string& id : o.ids) body["ids"].push_back(json_or_text(id));
  }
  if (!o.filter.empty()) body["filter"] = json_object("--filter", o.filter);
  if (body.size() != 1)
    throw Failure{kExitUsage, "say which: ids, or --filter, or --all (one of these)"};
  const Json answer = session.client().send(
      "POST", path("queues", session.vhost, o.queue) + "/delayed/" + o.action, body);
  if (session.format() == Format::json) return print_object(answer, Format::json);
  std::cout << cell(answer.value("affected", Json(0))) << " messages\n";
}

void add_delayed(CLI::App& app, Session& session) {
  auto o = std::make_shared<DelayedOptions>();
  CLI::App* list = add_command(app, kRetryGroup, "list_delayed",
                               "Messages of a queue that wait to be retried, by due time",
                               [=, &session] { list_delayed(session, *o); });
  list->add_option("queue", o->queue)->required();
  list->add_option("-n,--count", o->count, "How many at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  CLI::App* show = add_command(app, kRetryGroup, "delayed_show",
                               "One waiting message, with its payload and its last error",
                               [=, &session] { show_delayed(session, *o); });
  show->add_option("queue", o->queue)->required();
  show->add_option("id", o->ids, "As list_delayed shows it")->required()->expected(1);
  for (const auto& [name, action, help] :
       {std::tuple{"delayed_redeliver", "redeliver", "Lets waiting messages go now"},
        std::tuple{"delayed_dead_letter", "dead-letter", "Dead-letters waiting messages now"},
        std::tuple{"delayed_drop", "drop", "Throws waiting messages away"}}) {
    CLI::App* act =
        add_command(app, kRetryGroup, name, help, [=, &session, action = std::string(action)] {
          o->action = action;
          act_on_delayed(session, *o);
        });
    act->add_option("queue", o->queue)->required();
    act->add_option("ids", o->ids, "As list_delayed shows them");
    act->add_option("--filter", o->filter,
                    "As a JSON object; all of its keys must fit: exchange, routing_key, error (a "
                    "part of the text), header and value, delivery_count_min, delivery_count_max, "
                    "due_before, due_after (ms since 1970)");
    act->add_flag("--all", o->all, "All that wait");
    add_example(*act, std::string("  tarrymqctl list_delayed orders\n  tarrymqctl ") + name +
                          " orders --filter '{\"header\": \"tenant\", \"value\": \"t1\"}'");
  }
}

}  // namespace

void add_retry_commands(CLI::App& app, Session& session) {
  add_schedules(app, session);
  add_delayed(app, session);
}

}  // namespace ctl
