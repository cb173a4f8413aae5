#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "perf/histogram.h"
#include "perf/options.h"
#include "perf/process_stats.h"

namespace tarry::perf {

/// The JSON line at the end. Keys and texts are our own: nothing needs escaping.
class Report {
 public:
  explicit Report(const Options& options) { text("scenario", options.scenario); }
  Report& text(std::string_view key, std::string_view value) {
    return raw(key, "\"" + std::string(value) + "\"");
  }
  Report& number(std::string_view key, uint64_t value) { return raw(key, std::to_string(value)); }
  Report& real(std::string_view key, double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return raw(key, text);
  }
  /// `n` in `seconds`, as a whole number a second.
  Report& rate(std::string_view key, uint64_t n, double seconds) {
    return real(key, seconds > 0 ? static_cast<double>(n) / seconds : 0, 0);
  }
  /// Quantiles in us, keys `p50_us` and so on behind the prefix.
  Report& quantiles(const std::string& prefix, const Histogram& histogram) {
    auto us = [](uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
    return real(prefix + "p50_us", us(histogram.at(0.5)), 1)
        .real(prefix + "p90_us", us(histogram.at(0.9)), 1)
        .real(prefix + "p99_us", us(histogram.at(0.99)), 1)
        .real(prefix + "p999_us", us(histogram.at(0.999)), 1)
        .real(prefix + "max_us", us(histogram.max()), 1);
  }
  /// What the generator and the broker used; `messages` for the share of one.
  Report& costs(const ProcessStats& before, const ProcessStats& after, uint64_t messages) {
    double broker = after.cpu_seconds - before.cpu_seconds;
    return real("own_cpu_s", process_stats(0).cpu_seconds, 2)
        .real("broker_cpu_s", broker, 4)
        .real("broker_cpu_ns_per_message",
              messages > 0 ? broker * 1e9 / static_cast<double>(messages) : 0, 0)
        .number("broker_rss_peak_bytes", after.rss_peak_bytes);
  }
  void print() const {
    std::printf("%s}\n", line_.c_str());
    std::fflush(stdout);
  }

 private:
  Report& raw(std::string_view key, const std::string& value) {
    line_ += line_.empty() ? "{\"" : ",\"";
    line_ += key;
    line_ += "\":" + value;
    return *this;
  }
  std::string line_;
};

}  // namespace tarry::perf
