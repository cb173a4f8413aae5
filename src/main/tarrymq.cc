// The daemon: settings to a running process.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <initializer_list>

#include "main/command_line.h"
#include "main/daemon.h"
#include "main/service_manager.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/log_file.h"

namespace tarry {
namespace {

constexpr int kExitWell = 0, kExitFailed = 1, kExitRefused = 2;

sigset_t signals(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (int number : numbers) sigaddset(&set, number);
  return set;
}

// Before the first thread, which inherits it: signals are taken by the main thread alone, when it
// asks for them.
void block_signals() {
  sigset_t set = signals({SIGTERM, SIGINT, SIGHUP});
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

// From here on a further SIGTERM or SIGINT ends the process at once.
void let_second_signal_kill() {
  struct sigaction action {};
  action.sa_handler = [](int) { ::_exit(kExitFailed); };
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  sigset_t set = signals({SIGTERM, SIGINT});
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// Each connection and each open segment is a descriptor.
void raise_descriptor_limit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    log_for("main")->warn("cannot raise the limit of open files to {}", limit.rlim_max);
  }
}

// "" or what is wrong with the settings.
std::string set_up_logs(const Settings& settings) {
  set_log_json(settings.log_format == "json");
  (void)set_log_level(settings.log_level);  // checked by its row
  if (std::string error = set_log_file(settings.log_file); !error.empty()) {
    return "log_file: cannot write " + settings.log_file + ": " + error;
  }
  const std::string error = set_log_levels(settings.log_levels);
  return error.empty() ? error : "log_levels: " + error;
}

void reload(const CommandLine& command_line, const Settings& running, Daemon& daemon) {
  auto settings = load_settings(command_line);
  if (!settings) {
    log_for("main")->warn("SIGHUP: nothing reloaded: {}", settings.error().line);
    return;
  }
  if (const std::string error = set_up_logs(*settings); !error.empty()) {
    log_for("main")->warn("SIGHUP: {}", error);
  }
  log_for("main")->info("SIGHUP: log level {}", settings->log_level);
  for (const std::string_view name : changed_until_restart(running, *settings)) {
    log_for("main")->warn("SIGHUP: {} has another value now: that takes a restart", name);
  }
  daemon.reload(*settings);
}

int fail(int status, const std::string& line) {
  flush_logs();
  std::fprintf(stderr, "tarrymq: %s\n", line.c_str());
  return status;
}

int run(const CommandLine& command_line) {
  auto settings = load_settings(command_line);
  if (!settings) return fail(kExitRefused, settings.error().line);
  if (const std::string error = set_up_logs(*settings); !error.empty())
    return fail(kExitRefused, error);
  block_signals();
  raise_descriptor_limit();
  const ServiceManager manager = ServiceManager::from_environment();

  auto daemon = Daemon::start(*settings);
  if (!daemon) return fail(kExitRefused, daemon.error());
  log_for("main")->info("tarrymq " TARRYMQ_VERSION " started: {}", (*daemon)->where());
  std::printf("tarrymq " TARRYMQ_VERSION " ready: %s\n", (*daemon)->where().c_str());
  std::fflush(stdout);
  (void)manager.ready((*daemon)->where());  // nobody there: started by hand

  sigset_t awaited = signals({SIGTERM, SIGINT, SIGHUP});
  for (;;) {
    timespec second{1, 0};
    int got = ::sigtimedwait(&awaited, nullptr, &second);
    if (got == SIGTERM || got == SIGINT) break;
    if (got == SIGHUP) {
      (void)manager.reloading();
      reload(command_line, *settings, **daemon);
      (void)manager.ready((*daemon)->where());
    }
    (*daemon)->tick();
    if ((*daemon)->responsive()) (void)manager.alive();
  }
  let_second_signal_kill();
  (void)manager.stopping();
  log_for("main")->info("stopping");
  bool flushed = (*daemon)->stop();
  (*daemon).reset();
  if (!flushed)
    return fail(kExitFailed, "stopped, but not all could be written to the disk in time");
  log_for("main")->info("stopped");
  flush_logs();
  return kExitWell;
}

}  // namespace
}  // namespace tarry

int main(int argc, char** argv) {
  auto command_line = tarry::read_command_line(argc, argv);
  using Action = tarry::CommandLine::Action;
  if (command_line.action == Action::run) return tarry::run(command_line);
  bool well = command_line.action == Action::exit_well;
  std::fputs(command_line.output.c_str(), well ? stdout : stderr);
  return well ? tarry::kExitWell : tarry::kExitRefused;
}
