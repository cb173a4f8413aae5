#include "ctl/command.h"

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace ctl {

Client& Session::client() {
  if (!client_) client_ = std::make_unique<Client>(target);
  return *client_;
}

void Session::say(const std::string& line) const {
  if (!quiet) std::cerr << line << "\n";
}

CLI::App* add_command(CLI::App& app, const std::string& group, const std::string& name,
                      const std::string& help, std::function<void()> run) {
  CLI::App* command = app.add_subcommand(name, help);
  command->group(group);
  command->callback(std::move(run));
  command->footer(
      "Options of every command (--uri, --user, --vhost, --format, ...): tarrymqctl --help");
  return command;
}

void add_example(CLI::App& command, const std::string& lines) {
  command.footer("For example:\n" + lines + "\n\n" + command.get_footer());
}

Json json_or_text(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

Json json_object(const std::string& what, const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) {
    throw Failure{
        kExitUsage,
        what + ": expected a JSON object such as '{\"max-length\": 1000}', got '" + text + "'"};
  }
  return value;
}

std::string read_file(const std::string& name) {
  if (name == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(name, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    if (file && file.peek() == std::ifstream::traits_type::eof()) return "";
    throw Failure{kExitUsage, "cannot read " + name};
  }
  return std::move(text).str();
}

std::string password_or_stdin(const std::string& given) {
  if (!given.empty()) return given;
  if (isatty(STDIN_FILENO) == 1) std::cerr << "Password: ";
  std::string line;
  if (!std::getline(std::cin, line) || line.empty()) {
    throw Failure{kExitUsage,
                  "a password is needed: as an argument, or as a line of standard input"};
  }
  return line;
}

}  // namespace ctl
