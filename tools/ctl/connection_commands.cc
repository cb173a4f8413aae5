// Connections of clients.
#include "ctl/command.h"

namespace ctl {

void add_connection_commands(CLI::App& app, Session& session) {
  constexpr const char* kGroup = "Connections";
  struct Options {
    std::string name, user, vhost;
    std::string reason = "closed by tarrymqctl";
  };
  auto o = std::make_shared<Options>();
  CLI::App* close = add_command(
      app, kGroup, "close_connection", "Closes one connection, by its name in list_connections",
      [=, &session] {
        session.client().remove(with_query(path("connections", o->name), {{"reason", o->reason}}));
      });
  close->add_option("name", o->name)->required();
  close->add_option("reason", o->reason, "What the client is told")->capture_default_str();
  CLI::App* all = add_command(
      app, kGroup, "close_all_connections", "Closes all connections, or those of a user or vhost",
      [=, &session] {
        const Json connections =
            session.client().get("/api/connections", {{"columns", "name,user,vhost"}});
        ProgressBar bar("close");
        size_t done = 0, closed = 0;
        for (const Json& connection : connections) {
          bar.show(++done, connections.size());
          if (!o->user.empty() && connection.value("user", "") != o->user) continue;
          if (!o->vhost.empty() && connection.value("vhost", "") != o->vhost) continue;
          const Answer answer = session.client().try_call(
              "DELETE", with_query(path("connections", connection.value("name", "")),
                                   {{"reason", o->reason}}));
          closed += answer.status == 204 ? 1 : 0;  // one that has gone meanwhile is no error
        }
        session.say(std::to_string(closed) + " connections closed");
      });
  all->add_option("reason", o->reason, "What the clients are told")->capture_default_str();
  all->add_option("--of-user", o->user, "Only those of this user");
  all->add_option("--in-vhost", o->vhost, "Only those of this vhost");
}

}  // namespace ctl
