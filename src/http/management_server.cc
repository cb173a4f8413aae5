#include "tarrymq/http/management_server.h"

#include "http/api.h"
#include "http/transport.h"
#include "tarrymq/broker/broker.h"

namespace tarry {
namespace {

/// Nothing but figures, to anyone.
class MetricsApi final : public http::Api {
 public:
  explicit MetricsApi(Management& broker)
      : context_{broker, {}, broker.overview({}).node, nullptr} {
    http::add_metrics_routes(router_, context_, http::Access::anyone);
  }
  void admit(http::Request& head, Admitted done) override {
    const auto match = router_.match(head.method, head.segments);
    if (match.allow.empty()) return done(http::Response::not_found(), {});
    if (match.route != nullptr) return done(std::nullopt, {});
    done(http::Response::error(405, "method_not_allowed", "allowed: " + match.allow), {});
  }
  void serve(std::shared_ptr<http::Request> request, http::Responder responder) override {
    router_.match(request->method, request->segments)  // NOLINT(bugprone-use-after-move): sequenced
        .route->handler(std::move(request), std::move(responder));
  }

 private:
  http::Context context_;
  http::Router router_;
};

}  // namespace

struct ManagementServer::Impl {
  std::unique_ptr<http::Api> api;
  std::unique_ptr<http::Transport> transport;  // calls the api: ends before it
};

ManagementServer::ManagementServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ManagementServer::~ManagementServer() { stop(); }

Result<std::unique_ptr<ManagementServer>, std::string> ManagementServer::start(
    HttpSettings settings, Broker& broker) {
  return start(std::move(settings), broker.management());
}

Result<std::unique_ptr<ManagementServer>, std::string> ManagementServer::start(
    HttpSettings settings, Management& management) {
  auto api = std::make_unique<http::ManagementApi>(management, settings.process);
  auto transport = http::Transport::start(settings, *api);
  if (!transport) return transport.error();
  (*transport)->every(settings.sample_interval_ms, [api = api.get()] { api->sample(); });
  auto impl = std::make_unique<Impl>(Impl{std::move(api), std::move(*transport)});
  return std::unique_ptr<ManagementServer>(new ManagementServer(std::move(impl)));
}

Result<std::unique_ptr<ManagementServer>, std::string> ManagementServer::start_metrics(
    HttpSettings settings, Management& management) {
  auto api = std::make_unique<MetricsApi>(management);
  auto transport = http::Transport::start(settings, *api);
  if (!transport) return transport.error();
  auto impl = std::make_unique<Impl>(Impl{std::move(api), std::move(*transport)});
  return std::unique_ptr<ManagementServer>(new ManagementServer(std::move(impl)));
}

uint16_t ManagementServer::port() const { return impl_->transport->port(); }
uint16_t ManagementServer::tls_port() const { return impl_->transport->tls_port(); }
void ManagementServer::stop() { impl_->transport->stop(); }

}  // namespace tarry
