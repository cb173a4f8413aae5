#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctl/client.h"
#include "ctl/output.h"

namespace ctl {

/// What the options before the command say, and the connection once a command needs it.
class Session {
 public:
  Target target;
  std::string uri, vhost = "/";
  std::string format_word = "table";
  bool quiet = false;

  Format format() const { return format_word == "json" ? Format::json : Format::table; }
  Client& client();
  /// A line that says what happens, to stderr, so that stdout stays data. Not with --quiet.
  void say(const std::string& line) const;

 private:
  std::unique_ptr<Client> client_;
};

/// Adds a command whose work is `run`. The work throws Failure; what it prints goes to stdout.
CLI::App* add_command(CLI::App& app, const std::string& group, const std::string& name,
                      const std::string& help, std::function<void()> run);
/// Puts an example under a command's help.
void add_example(CLI::App& command, const std::string& lines);
/// Reads "3", "true", "{...}" and the like as JSON; what is none is text. For values of policies
/// and parameters.
Json json_or_text(const std::string& text);
/// `text` as a JSON object; Failure that names `what` otherwise.
Json json_object(const std::string& what, const std::string& text);
/// A whole file, "-" is standard input; Failure if it cannot be read.
std::string read_file(const std::string& name);
/// The password as given, or the first line of standard input when it is missing.
std::string password_or_stdin(const std::string& given);

void add_status_commands(CLI::App& app, Session& session);
void add_list_commands(CLI::App& app, Session& session);
void add_user_commands(CLI::App& app, Session& session);
void add_vhost_commands(CLI::App& app, Session& session);
void add_policy_commands(CLI::App& app, Session& session);
void add_definition_commands(CLI::App& app, Session& session);
void add_queue_commands(CLI::App& app, Session& session);
void add_connection_commands(CLI::App& app, Session& session);
void add_retry_commands(CLI::App& app, Session& session);
void add_redrive_commands(CLI::App& app, Session& session);
void add_migrate_commands(CLI::App& app, Session& session);
void add_process_commands(CLI::App& app, Session& session);
void add_completion_command(CLI::App& app);

}  // namespace ctl
