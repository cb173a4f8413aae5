#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/tls.h"

namespace tarry {

class Broker;
class Management;
class Networks;
class ProcessOperations;

/// Where the management API listens, and its limits. From the daemon's settings.
struct HttpSettings {
  std::vector<std::string> binds{"127.0.0.1"};  // addresses as text, IPv4 or IPv6
  uint16_t port = 15672;                        // 0: any free port (the same at every address)
  bool plain = true;                            // false: no listener without TLS
  const TlsContext* tls =
      nullptr;                // for a listener with TLS beside it, or instead; outlives the server
  uint16_t tls_port = 15671;  // of that; 0: any free port
  uint32_t hsts_s = 0;        // Strict-Transport-Security there; 0: no such header
  const Networks* proxy_sources =
      nullptr;  // who begins with a PROXY header; null: nobody. Outlives the server
  uint32_t idle_timeout_ms = 60'000;        // between two requests of a connection
  uint32_t header_timeout_ms = 10'000;      // from a request's first byte to the end of its header
  uint32_t body_timeout_ms = 30'000;        // a request without any progress, an answer in all
  uint32_t header_bytes_max = 32 << 10;     // more: 431
  uint64_t body_bytes_max = 64ull << 20;    // of definitions and messages; more: 413
  uint64_t small_body_bytes_max = 1 << 20;  // of all else; more: 413
  uint32_t connections_max = 1024;          // more: who lets it wait the longest is closed
  uint32_t sample_interval_ms = 5'000;      // between two points of rates and charts
  ProcessOperations* process = nullptr;     // backup, drain; outlives the server. Null: none
};

/// The HTTP management API (RabbitMQ's paths and fields, and our own beside them) on a thread of
/// its own. Reads the broker's figures without stopping a shard; what changes something is a
/// command to the broker, and its answer is sent when it is durable.
class ManagementServer {
 public:
  /// Listens at every address, or nowhere: the error is one line that names the address and the
  /// cause. `broker` outlives the server.
  static Result<std::unique_ptr<ManagementServer>, std::string> start(HttpSettings settings,
                                                                      Broker& broker);
  static Result<std::unique_ptr<ManagementServer>, std::string> start(HttpSettings settings,
                                                                      Management& management);
  /// Figures for Prometheus alone (/metrics and below), for who can reach the port: no log-in.
  static Result<std::unique_ptr<ManagementServer>, std::string> start_metrics(
      HttpSettings settings, Management& management);
  ~ManagementServer();  // stops
  ManagementServer(const ManagementServer&) = delete;
  ManagementServer& operator=(const ManagementServer&) = delete;

  uint16_t port() const;
  uint16_t tls_port() const;  // 0: none
  /// No new requests; those being answered get two seconds. Blocks until the thread has ended.
  /// Idempotent. To be called while the broker still runs.
  void stop();

 private:
  struct Impl;
  explicit ManagementServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarry
