// The broker as a whole (http-api H-20, H-25, H-27).
#include "http/controllers/common.h"
#include "http/controllers/exchange_types.h"
#include "http/controllers/queue_json.h"

namespace tarry::http {
namespace {

/// What the caller may see: everything, one vhost (X-Vhost), or the sum over his vhosts.
Result<OverviewInfo, Response> scoped_overview(Context& context, const Request& request) {
  const std::string& vhost = request.scope_vhost;
  if (!vhost.empty()) {
    if (auto refusal = vhost_refusal(context, request, vhost, request.caller.monitoring()))
      return std::move(*refusal);
    return context.broker.overview({vhost});
  }
  OverviewInfo all = context.broker.overview({});
  if (request.caller.monitoring()) return all;
  all.totals = {};
  all.exchanges = all.queues = all.consumers = all.connections = all.channels = 0;
  VhostFilter visible(context, request.caller);
  for (const VhostInfo& one : context.broker.vhosts()) {
    if (!visible(one.name)) continue;
    const OverviewInfo part = context.broker.overview({one.name});
    add_numbers(all.totals, part.totals);
    all.exchanges += part.exchanges;
    all.queues += part.queues;
    all.consumers += part.consumers;
    all.connections += part.connections;
    all.channels += part.channels;
  }
  return all;
}

constexpr const char* kClusterNameParameter = "cluster_name";

/// As set by PUT, which keeps it as a global parameter, like RabbitMQ.
std::string cluster_name(Context& context, const OverviewInfo& info) {
  for (const ParameterInfo& parameter : context.broker.parameters()) {
    if (!parameter.component.empty() || parameter.name != kClusterNameParameter) continue;
    const Json value = Json::parse(parameter.value_json, nullptr, false);
    if (value.is_string()) return value.get<std::string>();
  }
  return info.cluster_name;
}

Json listeners_json(const OverviewInfo& info) {
  Json out = Json::array();
  for (const ListenerInfo& listener : info.listeners) {
    out.push_back(Json{{"node", info.node},
                       {"protocol", listener.protocol},
                       {"ip_address", listener.address},
                       {"port", listener.port}});
  }
  return out;
}

void put_count(Json& out, const std::string& name, uint64_t count, const HistoryBook::View& view,
               size_t value, HistoryRange range) {
  out[name] = count;
  out[name + "_details"] = details_json(view, value, range);
}

Json churn_json(const OverviewInfo& info, const HistoryBook::View& view, HistoryRange range) {
  Json out = Json::object();
  put_count(out, "connection_created", info.connections_opened, view, kConnectionsOpened, range);
  put_count(out, "connection_closed", info.connections_closed, view, kConnectionsClosed, range);
  put_count(out, "channel_created", info.channels_opened, view, kChannelsOpened, range);
  put_count(out, "channel_closed", info.channels_closed, view, kChannelsClosed, range);
  put_count(out, "queue_declared", info.queues_declared, view, kQueuesDeclared, range);
  put_count(out, "queue_created", info.queues_declared, view, kQueuesDeclared, range);
  put_count(out, "queue_deleted", info.queues_deleted, view, kQueuesDeleted, range);
  return out;
}

/// `view`: of the broker as a whole (with what connections do), or of what the caller may see of
/// it.
Json overview_json(Context& context, const OverviewInfo& info, const HistoryBook::View& view,
                   bool whole, const StatsRange& range) {
  Json totals = Json::object();
  put_message_totals(totals, info.totals, view, range.lengths);
  totals["message_bytes"] = info.totals.ready_bytes + info.totals.unacked_bytes;
  Json stats = message_stats_json(queue_values(info.totals), view, range.msg_rates);
  Json out{{"product_name", "TarryMQ"},
           {"product_version", info.version},
           {"management_version", kCompatibleVersion},
           {"rabbitmq_version", kCompatibleVersion},
           {"erlang_version", ""},  // tools that list versions take none for a fault
           {"erlang_full_version", ""},
           {"cluster_name", cluster_name(context, info)},
           {"node", info.node},
           {"uptime", info.uptime_ms},
           {"rates_mode", "basic"},
           {"statistics_db_event_queue", 0},
           {"disable_stats", false},
           {"enable_queue_totals", false},
           {"is_op_policy_updating_enabled", true},
           {"sample_retention_policies",
            {{"global", {600, 3600, 28800, 86400}}, {"basic", {600, 3600}}, {"detailed", {600}}}},
           {"exchange_types", exchange_types_json()},
           {"object_totals",
            {{"connections", info.connections},
             {"channels", info.channels},
             {"exchanges", info.exchanges},
             {"queues", info.queues},
             {"consumers", info.consumers}}},
           {"queue_totals", std::move(totals)},
           {"disk_alarm", info.disk_alarm},
           {"memory_alarm", info.memory_alarm},
           {"listeners", listeners_json(info)},
           {"contexts", Json::array()},
           {"tags", Json::array()}};
  if (whole) {
    put_count(stats, "return_unroutable", info.unroutable_returned, view, kReturned,
              range.msg_rates);
    put_count(stats, "drop_unroutable", info.unroutable_dropped, view, kUnroutableDropped,
              range.msg_rates);
    put_count(out, "recv_oct", info.bytes_in, view, kBytesIn, range.data_rates);
    put_count(out, "send_oct", info.bytes_out, view, kBytesOut, range.data_rates);
    out["churn_rates"] = churn_json(info, view, range.msg_rates);
  }
  out["message_stats"] = std::move(stats);
  return out;
}

Response get_overview(Context& context, const Request& request) {
  const auto info = scoped_overview(context, request);
  if (!info) return info.error();
  return with_range(request, [&](const StatsRange& range) {
    // A tenant's sums are his own: rates are kept for each view apart.
    const bool whole = request.caller.monitoring() && request.scope_vhost.empty();
    const std::string thing = whole                          ? kOverviewThing
                              : !request.scope_vhost.empty() ? vhost_thing(request.scope_vhost)
                                                             : tenant_thing(request.caller.user);
    const auto all = overview_values(*info);
    const auto values =
        std::span(all).first(whole ? size_t{kOverviewValues} : size_t{kQueueValues});
    const auto view = context.history.look(thing, values, stats_now());
    return object_response(
        request, [&](const Fields&) { return overview_json(context, *info, view, whole, range); });
  });
}

void put_cluster_name(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  const std::string name = reader.required_text("name");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  context.broker.put_parameter({"", "", kClusterNameParameter, Json(name).dump()},
                               updated(responder));
}

}  // namespace

void add_overview_routes(Router& router, Context& context) {
  router.add_direct(Method::get, "/api/overview", Access::management, bound(context, get_overview));
  router.add_direct(Method::get, "/api/whoami", Access::management, [](const Request& request) {
    return Response::json(Json{{"name", request.caller.user}, {"tags", request.caller.tags}});
  });
  router.add_direct(
      Method::get, "/api/cluster-name", Access::management, [&context](const Request&) {
        return Response::json(Json{{"name", cluster_name(context, context.broker.overview({}))}});
      });
  router.add(Method::put, "/api/cluster-name", Access::administrator,
             bound(context, put_cluster_name));
  router.add_direct(Method::get, "/api/extensions", Access::management,
                    [](const Request&) { return Response::json(Json::array()); });
}

}  // namespace tarry::http
