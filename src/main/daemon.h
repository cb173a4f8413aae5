#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "main/broker_time.h"
#include "main/operations.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/http/management_server.h"
#include "tarrymq/net/listener.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/networks.h"
#include "tarrymq/runtime/settings.h"
#include "tarrymq/runtime/tls.h"
#include "tarrymq/storage/store.h"

namespace tarry {

/// The running process: everything from the data directory to the listeners, built in that order
/// and taken down in the reverse one. Main thread only.
class Daemon {
 public:
  /// Settings to a running broker. The error is one clear line (data directory or port in use,
  /// damaged data); what had been started is stopped again.
  static Result<std::unique_ptr<Daemon>, std::string> start(const Settings& settings);
  /// As after stop(), if that was not called.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// "amqp 127.0.0.1:5672, http 127.0.0.1:15672, data ./data": what is open and where.
  std::string where() const;
  /// Certificates and what else of TLS may change while we run; logs what came of it.
  void reload(const Settings& settings);
  /// To be called about once a second: notices a step of the wall clock and the memory in use, and
  /// goes on with a drain.
  void tick();
  /// Whether all shards took a turn since the last call but one; true at the first.
  bool responsive();
  /// No new clients, 320 to those that are there, everything to the disk. Blocks,
  /// goodbye_timeout_ms, shutdown_timeout_ms and a little at most. True if all was flushed.
  bool stop();

 private:
  struct Worker;
  explicit Daemon(const Settings& settings);
  std::string open();  // "" or the error line
  std::string load_definitions();
  std::string open_tls();
  std::string listen();
  std::string listen_http(std::vector<ListenerInfo>& listeners);
  std::string listen_amqp(std::vector<ListenerInfo>& listeners);
  void end_sockets();  // and all shards have taken what these gave back
  void watch_memory();
  void announce_listeners();   // tells the broker those that are open
  Operations::Daemon hooks();  // what backup and drain need of this

  const Settings settings_;
  SessionSettings session_settings_;  // the listener refers to them
  // In the order of their making; destroyed from the last to the first.
  std::unique_ptr<Store> store_;
  std::unique_ptr<BrokerTimeFile> time_file_;
  std::unique_ptr<SystemClock> clock_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<TlsContext> amqps_tls_, https_tls_;
  Networks proxy_sources_, http_proxy_sources_;
  std::mutex listeners_mutex_;  // the next two
  std::vector<ListenerInfo> listeners_;
  bool draining_ = false;  // the AMQP ones are closed
  std::unique_ptr<AmqpListener> listener_;
  std::unique_ptr<Operations> operations_;  // called by the servers below
  std::unique_ptr<ManagementServer> management_, metrics_;
  bool started_ = false;  // the broker was brought up: a stop has something to flush
  bool flushed_ = true;
  bool memory_alarm_ = false;
  std::shared_ptr<std::atomic<size_t>>
      unanswered_;  // shards that have not taken a turn since the last question
};

}  // namespace tarry
