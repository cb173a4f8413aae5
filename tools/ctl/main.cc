// tarrymqctl: operations on a broker over its HTTP API. A command is a name, its arguments and
// options.
#include <cstdio>
#include <cstdlib>

#include "ctl/command.h"

namespace {

constexpr const char* kFooter =
    "A start:\n"
    "  tarrymqctl status\n"
    "  tarrymqctl list_queues name messages consumers\n"
    "  tarrymqctl list_queues --help\n"
    "  tarrymqctl -p myvhost set_policy short '^tmp\\.' '{\"max-length\": 1000}'\n"
    "  tarrymqctl --uri https://ops:secret@mq.example:15671 list_connections\n"
    "\n"
    "Without --uri it speaks to 127.0.0.1:15672 as guest. TARRYMQCTL_URI stands for --uri, and "
    "TARRYMQCTL_PASSWORD for\n"
    "--password, which keeps it out of the process list.\n"
    "\n"
    "Exit status: 0 done, 1 refused by the broker, 2 wrong usage, 3 no broker there or no answer "
    "in time,\n"
    "4 log-in refused or not allowed, 5 not found.";

void add_options(CLI::App& app, ctl::Session& session) {
  using ctl::Session;
  app.add_option("--uri", session.uri, "Where: http://user:password@host:port (or https://)")
      ->envname("TARRYMQCTL_URI");
  app.add_option("-H,--hostname", session.target.host, "Host, if not as in the URI");
  app.add_option("-P,--port", session.target.port, "Port of the HTTP API")
      ->check(CLI::Range(1, 65535));
  app.add_option("-u,--user", session.target.user, "User name");
  app.add_option("--password", session.target.password, "Password")->envname("TARRYMQCTL_PASSWORD");
  app.add_option("--cacert", session.target.ca_file,
                 "File with the certificates to trust, for https");
  app.add_flag("--insecure", session.target.insecure, "https without a check of the certificate");
  app.add_option("-p,--vhost", session.vhost, "Virtual host that the command is about")
      ->capture_default_str();
  app.add_option("-f,--format", session.format_word, "How results are printed")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.add_flag("-q,--quiet,-s,--silent", session.quiet, "Results alone: no head lines, no remarks");
  app.add_option("--timeout", session.target.timeout_s, "Seconds to wait for one answer")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
}

/// The URI first, then what the other options say over it.
void resolve_target(CLI::App& app, ctl::Session& session) {
  if (session.uri.empty()) return;
  const ctl::Target said = session.target;
  ctl::Target target;
  target.ca_file = said.ca_file;
  target.insecure = said.insecure;
  target.timeout_s = said.timeout_s;
  target.read_uri(session.uri);
  if (app.count("--hostname") > 0) target.host = said.host;
  if (app.count("--port") > 0) target.port = said.port;
  if (app.count("--user") > 0) target.user = said.user;
  if (app.count("--password") > 0) target.password = said.password;
  session.target = target;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Operations on a TarryMQ broker (or another with RabbitMQ's HTTP API).",
               "tarrymqctl");
  app.set_version_flag("--version", "tarrymqctl " TARRYMQ_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // options may stand behind the command, too
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  ctl::Session session;
  add_options(app, session);
  // Callbacks run within parse(), after all options are known; the first thing that happens then is
  // this.
  app.parse_complete_callback([&] { resolve_target(app, session); });
  ctl::add_status_commands(app, session);
  ctl::add_list_commands(app, session);
  ctl::add_queue_commands(app, session);
  ctl::add_retry_commands(app, session);
  ctl::add_redrive_commands(app, session);
  ctl::add_migrate_commands(app, session);
  ctl::add_process_commands(app, session);
  ctl::add_connection_commands(app, session);
  ctl::add_user_commands(app, session);
  ctl::add_vhost_commands(app, session);
  ctl::add_policy_commands(app, session);
  ctl::add_definition_commands(app, session);
  ctl::add_completion_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (!asked && app.get_subcommands().empty()) {
      for (const std::string& word : app.remaining()) {
        if (word.starts_with('-')) continue;
        std::fprintf(stderr, "tarrymqctl: unknown command '%s'; tarrymqctl --help has them all\n",
                     word.c_str());
        return ctl::kExitUsage;
      }
    }
    (void)app.exit(error);
    return asked ? ctl::kExitWell : ctl::kExitUsage;
  } catch (const ctl::Failure& failure) {
    std::fflush(stdout);
    std::fprintf(stderr, "tarrymqctl: %s\n", failure.line.c_str());
    return failure.code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tarrymqctl: unexpected answer: %s\n", error.what());
    return ctl::kExitRefused;
  }
  return std::fflush(stdout) == 0 ? ctl::kExitWell : ctl::kExitRefused;
}
