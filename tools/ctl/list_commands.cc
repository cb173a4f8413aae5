// list_...: everything that the API lists, with columns.
#include <algorithm>

#include "ctl/command.h"

namespace ctl {
namespace {

struct List {
  const char* name;
  const char* help;
  const char* base;  // behind /api/
  bool in_vhost;     // the list of the vhost given by --vhost; --all-vhosts: of all
  std::vector<std::string> columns;
};

const List kLists[] = {
    {"list_queues",
     "Queues, and the companions in which retries wait",
     "queues",
     true,
     {"name", "messages_ready", "messages_unacknowledged", "messages_delayed", "consumers"}},
    {"list_exchanges", "Exchanges", "exchanges", true, {"name", "type", "durable", "internal"}},
    {"list_bindings",
     "Bindings",
     "bindings",
     true,
     {"source", "destination_type", "destination", "routing_key"}},
    {"list_consumers",
     "Consumers",
     "consumers",
     true,
     {"queue.name", "channel_details.name", "consumer_tag", "ack_required", "prefetch_count",
      "active"}},
    {"list_connections",
     "Client connections",
     "connections",
     false,
     {"name", "user", "vhost", "state", "channels", "recv_oct", "send_oct"}},
    {"list_channels",
     "Channels of all connections",
     "channels",
     false,
     {"name", "user", "consumer_count", "messages_unacknowledged", "prefetch_count", "confirm"}},
    {"list_users", "Users", "users", false, {"name", "tags"}},
    {"list_vhosts", "Virtual hosts", "vhosts", false, {"name", "messages", "description"}},
    {"list_permissions",
     "Permissions of all users",
     "permissions",
     false,
     {"vhost", "user", "configure", "write", "read"}},
    {"list_topic_permissions",
     "Topic permissions of all users",
     "topic-permissions",
     false,
     {"vhost", "user", "exchange", "write", "read"}},
    {"list_policies",
     "Policies",
     "policies",
     true,
     {"name", "pattern", "apply-to", "priority", "definition"}},
    {"list_operator_policies",
     "Operator policies",
     "operator-policies",
     true,
     {"name", "pattern", "apply-to", "priority", "definition"}},
    {"list_parameters",
     "Runtime parameters",
     "parameters",
     false,
     {"component", "vhost", "name", "value"}},
    {"list_global_parameters", "Global parameters", "global-parameters", false, {"name", "value"}},
    {"list_vhost_limits", "Limits of vhosts", "vhost-limits", false, {"vhost", "value"}},
    {"list_user_limits", "Limits of users", "user-limits", false, {"user", "value"}},
    {"list_nodes",
     "The nodes of the broker",
     "nodes",
     false,
     {"name", "running", "mem_used", "disk_free", "uptime"}},
};

struct ListOptions {
  std::vector<std::string> columns;
  std::string filter, sort;
  bool all_vhosts = false, reverse = false, regex = false;
};

/// A mistyped name would else be a column of blanks.
void remark_on_unknown(Session& session, const Json& rows,
                       const std::vector<std::string>& columns) {
  if (!rows.is_array() || rows.empty()) return;
  for (const std::string& column : columns) {
    const bool known = std::any_of(rows.begin(), rows.end(),
                                   [&column](const Json& row) { return has_path(row, column); });
    if (!known) session.say("tarrymqctl: none of these has a field '" + column + "'");
  }
}

void list(Session& session, const List& what, const ListOptions& options) {
  const bool one_vhost = what.in_vhost && !options.all_vhosts;
  std::vector<std::string> columns = options.columns.empty() ? what.columns : options.columns;
  if (options.columns.empty() && what.in_vhost && options.all_vhosts)
    columns.insert(columns.begin(), "vhost");
  Query query;
  std::string wanted;
  for (const std::string& column : columns) wanted += (wanted.empty() ? "" : ",") + column;
  query.emplace_back("columns", wanted);
  if (!options.sort.empty()) query.emplace_back("sort", options.sort);
  if (options.reverse) query.emplace_back("sort_reverse", "true");
  if (!options.filter.empty()) query.emplace_back("name", options.filter);
  if (options.regex) query.emplace_back("use_regex", "true");
  const std::string at = one_vhost ? path(what.base, session.vhost) : path(what.base);
  const Json rows = session.client().get(at, query);
  if (!options.columns.empty()) remark_on_unknown(session, rows, columns);
  print_rows(rows, columns, session.format(), !session.quiet);
}

void list_user_permissions(Session& session, const std::string& user) {
  print_rows(session.client().get(path("users", user) + "/permissions"),
             {"vhost", "configure", "write", "read"}, session.format(), !session.quiet);
}

}  // namespace

void add_list_commands(CLI::App& app, Session& session) {
  for (const List& what : kLists) {
    auto options = std::make_shared<ListOptions>();
    CLI::App* command = add_command(app, "Lists", what.name, what.help,
                                    [&session, &what, options] { list(session, what, *options); });
    std::string defaults;
    for (const std::string& column : what.columns) defaults += " " + column;
    command->add_option(
        "columns", options->columns,
        "Fields as the HTTP API names them, nested ones with dots; if none:" + defaults);
    command->add_option("--name", options->filter, "Only those whose name has this part");
    command->add_flag("--regex", options->regex, "--name is a regular expression");
    command->add_option("--sort", options->sort, "Field to sort by");
    command->add_flag("--reverse", options->reverse, "Sort downwards");
    if (what.in_vhost)
      command->add_flag("--all-vhosts", options->all_vhosts, "Of all vhosts, not of --vhost alone");
  }
  auto user = std::make_shared<std::string>();
  add_command(app, "Lists", "list_user_permissions", "What one user may do, by vhost",
              [&session, user] { list_user_permissions(session, *user); })
      ->add_option("user", *user, "User name")
      ->required();
}

}  // namespace ctl
