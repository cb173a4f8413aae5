#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>
#include <optional>

#include "http/handshake_turns.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/tls.h"

namespace tarry::http {

/// The socket as TLS has it below: what arrives during a handshake is handed up in its turn, since
/// TLS goes on with it there and then. Server's thread.
class SocketBelowTls {
 public:
  using Plain = boost::beast::tcp_stream;
  using executor_type = Plain::executor_type;
  using lowest_layer_type = Plain::socket_type;

  SocketBelowTls(Plain& plain, HandshakeTurns& turns) : plain_(plain), turns_(turns) {}

  executor_type get_executor() noexcept { return plain_.get_executor(); }
  lowest_layer_type& lowest_layer() noexcept { return plain_.socket(); }
  const lowest_layer_type& lowest_layer() const noexcept { return plain_.socket(); }
  void hands_are_shaken() { shaking_ = false; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (!shaking_) return plain_.async_read_some(buffers, std::forward<Handler>(handler));
    // Shared, since it may be one that can be moved only.
    auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
    plain_.async_read_some(buffers, [this, kept](boost::system::error_code ec, size_t n) {
      if (ec) return (*kept)(ec, n);
      turns_.take([this, kept, n] {
        // Meanwhile the connection may have been given up.
        const bool gone = !plain_.socket().is_open();
        (*kept)(gone ? make_error_code(boost::asio::error::operation_aborted)
                     : boost::system::error_code(),
                n);
      });
    });
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    plain_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  Plain& plain_;
  HandshakeTurns& turns_;
  bool shaking_ = true;
};

/// A client's byte stream, with TLS or without: an AsyncStream to Beast. Its time limits are those
/// of the socket below. Server's thread.
class HttpStream {
 public:
  using Plain = boost::beast::tcp_stream;
  using executor_type = Plain::executor_type;

  /// `context`: null without TLS. `turns`: outlives it.
  HttpStream(boost::asio::ip::tcp::socket socket, const TlsContext* context, HandshakeTurns& turns)
      : plain_(std::move(socket)), below_tls_(plain_, turns) {
    if (context != nullptr) tls_.emplace(below_tls_, new_session(*context));
  }
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  bool has_tls() const { return tls_.has_value(); }
  Plain& plain() { return plain_; }
  boost::asio::ip::tcp::socket& socket() { return plain_.socket(); }
  executor_type get_executor() noexcept { return plain_.get_executor(); }
  void expires_after(std::chrono::milliseconds time) { plain_.expires_after(time); }
  void expires_never() { plain_.expires_never(); }
  void close() { plain_.close(); }

  /// With TLS only.
  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server,
                          [this, done = std::forward<Handler>(handler)](auto ec) mutable {
                            below_tls_.hands_are_shaken();
                            done(ec);
                          });
  }
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    plain_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    plain_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  static SSL* new_session(const TlsContext& context) {
    SSL* session = SSL_new(context.current().get());
    TARRY_INVARIANT(session != nullptr);
    return session;
  }
  Plain plain_;
  SocketBelowTls below_tls_;
  std::optional<boost::asio::ssl::stream<SocketBelowTls&>> tls_;
};

}  // namespace tarry::http
