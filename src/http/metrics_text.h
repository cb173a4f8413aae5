#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>

namespace tarry::http {

/// A histogram's sample; see MetricsText::histogram.
prometheus::ClientMetric::Histogram histogram_of(const std::vector<double>& bounds,
                                                 const std::vector<uint64_t>& counts, double sum);

/// Families of samples in Prometheus' text form. A family is named when first used; its samples
/// keep together.
class MetricsText {
 public:
  using Labels = std::initializer_list<std::pair<const char*, std::string_view>>;

  void counter(const std::string& name, const char* help, double value, Labels labels = {});
  void gauge(const std::string& name, const char* help, double value, Labels labels = {});
  /// `counts`: of each bucket alone, the last one is of what is above all bounds; as long as
  /// `bounds` and one more.
  void histogram(const std::string& name, const char* help, const std::vector<double>& bounds,
                 const std::vector<uint64_t>& counts, double sum, Labels labels = {});
  std::string text() const;

 private:
  prometheus::ClientMetric& add(const std::string& name, const char* help,
                                prometheus::MetricType type, Labels labels);

  std::vector<prometheus::MetricFamily> families_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace tarry::http
