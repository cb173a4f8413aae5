#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "net/link_shard.h"
#include "net/tls_session.h"
#include "tarrymq/session/connection.h"

namespace tarry {

/// What comes before AMQP on a new socket: the header of a proxy, the handshake of TLS. Makes the
/// link when all is well, else says why in the log and closes. Own shard; held by the LinkShard,
/// and by a wait in flight.
class Greeting final : public std::enable_shared_from_this<Greeting> {
 public:
  Greeting(LinkShard& links, boost::asio::ip::tcp::socket socket, const ListenerKind& kind);
  ~Greeting();
  void start();
  /// If that is what it waits for: its turn has come (LinkShard::may_shake_hands).
  void go_on_with_tls();
  /// Closes at once.
  void finish();
  /// The socket is a link's now.
  bool handed_over() const { return handed_over_; }

 private:
  enum class State : uint8_t { proxy_header, looking_for_proxy, tls, ending, over };

  void wait(boost::asio::ip::tcp::socket::wait_type what);
  void go_on();
  void read_proxy_header();
  /// Nothing of what the proxy's neighbours say is believed.
  void look_for_proxy_header();
  void begin_tls();
  void shake_hands_in_turn();
  void shake_hands();
  void hand_over();
  void refuse(const std::string& why);
  void drain();

  LinkShard& links_;
  const ListenerKind& kind_;
  boost::asio::ip::tcp::socket socket_;
  Connection::Peer peer_;
  std::string header_;  // of the proxy, as far as it has come
  std::unique_ptr<TlsSession> tls_;
  Timer deadline_;
  State state_ = State::proxy_header;
  bool handed_over_ = false;
};

}  // namespace tarry
