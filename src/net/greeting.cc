#include "net/greeting.h"

#include <sys/socket.h>

#include <array>

#include "net/tcp_link.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/proxy_header.h"

namespace tarry {
namespace {

using GreetedSocket = boost::asio::ip::tcp::socket;

constexpr int64_t kRefusedMs = 2'000;  // for the peer to read why, and to close
constexpr size_t kPeekBytes = 512;

bool not_yet(ssize_t n) {
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

}  // namespace

Greeting::Greeting(LinkShard& links, GreetedSocket socket, const ListenerKind& kind)
    : links_(links),
      kind_(kind),
      socket_(std::move(socket)),
      peer_(peer_of(socket_)),
      deadline_([this] {
        if (state_ == State::ending) return finish();
        refuse("no handshake within handshake_timeout_ms");
      }) {}

Greeting::~Greeting() = default;

void Greeting::start() {
  links_.shard().timers().schedule(
      deadline_, links_.shard().steady_now().plus_ms(links_.settings().handshake_timeout_ms));
  if (kind_.proxy_sources == nullptr || kind_.proxy_sources->empty()) return begin_tls();
  boost::system::error_code ec;
  const auto from = socket_.remote_endpoint(ec);
  state_ = !ec && kind_.proxy_sources->contains(from.address()) ? State::proxy_header
                                                                : State::looking_for_proxy;
  wait(GreetedSocket::wait_read);
}

void Greeting::wait(GreetedSocket::wait_type what) {
  socket_.async_wait(what, [self = shared_from_this()](const boost::system::error_code& ec) {
    if (!ec) self->go_on();
  });
}

void Greeting::go_on() {
  switch (state_) {
    case State::proxy_header:
      return read_proxy_header();
    case State::looking_for_proxy:
      return look_for_proxy_header();
    case State::tls:
      return shake_hands_in_turn();
    case State::ending:
      return drain();
    case State::over:
      return;
  }
}

void Greeting::read_proxy_header() {
  // Looked at first and then taken, so that not a byte of what follows is.
  std::array<char, kPeekBytes> ahead;
  const ssize_t n =
      ::recv(socket_.native_handle(), ahead.data(), ahead.size(), MSG_DONTWAIT | MSG_PEEK);
  if (not_yet(n)) return wait(GreetedSocket::wait_read);
  if (n <= 0) return finish();
  const size_t before = header_.size();
  header_.append(ahead.data(), static_cast<size_t>(n));
  const ProxyHeader header = parse_proxy_header(as_bytes(header_));
  if (header.status == ProxyHeader::Status::malformed)
    return refuse("bad PROXY header: " + header.fault);
  const bool whole = header.status == ProxyHeader::Status::complete;
  const size_t taken = whole ? header.size - before : static_cast<size_t>(n);
  if (::recv(socket_.native_handle(), ahead.data(), taken, MSG_DONTWAIT) !=
      static_cast<ssize_t>(taken))
    return finish();
  if (!whole) return wait(GreetedSocket::wait_read);
  if (header.connection) {
    const auto source = unmapped(header.connection->source.address);
    peer_.host = source.to_string();
    peer_.port = header.connection->source.port;
    peer_.local_host = unmapped(header.connection->destination.address).to_string();
    peer_.local_port = header.connection->destination.port;
    peer_.loopback = source.is_loopback();
  }
  header_ = {};
  begin_tls();
}

void Greeting::look_for_proxy_header() {
  std::array<std::byte, 12> ahead;
  const ssize_t n =
      ::recv(socket_.native_handle(), ahead.data(), ahead.size(), MSG_DONTWAIT | MSG_PEEK);
  if (not_yet(n)) return wait(GreetedSocket::wait_read);
  if (n <= 0) return finish();
  if (begins_like_proxy_header({ahead.data(), static_cast<size_t>(n)})) {
    return refuse("a PROXY header from an address that is not in proxy_protocol_trusted_sources");
  }
  begin_tls();
}

void Greeting::begin_tls() {
  if (kind_.tls == nullptr) return hand_over();
  state_ = State::tls;
  tls_ = std::make_unique<TlsSession>(*kind_.tls, socket_.native_handle());
  wait(GreetedSocket::wait_read);
}

void Greeting::shake_hands_in_turn() {
  if (links_.may_shake_hands(*this)) shake_hands();
}

void Greeting::go_on_with_tls() {
  if (state_ == State::tls) shake_hands_in_turn();
}

void Greeting::shake_hands() {
  switch (tls_->handshake()) {
    case TlsSession::Step::done:
      break;
    case TlsSession::Step::want_read:
      return wait(GreetedSocket::wait_read);
    case TlsSession::Step::want_write:
      return wait(GreetedSocket::wait_write);
    case TlsSession::Step::failed:
      return refuse("TLS handshake failed: " + tls_->failure());
  }
  peer_.tls = std::make_shared<const TlsFacts>(tls_->facts());
  hand_over();
}

void Greeting::hand_over() {
  auto self = shared_from_this();
  state_ = State::over;
  handed_over_ = true;
  deadline_.cancel();
  links_.begin(std::move(socket_), std::move(peer_), std::move(tls_));
  links_.remove(*this);
}

void Greeting::refuse(const std::string& why) {
  log_for("net")->warn("{}:{} refused: {}", peer_.host, peer_.port, why);
  state_ = State::ending;
  boost::system::error_code ignored;  // the peer may be gone already
  socket_.cancel(ignored);
  socket_.shutdown(GreetedSocket::shutdown_send, ignored);
  links_.shard().timers().schedule(deadline_, links_.shard().steady_now().plus_ms(kRefusedMs));
  drain();
}

/// What still comes is thrown away, so that no reset overtakes TLS' own word of why.
void Greeting::drain() {
  const ssize_t n =
      ::recv(socket_.native_handle(), links_.buffer(), LinkShard::kReceiveBytes, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && !not_yet(n))) return finish();
  wait(GreetedSocket::wait_read);
}

void Greeting::finish() {
  if (state_ == State::over) return;
  auto self = shared_from_this();
  state_ = State::over;
  deadline_.cancel();
  boost::system::error_code ignored;  // nothing to be done about a failed close
  socket_.close(ignored);
  links_.remove(*this);
}

}  // namespace tarry
