#pragma once

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/message.h"

namespace tarry::http {

/// The answer that a scrape gets.
inline Response metrics_response(std::string text) {
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = std::move(text);
  return response;
}

/// A family of samples over many objects (one for each queue, say), made a few at a time.
struct MetricSeries {
  std::string name;
  const char* help;  // static
  prometheus::MetricType type;
  size_t rows;  // how many objects there are
  /// Adds the samples of one object: one, none, or several. Holds what it refers to.
  std::function<void(size_t row, std::vector<prometheus::ClientMetric>& samples)> add;
};

/// Writes series, slice by slice.
class SeriesTask : public std::enable_shared_from_this<SeriesTask> {
 public:
  SeriesTask(Responder to, std::string head, std::vector<MetricSeries> series)
      : responder_(std::move(to)), body_(std::move(head)), series_(std::move(series)) {}

  void go_on() {
    for (size_t lines = 0; at_ < series_.size() && lines < kLinesPerSlice;)
      lines += write_some(series_[at_], kLinesPerSlice - lines);
    if (at_ == series_.size()) return responder_.send(metrics_response(std::move(body_)));
    responder_.go_on_later([self = shared_from_this()] { self->go_on(); });
  }

 private:
  static constexpr size_t kLinesPerSlice = 3000;  // a line takes about a microsecond

  /// Returns how much it did, in lines.
  size_t write_some(const MetricSeries& one, size_t lines_max) {
    prometheus::MetricFamily family{one.name, one.help, one.type, {}};
    size_t lines = 1;
    while (row_ < one.rows && lines < lines_max) {
      const size_t before = family.metric.size();
      one.add(row_++, family.metric);
      ++lines;
      for (size_t i = before; i < family.metric.size(); ++i)
        lines += family.metric[i].histogram.bucket.size();
    }
    if (!family.metric.empty()) append(family);
    if (row_ == one.rows) {
      ++at_;
      row_ = 0;
      begun_ = false;
    }
    return lines;
  }

  /// What the family is stands before its first samples alone.
  void append(const prometheus::MetricFamily& family) {
    const std::string text = prometheus::TextSerializer().Serialize({family});
    size_t from = 0;
    while (begun_ && text[from] == '#') from = text.find('\n', from) + 1;
    body_.append(text, from);
    begun_ = true;
  }

  const Responder responder_;
  std::string body_;
  const std::vector<MetricSeries> series_;
  size_t at_ = 0, row_ = 0;
  bool begun_ = false;  // the present one has samples in the body
};

/// Answers with `head` (whole families) and the series behind it, written in slices of some
/// milliseconds, so that the server's thread answers others in between. A series without samples is
/// left out.
inline void send_metrics(Responder responder, std::string head, std::vector<MetricSeries> series) {
  std::make_shared<SeriesTask>(std::move(responder), std::move(head), std::move(series))->go_on();
}

}  // namespace tarry::http
