// Figures for Prometheus (http-api 5.5, retry-spec 8): our own names, and RabbitMQ's where
// dashboards rely on them.
#include <set>

#include "http/controllers/common.h"
#include "http/metrics_text.h"
#include "http/node_figures.h"
#include "tarrymq/runtime/limit_hits.h"

namespace tarry::http {
namespace {

double as_double(uint64_t value) { return static_cast<double>(value); }

constexpr const char* kReasons[] = {"rejected", "expired", "maxlen", "delivery_limit", "max_age"};

uint64_t count_of(const std::map<std::string, uint64_t>& counts, const std::string& reason) {
  const auto found = counts.find(reason);
  return found == counts.end() ? 0 : found->second;
}

/// One value of a queue: our name without "tarrymq_queue_", RabbitMQ's whole name or "".
struct QueueMetric {
  const char* ours;
  const char* rabbit;
  const char* help;
  bool is_counter;
  uint64_t (*value)(const QueueNumbers&);
};
const QueueMetric kQueueMetrics[] = {
    {"messages_ready", "queue_messages_ready", "Messages ready to be delivered", false,
     [](const QueueNumbers& n) { return n.ready; }},
    {"messages_unacked", "queue_messages_unacked", "Messages delivered and not yet acknowledged",
     false, [](const QueueNumbers& n) { return n.unacked; }},
    {"messages", "queue_messages", "Sum of ready and unacknowledged messages", false,
     [](const QueueNumbers& n) { return n.ready + n.unacked; }},
    {"messages_delayed", "", "Messages that wait to be retried", false,
     [](const QueueNumbers& n) { return n.delayed; }},
    {"messages_persistent", "queue_messages_persistent", "Persistent messages", false,
     [](const QueueNumbers& n) { return n.persistent; }},
    {"messages_bytes", "queue_messages_bytes", "Size in bytes of ready and unacknowledged messages",
     false, [](const QueueNumbers& n) { return n.ready_bytes + n.unacked_bytes; }},
    {"messages_ready_bytes", "queue_messages_ready_bytes", "Size in bytes of ready messages", false,
     [](const QueueNumbers& n) { return n.ready_bytes; }},
    {"messages_unacked_bytes", "queue_messages_unacked_bytes",
     "Size in bytes of unacknowledged messages", false,
     [](const QueueNumbers& n) { return n.unacked_bytes; }},
    {"consumers", "queue_consumers", "Consumers on a queue", false,
     [](const QueueNumbers& n) { return n.consumers; }},
    {"memory_bytes", "queue_process_memory_bytes", "Memory in bytes used by a queue", false,
     [](const QueueNumbers& n) { return n.memory_bytes; }},
    {"disk_bytes", "", "Bytes on disk used by a queue", false,
     [](const QueueNumbers& n) { return n.disk_bytes; }},
    {"published_total", "queue_messages_published_total", "Messages published to queues", true,
     [](const QueueNumbers& n) { return n.published; }},
    {"delivered_total", "", "Messages delivered to consumers or got", true,
     [](const QueueNumbers& n) { return n.delivered + n.delivered_no_ack + n.got + n.got_no_ack; }},
    {"acknowledged_total", "", "Messages acknowledged by consumers", true,
     [](const QueueNumbers& n) { return n.acked; }},
    {"redelivered_total", "", "Messages delivered again", true,
     [](const QueueNumbers& n) { return n.redelivered; }},
    {"rejected_total", "", "Messages rejected by consumers", true,
     [](const QueueNumbers& n) { return n.rejected; }},
    {"confirmed_total", "", "Messages confirmed to publishers", true,
     [](const QueueNumbers& n) { return n.confirmed; }},
};

std::vector<std::string> names_of(const QueueMetric& metric, const std::string& ours,
                                  const std::string& rabbit) {
  std::vector<std::string> out{ours + metric.ours};
  if (metric.rabbit[0] != 0) out.push_back(rabbit + metric.rabbit);
  return out;
}

/// How late retries that came due were let in (retry-spec 40).
void put_lag(MetricsText& out, const QueueNumbers& n, MetricsText::Labels labels) {
  static const std::vector<double> kBoundsSeconds = [] {
    std::vector<double> seconds;
    for (uint64_t ms : kRetryLagBoundsMs) seconds.push_back(as_double(ms) / 1000);
    return seconds;
  }();
  out.histogram("tarrymq_retry_lag_seconds",
                "How long after its due time a retry was let into its queue", kBoundsSeconds,
                {n.retry_lag.begin(), n.retry_lag.end()}, as_double(n.retry_lag_sum_ms) / 1000,
                labels);
}

/// retry-spec 8.
void put_retries(MetricsText& out, const QueueNumbers& n, MetricsText::Labels labels,
                 std::string_view vhost, std::string_view queue) {
  out.counter("tarrymq_retries_scheduled_total", "Rejections that began to wait for a retry",
              as_double(n.retries_scheduled), labels);
  out.counter("tarrymq_retries_redelivered_total",
              "Retries that came due and went back to their queue",
              as_double(n.retries_redelivered), labels);
  out.counter("tarrymq_retries_postponed_total",
              "Retries that waited once more because their queue was full",
              as_double(n.retries_postponed), labels);
  put_lag(out, n, labels);
  const bool whole = queue.empty();
  const auto by_reason = [&](const char* name, const char* help, const std::string& reason,
                             uint64_t count) {
    if (whole)
      out.counter(name, help, as_double(count), {{"reason", reason}});
    else
      out.counter(name, help, as_double(count),
                  {{"reason", reason}, {"vhost", vhost}, {"queue", queue}});
  };
  constexpr const char* kDeadHelp = "Messages that were dead-lettered, by reason";
  constexpr const char* kDroppedHelp =
      "Dead letters that no queue took, by the reason of their death";
  if (whole) {
    for (const char* reason : kReasons) {
      by_reason("tarrymq_dead_lettered_total", kDeadHelp, reason,
                count_of(n.dead_lettered, reason));
      by_reason("tarrymq_dropped_total", kDroppedHelp, reason, count_of(n.dropped, reason));
    }
    return;
  }
  for (const auto& [reason, count] : n.dead_lettered)
    by_reason("tarrymq_dead_lettered_total", kDeadHelp, reason, count);
  for (const auto& [reason, count] : n.dropped)
    by_reason("tarrymq_dropped_total", kDroppedHelp, reason, count);
}

void put_queue_sums(MetricsText& out, const OverviewInfo& info) {
  const QueueNumbers& n = info.totals;
  for (const QueueMetric& metric : kQueueMetrics) {
    for (const std::string& name : names_of(metric, "tarrymq_queue_", "rabbitmq_")) {
      if (metric.is_counter)
        out.counter(name, metric.help, as_double(metric.value(n)));
      else
        out.gauge(name, metric.help, as_double(metric.value(n)));
    }
  }
  put_retries(out, n, {}, "", "");
}

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

Response metrics_response(const MetricsText& out) {
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = out.text();
  return response;
}

void put_queue(MetricsText& out, const QueueInfo& queue, const std::string& ours,
               const std::string& rabbit) {
  const MetricsText::Labels labels{{"vhost", queue.vhost}, {"queue", queue.name}};
  for (const QueueMetric& metric : kQueueMetrics) {
    for (const std::string& name : names_of(metric, ours, rabbit)) {
      if (metric.is_counter)
        out.counter(name, metric.help, as_double(metric.value(queue.numbers)), labels);
      else
        out.gauge(name, metric.help, as_double(metric.value(queue.numbers)), labels);
    }
  }
  if (queue.retry_enabled || !queue.numbers.dead_lettered.empty() ||
      !queue.numbers.dropped.empty()) {
    put_retries(out, queue.numbers, labels, queue.vhost, queue.name);
  }
}

Response aggregated(Context& context) {
  MetricsText out;
  const OverviewInfo info = context.broker.overview({});
  put_node(out, context, info);
  put_global(out, info);
  put_limits(out);
  put_log_ins(out, context);
  put_queue_sums(out, info);
  return metrics_response(out);
}

Response per_object(Context& context) {
  MetricsText out;
  const OverviewInfo info = context.broker.overview({});
  put_node(out, context, info);
  put_global(out, info);
  put_limits(out);
  put_log_ins(out, context);
  for (const QueueInfo& queue : context.broker.queues({})) {
    if (!queue.internal) put_queue(out, queue, "tarrymq_queue_", "rabbitmq_");
  }
  return metrics_response(out);
}

/// RabbitMQ's /metrics/detailed: families and vhosts of choice, names with "detailed_".
Response detailed(Context& context, const Request& request) {
  std::set<std::string> families, vhosts;
  for (const auto& [name, value] : request.query) {
    if (name == "family") families.insert(value);
    if (name == "vhost") vhosts.insert(value);
  }
  const auto wants = [&](const char* family) { return families.contains(family); };
  MetricsText out;
  if (wants("queue_coarse_metrics") || wants("queue_metrics") || wants("queue_consumer_count")) {
    for (const QueueInfo& queue : context.broker.queues({})) {
      if (queue.internal || (!vhosts.empty() && !vhosts.contains(queue.vhost))) continue;
      put_queue(out, queue, "tarrymq_detailed_queue_", "rabbitmq_detailed_");
    }
  }
  if (wants("vhost_status")) {
    for (const VhostInfo& vhost : context.broker.vhosts()) {
      out.gauge("rabbitmq_cluster_vhost_status", "1 while the vhost runs", 1,
                {{"vhost", vhost.name}});
    }
  }
  if (wants("connection_coarse_metrics") || wants("connection_metrics")) {
    for (const auto& connection : context.broker.connections({})) {
      const ConnectionInfo& info = connection->info;
      if (!vhosts.empty() && !vhosts.contains(info.vhost)) continue;
      const MetricsText::Labels labels{
          {"connection", info.name}, {"vhost", info.vhost}, {"user", info.user}};
      const auto values = connection_values(*connection);
      out.counter("rabbitmq_detailed_connection_incoming_bytes_total", "Bytes received",
                  static_cast<double>(values[kRecvOct]), labels);
      out.counter("rabbitmq_detailed_connection_outgoing_bytes_total", "Bytes sent",
                  static_cast<double>(values[kSendOct]), labels);
      out.gauge("rabbitmq_detailed_connection_channels", "Channels",
                connection->channel_count.load(std::memory_order_relaxed), labels);
    }
  }
  if (wants("exchange_metrics") || wants("channel_exchange_metrics")) {
    for (const ExchangeInfo& exchange : context.broker.exchanges({})) {
      if (!vhosts.empty() && !vhosts.contains(exchange.vhost)) continue;
      const MetricsText::Labels labels{{"vhost", exchange.vhost}, {"exchange", exchange.name}};
      out.counter("rabbitmq_detailed_exchange_messages_published_in_total", "Messages that came in",
                  as_double(exchange.published_in), labels);
      out.counter("rabbitmq_detailed_exchange_messages_published_out_total",
                  "Copies that left for queues", as_double(exchange.published_out), labels);
    }
  }
  return metrics_response(out);
}

}  // namespace

void add_metrics_routes(Router& router, Context& context, Access access) {
  router.add_direct(Method::get, "/metrics", access,
                    [&context](const Request&) { return aggregated(context); });
  router.add_direct(Method::get, "/metrics/per-object", access,
                    [&context](const Request&) { return per_object(context); });
  router.add_direct(Method::get, "/metrics/detailed", access, bound(context, detailed));
}

}  // namespace tarry::http
