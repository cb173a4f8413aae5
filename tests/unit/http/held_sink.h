#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "http/message.h"

namespace tarry::http_test {

/// Keeps what is to run later until the test lets it.
struct HeldSink : http::Responder::Sink {
  std::vector<std::function<void()>>& later;
  std::optional<http::Response>& answer;
  HeldSink(std::vector<std::function<void()>>& l, std::optional<http::Response>& a)
      : later(l), answer(a) {}
  void deliver(http::Response response) override { answer = std::move(response); }
  void run_on_server(std::function<void()> work) override { later.push_back(std::move(work)); }
};

}  // namespace tarry::http_test
