#include "net/link_shard.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "net/greeting.h"
#include "net/tcp_link.h"
#include "tarrymq/runtime/log.h"

namespace tarry {

Connection::Peer peer_of(const boost::asio::ip::tcp::socket& socket) {
  Connection::Peer peer;
  boost::system::error_code ec;
  if (auto remote = socket.remote_endpoint(ec); !ec) {
    const auto address = unmapped(remote.address());
    peer.host = address.to_string();
    peer.port = remote.port();
    peer.loopback = address.is_loopback();
  }
  if (auto local = socket.local_endpoint(ec); !ec) {
    peer.local_host = unmapped(local.address()).to_string();
    peer.local_port = local.port();
  }
  return peer;
}

LinkShard::LinkShard(QueueShard& home, AccessPort& access, ConnectionList& list,
                     const SessionSettings& settings, std::atomic<size_t>& open_links)
    : home_(home),
      access_(access),
      list_(list),
      settings_(settings),
      open_links_(open_links),
      buffer_(kReceiveBytes + kCopiedBytes) {}

LinkShard::~LinkShard() { abort_all(); }

void LinkShard::adopt(int fd, const ListenerKind& kind) {
  using boost::asio::ip::tcp;
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  // Gone already: nothing was promised to it.
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    ::close(fd);
    open_links_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  tcp::socket socket(home_.shard().io());
  boost::system::error_code ec;
  socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, ec);
  if (ec) {
    log_for("net")->warn("a new connection is dropped: {}", ec.message());
    ::close(fd);
    open_links_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (kind.tls == nullptr && (kind.proxy_sources == nullptr || kind.proxy_sources->empty())) {
    Connection::Peer peer = peer_of(socket);
    return begin(std::move(socket), std::move(peer), nullptr);
  }
  auto greeting = std::make_shared<Greeting>(*this, std::move(socket), kind);
  greetings_.emplace(greeting.get(), greeting);
  greeting->start();
}

void LinkShard::begin(boost::asio::ip::tcp::socket socket, Connection::Peer peer,
                      std::unique_ptr<TlsSession> tls) {
  auto link = std::make_shared<TcpLink>(*this, std::move(socket), std::move(tls));
  links_.emplace(link.get(), link);
  link->start(std::move(peer));
}

bool LinkShard::may_shake_hands(Greeting& greeting) {
  if (shook_hands_) {
    crowd_.push_back(greeting.weak_from_this());
    return false;
  }
  shook_hands_ = true;
  shard().post([this] { next_of_the_crowd(); });
  return true;
}

void LinkShard::next_of_the_crowd() {
  shook_hands_ = false;
  while (!crowd_.empty() && !shook_hands_) {
    auto next = crowd_.front().lock();  // gone: it gave up meanwhile
    crowd_.pop_front();
    if (next) next->go_on_with_tls();
  }
}

void LinkShard::abort_all() {
  while (!greetings_.empty()) {
    auto greeting = greetings_.begin()->second;
    greeting->finish();
  }
  while (!links_.empty()) {
    auto link = links_.begin()->second;
    link->finish();
  }
}

void LinkShard::remove(TcpLink& link) {
  if (links_.erase(&link) > 0) open_links_.fetch_sub(1, std::memory_order_relaxed);
}

/// Its socket is closed, or has become a link's.
void LinkShard::remove(Greeting& greeting) {
  if (greetings_.erase(&greeting) > 0 && !greeting.handed_over())
    open_links_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tarry
