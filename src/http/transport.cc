#include "http/transport.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "http/core.h"
#include "http/http_connection.h"
#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/log.h"

namespace tarry::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {
constexpr auto kAcceptPause =
    std::chrono::milliseconds(100);  // after a failed accept (out of descriptors)
constexpr auto kStopPatience = std::chrono::seconds(2);
constexpr auto kSayAgain = std::chrono::seconds(10);  // that there are too many
}  // namespace

void Core::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (!closed_) asio::post(io, std::move(work));
}

void Core::dispose(HttpConnection* connection) {
  {
    std::lock_guard lock(mutex_);
    if (!closed_) {
      return asio::post(io, [this, connection] {
        connections.erase(connection);
        delete connection;
      });
    }
    connections.erase(connection);
  }
  delete connection;
}

void Core::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

struct Transport::Impl {
  struct Listener {
    Listener(asio::io_context& io, const TlsContext* context)
        : acceptor(io), pause(io), tls(context) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    const TlsContext* tls;  // null: none
  };

  Impl(const HttpSettings& settings, Api& api)
      : core(std::make_shared<Core>(settings, api)), patience(core->io), tick(core->io) {}

  /// `port`: 0 for any free one, which it becomes.
  Result<void, std::string> listen(const std::string& address, uint16_t& port,
                                   const TlsContext* tls);
  void accept(Listener& listener);
  bool make_room();
  void stop_on_thread();
  void run_and_wait(std::chrono::milliseconds interval, const std::function<void()>& work);
  void wait_for_connections(std::chrono::steady_clock::time_point deadline);

  std::shared_ptr<Core> core;
  asio::steady_timer patience;
  asio::steady_timer tick;
  std::chrono::steady_clock::time_point next_tick;
  std::chrono::steady_clock::time_point say_again{};
  std::vector<std::unique_ptr<Listener>> listeners;
  uint16_t port = 0, tls_port = 0;
  std::thread thread;
};

Result<void, std::string> Transport::Impl::listen(const std::string& address, uint16_t& wanted,
                                                  const TlsContext* tls) {
  const auto failed = [&](const char* what, const error_code& ec) {
    return "HTTP: cannot " + std::string(what) + " " + address + " port " + std::to_string(wanted) +
           ": " + ec.message();
  };
  error_code ec;
  const auto ip = asio::ip::make_address(address, ec);
  if (ec) return failed("use the address", ec);
  auto listener = std::make_unique<Listener>(core->io, tls);
  const tcp::endpoint endpoint(ip, wanted);
  (void)listener->acceptor.open(endpoint.protocol(), ec);
  if (ec) return failed("listen at", ec);
  (void)listener->acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && ip.is_v6()) (void)listener->acceptor.set_option(asio::ip::v6_only(true), ec);
  if (!ec) (void)listener->acceptor.bind(endpoint, ec);
  if (!ec) (void)listener->acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return failed("listen at", ec);
  wanted = listener->acceptor.local_endpoint(ec).port();
  if (ec) return failed("listen at", ec);
  listeners.push_back(std::move(listener));
  return {};
}

void Transport::Impl::accept(Listener& listener) {
  listener.acceptor.async_accept([this, &listener](error_code ec, tcp::socket socket) {
    if (core->stopping || ec == asio::error::operation_aborted) return;
    if (ec) {
      log_for("http")->warn("cannot accept a connection: {}; trying again", ec.message());
      listener.pause.expires_after(kAcceptPause);
      listener.pause.async_wait([this, &listener](error_code wait_error) {
        if (!wait_error && !core->stopping) accept(listener);
      });
      return;
    }
    if (core->connections.size() < core->settings.connections_max || make_room())
      HttpConnection::begin(std::move(socket), core, listener.tls);
    accept(listener);
  });
}

/// Those who let us wait shall not shut out those who would be served at once. False: there are
/// none, and the new connection is the one too many.
bool Transport::Impl::make_room() {
  count_limit_hit(Limit::http_connections);
  const bool any = !core->waited_for.empty();
  if (any) core->waited_for.front()->abort();
  const auto now = std::chrono::steady_clock::now();
  if (now < say_again) return any;
  say_again = now + kSayAgain;
  log_for("http")->warn("there are {} connections already: closed {}", core->connections.size(),
                        any ? "the one that has let us wait the longest" : "a new one");
  return any;
}

void Transport::Impl::run_and_wait(std::chrono::milliseconds interval,
                                   const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  const auto took = std::chrono::steady_clock::now() - began;
  next_tick = std::max(next_tick + interval, began + 100 * took);
  tick.expires_at(next_tick);
  tick.async_wait([this, interval, work](error_code ec) {
    if (!ec && !core->stopping) run_and_wait(interval, work);
  });
}

void Transport::Impl::stop_on_thread() {
  core->stopping = true;
  tick.cancel();
  error_code ignored;  // a listener that is closed already is what we want
  for (auto& listener : listeners) {
    (void)listener->acceptor.close(ignored);
    listener->pause.cancel();
  }
  const std::vector<HttpConnection*> now(core->connections.begin(), core->connections.end());
  for (HttpConnection* connection : now) connection->finish();
  core->handshakes.let_all_go();
  wait_for_connections(std::chrono::steady_clock::now() + kStopPatience);
}

void Transport::Impl::wait_for_connections(std::chrono::steady_clock::time_point deadline) {
  if (core->connections.empty()) return;
  if (std::chrono::steady_clock::now() >= deadline) {
    const std::vector<HttpConnection*> late(core->connections.begin(), core->connections.end());
    for (HttpConnection* connection : late) connection->abort();
    return;
  }
  patience.expires_after(std::chrono::milliseconds(2));
  patience.async_wait([this, deadline](error_code) { wait_for_connections(deadline); });
}

Transport::Transport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Transport>, std::string> Transport::start(const HttpSettings& settings,
                                                                 Api& api) {
  auto impl = std::make_unique<Impl>(settings, api);
  for (const std::string& address : settings.binds) {
    if (settings.plain) {
      if (impl->port == 0) impl->port = settings.port;
      if (auto bound = impl->listen(address, impl->port, nullptr); !bound) return bound.error();
    }
    if (settings.tls != nullptr) {
      if (impl->tls_port == 0) impl->tls_port = settings.tls_port;
      if (auto bound = impl->listen(address, impl->tls_port, settings.tls); !bound)
        return bound.error();
    }
  }
  if (impl->listeners.empty()) return std::string("HTTP: no address to listen at");
  for (auto& listener : impl->listeners) impl->accept(*listener);
  impl->thread = std::thread([core = impl->core] { core->io.run(); });
  return std::unique_ptr<Transport>(new Transport(std::move(impl)));
}

Transport::~Transport() { stop(); }

void Transport::every(uint32_t ms, std::function<void()> work) {
  impl_->core->post([impl = impl_.get(), ms, work = std::move(work)] {
    impl->next_tick = std::chrono::steady_clock::now();
    impl->run_and_wait(std::chrono::milliseconds(ms), work);
  });
}

uint16_t Transport::port() const { return impl_->port; }
uint16_t Transport::tls_port() const { return impl_->tls_port; }

void Transport::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->core->post([impl = impl_.get()] { impl->stop_on_thread(); });
  impl_->thread.join();
  impl_->core->close();
  impl_->core->io.restart();
  (void)impl_->core->io.poll();  // what was posted meanwhile lets go of its connection
}

}  // namespace tarry::http
