// Figures for Prometheus (http-api 5.5, retry-spec 8): our own names, and RabbitMQ's where
// dashboards rely on them.
#include <algorithm>
#include <set>

#include "http/controllers/common.h"
#include "http/controllers/queue_metrics.h"
#include "http/node_figures.h"
#include "tarrymq/runtime/limit_hits.h"

namespace tarry::http {
namespace {

/// What kept one client from taking what others need (README "Limits").
void put_limits(MetricsText& out) {
  for (const LimitHits& limit : limit_hits()) {
    out.counter("tarrymq_limit_hits_total", "Times that a limit bit", as_double(limit.hits),
                {{"limit", limit.name}});
  }
}

void put_log_ins(MetricsText& out, Context& context) {
  for (const LoginAttempts& attempts : context.broker.login_attempts(false)) {
    const MetricsText::Labels labels{{"protocol", attempts.protocol}};
    for (const std::string prefix : {"tarrymq_", "rabbitmq_"}) {
      out.counter(prefix + "auth_attempts_total", "Log-ins that were tried",
                  as_double(attempts.succeeded + attempts.failed), labels);
      out.counter(prefix + "auth_attempts_succeeded_total", "Log-ins that succeeded",
                  as_double(attempts.succeeded), labels);
      out.counter(prefix + "auth_attempts_failed_total", "Log-ins that failed",
                  as_double(attempts.failed), labels);
    }
  }
}

/// What RabbitMQ's overview dashboard draws.
void put_global(MetricsText& out, const OverviewInfo& info) {
  const QueueNumbers& n = info.totals;
  const MetricsText::Labels labels{{"protocol", "amqp091"}};
  const auto put = [&](const char* name, const char* help, uint64_t value) {
    out.counter("rabbitmq_global_messages_" + std::string(name) + "_total", help, as_double(value),
                labels);
  };
  put("received", "Messages received from publishers", info.received);
  put("received_confirm", "Messages received from publishers that use confirms",
      info.received_confirmed);
  put("confirmed", "Messages confirmed to publishers", info.received_confirmed);
  put("routed", "Messages routed to queues", n.published);
  put("unroutable_dropped", "Messages that went to no queue and were dropped",
      info.unroutable_dropped);
  put("unroutable_returned", "Messages that went to no queue and were returned",
      info.unroutable_returned);
  put("delivered", "Messages delivered or got",
      n.delivered + n.delivered_no_ack + n.got + n.got_no_ack);
  put("delivered_consume_manual_ack", "Messages delivered with manual acknowledgement",
      n.delivered);
  put("delivered_consume_auto_ack", "Messages delivered with automatic acknowledgement",
      n.delivered_no_ack);
  put("delivered_get_manual_ack", "Messages got with manual acknowledgement", n.got);
  put("delivered_get_auto_ack", "Messages got with automatic acknowledgement", n.got_no_ack);
  put("redelivered", "Messages delivered again", n.redelivered);
  put("acknowledged", "Messages acknowledged by consumers", n.acked);
  for (const char* reason : {"rejected", "expired", "maxlen", "delivery_limit"}) {
    out.counter("rabbitmq_global_messages_dead_lettered_" + std::string(reason) + "_total",
                "Messages dead-lettered for this reason",
                as_double(count_of(n.dead_lettered, reason)),
                {{"queue_type", "rabbit_classic_queue"}, {"dead_letter_strategy", "at_most_once"}});
  }
  out.gauge("rabbitmq_global_consumers", "Consumers", as_double(info.consumers), labels);
}

/// The same value under our name and under RabbitMQ's.
void put_both(MetricsText& out, const std::string& name, const char* help, uint64_t value,
              bool is_counter) {
  for (const std::string prefix : {"tarrymq_", "rabbitmq_"}) {
    if (is_counter)
      out.counter(prefix + name, help, as_double(value));
    else
      out.gauge(prefix + name, help, as_double(value));
  }
}

void put_node(MetricsText& out, Context& context, const OverviewInfo& info) {
  const NodeFigures f = node_figures(context);
  out.gauge("tarrymq_build_info", "Version", 1, {{"version", info.version}});
  out.gauge("rabbitmq_build_info", "Version, as dashboards ask for it", 1,
            {{"rabbitmq_version", kCompatibleVersion},
             {"product_name", "TarryMQ"},
             {"product_version", info.version}});
  out.gauge("tarrymq_identity_info", "Name of node and cluster", 1,
            {{"node", info.node}, {"cluster", info.cluster_name}});
  out.gauge("rabbitmq_identity_info", "Name of node and cluster", 1,
            {{"rabbitmq_node", info.node},
             {"rabbitmq_cluster", info.cluster_name},
             {"rabbitmq_cluster_permanent_id", info.cluster_name}});
  out.gauge("tarrymq_uptime_seconds", "Time since the start", as_double(info.uptime_ms) / 1000);
  put_both(out, "connections", "Open connections", info.connections, false);
  put_both(out, "channels", "Open channels", info.channels, false);
  put_both(out, "consumers", "Consumers", info.consumers, false);
  put_both(out, "queues", "Queues", info.queues, false);
  put_both(out, "connections_opened_total", "Connections opened", info.connections_opened, true);
  put_both(out, "connections_closed_total", "Connections closed", info.connections_closed, true);
  put_both(out, "channels_opened_total", "Channels opened", info.channels_opened, true);
  put_both(out, "channels_closed_total", "Channels closed", info.channels_closed, true);
  put_both(out, "queues_declared_total", "Queues declared", info.queues_declared, true);
  put_both(out, "queues_created_total", "Queues created", info.queues_declared, true);
  put_both(out, "queues_deleted_total", "Queues deleted", info.queues_deleted, true);
  put_both(out, "connection_incoming_bytes_total", "Bytes received from clients", info.bytes_in,
           true);
  put_both(out, "connection_outgoing_bytes_total", "Bytes sent to clients", info.bytes_out, true);
  put_both(out, "process_resident_memory_bytes", "Memory used", f.memory_bytes, false);
  put_both(out, "resident_memory_limit_bytes", "Memory beyond which publishers are blocked",
           f.memory_limit, false);
  put_both(out, "disk_space_available_bytes", "Free disk space", f.disk_free, false);
  put_both(out, "disk_space_available_limit_bytes",
           "Free disk space below which publishers are blocked", info.facts.disk_free_min_bytes,
           false);
  put_both(out, "process_open_fds", "Open file descriptors", f.descriptors, false);
  put_both(out, "process_max_fds", "Most file descriptors", f.descriptors_max, false);
  put_both(out, "process_open_tcp_sockets", "Open client sockets", f.connections, false);
  put_both(out, "process_max_tcp_sockets", "Most client sockets", f.descriptors_max, false);
  put_both(out, "alarms_memory_used_watermark", "1 while publishers are blocked for memory",
           info.memory_alarm ? 1 : 0, false);
  put_both(out, "alarms_free_disk_space_watermark", "1 while publishers are blocked for disk space",
           info.disk_alarm ? 1 : 0, false);
  out.counter("tarrymq_cpu_seconds_total", "CPU time used",
              as_double(f.cpu_user_ms + f.cpu_system_ms) / 1000);
}

void put_whole(MetricsText& out, Context& context, const OverviewInfo& info) {
  put_node(out, context, info);
  put_global(out, info);
  put_limits(out);
  put_log_ins(out, context);
}

Response aggregated(Context& context) {
  MetricsText out;
  const OverviewInfo info = context.broker.overview({});
  put_whole(out, context, info);
  put_queue_sums(out, info.totals);
  return metrics_response(out.text());
}

/// What stands before the figures of single objects: of the broker as a whole.
std::string metrics_head(Context& context, const OverviewInfo& info) {
  MetricsText out;
  put_whole(out, context, info);
  return out.text();
}

// -- Single objects: /metrics/per-object, and RabbitMQ's /metrics/detailed

using prometheus::ClientMetric;
using prometheus::MetricType;
using Names = std::set<std::string>;

/// Of these vhosts; of none in particular, of all.
bool chosen(const Names& vhosts, const std::string& vhost) {
  return vhosts.empty() || vhosts.contains(vhost);
}

QueueRows queue_rows(Context& context, const Names& vhosts) {
  std::vector<QueueInfo> queues = context.broker.queues({});
  std::erase_if(queues, [&](const QueueInfo& queue) {
    return queue.internal || !chosen(vhosts, queue.vhost);
  });
  return std::make_shared<const std::vector<QueueInfo>>(std::move(queues));
}

void per_object(Context& context, std::shared_ptr<Request>, Responder responder) {
  send_metrics(std::move(responder), metrics_head(context, context.broker.overview({})),
               queue_series(queue_rows(context, {}), "tarrymq_queue_", "rabbitmq_"));
}

void add_vhost_status(Context& context, std::vector<MetricSeries>& out) {
  auto vhosts = std::make_shared<const std::vector<VhostInfo>>(context.broker.vhosts());
  out.push_back({"rabbitmq_cluster_vhost_status", "1 while the vhost runs", MetricType::Gauge,
                 vhosts->size(), [vhosts](size_t row, std::vector<ClientMetric>& samples) {
                   ClientMetric& sample = samples.emplace_back();
                   sample.label = {{"vhost", (*vhosts)[row].name}};
                   sample.gauge.value = 1;
                 }});
}

void add_connections(Context& context, const Names& vhosts, std::vector<MetricSeries>& out) {
  auto all = context.broker.connections({});
  std::erase_if(all, [&](const auto& one) { return !chosen(vhosts, one->info.vhost); });
  const auto rows = std::make_shared<const decltype(all)>(std::move(all));
  const auto add = [&](const char* name, const char* help, MetricType type, auto value) {
    out.push_back(
        {name, help, type, rows->size(),
         [rows, type, value](size_t row, std::vector<ClientMetric>& samples) {
           const auto& connection = (*rows)[row];
           const ConnectionInfo& info = connection->info;
           ClientMetric& sample = samples.emplace_back();
           sample.label = {{"connection", info.name}, {"vhost", info.vhost}, {"user", info.user}};
           (type == MetricType::Counter ? sample.counter.value : sample.gauge.value) =
               value(*connection);
         }});
  };
  add("rabbitmq_detailed_connection_incoming_bytes_total", "Bytes received", MetricType::Counter,
      [](const auto& one) { return static_cast<double>(connection_values(one)[kRecvOct]); });
  add("rabbitmq_detailed_connection_outgoing_bytes_total", "Bytes sent", MetricType::Counter,
      [](const auto& one) { return static_cast<double>(connection_values(one)[kSendOct]); });
  add("rabbitmq_detailed_connection_channels", "Channels", MetricType::Gauge, [](const auto& one) {
    return static_cast<double>(one.channel_count.load(std::memory_order_relaxed));
  });
}

void add_exchanges(Context& context, const Names& vhosts, std::vector<MetricSeries>& out) {
  auto all = context.broker.exchanges({});
  std::erase_if(all, [&](const ExchangeInfo& one) { return !chosen(vhosts, one.vhost); });
  const auto rows = std::make_shared<const std::vector<ExchangeInfo>>(std::move(all));
  const auto add = [&](const char* name, const char* help, uint64_t ExchangeInfo::*value) {
    out.push_back({name, help, MetricType::Counter, rows->size(),
                   [rows, value](size_t row, std::vector<ClientMetric>& samples) {
                     const ExchangeInfo& exchange = (*rows)[row];
                     ClientMetric& sample = samples.emplace_back();
                     sample.label = {{"vhost", exchange.vhost}, {"exchange", exchange.name}};
                     sample.counter.value = as_double(exchange.*value);
                   }});
  };
  add("rabbitmq_detailed_exchange_messages_published_in_total", "Messages that came in",
      &ExchangeInfo::published_in);
  add("rabbitmq_detailed_exchange_messages_published_out_total", "Copies that left for queues",
      &ExchangeInfo::published_out);
}

/// RabbitMQ's /metrics/detailed: families and vhosts of choice, names with "detailed_".
void detailed(Context& context, std::shared_ptr<Request> request, Responder responder) {
  Names families, vhosts;
  for (const auto& [name, value] : request->query) {
    if (name == "family") families.insert(value);
    if (name == "vhost") vhosts.insert(value);
  }
  const auto wants = [&](std::initializer_list<const char*> any) {
    return std::any_of(any.begin(), any.end(),
                       [&](const char* one) { return families.contains(one); });
  };
  std::vector<MetricSeries> out;
  if (wants({"queue_coarse_metrics", "queue_metrics", "queue_consumer_count"})) {
    out =
        queue_series(queue_rows(context, vhosts), "tarrymq_detailed_queue_", "rabbitmq_detailed_");
  }
  if (wants({"vhost_status"})) add_vhost_status(context, out);
  if (wants({"connection_coarse_metrics", "connection_metrics"}))
    add_connections(context, vhosts, out);
  if (wants({"exchange_metrics", "channel_exchange_metrics"})) add_exchanges(context, vhosts, out);
  send_metrics(std::move(responder), "", std::move(out));
}

}  // namespace

void add_metrics_routes(Router& router, Context& context, Access access) {
  router.add_direct(Method::get, "/metrics", access,
                    [&context](const Request&) { return aggregated(context); });
  router.add(Method::get, "/metrics/per-object", access, bound(context, per_object));
  router.add(Method::get, "/metrics/detailed", access, bound(context, detailed));
}

}  // namespace tarry::http
