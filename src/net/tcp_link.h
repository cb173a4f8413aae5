#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <vector>

#include "net/link_shard.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"
#include "tarrymq/session/outbound_port.h"

namespace tarry {

/// One TCP socket and the connection behind it. Asio only tells when the socket is readable or
/// writable; one recv a readiness, one send a turn (at its end). Own shard. The LinkShard holds it;
/// a wait in flight holds it too.
class TcpLink final : public OutboundPort,
                      public TurnHook,
                      public std::enable_shared_from_this<TcpLink> {
 public:
  /// `tls`: on that socket, its handshake done; null: none.
  TcpLink(LinkShard& links, boost::asio::ip::tcp::socket socket, std::unique_ptr<TlsSession> tls);
  ~TcpLink() override;

  /// After construction by make_shared: makes the connection and begins to read.
  void start(Connection::Peer peer);

  OutboundBuffer& outbound() override { return outbound_; }
  void request_flush() override;
  void set_reading(bool on) override;
  void close_after_flush() override;
  void close_after_peer() override;
  /// At the end of the turn: whoever calls may be in the middle of the connection's work.
  void abort() override;
  void on_turn_end() override;
  /// Ends it at once: the connection is told, and the link leaves its shard.
  void finish();

 private:
  // What is left to do for the socket; each state only goes on to a later one.
  enum class State : uint8_t {
    open,
    flushing,  // send what is left, then half-close
    draining,  // half-closed, or the peer's turn to close: what still comes is thrown away, so that
               // no reset overtakes our last bytes
    closed,
  };

  void wait_readable();
  void wait_writable();
  void on_readable();
  void read_on();
  bool receive();
  void take(const std::byte* data, size_t size);
  void offer_pending();
  void send();
  void begin_drain();
  void drain();
  void end_connection();

  LinkShard& links_;
  boost::asio::ip::tcp::socket socket_;
  const std::unique_ptr<TlsSession> tls_;  // asked for once a read or write, never once a message
  OutboundBuffer outbound_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::byte> pending_;  // received, not consumed yet
  Timer close_timer_;
  State state_ = State::open;
  bool reading_ = true;
  bool offer_wanted_ = false;  // pending_ is worth offering again
  bool read_wanted_ = false;   // at the turn's end
  bool more_there_ = false;    // the last bite was a full one
  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  bool failed_ = false;             // finish at the turn's end
  bool peer_closes_first_ = false;  // no half-close from our side
};

}  // namespace tarry
