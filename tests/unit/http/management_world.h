#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "fake_management.h"
#include "tarrymq/http/management_server.h"
#include "test_client.h"

namespace tarry::http_test {

/// A management server and a client of it. Both begin with the first request: until then a test may
/// put into `broker` what it wants, from then on the server's threads read it.
class ManagementWorld : public ::testing::Test {
 protected:
  ManagementWorld() { broker.overview_info.node = "tarrymq@test"; }
  Reply get(std::string_view path) { return client->call("GET", path); }

  FakeManagement broker;
  HttpSettings settings{{"127.0.0.1"}, 0};
  struct {
    TestClient* operator->() {
      if (!connection) world.start();
      return connection.get();
    }
    ManagementWorld& world;
    std::unique_ptr<TestClient> connection = nullptr;
  } client{*this};

 private:
  void start() {
    auto started = ManagementServer::start(settings, broker);
    if (!started) throw std::runtime_error(started.error());
    server_ = std::move(*started);
    client.connection = std::make_unique<TestClient>(server_->port());
  }

  std::unique_ptr<ManagementServer> server_;
};

}  // namespace tarry::http_test
