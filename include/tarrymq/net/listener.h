#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/networks.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/tls.h"
#include "tarrymq/session/connection.h"
#include "tarrymq/session/connection_list.h"

namespace tarry {

struct ListenAddress {
  std::string host;                 // a numeric IPv4 or IPv6 address; "localhost" means 127.0.0.1
  uint16_t port = 0;                // 0: any free one
  const TlsContext* tls = nullptr;  // AMQPS; null: without TLS. Outlives the listener
  const Networks* proxy_sources =
      nullptr;  // who begins with a PROXY header; null: nobody. Outlives the listener
};

/// AMQP over TCP: accepts on the first shard and hands the sockets to all shards in turn. Each
/// socket becomes a link that owns its Connection and lives on its shard. Life: open() (bound and
/// listening, so that a port in use is known at once), start(), connections come as the shards run,
/// stop(), and destroy it after the shards have stopped.
class AmqpListener {
 public:
  /// What is not owned outlives the listener. Errors: those of bind and listen, for the address in
  /// `failed`.
  static Result<std::unique_ptr<AmqpListener>> open(std::vector<QueueShard*> homes,
                                                    AccessPort& access, ConnectionList& list,
                                                    const SessionSettings& settings,
                                                    const std::vector<ListenAddress>& addresses,
                                                    std::string* failed = nullptr);
  ~AmqpListener();
  AmqpListener(const AmqpListener&) = delete;
  AmqpListener& operator=(const AmqpListener&) = delete;

  /// The ports in the order of the addresses (what a port 0 became).
  const std::vector<uint16_t>& ports() const;

  /// Beyond so many open sockets a new one is closed at once, counted (runtime/limit_hits.h) and
  /// logged now and then. Any thread.
  void set_connections_max(size_t count);
  /// Takes connections from here on; those who knocked since open() have waited. Any thread, once.
  void start();
  /// No new connections from here on, nor after a start() to come; those that are open stay. Any
  /// thread.
  void stop();
  /// Closes every socket at once, those in the handshake included; the connections give back what
  /// is unacknowledged. Any thread; `done` runs on the first shard when all shards have done so.
  void abort_all(std::function<void()> done);
  /// Sockets that are open, in whatever state. Any thread.
  size_t open_links() const;

 private:
  struct Impl;
  explicit AmqpListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarry
