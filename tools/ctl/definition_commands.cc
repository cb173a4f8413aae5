// Definitions: everything that is declared, as one JSON file.
#include <fstream>
#include <iostream>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kDefinitionGroup = "Definitions";

struct DefinitionOptions {
  std::string file;
  bool one_vhost = false;
};

std::string definitions_path(const Session& session, const DefinitionOptions& options) {
  return options.one_vhost ? path("definitions", session.vhost) : std::string("/api/definitions");
}

/// Calls with a bar that shows how much has gone over the wire.
Answer with_bar(Session& session, const std::string& what, const std::string& method,
                const std::string& at, const std::string& body = "") {
  ProgressBar bar(what);
  session.client().on_progress([&](uint64_t done, uint64_t total) {
    if (total > 1'000'000) bar.show(done, total);
  });
  Answer answer = session.client().call(method, at, body);
  session.client().on_progress({});
  return answer;
}

void export_definitions(Session& session, const DefinitionOptions& options) {
  const std::string text =
      with_bar(session, "export", "GET", definitions_path(session, options)).body;
  if (options.file == "-") {
    std::cout << text << "\n";
    return;
  }
  std::ofstream file(options.file, std::ios::binary | std::ios::trunc);
  if (!(file << text << "\n") || !file.flush())
    throw Failure{kExitUsage, "cannot write " + options.file};
  session.say("definitions written to " + options.file);
}

void import_definitions(Session& session, const DefinitionOptions& options) {
  const std::string text = read_file(options.file);
  const Json dump = Json::parse(text, nullptr, false);
  if (!dump.is_object())
    throw Failure{kExitUsage, options.file + " holds no definitions: expected a JSON object"};
  const Json answer =
      with_bar(session, "import", "POST", definitions_path(session, options), text).json();
  const Json skipped = answer.is_object() ? answer.value("skipped", Json::array()) : Json::array();
  if (session.format() == Format::json)
    return print_object(Json{{"skipped", skipped}}, Format::json);
  for (const Json& line : skipped) std::cout << "not as in the file: " << cell(line) << "\n";
  session.say(skipped.empty()
                  ? "imported, nothing left out"
                  : "imported, but for " + std::to_string(skipped.size()) + " things above");
}

}  // namespace

void add_definition_commands(CLI::App& app, Session& session) {
  auto o = std::make_shared<DefinitionOptions>();
  CLI::App* out = add_command(app, kDefinitionGroup, "export_definitions",
                              "Users, vhosts, queues, exchanges, policies ... to a file",
                              [=, &session] { export_definitions(session, *o); });
  out->add_option("file", o->file, "File to write; - is standard output")->required();
  out->add_flag("--one-vhost", o->one_vhost, "Only what is in --vhost");
  CLI::App* in = add_command(
      app, kDefinitionGroup, "import_definitions",
      "Reads a dump of TarryMQ, RabbitMQ or LavinMQ; what is there already stays as it is",
      [=, &session] { import_definitions(session, *o); });
  in->add_option("file", o->file, "File to read; - is standard input")->required();
  in->add_flag("--one-vhost", o->one_vhost, "Everything goes into --vhost");
}

}  // namespace ctl
