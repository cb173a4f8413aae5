#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/session/outbound_port.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

class ConnectionList;

/// Limits and offers of the AMQP listener; from the settings.
struct SessionSettings {
  uint32_t frame_max = 131072;  // offered; a client may go down to 4096
  uint16_t channel_max = 2047;
  uint16_t heartbeat_s = 60;  // offered; 0: none
  uint64_t max_message_bytes = 128ull << 20;
  uint32_t handshake_timeout_ms = 10'000;
  uint32_t outbound_high_bytes = 1 << 20;  // above it consumers pause
  uint32_t channels_per_connection_default = 0;
};

/// One AMQP connection: the protocol's state machine from header to close, its channels, and the
/// deliveries out of it. Knows no sockets: bytes come in by on_bytes, leave through the port. Own
/// shard. Owned by net's link.
class Connection {
 public:
  struct Peer {
    std::string host;  // as text
    uint16_t port = 0, local_port = 0;
    bool loopback = false;
    std::shared_ptr<const TlsFacts> tls{};  // null: without TLS
    std::string local_host{};               // as text
  };

  /// All references outlive the connection. `list`: where it is listed while open; may be null.
  static std::unique_ptr<Connection> create(QueueShard& home, AccessPort& access,
                                            const SessionSettings& settings, Peer peer,
                                            OutboundPort& port, ConnectionList* list = nullptr);
  virtual ~Connection() = default;  // gives everything unacknowledged back

  virtual ConnectionId id() const = 0;
  /// Bytes as they came, `bytes` = what was not consumed before plus what is new; borrowed for the
  /// call. Returns how many were consumed: less than all when a frame is incomplete or after it
  /// asked the port to stop reading.
  virtual size_t on_bytes(ByteSpan bytes) = 0;
  /// The socket took some of outbound().
  virtual void on_sent() = 0;
  /// The peer closed, the socket failed, or close_after_flush finished. Nothing is sent any more.
  virtual void on_closed() = 0;
  /// From the broker: connection.close with this code and text (320 at shutdown or by the
  /// administrator), then closed.
  virtual void close(uint16_t code, std::string text) = 0;
  /// An alarm: connection.blocked to one that has published, or does so while it is on; from the
  /// latter nothing is read until it is over (connection.unblocked).
  virtual void set_blocked(bool blocked, std::string reason) = 0;
};

}  // namespace tarry
