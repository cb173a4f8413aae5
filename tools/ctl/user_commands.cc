// Users and what they may do.
#include <iostream>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kUserGroup = "Users and permissions";

/// A user as he is, so that what a command does not change stays.
Json user_as_is(Session& session, const std::string& name) {
  const Json user = session.client().get(path("users", name));
  return Json{{"password_hash", user.value("password_hash", "")},
              {"hashing_algorithm", user.value("hashing_algorithm", "")},
              {"tags", user.value("tags", Json::array())}};
}

struct UserOptions {
  std::string name, password;
  std::vector<std::string> tags;
};

void add_user(Session& session, const UserOptions& options) {
  if (session.client().try_call("GET", path("users", options.name)).status == 200) {
    throw Failure{kExitRefused,
                  "user '" + options.name + "' is there already (change_password, set_user_tags)"};
  }
  session.client().send(
      "PUT", path("users", options.name),
      {{"password", password_or_stdin(options.password)}, {"tags", options.tags}});
  session.say("user '" + options.name +
              "' added. To let him in somewhere: tarrymqctl set_permissions " + options.name +
              " '.*' '.*' '.*'");
}

void authenticate(Session& session, const UserOptions& options) {
  Target target = session.target;
  target.user = options.name;
  target.password = password_or_stdin(options.password);
  Client client(target);
  const Answer answer = client.try_call("GET", "/api/whoami");
  if (answer.status == 401)
    throw Failure{kExitForbidden, "user '" + options.name + "' or his password is wrong"};
  session.say("the password of user '" + options.name + "' is right" +
              (answer.status == 403 ? " (he has no tag that lets him use this API)" : ""));
}

void add_user_management(CLI::App& app, Session& session) {
  auto o = std::make_shared<UserOptions>();
  const auto command = [&app](const char* name, const char* help, std::function<void()> run) {
    return add_command(app, kUserGroup, name, help, std::move(run));
  };
  CLI::App* add = command("add_user", "A new user; without --tags one who may not use the HTTP API",
                          [=, &session] { add_user(session, *o); });
  add->add_option("name", o->name)->required();
  add->add_option("password", o->password, "If it is missing, a line is read from standard input");
  add->add_option("--tags", o->tags,
                  "administrator, monitoring, policymaker, management, impersonator")
      ->delimiter(',');
  command("delete_user", "Takes a user away; his connections are closed",
          [=, &session] { session.client().remove(path("users", o->name)); })
      ->add_option("name", o->name)
      ->required();
  CLI::App* change = command("change_password", "Gives a user a new password", [=, &session] {
    Json user = user_as_is(session, o->name);
    session.client().send("PUT", path("users", o->name),
                          {{"password", password_or_stdin(o->password)}, {"tags", user["tags"]}});
  });
  change->add_option("name", o->name)->required();
  change->add_option("password", o->password,
                     "If it is missing, a line is read from standard input");
  command("clear_password", "Takes the password away: no log-in by password any more",
          [=, &session] {
            Json user = user_as_is(session, o->name);
            session.client().send("PUT", path("users", o->name),
                                  {{"password_hash", ""}, {"tags", user["tags"]}});
          })
      ->add_option("name", o->name)
      ->required();
  CLI::App* tags =
      command("set_user_tags", "Sets a user's tags; none: takes them away", [=, &session] {
        Json user = user_as_is(session, o->name);
        user["tags"] = o->tags;
        session.client().send("PUT", path("users", o->name), user);
      });
  tags->add_option("name", o->name)->required();
  tags->add_option("tags", o->tags,
                   "administrator, monitoring, policymaker, management, impersonator");
  CLI::App* check = command("authenticate_user", "Whether a password is right",
                            [=, &session] { authenticate(session, *o); });
  check->add_option("name", o->name)->required();
  check->add_option("password", o->password,
                    "If it is missing, a line is read from standard input");
  command("hash_password", "A salted hash as definitions hold it", [=, &session] {
    const Json answer = session.client().send("PUT", "/api/auth/hash_password",
                                              {{"password", password_or_stdin(o->password)}});
    std::cout << answer.value("ok", "") << "\n";
  })->add_option("password", o->password, "If it is missing, a line is read from standard input");
}

struct PermissionOptions {
  std::string user, exchange, configure, write, read, limits;
};

void set_limits(Session& session, const std::string& at, const Json& limits) {
  for (const auto& [name, value] : limits.items())
    session.client().send("PUT", at + "/" + encode(name), {{"value", value}});
}

void add_permissions(CLI::App& app, Session& session) {
  auto o = std::make_shared<PermissionOptions>();
  CLI::App* set =
      add_command(app, kUserGroup, "set_permissions",
                  "What a user may do in --vhost: regular expressions over names", [=, &session] {
                    session.client().send(
                        "PUT", path("permissions", session.vhost, o->user),
                        {{"configure", o->configure}, {"write", o->write}, {"read", o->read}});
                  });
  set->add_option("user", o->user)->required();
  set->add_option("configure", o->configure,
                  "What he may declare and delete; '' is nothing, '.*' everything")
      ->required();
  set->add_option("write", o->write, "What he may publish to")->required();
  set->add_option("read", o->read, "What he may consume and bind to")->required();
  add_command(
      app, kUserGroup, "clear_permissions", "Shuts a user out of --vhost",
      [=, &session] { session.client().remove(path("permissions", session.vhost, o->user)); })
      ->add_option("user", o->user)
      ->required();
  CLI::App* topic = add_command(
      app, kUserGroup, "set_topic_permissions",
      "With which routing keys a user may use a topic exchange of --vhost", [=, &session] {
        session.client().send("PUT", path("topic-permissions", session.vhost, o->user),
                              {{"exchange", o->exchange}, {"write", o->write}, {"read", o->read}});
      });
  topic->add_option("user", o->user)->required();
  topic->add_option("exchange", o->exchange)->required();
  topic
      ->add_option("write", o->write,
                   "Expression over keys to publish with; {username} and {vhost} are filled in")
      ->required();
  topic->add_option("read", o->read, "Expression over keys to bind with")->required();
  CLI::App* clear = add_command(
      app, kUserGroup, "clear_topic_permissions",
      "Takes a user's topic permissions in --vhost away", [=, &session] {
        const std::string at = path("topic-permissions", session.vhost, o->user);
        session.client().remove(o->exchange.empty() ? at : at + "/" + encode(o->exchange));
      });
  clear->add_option("user", o->user)->required();
  clear->add_option("exchange", o->exchange, "Of this exchange alone");
  CLI::App* limits = add_command(
      app, kUserGroup, "set_user_limits", "Limits of a user, as a JSON object", [=, &session] {
        set_limits(session, path("user-limits", o->user), json_object("limits", o->limits));
      });
  limits->add_option("user", o->user)->required();
  limits->add_option("limits", o->limits, "'{\"max-connections\": 10, \"max-channels\": 50}'")
      ->required();
  CLI::App* unlimited = add_command(
      app, kUserGroup, "clear_user_limits", "Takes a limit of a user away",
      [=, &session] { session.client().remove(path("user-limits", o->user, o->limits)); });
  unlimited->add_option("user", o->user)->required();
  unlimited->add_option("limit", o->limits, "max-connections or max-channels")->required();
}

}  // namespace

void add_user_commands(CLI::App& app, Session& session) {
  add_user_management(app, session);
  add_permissions(app, session);
}

}  // namespace ctl
