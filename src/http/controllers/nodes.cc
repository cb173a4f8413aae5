// The one node (http-api H-22, H-24).
#include <unistd.h>

#include <thread>

#include "http/controllers/common.h"
#include "http/controllers/exchange_types.h"
#include "http/node_figures.h"

namespace tarry::http {
namespace {

Json enabled(std::initializer_list<const char*> names) {
  Json out = Json::array();
  for (const char* name : names)
    out.push_back(Json{{"name", name}, {"description", ""}, {"enabled", true}});
  return out;
}

Json node_json(Context& context, const StatsRange& range) {
  const OverviewInfo info = context.broker.overview({});
  const NodeFigures f = node_figures(context);
  const auto view = context.history.look(kNodeThing, node_values(context), stats_now());
  const auto all = context.history.look(kOverviewThing, overview_values(info), stats_now());
  Json out{
      {"name", info.node},
      {"type", "disc"},
      {"running", true},
      {"uptime", info.uptime_ms},
      {"os_pid", std::to_string(getpid())},
      {"processors", std::thread::hardware_concurrency()},
      {"mem_used", f.memory_bytes},
      {"mem_limit", f.memory_limit},
      {"mem_alarm", info.memory_alarm},
      {"mem_calculation_strategy", "rss"},
      {"disk_free", f.disk_free},
      {"disk_free_limit", info.facts.disk_free_min_bytes},
      {"disk_free_alarm", info.disk_alarm},
      {"disk_total", f.disk_total},
      {"fd_used", f.descriptors},
      {"fd_total", f.descriptors_max},
      {"sockets_used", f.connections},
      {"sockets_total", f.descriptors_max},
      {"proc_used", 1},
      {"proc_total", 1048576},
      {"run_queue", 0},
      {"cpu_user_time", f.cpu_user_ms},
      {"cpu_system_time", f.cpu_system_ms},
      {"rates_mode", "basic"},
      {"being_drained",
       context.process != nullptr && context.process->drain().phase != DrainState::Phase::none},
      {"db_dir", info.facts.data_dir},
      {"config_files",
       info.facts.config_file.empty() ? Json::array() : Json::array({info.facts.config_file})},
      {"log_files", Json::array({info.facts.log_file.empty() ? "stderr" : info.facts.log_file})},
      {"net_ticktime", 60},
      {"partitions", Json::array()},
      {"cluster_links", Json::array()},
      {"applications",
       Json::array({{{"name", "tarrymq"}, {"description", "TarryMQ"}, {"version", info.version}}})},
      {"auth_mechanisms", enabled({"PLAIN", "AMQPLAIN"})},
      {"exchange_types", exchange_types_json()},
      {"contexts", Json::array()},
      {"enabled_plugins", Json::array({"rabbitmq_management"})}};
  out["mem_used_details"] = details_json(view, kMemUsed, range.node_stats);
  out["fd_used_details"] = details_json(view, kFdUsed, range.node_stats);
  out["sockets_used_details"] = details_json(view, kSocketsUsed, range.node_stats);
  out["disk_free_details"] = details_json(view, kDiskFree, range.node_stats);
  out["cpu_time_ms_details"] = details_json(view, kCpuMs, range.node_stats);
  out["connection_created_details"] = details_json(all, kConnectionsOpened, range.node_stats);
  out["connection_closed_details"] = details_json(all, kConnectionsClosed, range.node_stats);
  out["channel_created_details"] = details_json(all, kChannelsOpened, range.node_stats);
  out["channel_closed_details"] = details_json(all, kChannelsClosed, range.node_stats);
  out["queue_declared_details"] = details_json(all, kQueuesDeclared, range.node_stats);
  out["queue_deleted_details"] = details_json(all, kQueuesDeleted, range.node_stats);
  return out;
}

/// What is known of where the memory goes: messages in queues' tails, and the rest. RabbitMQ's
/// other parts are there with 0: its tools take an answer without them for none.
Json memory_json(Context& context) {
  const uint64_t total = node_figures(context).memory_bytes;
  const uint64_t queues = std::min(total, context.broker.overview({}).totals.memory_bytes);
  Json parts{{"strategy", "rss"},
             {"total", {{"rss", total}, {"allocated", total}, {"erlang", 0}}},
             {"queue_procs", queues},
             {"other_system", total - queues}};
  for (const char* part : {"allocated_unused",
                           "atom",
                           "binary",
                           "code",
                           "connection_channels",
                           "connection_other",
                           "connection_readers",
                           "connection_writers",
                           "metadata_store",
                           "metadata_store_ets",
                           "metrics",
                           "mgmt_db",
                           "mnesia",
                           "msg_index",
                           "other_ets",
                           "other_proc",
                           "plugins",
                           "quorum_ets",
                           "quorum_queue_dlx_procs",
                           "quorum_queue_procs",
                           "reserved_unallocated",
                           "stream_queue_coordinator_procs",
                           "stream_queue_procs",
                           "stream_queue_replica_reader_procs"}) {
    parts[part] = 0;
  }
  return Json{{"memory", std::move(parts)}};
}

Response node_or_404(Context& context, const Request& request,
                     Response (*make)(Context&, const Request&)) {
  // Checks that were written for RabbitMQ put "rabbit@" before a host's name: there is one node
  // that they can mean.
  const bool meant =
      request.capture(0) == context.node || request.capture(0).starts_with("rabbit@");
  return meant ? make(context, request) : Response::not_found();
}

}  // namespace

void add_node_routes(Router& router, Context& context) {
  router.add_direct(Method::get, "/api/nodes", Access::monitoring,
                    [&context](const Request& request) {
                      return with_range(request, [&](const StatsRange& range) {
                        return list_response(request, std::vector<Json>{node_json(context, range)});
                      });
                    });
  router.add_direct(
      Method::get, "/api/nodes/{name}", Access::monitoring, [&context](const Request& request) {
        return node_or_404(
            context, request, +[](Context& c, const Request& r) {
              return with_range(r, [&](const StatsRange& range) {
                return object_response(r, [&](const Fields&) { return node_json(c, range); });
              });
            });
      });
  router.add_direct(Method::get, "/api/nodes/{name}/memory", Access::monitoring,
                    [&context](const Request& request) {
                      return node_or_404(
                          context, request, +[](Context& c, const Request&) {
                            return Response::json(memory_json(c));
                          });
                    });
}

}  // namespace tarry::http
