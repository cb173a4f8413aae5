#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "http/metrics_series.h"
#include "http/metrics_text.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/queue/queue_handle.h"

// Figures of queues for Prometheus: of all together, or of each.
namespace tarry::http {

using QueueRows = std::shared_ptr<const std::vector<QueueInfo>>;

inline double as_double(uint64_t value) { return static_cast<double>(value); }
inline uint64_t count_of(const std::map<std::string, uint64_t>& counts, const std::string& reason) {
  const auto found = counts.find(reason);
  return found == counts.end() ? 0 : found->second;
}

inline constexpr const char* kReasons[] = {"rejected", "expired", "maxlen", "delivery_limit",
                                           "max_age"};

/// One value of a queue: our name without "tarrymq_queue_", RabbitMQ's whole name or "".
struct QueueMetric {
  const char* ours;
  const char* rabbit;
  const char* help;
  bool is_counter;
  uint64_t (*value)(const QueueNumbers&);
};
inline const QueueMetric kQueueMetrics[] = {
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

inline std::vector<std::string> names_of(const QueueMetric& metric, const std::string& ours,
                                         const std::string& rabbit) {
  std::vector<std::string> out{ours + metric.ours};
  if (metric.rabbit[0] != 0) out.push_back(rabbit + metric.rabbit);
  return out;
}

/// Of retries (retry-spec 8). The last ones are by reason.
struct RetryCounter {
  const char* name;
  const char* help;
  uint64_t QueueNumbers::*count;
};
inline const RetryCounter kRetryCounters[] = {
    {"tarrymq_retries_scheduled_total", "Rejections that began to wait for a retry",
     &QueueNumbers::retries_scheduled},
    {"tarrymq_retries_redelivered_total", "Retries that came due and went back to their queue",
     &QueueNumbers::retries_redelivered},
    {"tarrymq_retries_postponed_total",
     "Retries that waited once more because their queue was full",
     &QueueNumbers::retries_postponed},
};
struct ReasonCounter {
  const char* name;
  const char* help;
  std::map<std::string, uint64_t> QueueNumbers::*counts;
};
inline const ReasonCounter kReasonCounters[] = {
    {"tarrymq_dead_lettered_total", "Messages that were dead-lettered, by reason",
     &QueueNumbers::dead_lettered},
    {"tarrymq_dropped_total", "Dead letters that no queue took, by the reason of their death",
     &QueueNumbers::dropped},
};

/// How late retries that came due were let in (retry-spec 40).
inline constexpr const char* kLagName = "tarrymq_retry_lag_seconds";
inline constexpr const char* kLagHelp =
    "How long after its due time a retry was let into its queue";

inline const std::vector<double>& lag_bounds_s() {
  static const std::vector<double> kBounds = [] {
    std::vector<double> seconds;
    for (uint64_t ms : kRetryLagBoundsMs) seconds.push_back(as_double(ms) / 1000);
    return seconds;
  }();
  return kBounds;
}
inline std::vector<uint64_t> lag_counts(const QueueNumbers& n) {
  return {n.retry_lag.begin(), n.retry_lag.end()};
}

inline std::vector<prometheus::ClientMetric::Label> labels_of(const QueueInfo& queue) {
  return {{"vhost", queue.vhost}, {"queue", queue.name}};
}

/// Of queues that never had to do with them these families say nothing.
inline bool tells_of_retries(const QueueInfo& queue) {
  return queue.retry_enabled || !queue.numbers.dead_lettered.empty() ||
         !queue.numbers.dropped.empty();
}

inline MetricSeries series_of(const QueueRows& queues, const QueueMetric& metric,
                              std::string name) {
  const prometheus::MetricType type =
      metric.is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  return {std::move(name), metric.help, type, queues->size(),
          [queues, &metric](size_t row, std::vector<prometheus::ClientMetric>& samples) {
            const QueueInfo& queue = (*queues)[row];
            prometheus::ClientMetric& sample = samples.emplace_back();
            sample.label = labels_of(queue);
            const double value = as_double(metric.value(queue.numbers));
            if (metric.is_counter)
              sample.counter.value = value;
            else
              sample.gauge.value = value;
          }};
}

inline MetricSeries series_of(const QueueRows& queues, const RetryCounter& counter) {
  return {counter.name, counter.help, prometheus::MetricType::Counter, queues->size(),
          [queues, &counter](size_t row, std::vector<prometheus::ClientMetric>& samples) {
            const QueueInfo& queue = (*queues)[row];
            if (!tells_of_retries(queue)) return;
            prometheus::ClientMetric& sample = samples.emplace_back();
            sample.label = labels_of(queue);
            sample.counter.value = as_double(queue.numbers.*counter.count);
          }};
}

inline MetricSeries lag_series(const QueueRows& queues) {
  return {kLagName, kLagHelp, prometheus::MetricType::Histogram, queues->size(),
          [queues](size_t row, std::vector<prometheus::ClientMetric>& samples) {
            const QueueInfo& queue = (*queues)[row];
            if (!tells_of_retries(queue)) return;
            prometheus::ClientMetric& sample = samples.emplace_back();
            sample.label = labels_of(queue);
            sample.histogram = histogram_of(lag_bounds_s(), lag_counts(queue.numbers),
                                            as_double(queue.numbers.retry_lag_sum_ms) / 1000);
          }};
}

inline MetricSeries series_of(const QueueRows& queues, const ReasonCounter& counter) {
  return {counter.name, counter.help, prometheus::MetricType::Counter, queues->size(),
          [queues, &counter](size_t row, std::vector<prometheus::ClientMetric>& samples) {
            const QueueInfo& queue = (*queues)[row];
            for (const auto& [reason, count] : queue.numbers.*counter.counts) {
              prometheus::ClientMetric& sample = samples.emplace_back();
              sample.label = {{"reason", reason}, {"vhost", queue.vhost}, {"queue", queue.name}};
              sample.counter.value = as_double(count);
            }
          }};
}

/// The figures of all queues together, under our names and RabbitMQ's.
inline void put_queue_sums(MetricsText& out, const QueueNumbers& sums) {
  for (const QueueMetric& metric : kQueueMetrics) {
    for (const std::string& name : names_of(metric, "tarrymq_queue_", "rabbitmq_")) {
      if (metric.is_counter)
        out.counter(name, metric.help, as_double(metric.value(sums)));
      else
        out.gauge(name, metric.help, as_double(metric.value(sums)));
    }
  }
  for (const RetryCounter& counter : kRetryCounters)
    out.counter(counter.name, counter.help, as_double(sums.*counter.count));
  out.histogram(kLagName, kLagHelp, lag_bounds_s(), lag_counts(sums),
                as_double(sums.retry_lag_sum_ms) / 1000);
  for (const ReasonCounter& counter : kReasonCounters) {
    for (const char* reason : kReasons) {
      out.counter(counter.name, counter.help, as_double(count_of(sums.*counter.counts, reason)),
                  {{"reason", reason}});
    }
  }
}

/// The same of each queue. The prefixes: "tarrymq_queue_" and "rabbitmq_", or with "detailed_".
inline std::vector<MetricSeries> queue_series(const QueueRows& queues, const std::string& ours,
                                              const std::string& rabbit) {
  std::vector<MetricSeries> out;
  for (const QueueMetric& metric : kQueueMetrics) {
    for (std::string& name : names_of(metric, ours, rabbit))
      out.push_back(series_of(queues, metric, std::move(name)));
  }
  for (const RetryCounter& counter : kRetryCounters) out.push_back(series_of(queues, counter));
  out.push_back(lag_series(queues));
  for (const ReasonCounter& counter : kReasonCounters) out.push_back(series_of(queues, counter));
  return out;
}

}  // namespace tarry::http
