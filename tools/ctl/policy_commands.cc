// Policies, operator policies and parameters.
#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kPolicyGroup = "Policies and parameters";

struct PolicyOptions {
  std::string name, pattern, definition, apply_to = "all";
  int priority = 0;
};

void add_policies(CLI::App& app, Session& session, bool is_operator) {
  auto o = std::make_shared<PolicyOptions>();
  const std::string word = is_operator ? "operator_policy" : "policy";
  const char* base = is_operator ? "operator-policies" : "policies";
  if (is_operator) o->apply_to = "queues";
  CLI::App* set =
      add_command(app, kPolicyGroup, "set_" + word,
                  is_operator ? "Limits that hold whatever queues and policies say"
                              : "Settings for all queues and exchanges whose name matches",
                  [=, &session] {
                    session.client().send("PUT", path(base, session.vhost, o->name),
                                          {{"pattern", o->pattern},
                                           {"definition", json_object("definition", o->definition)},
                                           {"priority", o->priority},
                                           {"apply-to", o->apply_to}});
                  });
  set->add_option("name", o->name)->required();
  set->add_option("pattern", o->pattern, "Regular expression over names")->required();
  set->add_option("definition", o->definition,
                  "'{\"max-length\": 1000, \"overflow\": \"reject-publish\"}'")
      ->required();
  set->add_option("--priority", o->priority, "The highest that matches rules")
      ->capture_default_str();
  set->add_option("--apply-to", o->apply_to,
                  "all, queues, exchanges, classic_queues, quorum_queues")
      ->capture_default_str();
  add_command(app, kPolicyGroup, "clear_" + word, "Takes it away; what it ruled goes back",
              [=, &session] { session.client().remove(path(base, session.vhost, o->name)); })
      ->add_option("name", o->name)
      ->required();
}

}  // namespace

void add_policy_commands(CLI::App& app, Session& session) {
  add_policies(app, session, false);
  add_policies(app, session, true);
  struct Options {
    std::string component, name, value;
  };
  auto o = std::make_shared<Options>();
  CLI::App* set = add_command(app, kPolicyGroup, "set_parameter",
                              "A runtime parameter of a component in --vhost", [=, &session] {
                                session.client().send(
                                    "PUT", path("parameters", o->component, session.vhost, o->name),
                                    {{"value", json_or_text(o->value)}});
                              });
  set->add_option("component", o->component)->required();
  set->add_option("name", o->name)->required();
  set->add_option("value", o->value, "JSON, or text")->required();
  CLI::App* clear = add_command(
      app, kPolicyGroup, "clear_parameter", "Takes a runtime parameter away", [=, &session] {
        session.client().remove(path("parameters", o->component, session.vhost, o->name));
      });
  clear->add_option("component", o->component)->required();
  clear->add_option("name", o->name)->required();
  CLI::App* global = add_command(app, kPolicyGroup, "set_global_parameter",
                                 "A parameter of the whole broker", [=, &session] {
                                   session.client().send("PUT", path("global-parameters", o->name),
                                                         {{"value", json_or_text(o->value)}});
                                 });
  global->add_option("name", o->name)->required();
  global->add_option("value", o->value, "JSON, or text")->required();
  add_command(app, kPolicyGroup, "clear_global_parameter", "Takes a global parameter away",
              [=, &session] { session.client().remove(path("global-parameters", o->name)); })
      ->add_option("name", o->name)
      ->required();
}

}  // namespace ctl
