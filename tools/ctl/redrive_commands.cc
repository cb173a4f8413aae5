// Redrive: dead letters back to where they came from, or to a queue of choice.
#include <chrono>
#include <iostream>
#include <thread>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kRedriveGroup = "Redrive";

struct RedriveOptions {
  std::string queue, target = "origin", reason, from, header, value, id;
  uint64_t limit = 0, rate = 0;
  bool keep_budget = false, dry_run = false, wait = false;
};

bool is_over(const std::string& state) {
  return state != "running" && state != "starting" && state != "pending";
}

/// Looks until it is over; how it ended is the command's end, too.
void follow(Session& session, const std::string& id, uint64_t expected) {
  auto bar = std::make_unique<ProgressBar>("redrive");
  for (;;) {
    const Json now = session.client().get(path("redrives", id));
    const uint64_t moved = now.value("moved", uint64_t{0});
    bar->show(moved + now.value("skipped", uint64_t{0}), std::max<uint64_t>(expected, moved),
              std::to_string(moved) + " moved");
    const std::string state = now.value("state", "");
    if (is_over(state)) {
      bar.reset();
      print_object(now, session.format());
      if (state != "completed")
        throw Failure{kExitRefused, "the redrive is " + state + ": " + now.value("reason", "")};
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

void redrive(Session& session, const RedriveOptions& o) {
  Json body{{"target", o.target}, {"reset_budget", !o.keep_budget}, {"dry_run", o.dry_run}};
  if (o.limit > 0) body["limit"] = o.limit;
  if (o.rate > 0) body["rate"] = o.rate;
  Json filter = Json::object();
  if (!o.reason.empty()) filter["reason"] = o.reason;
  if (!o.from.empty()) filter["queue"] = o.from;
  if (!o.header.empty()) filter["header"] = o.header;
  if (!o.value.empty()) filter["value"] = json_or_text(o.value);
  if (!filter.empty()) body["filter"] = filter;
  const Json queue =
      session.client().get(path("queues", session.vhost, o.queue), {{"columns", "messages_ready"}});
  const Json answer =
      session.client().send("POST", path("queues", session.vhost, o.queue) + "/redrive", body);
  if (o.dry_run || !o.wait) return print_object(answer, session.format());
  const Json id = answer.value("id", Json());
  follow(session, id.is_string() ? id.get<std::string>() : id.dump(),
         queue.value("messages_ready", uint64_t{0}));
}

}  // namespace

void add_redrive_commands(CLI::App& app, Session& session) {
  auto o = std::make_shared<RedriveOptions>();
  CLI::App* start = add_command(app, kRedriveGroup, "redrive",
                                "Moves dead letters out of a queue, in the background",
                                [=, &session] { redrive(session, *o); });
  start->add_option("queue", o->queue, "The queue that holds the dead letters")->required();
  start->add_option("--target", o->target, "A queue, or origin: each to the queue in which it died")
      ->capture_default_str();
  start->add_option("--limit", o->limit, "How many at most");
  start->add_option("--rate", o->rate, "How many a second at most");
  start->add_option("--reason", o->reason,
                    "Only those that died for this reason (rejected, delivery_limit, ...)");
  start->add_option("--from", o->from, "Only those that died in this queue");
  start->add_option("--header", o->header, "Only those with this header");
  start->add_option("--value", o->value, "... of this value");
  start->add_flag("--keep-budget", o->keep_budget,
                  "Their delivery counters stay; else they start afresh");
  start->add_flag("--dry-run", o->dry_run, "Only count what would be moved");
  start->add_flag("--wait", o->wait, "Wait until it is over, and show how far it is");
  add_example(*start,
              "  tarrymqctl redrive failed-messages --reason delivery_limit --rate 100 --dry-run\n"
              "  tarrymqctl redrive failed-messages --reason delivery_limit --rate 100 --wait");
  add_command(app, kRedriveGroup, "list_redrives", "Redrives, running and over", [&session] {
    print_rows(session.client().get("/api/redrives"),
               {"id", "queue", "state", "moved", "skipped", "failed", "reason"}, session.format(),
               !session.quiet);
  });
  add_command(app, kRedriveGroup, "redrive_status", "One redrive",
              [=, &session] {
                print_object(session.client().get(path("redrives", o->id)), session.format());
              })
      ->add_option("id", o->id)
      ->required();
  add_command(app, kRedriveGroup, "cancel_redrive", "Ends a redrive; what is moved stays moved",
              [=, &session] { session.client().remove(path("redrives", o->id)); })
      ->add_option("id", o->id)
      ->required();
}

}  // namespace ctl
