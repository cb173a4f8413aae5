#pragma once

#include <string>
#include <vector>

#include "tarrymq/runtime/settings.h"

namespace tarry {

/// What the command line asks for besides settings, and the settings as they were given.
struct CommandLine {
  enum class Action { run, exit_well, exit_badly };
  Action action = Action::run;
  std::string output;       // for stdout (exit_well) or stderr (exit_badly): one line then
  std::string config_path;  // "": no file
  SettingLayer flags;
};

/// Every setting is a flag (`--data-dir DIR`); --config, --print-config, --version and --help are
/// there too.
CommandLine read_command_line(int argc, const char* const* argv);

/// Defaults, file, environment, flags. Called at the start and again at SIGHUP. Names in the
/// environment that are no settings are logged.
Result<Settings, SettingError> load_settings(const CommandLine& command_line);

}  // namespace tarry
