#include "net/tcp_link.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

using boost::asio::ip::tcp;

// How long a peer may take to read our last bytes, and to close its side afterwards.
constexpr int64_t kFlushMs = 5'000;
constexpr int64_t kDrainMs = 2'000;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

TcpLink::TcpLink(LinkShard& links, tcp::socket socket, std::unique_ptr<TlsSession> tls)
    : links_(links),
      socket_(std::move(socket)),
      tls_(std::move(tls)),
      close_timer_([this] { finish(); }) {}

TcpLink::~TcpLink() = default;

void TcpLink::start(Connection::Peer peer) {
  boost::system::error_code ignored;  // options are wishes
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  connection_ = Connection::create(links_.home(), links_.access(), links_.settings(),
                                   std::move(peer), *this, &links_.list());
  if (!tls_) return wait_readable();
  more_there_ = true;  // came with the end of the handshake, perhaps
  read_on();
}

void TcpLink::wait_readable() {
  if (waiting_readable_ || state_ == State::closed) return;
  waiting_readable_ = true;
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->waiting_readable_ = false;
                       if (!ec) self->on_readable();
                     });
}

void TcpLink::wait_writable() {
  if (waiting_writable_ || state_ == State::closed) return;
  waiting_writable_ = true;
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->waiting_writable_ = false;
                       if (!ec && self->state_ != State::closed) self->request_flush();
                     });
}

void TcpLink::on_readable() {
  if (state_ == State::draining) return drain();
  if (state_ != State::open || !reading_) return;
  more_there_ = receive();
  read_wanted_ = true;
  request_flush();
}

/// One bite of a connection in a turn: what it brought is handed on before there is more, or a
/// publisher that knows no pause would leave the consumers of its shard nothing.
void TcpLink::read_on() {
  read_wanted_ = false;
  if (state_ != State::open || !reading_) return;
  if (!more_there_) return wait_readable();
  if (waiting_readable_) return;
  waiting_readable_ = true;  // without asking the kernel first
  links_.shard().post([self = shared_from_this()] {
    self->waiting_readable_ = false;
    self->on_readable();
  });
}

/// True if there is probably more to receive.
bool TcpLink::receive() {
  std::byte* at;
  // A large partial frame is not copied back and forth: it goes on growing where it is.
  const bool in_place = pending_.size() > LinkShard::kCopiedBytes;
  const size_t kept = pending_.size();
  if (in_place) {
    pending_.resize(kept + LinkShard::kReceiveBytes);
    at = pending_.data();
  } else {
    at = links_.buffer();
    if (kept > 0) std::memcpy(at, pending_.data(), kept);
  }
  // Half a large frame here: the rest of it, and more of its kind, is worth a larger bite.
  const size_t wanted =
      kept > LinkShard::kSmallFrameBytes ? LinkShard::kReceiveBytes : LinkShard::kSmallReceiveBytes;
  ssize_t n = tls_ ? tls_->read(at + kept, wanted)
                   : ::recv(socket_.native_handle(), at + kept, wanted, MSG_DONTWAIT);
  if (n <= 0) {
    const int error = errno;
    pending_.resize(kept);
    if (n < 0 && would_block(error)) return false;
    finish();
    return false;
  }
  links_.shard().refresh_now();
  if (in_place) {
    pending_.resize(kept + static_cast<size_t>(n));
    offer_pending();
  } else {
    pending_.clear();
    take(at, kept + static_cast<size_t>(n));
  }
  return static_cast<size_t>(n) == wanted;
}

void TcpLink::take(const std::byte* data, size_t size) {
  const size_t used = connection_->on_bytes({data, size});
  TARRY_INVARIANT(used <= size);
  if (used < size) pending_.assign(data + used, data + size);
  if (pending_.empty() && pending_.capacity() > LinkShard::kCopiedBytes) pending_.shrink_to_fit();
}

void TcpLink::offer_pending() {
  offer_wanted_ = false;
  if (pending_.empty()) return;
  std::vector<std::byte> bytes;
  bytes.swap(pending_);
  const size_t used = connection_->on_bytes(bytes);
  if (used == bytes.size()) return;
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(used));
  pending_ = std::move(bytes);
}

void TcpLink::request_flush() {
  if (state_ != State::closed) links_.shard().at_turn_end(TurnStage::connections, *this);
}

void TcpLink::set_reading(bool on) {
  if (reading_ == on || state_ != State::open) return;
  reading_ = on;
  if (!on) return;
  // Not from here: this may be called from deep inside another connection's bytes.
  offer_wanted_ = true;
  request_flush();
}

void TcpLink::close_after_flush() {
  if (state_ != State::open) return;
  state_ = State::flushing;
  reading_ = false;
  links_.shard().timers().schedule(close_timer_, links_.shard().steady_now().plus_ms(kFlushMs));
  request_flush();
}

void TcpLink::close_after_peer() {
  peer_closes_first_ = true;
  close_after_flush();
}

void TcpLink::abort() {
  if (state_ == State::closed) return;
  failed_ = true;
  reading_ = false;
  request_flush();
}

void TcpLink::on_turn_end() {
  auto self = shared_from_this();
  if (failed_) return finish();
  if (state_ == State::open && reading_ && offer_wanted_) {
    offer_pending();
    read_wanted_ = true;
  }
  if (state_ == State::open || state_ == State::flushing) send();
  if (read_wanted_) read_on();
}

void TcpLink::send() {
  ByteSpan bytes = outbound_.unsent();
  if (!bytes.empty() && !waiting_writable_) {
    ssize_t n = tls_ ? tls_->write(bytes)
                     : ::send(socket_.native_handle(), bytes.data(), bytes.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && !would_block(errno)) return finish();
    if (n > 0) {
      outbound_.consume(static_cast<size_t>(n));
      connection_->on_sent();
    }
    if (n < 0 || static_cast<size_t>(n) < bytes.size()) return wait_writable();
  }
  if (state_ == State::flushing && outbound_.unsent_bytes() == 0) begin_drain();
}

void TcpLink::begin_drain() {
  state_ = State::draining;
  pending_ = {};
  if (!peer_closes_first_) {
    if (tls_) tls_->end_stream();
    boost::system::error_code ignored;  // the peer may be gone already
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  links_.shard().timers().schedule(close_timer_, links_.shard().steady_now().plus_ms(kDrainMs));
  end_connection();
  drain();
}

void TcpLink::drain() {
  ssize_t n =
      ::recv(socket_.native_handle(), links_.buffer(), LinkShard::kReceiveBytes, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && !would_block(errno))) return finish();
  wait_readable();
}

void TcpLink::end_connection() {
  if (!connection_) return;
  // Moved out first: what the connection does on its way out finds no way back in.
  auto connection = std::move(connection_);
  connection->on_closed();
}

void TcpLink::finish() {
  if (state_ == State::closed) return;
  auto self = shared_from_this();
  state_ = State::closed;
  close_timer_.cancel();
  boost::system::error_code ignored;  // nothing to be done about a failed close
  socket_.close(ignored);
  end_connection();
  links_.remove(*this);
}

}  // namespace tarry
