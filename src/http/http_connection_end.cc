#include "http/http_connection.h"

// How a connection ends, and which one does when there are too many.

namespace tarry::http {

namespace asio = boost::asio;
using boost::system::error_code;
using Milliseconds = std::chrono::milliseconds;

HttpConnection::~HttpConnection() {
  release_body();
  keeps_us_waiting_no_more();
}

void HttpConnection::finish() {
  keep_alive_ = false;
  if (!busy_) abort();
}

void HttpConnection::abort() {
  keeps_us_waiting_no_more();
  error_code ignored;  // closing what is closed is no news
  (void)stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

void HttpConnection::keeps_us_waiting() {
  keeps_us_waiting_no_more();
  place_ = core_->waited_for.insert(core_->waited_for.end(), this);
}

void HttpConnection::keeps_us_waiting_no_more() {
  if (place_ == core_->waited_for.end()) return;
  core_->waited_for.erase(place_);
  place_ = core_->waited_for.end();
}

void HttpConnection::close_gently() {
  if (!stream_.has_tls()) return end_gently();
  stream_.expires_after(Milliseconds(1000));
  stream_.async_shutdown([self = shared_from_this()](error_code) {
    self->end_gently();
  });  // an answer is not owed to us
}

/// The peer may still be sending a body that nobody reads: closing at once would reset the
/// connection and could take the answer with it. So: no more from us, and what comes is thrown away
/// for a moment, however much that is.
void HttpConnection::end_gently() {
  error_code ec;
  (void)stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  if (ec) return abort();
  stream_.expires_after(Milliseconds(1000));
  throw_away();
}

void HttpConnection::throw_away() {
  if (core_->stopping) return abort();
  busy_ = false;
  buffer_.consume(buffer_.size());
  stream_.plain().async_read_some(buffer_.prepare(16384),
                                  [self = shared_from_this()](error_code read_error, size_t) {
                                    if (read_error) return self->abort();
                                    self->throw_away();
                                  });
}

}  // namespace tarry::http
