// Completion for shells: made from the commands and options themselves, so that it cannot fall
// behind.
#include <iostream>

#include "ctl/command.h"

namespace ctl {
namespace {

// Options before the command that take a value, which is no command then.
constexpr const char* kWithValue =
    "-H|-P|-u|-p|-f|--uri|--hostname|--port|--user|--password|--cacert|--vhost|--format|--timeout";

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string options_of(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
    for (const std::string& name : option->get_lnames()) out += " --" + name;
  }
  return out;
}

/// For a shell's single quotes; what ends them is left out.
std::string quotable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != '\'' && c != '\\' && c != '\n') out.push_back(c);
  }
  return out;
}

/// "    NAME) words=... ;;" for each command with options.
std::string cases_of(const CLI::App& app, const std::string& assignment_begin,
                     const std::string& assignment_end) {
  std::string out;
  for (const CLI::App* command : commands_of(app)) {
    const std::string options = options_of(*command);
    if (options.empty()) continue;
    out += "    " + command->get_name() + ") " + assignment_begin + options.substr(1) +
           assignment_end + " ;;\n";
  }
  return out;
}

std::string bash_script(const CLI::App& app) {
  std::string commands;
  for (const CLI::App* command : commands_of(app)) commands += " " + command->get_name();
  return "_tarrymqctl() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} command= words= i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case ${COMP_WORDS[i]} in\n"
         "      " +
         std::string(kWithValue) +
         ") ((++i)) ;;\n"
         "      -*) ;;\n"
         "      *) command=${COMP_WORDS[i]}; break ;;\n"
         "    esac\n"
         "  done\n"
         "  case $command in\n"
         "    '') words=\"" +
         commands.substr(1) + options_of(app) + "\" ;;\n" + cases_of(app, "words=\"", "\"") +
         "  esac\n"
         "  [[ -n $command ]] && words+=\"" +
         options_of(app) +
         "\"\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -F _tarrymqctl tarrymqctl\n";
}

/// As a file in zsh's function path, or sourced.
std::string zsh_script(const CLI::App& app) {
  std::string commands;
  for (const CLI::App* command : commands_of(app)) {
    std::string about = quotable(command->get_description());
    commands += "    '" + command->get_name() + ":" + about + "'\n";
  }
  return "#compdef tarrymqctl\n"
         "_tarrymqctl() {\n"
         "  local command= i\n"
         "  local -a words_ commands\n"
         "  commands=(\n" +
         commands +
         "  )\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n"
         "    case ${words[i]} in\n"
         "      " +
         kWithValue +
         ") ((++i)) ;;\n"
         "      -*) ;;\n"
         "      *) command=${words[i]}; break ;;\n"
         "    esac\n"
         "  done\n"
         "  case $command in\n" +
         cases_of(app, "words_=(", ")") +
         "  esac\n"
         "  [[ -z $command ]] && _describe -t commands 'command' commands\n"
         "  compadd -- $words_" +
         options_of(app) +
         "\n"
         "  _files\n"
         "}\n"
         "if [[ $funcstack[1] == _tarrymqctl ]]; then _tarrymqctl \"$@\"; else compdef _tarrymqctl "
         "tarrymqctl; fi\n";
}

std::string fish_options(const CLI::App& app, const std::string& condition) {
  std::string out;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
    for (const std::string& name : option->get_lnames()) {
      out += "complete -c tarrymqctl" + condition + " -l " + name +
             (option->get_items_expected_max() > 0 ? " -r" : "") + " -d '" +
             quotable(option->get_description()) + "'\n";
    }
  }
  return out;
}

std::string fish_script(const CLI::App& app) {
  std::string out = fish_options(app, "");
  for (const CLI::App* command : commands_of(app)) {
    out += "complete -c tarrymqctl -n __fish_use_subcommand -f -a " + command->get_name() +
           " -d '" + quotable(command->get_description()) + "'\n";
    out += fish_options(*command, " -n '__fish_seen_subcommand_from " + command->get_name() + "'");
  }
  return out;
}

}  // namespace

void add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      add_command(app, "Help", "completion",
                  "Prints a script that completes commands: source <(tarrymqctl completion bash)",
                  [&app, shell] {
                    std::cout << (*shell == "bash"  ? bash_script(app)
                                  : *shell == "zsh" ? zsh_script(app)
                                                    : fish_script(app));
                  });
  command->add_option("shell", *shell)->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

}  // namespace ctl
