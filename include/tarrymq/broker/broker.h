#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tarrymq/broker/management.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/session/connection_list.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

class Shard;
class Store;

struct BrokerOptions {
  std::string default_user =
      "guest";  // made with the store, an administrator with all rights on "/"
  std::string default_password = "guest";
  bool default_user_loopback_only = true;  // the default user may log in from this machine only
  uint32_t login_failure_delay_ms = 200;   // a refused log-in is answered this much later
  uint32_t login_failures_per_minute =
      60;  // of one address, beyond which it is refused unheard; 0: no cap
  // Of a message that is published over HTTP: as sessions have them.
  uint32_t frame_max = 131'072;
  uint64_t max_message_bytes = 128ull << 20;
  std::string node_name = "tarrymq@localhost";
  uint32_t goodbye_timeout_ms = 1'000;  // most that close_connections() waits for clients to answer
  uint32_t stop_timeout_ms = 10'000;    // most that stop() waits for the disk
  bool shards_share_thread =
      false;  // for tests: start() itself does what is each shard's to do; they need not run
};

/// The whole broker behind its listeners: vhosts, users, policies, exchanges, queues. One a
/// process. Order of life: open() before the shards run; their threads start; start(); listeners;
/// then stop listening, close_connections(), end the sockets that are left, stop(), stop and join
/// the shards, destroy the broker, destroy the store.
class Broker {
 public:
  /// Before the shards run. Makes a QueueShard for each of `shards` (at least one); all must
  /// outlive the broker. The error is one clear line.
  static Result<std::unique_ptr<Broker>, std::string> open(BrokerOptions options, Store& store,
                                                           const Clock& clock,
                                                           std::vector<Shard*> shards);
  virtual ~Broker() = default;

  /// Reads the definitions and brings every queue back on its shard, all shards at once. Blocks;
  /// the shards must be running. On return clients may connect. The error is one clear line
  /// (definitions missing over data, damage).
  virtual Result<void, std::string> start() = 0;

  /// Connections get 320 ("broker forced connection closure with reason 'shutdown'"). Blocks until
  /// all have ended, goodbye_timeout_ms at most. Who has not answered by then is for the listener
  /// to end, which gives back what is unacknowledged: before stop(), so that it is stored as
  /// returned (retry-spec 16).
  virtual void close_connections() = 0;
  /// Everything that is in memory goes to the disk; connections that are still there are closed as
  /// above first. Blocks, stop_timeout_ms at most (and the good-bye); the shards must still run.
  /// True if all was flushed.
  virtual bool stop() = 0;

  virtual size_t shard_count() const = 0;
  /// What Connection::create() takes as `home` on shard `index`.
  virtual QueueShard& queue_shard(size_t index) = 0;
  virtual AccessPort& access() = 0;
  /// The open connections: what the listener and Connection::create() take. Outlives them.
  virtual ConnectionList& connections() = 0;
  virtual Management& management() = 0;
};

}  // namespace tarry
