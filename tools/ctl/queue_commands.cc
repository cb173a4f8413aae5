// Queues, exchanges, bindings and single messages.
#include <iostream>

#include "ctl/command.h"

namespace ctl {
namespace {

constexpr const char* kQueueGroup = "Queues and exchanges";

struct QueueOptions {
  std::string name, type, arguments = "{}", exchange, key, kind = "queue", payload,
                          properties = "{}", mode = "peek";
  std::vector<std::string> names;
  bool transient = false, auto_delete = false, internal = false, if_unused = false,
       if_empty = false;
  uint32_t count = 1;
};
using Shared = std::shared_ptr<QueueOptions>;

Query conditions(const QueueOptions& o) {
  Query query;
  if (o.if_unused) query.emplace_back("if-unused", "true");
  if (o.if_empty) query.emplace_back("if-empty", "true");
  return query;
}

std::string exchange_part(const std::string& name) { return name.empty() ? "amq.default" : name; }

void add_queue_management(CLI::App& app, Session& session, const Shared& o) {
  CLI::App* declare =
      add_command(app, kQueueGroup, "declare_queue", "Declares a durable queue", [=, &session] {
        Json arguments = json_object("--arguments", o->arguments);
        if (!o->type.empty()) arguments["x-queue-type"] = o->type;
        session.client().send("PUT", path("queues", session.vhost, o->name),
                              {{"durable", !o->transient},
                               {"auto_delete", o->auto_delete},
                               {"arguments", arguments}});
      });
  declare->alias("create_queue");
  declare->add_option("name", o->name)->required();
  declare
      ->add_option("--arguments", o->arguments,
                   "'{\"x-delayed-retry-min\": 500, \"x-delivery-limit\": 5}'")
      ->capture_default_str();
  declare->add_option("--type", o->type)->check(CLI::IsMember({"classic", "quorum"}));
  declare->add_flag("--transient", o->transient, "Gone after a restart");
  declare->add_flag("--auto-delete", o->auto_delete, "Goes with its last consumer");
  CLI::App* remove = add_command(
      app, kQueueGroup, "delete_queue", "Deletes queues with all their messages", [=, &session] {
        for (const std::string& name : o->names) {
          session.client().remove(with_query(path("queues", session.vhost, name), conditions(*o)));
        }
      });
  remove->add_option("names", o->names)->required();
  remove->add_flag("--if-unused", o->if_unused, "Only without consumers");
  remove->add_flag("--if-empty", o->if_empty, "Only without messages");
  CLI::App* purge = add_command(
      app, kQueueGroup, "purge_queue", "Takes all messages out of queues, waiting ones too",
      [=, &session] {
        ProgressBar bar("purge");
        for (size_t i = 0; i < o->names.size(); ++i) {
          bar.show(i, o->names.size(), o->names[i]);
          session.client().remove(path("queues", session.vhost, o->names[i]) + "/contents");
        }
      });
  purge->add_option("names", o->names)->required();
}

void add_exchange_management(CLI::App& app, Session& session, const Shared& o) {
  CLI::App* declare = add_command(
      app, kQueueGroup, "declare_exchange", "Declares a durable exchange", [=, &session] {
        session.client().send("PUT", path("exchanges", session.vhost, o->name),
                              {{"type", o->type},
                               {"durable", !o->transient},
                               {"auto_delete", o->auto_delete},
                               {"internal", o->internal},
                               {"arguments", json_object("--arguments", o->arguments)}});
      });
  declare->alias("create_exchange");
  declare->add_option("type", o->type, "direct, fanout, topic or headers")->required();
  declare->add_option("name", o->name)->required();
  declare->add_option("--arguments", o->arguments)->capture_default_str();
  declare->add_flag("--transient", o->transient, "Gone after a restart");
  declare->add_flag("--auto-delete", o->auto_delete, "Goes with its last binding");
  declare->add_flag("--internal", o->internal, "Clients may not publish to it");
  CLI::App* remove = add_command(
      app, kQueueGroup, "delete_exchange", "Deletes an exchange and its bindings", [=, &session] {
        session.client().remove(
            with_query(path("exchanges", session.vhost, o->name), conditions(*o)));
      });
  remove->add_option("name", o->name)->required();
  remove->add_flag("--if-unused", o->if_unused, "Only without bindings");
}

void unbind(Session& session, const QueueOptions& o) {
  const std::string at = path("bindings", session.vhost) + "/e/" +
                         encode(exchange_part(o.exchange)) + (o.kind == "queue" ? "/q/" : "/e/") +
                         encode(o.name);
  size_t removed = 0;
  for (const Json& binding : session.client().get(at)) {
    if (binding.value("routing_key", "") != o.key) continue;
    session.client().remove(at + "/" + encode(binding.value("properties_key", "")));
    ++removed;
  }
  if (removed > 0) return;
  throw Failure{kExitNotFound, "no binding from '" + o.exchange + "' to '" + o.name +
                                   "' with key '" + o.key + "'"};
}

void add_binding_management(CLI::App& app, Session& session, const Shared& o) {
  const auto options = [o](CLI::App* command) {
    command->add_option("exchange", o->exchange, "Where messages come from")->required();
    command->add_option("destination", o->name, "The queue (or exchange) they go to")->required();
    command->add_option("key", o->key, "Binding key");
    command->add_option("--to", o->kind, "What the destination is")
        ->check(CLI::IsMember({"queue", "exchange"}))
        ->capture_default_str();
  };
  CLI::App* bind =
      add_command(app, kQueueGroup, "bind", "Binds a queue to an exchange", [=, &session] {
        const std::string at = path("bindings", session.vhost) + "/e/" +
                               encode(exchange_part(o->exchange)) +
                               (o->kind == "queue" ? "/q/" : "/e/") + encode(o->name);
        session.client().send(
            "POST", at,
            {{"routing_key", o->key}, {"arguments", json_object("--arguments", o->arguments)}});
      });
  options(bind);
  bind->add_option("--arguments", o->arguments,
                   "Of a headers exchange: '{\"x-match\": \"all\", ...}'");
  options(add_command(app, kQueueGroup, "unbind", "Takes a binding away",
                      [=, &session] { unbind(session, *o); }));
}

void publish(Session& session, const QueueOptions& o) {
  const Json answer = session.client().send(
      "POST", path("exchanges", session.vhost, exchange_part(o.exchange)) + "/publish",
      {{"routing_key", o.key},
       {"payload", o.payload == "-" ? read_file("-") : o.payload},
       {"payload_encoding", "string"},
       {"properties", json_object("--properties", o.properties)}});
  if (!answer.value("routed", false))
    throw Failure{kExitRefused, "published, but no queue took it"};
  session.say("published");
}

void get(Session& session, const QueueOptions& o) {
  const char* mode = o.mode == "peek"     ? "ack_requeue_true"
                     : o.mode == "take"   ? "ack_requeue_false"
                     : o.mode == "reject" ? "reject_requeue_true"
                                          : "reject_requeue_false";
  const Json messages =
      session.client().send("POST", path("queues", session.vhost, o.name) + "/get",
                            {{"count", o.count}, {"ackmode", mode}, {"encoding", "auto"}});
  print_rows(messages,
             {"exchange", "routing_key", "redelivered", "payload_bytes", "payload_encoding",
              "properties", "payload"},
             session.format(), !session.quiet);
}

void add_messages(CLI::App& app, Session& session, const Shared& o) {
  CLI::App* send = add_command(app, kQueueGroup, "publish", "Publishes one message",
                               [=, &session] { publish(session, *o); });
  send->add_option("key", o->key, "Routing key; with the default exchange the name of a queue")
      ->required();
  send->add_option("payload", o->payload, "Its body; - reads standard input")->required();
  send->add_option("--exchange", o->exchange, "If not the default exchange");
  send->add_option("--properties", o->properties,
                   "'{\"delivery_mode\": 2, \"headers\": {\"k\": 1}}'");
  CLI::App* take =
      add_command(app, kQueueGroup, "get", "Shows messages of a queue; they stay where they are",
                  [=, &session] { get(session, *o); });
  take->add_option("queue", o->name)->required();
  take->add_option("-n,--count", o->count, "How many at most")->capture_default_str();
  take->add_option(
          "--mode", o->mode,
          "peek: they stay; take: they are gone; reject: as a consumer's rejection, with its "
          "delay; dead-letter: rejected for good")
      ->check(CLI::IsMember({"peek", "take", "reject", "dead-letter"}))
      ->capture_default_str();
}

}  // namespace

void add_queue_commands(CLI::App& app, Session& session) {
  auto options = std::make_shared<QueueOptions>();
  add_queue_management(app, session, options);
  add_exchange_management(app, session, options);
  add_binding_management(app, session, options);
  add_messages(app, session, options);
}

}  // namespace ctl
