// The broker's process: backup of its live store, and taking leave of its clients.
#include <chrono>
#include <thread>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kProcessGroup = "Process";
constexpr auto kLookAgain = std::chrono::milliseconds(200);

void backup(Session& session, const std::string& directory, bool wait) {
  Json now = session.client().send("POST", "/api/backup", Json{{"directory", directory}});
  if (wait) {
    ProgressBar bar("backup");
    while (now.value("state", "") == "running") {
      bar.show(now.value("bytes", uint64_t{0}), now.value("bytes_total", uint64_t{0}));
      std::this_thread::sleep_for(kLookAgain);
      now = session.client().get("/api/backup");
    }
  }
  if (now.value("state", "") == "failed")
    throw Failure{kExitRefused, "no backup: " + now.value("reason", "")};
  print_object(now, session.format());
}

void drain(Session& session, uint64_t timeout_s, bool wait) {
  Json now = session.client().send("POST", "/api/drain", Json{{"timeout_ms", timeout_s * 1000}});
  if (wait) {
    const auto first = now.value("connections", uint64_t{0});
    ProgressBar bar("drain");
    while (now.value("state", "") != "drained") {
      const auto left = now.value("connections", uint64_t{0});
      bar.show(first - std::min(first, left), first, std::to_string(left) + " clients left");
      std::this_thread::sleep_for(kLookAgain);
      now = session.client().get("/api/drain");
    }
  }
  print_object(now, session.format());
}

}  // namespace

void add_process_commands(CLI::App& app, Session& session) {
  struct Options {
    std::string directory;
    uint64_t timeout_s = 30;
    bool no_wait = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* save = add_command(app, kProcessGroup, "backup",
                               "Copies the live store into a new directory; a broker started on it "
                               "has all that was confirmed",
                               [=, &session] { backup(session, o->directory, !o->no_wait); });
  save->add_option("directory", o->directory,
                   "Absolute path on the broker's machine; must not exist yet")
      ->required();
  save->add_flag("--no-wait", o->no_wait, "Only begin it; backup_status tells the rest");
  add_command(app, kProcessGroup, "backup_status", "How far the last backup is",
              [&session] { print_object(session.client().get("/api/backup"), session.format()); });
  CLI::App* leave = add_command(
      app, kProcessGroup, "drain",
      "No new clients until the next start; waits for those there are, then closes them (320)",
      [=, &session] { drain(session, o->timeout_s, !o->no_wait); });
  leave->add_option("--timeout", o->timeout_s, "Seconds that clients have to go by themselves")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400));
  leave->add_flag("--no-wait", o->no_wait, "Only begin it; drain_status tells the rest");
  add_command(app, kProcessGroup, "drain_status", "How far the drain is",
              [&session] { print_object(session.client().get("/api/drain"), session.format()); });
}

}  // namespace ctl
