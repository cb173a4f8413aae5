// Virtual hosts.
#include "ctl/command.h"

namespace ctl {

void add_vhost_commands(CLI::App& app, Session& session) {
  constexpr const char* kGroup = "Virtual hosts";
  struct Options {
    std::string name, description, queue_type, limits;
    std::vector<std::string> tags;
  };
  auto o = std::make_shared<Options>();
  CLI::App* add =
      add_command(app, kGroup, "add_vhost", "A new vhost; nobody may use it before set_permissions",
                  [=, &session] {
                    Json body = Json::object();
                    if (!o->description.empty()) body["description"] = o->description;
                    if (!o->queue_type.empty()) body["default_queue_type"] = o->queue_type;
                    if (!o->tags.empty()) body["tags"] = o->tags;
                    session.client().send("PUT", path("vhosts", o->name), body);
                  });
  add->add_option("name", o->name)->required();
  add->add_option("--description", o->description);
  add->add_option("--tags", o->tags)->delimiter(',');
  add->add_option("--default-queue-type", o->queue_type)
      ->check(CLI::IsMember({"classic", "quorum"}));
  add_command(app, kGroup, "delete_vhost", "Takes a vhost away with ALL its queues and messages",
              [=, &session] { session.client().remove(path("vhosts", o->name)); })
      ->add_option("name", o->name)
      ->required();
  for (const bool on : {true, false}) {
    add_command(app, kGroup,
                on ? "enable_vhost_deletion_protection" : "disable_vhost_deletion_protection",
                on ? "delete_vhost of this one is refused from now on" : "delete_vhost works again",
                [=, &session] {
                  (void)session.client().call(on ? "POST" : "DELETE",
                                              path("vhosts", o->name) + "/deletion/protection");
                })
        ->add_option("name", o->name)
        ->required();
  }
  CLI::App* limits = add_command(
      app, kGroup, "set_vhost_limits", "Limits of --vhost, as a JSON object", [=, &session] {
        const Json values = json_object("limits", o->limits);
        for (const auto& [name, value] : values.items()) {
          session.client().send("PUT", path("vhost-limits", session.vhost, name),
                                {{"value", value}});
        }
      });
  limits->add_option("limits", o->limits, "'{\"max-connections\": 100, \"max-queues\": 50}'")
      ->required();
  add_command(app, kGroup, "clear_vhost_limits", "Takes the limits of --vhost away", [&session] {
    for (const Json& entry : session.client().get(path("vhost-limits", session.vhost))) {
      for (const auto& [name, value] : entry["value"].items()) {
        session.client().remove(path("vhost-limits", session.vhost, name));
      }
    }
  });
  add_command(app, kGroup, "set_cluster_name", "The name that the broker shows",
              [=, &session] {
                session.client().send("PUT", "/api/cluster-name", {{"name", o->name}});
              })
      ->add_option("name", o->name)
      ->required();
}

}  // namespace ctl
