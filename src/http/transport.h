#pragma once

#include <memory>
#include <string>

#include "http/message.h"
#include "tarrymq/http/management_server.h"
#include "tarrymq/runtime/result.h"

namespace tarry::http {

/// Listeners, connections and their thread; knows HTTP, but nothing of the API behind it.
class Transport {
 public:
  /// `api` outlives the transport, and is called on its thread alone.
  static Result<std::unique_ptr<Transport>, std::string> start(const HttpSettings& settings,
                                                               Api& api);
  ~Transport();  // stops
  uint16_t port() const;
  uint16_t tls_port() const;
  void stop();
  /// Runs `work` on the server's thread: at once, then every `ms`, or less often if it takes more
  /// than a hundredth of the time. Until stop().
  void every(uint32_t ms, std::function<void()> work);

 private:
  struct Impl;
  explicit Transport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarry::http
