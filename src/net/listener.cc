#include "tarrymq/net/listener.h"

#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "net/acceptor.h"
#include "net/link_shard.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

using boost::asio::ip::tcp;

/// A descriptor on its way to its shard: closed if it never arrives.
struct SocketInMail {
  int fd;
  explicit SocketInMail(int f) : fd(f) {}
  SocketInMail(SocketInMail&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  SocketInMail& operator=(SocketInMail&&) = delete;
  ~SocketInMail() {
    if (fd >= 0) ::close(fd);
  }
};

Result<tcp::acceptor> listen_on(boost::asio::io_context& io, const ListenAddress& address) {
  boost::system::error_code ec;
  auto host =
      boost::asio::ip::make_address(address.host == "localhost" ? "127.0.0.1" : address.host, ec);
  if (ec) return ec;
  tcp::acceptor acceptor(io);
  acceptor.open(host.is_v6() ? tcp::v6() : tcp::v4(), ec);
  if (ec) return ec;
  acceptor.set_option(boost::asio::socket_base::reuse_address(true), ec);
  if (ec) return ec;
  if (host.is_v6()) acceptor.set_option(boost::asio::ip::v6_only(true), ec);
  if (ec) return ec;
  acceptor.bind(tcp::endpoint(host, address.port), ec);
  if (ec) return ec;
  acceptor.listen(boost::asio::socket_base::max_listen_connections, ec);
  if (ec) return ec;
  acceptor.non_blocking(true, ec);
  if (ec) return ec;
  return acceptor;
}

}  // namespace

struct AmqpListener::Impl {
  SessionSettings settings;
  std::atomic<size_t> open_links{0};
  std::vector<std::unique_ptr<LinkShard>> shards;
  std::vector<std::shared_ptr<Acceptor>> acceptors;
  std::vector<std::unique_ptr<ListenerKind>> kinds;
  std::vector<uint16_t> ports;
  size_t next_shard = 0;  // the accepting shard's
  std::atomic<size_t> connections_max{SIZE_MAX};
  SteadyTime said_full{};  // the accepting shard's: when a refusal was last logged

  Shard& first() { return shards.front()->shard(); }

  /// AMQP has no word for it before its header: the socket is closed.
  void refuse(int fd) {
    constexpr int64_t kSayAgainMs = 10'000;
    ::close(fd);
    count_limit_hit(Limit::connections);
    const SteadyTime now = first().steady_now();
    if (said_full.ns != 0 && now < said_full.plus_ms(kSayAgainMs)) return;
    said_full = now;
    log_for("net")->warn("closed a new connection: there are {} already, connections_max is {}",
                         open_links.load(), connections_max.load());
  }

  void hand_out(int fd, const ListenerKind* kind) {
    if (open_links.load(std::memory_order_relaxed) >=
        connections_max.load(std::memory_order_relaxed))
      return refuse(fd);
    // Here and not where it arrives, or a burst would be let in while its first sockets are on
    // their way.
    open_links.fetch_add(1, std::memory_order_relaxed);
    LinkShard* to = shards[next_shard++ % shards.size()].get();
    if (&to->shard() == Shard::current()) return to->adopt(fd, *kind);
    to->shard().post([to, kind, socket = SocketInMail(fd)]() mutable {
      to->adopt(std::exchange(socket.fd, -1), *kind);
    });
  }
};

AmqpListener::AmqpListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AmqpListener::~AmqpListener() = default;

Result<std::unique_ptr<AmqpListener>> AmqpListener::open(
    std::vector<QueueShard*> homes, AccessPort& access, ConnectionList& list,
    const SessionSettings& settings, const std::vector<ListenAddress>& addresses,
    std::string* failed) {
  TARRY_INVARIANT(!homes.empty());
  auto impl = std::make_unique<Impl>();
  impl->settings = settings;
  for (QueueShard* home : homes) {
    impl->shards.push_back(
        std::make_unique<LinkShard>(*home, access, list, impl->settings, impl->open_links));
  }
  Shard& first = impl->first();
  for (const auto& address : addresses) {
    auto acceptor = listen_on(first.io(), address);
    if (!acceptor) {
      if (failed) *failed = address.host + ":" + std::to_string(address.port);
      return acceptor.error();
    }
    impl->ports.push_back(acceptor->local_endpoint().port());
    impl->kinds.push_back(
        std::make_unique<ListenerKind>(ListenerKind{address.tls, address.proxy_sources}));
    impl->acceptors.push_back(std::make_shared<Acceptor>(
        first, std::move(*acceptor),
        [raw = impl.get(), kind = impl->kinds.back().get()](int fd) { raw->hand_out(fd, kind); }));
  }
  return std::unique_ptr<AmqpListener>(new AmqpListener(std::move(impl)));
}

const std::vector<uint16_t>& AmqpListener::ports() const { return impl_->ports; }

void AmqpListener::start() {
  for (auto& acceptor : impl_->acceptors) impl_->first().post([acceptor] { acceptor->start(); });
}

void AmqpListener::stop() {
  for (auto& acceptor : impl_->acceptors) impl_->first().post([acceptor] { acceptor->stop(); });
}

void AmqpListener::abort_all(std::function<void()> done) {
  // Behind whatever sockets are still on their way: the accepting shard posts to each of them.
  impl_->first().post([impl = impl_.get(), done = std::move(done)] {
    auto left = std::make_shared<std::atomic<size_t>>(impl->shards.size());
    for (auto& links : impl->shards) {
      links->shard().post([impl, links = links.get(), left, done] {
        links->abort_all();
        if (left->fetch_sub(1) == 1) impl->first().post([done] { done(); });
      });
    }
  });
}

void AmqpListener::set_connections_max(size_t count) { impl_->connections_max = count; }

size_t AmqpListener::open_links() const {
  return impl_->open_links.load(std::memory_order_relaxed);
}

}  // namespace tarry
