#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>

#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/tls.h"

namespace tarry::http {

/// A client's byte stream, with TLS or without: an AsyncStream to Beast. Its time limits are those
/// of the socket below. Server's thread.
class HttpStream {
 public:
  using Plain = boost::beast::tcp_stream;
  using executor_type = Plain::executor_type;

  /// `context`: null without TLS.
  HttpStream(boost::asio::ip::tcp::socket socket, const TlsContext* context)
      : plain_(std::move(socket)) {
    if (context != nullptr) tls_.emplace(plain_, new_session(*context));
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
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
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
  std::optional<boost::asio::ssl::stream<Plain&>> tls_;
};

}  // namespace tarry::http
