#include "main/command_line.h"

#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr std::string_view kConfigVariable = "TARRYMQ_CONFIG";

std::string describe(const SettingRow& row) {
  std::string text(row.text);
  text += " " + setting_allowed(row);
  if (!row.unit.empty()) text += " (" + std::string(row.unit) + ")";
  std::string standard(row.default_text);
  return text + "; default " + (standard.empty() ? "\"\"" : standard);
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

}  // namespace

CommandLine read_command_line(int argc, const char* const* argv) {
  CommandLine result;
  result.flags.source = "the command line";
  CLI::App app("TarryMQ " TARRYMQ_VERSION ": an AMQP 0-9-1 broker whose queues retry by themselves",
               "tarrymq");
  app.set_help_flag("--help", "This text");
  app.set_version_flag("--version", "tarrymq " TARRYMQ_VERSION);
  app.footer(
      "A flag goes over the environment (TARRYMQ_DATA_DIR for --data-dir), the environment over "
      "the file, the\n"
      "file over the default. Exit status: 0 after a clean stop, 1 when something failed while "
      "running, 2 when\n"
      "it could not start (bad setting, port in use, data directory in use).");
  if (const char* path = ::getenv(std::string(kConfigVariable).c_str())) result.config_path = path;
  app.add_option("--config", result.config_path, "TOML file with settings")->type_name("FILE");
  bool print_config = false;
  app.add_flag("--print-config", print_config,
               "Print that file with all settings at their defaults");

  auto rows = setting_rows();
  std::vector<std::string> values(rows.size());
  std::vector<CLI::Option*> options(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    options[i] = app.add_option("--" + setting_flag(rows[i]), values[i], describe(rows[i]));
    options[i]
        ->type_name("VALUE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->group("Settings");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // the library's only way to report
    std::ostringstream out, err;
    bool well = app.exit(error, out, err) == 0;
    result.action = well ? CommandLine::Action::exit_well : CommandLine::Action::exit_badly;
    result.output = well ? out.str() : "tarrymq: " + first_line(err.str()) + "\n";
    return result;
  }
  if (print_config) {
    result.action = CommandLine::Action::exit_well;
    result.output = render_settings_toml();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (options[i]->count() > 0) result.flags.values.emplace_back(rows[i].name, values[i]);
  }
  return result;
}

Result<Settings, SettingError> load_settings(const CommandLine& command_line) {
  std::vector<SettingLayer> layers;
  if (!command_line.config_path.empty()) {
    auto file = read_settings_file(command_line.config_path);
    if (!file) return file.error();
    layers.push_back(std::move(*file));
  }
  std::vector<std::string> unknown;
  layers.push_back(read_settings_environment(environ, unknown));
  for (const auto& name : unknown) {
    if (name != kConfigVariable)
      log_for("main")->warn("{} in the environment is no setting: ignored", name);
  }
  layers.push_back(command_line.flags);
  return resolve_settings(layers);
}

}  // namespace tarry
