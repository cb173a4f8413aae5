// Connections and their channels (http-api H-30 to H-33).
#include "http/controllers/common.h"
#include "http/controllers/consumer_json.h"

namespace tarry::http {
namespace {

using Connection = std::shared_ptr<const ConnectionFigures>;
using Connections = std::vector<Connection>;
using KeepConnection = std::function<bool(const ConnectionInfo&)>;

/// What clients call themselves: client property connection_name.
Json provided_name(const ConnectionInfo& info) {
  const FieldValue* name = info.client_properties.find("connection_name");
  return name && name->text() ? Json(*name->text()) : Json();
}

/// As RabbitMQ names them; without TLS they are null.
void put_tls(ObjectWriter& out, const TlsFacts* tls) {
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  out.put("ssl", tls != nullptr);
  out.put("ssl_protocol", tls ? text(tls->version) : Json());
  out.put("ssl_cipher", tls ? text(tls->cipher) : Json());
  out.put("ssl_server_name", tls ? text(tls->server_name) : Json());
  out.put("peer_cert_subject", tls ? text(tls->peer_subject) : Json());
  out.put("peer_cert_issuer", tls ? text(tls->peer_issuer) : Json());
  out.put("peer_cert_validity", tls ? text(tls->peer_validity) : Json());
}

Json connection_json(Context& context, const ConnectionFigures& connection, const Fields& fields,
                     HistoryRange range) {
  const ConnectionInfo& info = connection.info;
  ObjectWriter out(fields);
  out.put("name", info.name);
  out.put("vhost", info.vhost);
  out.put("user", info.user);
  out.put("node", context.node);
  out.put("type", "network");
  out.put("protocol", "AMQP 0-9-1");
  out.put("state", connection_state_name(connection.state.load(std::memory_order_relaxed)));
  out.put("peer_host", info.peer_host);
  out.put("peer_port", info.peer_port);
  out.put("host", info.local_host);
  out.put("port", info.local_port);
  out.put("auth_mechanism", info.mechanism);
  out.put("channel_max", info.channel_max);
  out.put("frame_max", info.frame_max);
  out.put("timeout", info.heartbeat_s);
  out.put("connected_at", info.connected_at_ms);
  out.put("channels", connection.channel_count.load(std::memory_order_relaxed));
  out.lazy("client_properties", [&] { return to_json(info.client_properties); });
  put_tls(out, info.tls.get());
  out.put("user_provided_name", provided_name(info));
  out.put("user_who_performed_action", info.user);
  out.put("recv_oct", connection.bytes_in.load(std::memory_order_relaxed));
  out.put("recv_cnt", connection.receives.load(std::memory_order_relaxed));
  out.put("send_oct", connection.bytes_out.load(std::memory_order_relaxed));
  out.put("send_cnt", connection.sends.load(std::memory_order_relaxed));
  out.put("send_pend", connection.unsent_bytes.load(std::memory_order_relaxed));
  if (fields.wants("recv_oct_details") || fields.wants("send_oct_details")) {
    const auto view = context.history.look(connection_thing(connection),
                                           connection_values(connection), stats_now());
    out.put("recv_oct_details", details_json(view, kRecvOct, range));
    out.put("send_oct_details", details_json(view, kSendOct, range));
  }
  return out.take();
}

std::string channel_name(const ConnectionInfo& connection, const ChannelFigures& channel) {
  return connection.name + " (" + std::to_string(channel.number) + ")";
}

Json channel_json(Context& context, const ConnectionFigures& connection,
                  const ChannelFigures& channel, const Fields& fields, HistoryRange range) {
  const auto read = [](const auto& figure) { return figure.load(std::memory_order_relaxed); };
  const ConnectionInfo& info = connection.info;
  ObjectWriter out(fields);
  out.put("name", channel_name(info, channel));
  out.put("number", channel.number);
  out.put("user", info.user);
  out.put("vhost", info.vhost);
  out.put("node", context.node);
  out.put("state", read(channel.flow_active) ? "running" : "flow");
  put_idle_since(out, context, read(channel.active_at_ns));
  out.put("consumer_count", read(channel.consumers));
  out.put("prefetch_count", read(channel.prefetch));
  out.put("global_prefetch_count", read(channel.global_prefetch));
  out.put("confirm", read(channel.confirm));
  out.put("transactional", read(channel.transactional));
  out.put("messages_unacknowledged", read(channel.unacked));
  out.put("messages_unconfirmed", read(channel.unconfirmed));
  out.put("messages_uncommitted", read(channel.uncommitted));
  out.put("acks_uncommitted", 0);
  out.put("user_who_performed_action", info.user);
  out.lazy("connection_details", [&] {
    return Json{{"name", info.name}, {"peer_host", info.peer_host}, {"peer_port", info.peer_port}};
  });
  out.lazy("message_stats", [&] {
    static constexpr std::pair<const char*, ChannelValue> kNames[] = {
        {"publish", kChannelPublish},
        {"confirm", kChannelConfirm},
        {"return_unroutable", kChannelReturned},
        {"drop_unroutable", kChannelUnroutable},
        {"deliver", kChannelDeliver},
        {"deliver_no_ack", kChannelDeliverNoAck},
        {"get", kChannelGet},
        {"get_no_ack", kChannelGetNoAck},
        {"get_empty", kChannelGetEmpty},
        {"deliver_get", kChannelDeliverGet},
        {"redeliver", kChannelRedeliver},
        {"ack", kChannelAck}};
    const auto values = channel_values(channel);
    const auto view =
        context.history.look(channel_thing(connection, channel.number), values, stats_now());
    Json stats = Json::object();
    for (const auto& [name, value] : kNames) {
      stats[name] = values[value];
      stats[std::string(name) + "_details"] = details_json(view, value, range);
    }
    return stats;
  });
  return out.take();
}

bool may_see(Context& context, const Caller& caller, const ConnectionInfo& info) {
  return caller.monitoring() ||
         (info.user == caller.user && context.broker.may_access(caller.user, info.vhost));
}

Connections visible_connections(Context& context, const Request& request, const std::string& vhost,
                                const KeepConnection& keep) {
  Connections connections = context.broker.connections({vhost});
  std::erase_if(connections, [&](const Connection& connection) {
    return !may_see(context, request.caller, connection->info) || (keep && !keep(connection->info));
  });
  std::sort(connections.begin(), connections.end(),
            [](const Connection& a, const Connection& b) { return a->info.id < b->info.id; });
  return connections;
}

Response list_connections(Context& context, const Request& request, const std::string& vhost,
                          const KeepConnection& keep) {
  auto range = StatsRange::parse(request);
  if (!range) return Response::bad_request(range.error());
  const Connections connections = visible_connections(context, request, vhost, keep);
  Listing listing;
  listing.count = connections.size();
  listing.name = [&](size_t i) -> std::string_view { return connections[i]->info.name; };
  listing.render = [&](size_t i, const Fields& fields) {
    return connection_json(context, *connections[i], fields, range->data_rates);
  };
  return list_response(request, listing);
}

Response list_channels(Context& context, const Request& request, const Connections& connections) {
  auto range = StatsRange::parse(request);
  if (!range) return Response::bad_request(range.error());
  struct Row {
    const Connection* connection;
    std::shared_ptr<const ChannelFigures> channel;
    std::string name;
  };
  std::vector<Row> rows;
  for (const Connection& connection : connections) {
    for (auto& channel : connection->channels()) {
      std::string name = channel_name(connection->info, *channel);
      rows.push_back({&connection, std::move(channel), std::move(name)});
    }
  }
  Listing listing;
  listing.count = rows.size();
  listing.name = [&](size_t i) -> std::string_view { return rows[i].name; };
  listing.render = [&](size_t i, const Fields& fields) {
    return channel_json(context, **rows[i].connection, *rows[i].channel, fields, range->msg_rates);
  };
  return list_response(request, listing);
}

Connection find_connection(Context& context, const Request& request) {
  for (Connection& connection : context.broker.connections({})) {
    const ConnectionInfo& info = connection->info;
    if (info.name == request.capture(0) && may_see(context, request.caller, info))
      return std::move(connection);
  }
  return nullptr;
}

void put_consumers(Context& context, std::shared_ptr<Request> request, Responder responder,
                   Json channel, ConnectionId connection, uint16_t number) {
  const std::string vhost = channel.value("vhost", "");
  context.broker.consumers({vhost}, [=, &context, channel = std::move(channel)](
                                        std::vector<ConsumerView> views) mutable {
    responder.send_later(
        [=, &context, channel = std::move(channel), views = std::move(views)]() mutable {
          std::erase_if(views, [&](const ConsumerView& view) {
            return view.consumer.connection != connection || view.consumer.channel != number;
          });
          channel["consumer_details"] = consumers_json(context, views);
          return object_response(*request, [&](const Fields&) { return channel; });
        });
  });
}

void get_channel(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto range = StatsRange::parse(*request);
  if (!range) return responder.send(Response::bad_request(range.error()));
  for (const Connection& connection : visible_connections(context, *request, "", {})) {
    if (!request->capture(0).starts_with(connection->info.name)) continue;
    for (const auto& channel : connection->channels()) {
      if (channel_name(connection->info, *channel) != request->capture(0)) continue;
      Json object = channel_json(context, *connection, *channel, Fields(), range->msg_rates);
      return put_consumers(context, std::move(request), responder, std::move(object),
                           connection->info.id, channel->number);
    }
  }
  responder.send(Response::not_found());
}

std::string close_reason(const Request& request) {
  if (const std::string* reason = request.query_value("reason"))
    return *reason;  // where a header is hard to set
  return request.close_reason.empty() ? "Closed via management plugin" : request.close_reason;
}

Response delete_connection(Context& context, const Request& request) {
  const Connection connection = find_connection(context, request);
  if (!connection) return Response::not_found();
  if (!request.caller.administrator() && connection->info.user != request.caller.user) {
    return Response::forbidden("only an administrator closes another user's connection");
  }
  const bool closed = context.broker.close_connection(connection->info.name, close_reason(request));
  return closed ? Response::no_content() : Response::not_found();
}

Response delete_connections_of_user(Context& context, const Request& request) {
  if (!request.caller.administrator() && request.capture(0) != request.caller.user) {
    return Response::forbidden("only an administrator closes another user's connections");
  }
  for (const Connection& connection : context.broker.connections({})) {
    if (connection->info.user == request.capture(0)) {
      (void)context.broker.close_connection(connection->info.name,
                                            close_reason(request));  // may have gone meanwhile
    }
  }
  return Response::no_content();
}

void add_vhost_lists(Router& router, Context& context) {
  const auto in_vhost = [&context](auto* list) {
    return [&context, list](const Request& request) {
      if (auto refusal =
              vhost_refusal(context, request, request.capture(0), request.caller.monitoring())) {
        return std::move(*refusal);
      }
      return list(context, request);
    };
  };
  router.add_direct(Method::get, "/api/vhosts/{vhost}/connections", Access::management,
                    in_vhost(+[](Context& c, const Request& r) {
                      return list_connections(c, r, r.capture(0), {});
                    }));
  router.add_direct(Method::get, "/api/vhosts/{vhost}/channels", Access::management,
                    in_vhost(+[](Context& c, const Request& r) {
                      return list_channels(c, r, visible_connections(c, r, r.capture(0), {}));
                    }));
}

}  // namespace

void add_connection_routes(Router& router, Context& context) {
  router.add_direct(
      Method::get, "/api/connections", Access::management,
      [&context](const Request& request) { return list_connections(context, request, "", {}); });
  router.add_direct(Method::get, "/api/connections/username/{user}", Access::management,
                    [&context](const Request& request) {
                      return list_connections(context, request, "",
                                              [&](const ConnectionInfo& info) {
                                                return info.user == request.capture(0);
                                              });
                    });
  router.add_direct(
      Method::del, "/api/connections/username/{user}", Access::management,
      [&context](const Request& request) { return delete_connections_of_user(context, request); });
  router.add_direct(Method::get, "/api/connections/{name}", Access::management,
                    [&context](const Request& request) {
                      const Connection connection = find_connection(context, request);
                      if (!connection) return Response::not_found();
                      return with_range(request, [&](const StatsRange& range) {
                        return object_response(request, [&](const Fields& fields) {
                          return connection_json(context, *connection, fields, range.data_rates);
                        });
                      });
                    });
  router.add_direct(
      Method::del, "/api/connections/{name}", Access::management,
      [&context](const Request& request) { return delete_connection(context, request); });
  router.add_direct(Method::get, "/api/connections/{name}/channels", Access::management,
                    [&context](const Request& request) {
                      const Connection connection = find_connection(context, request);
                      if (!connection) return Response::not_found();
                      return list_channels(context, request, {connection});
                    });
  router.add_direct(
      Method::get, "/api/channels", Access::management, [&context](const Request& request) {
        return list_channels(context, request, visible_connections(context, request, "", {}));
      });
  router.add(Method::get, "/api/channels/{name}", Access::management, bound(context, get_channel));
  add_vhost_lists(router, context);
}

}  // namespace tarry::http
