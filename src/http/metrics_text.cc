#include "http/metrics_text.h"

#include <prometheus/text_serializer.h>

#include <limits>

namespace tarry::http {

prometheus::ClientMetric& MetricsText::add(const std::string& name, const char* help,
                                           prometheus::MetricType type, Labels labels) {
  const auto [place, is_new] = places_.try_emplace(name, families_.size());
  if (is_new) {
    prometheus::MetricFamily family;
    family.name = name;
    family.help = help;
    family.type = type;
    families_.push_back(std::move(family));
  }
  auto& metric = families_[place->second].metric.emplace_back();
  for (const auto& [label, value] : labels) metric.label.push_back({label, std::string(value)});
  return metric;
}

void MetricsText::counter(const std::string& name, const char* help, double value, Labels labels) {
  add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void MetricsText::gauge(const std::string& name, const char* help, double value, Labels labels) {
  add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

prometheus::ClientMetric::Histogram histogram_of(const std::vector<double>& bounds,
                                                 const std::vector<uint64_t>& counts, double sum) {
  prometheus::ClientMetric::Histogram histogram;
  uint64_t so_far = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    so_far += counts[i];
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({so_far, bound});
  }
  histogram.sample_count = so_far;
  histogram.sample_sum = sum;
  return histogram;
}

void MetricsText::histogram(const std::string& name, const char* help,
                            const std::vector<double>& bounds, const std::vector<uint64_t>& counts,
                            double sum, Labels labels) {
  add(name, help, prometheus::MetricType::Histogram, labels).histogram =
      histogram_of(bounds, counts, sum);
}

std::string MetricsText::text() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace tarry::http
