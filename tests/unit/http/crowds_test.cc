// More clients than can be served at once, and those among them who let the server wait.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>

#include "http/handshake_turns.h"
#include "http/transport.h"
#include "support/tls_client.h"
#include "tarrymq/runtime/limit_hits.h"
#include "test_client.h"

namespace tarry::http {
namespace {

using http_test::TestClient;
using tarry::testing::CertificateFiles;
using tarry::testing::TlsClient;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// "/hold" keeps the responder until it is let go, "/refuse" is refused before its body.
class HoldingApi final : public Api {
 public:
  void admit(Request& head, Admitted done) override {
    if (!head.segments.empty() && head.segments[0] == "refuse")
      return done(Response::forbidden("no"), {});
    done(std::nullopt, {});
  }
  void serve(std::shared_ptr<Request> request, Responder responder) override {
    if (request->segments.empty() || request->segments[0] != "hold")
      return responder.send(Response::json(Json{{"all", "done"}}));
    std::lock_guard lock(mutex_);
    held_.push_back(std::move(responder));
    changed_.notify_all();
  }
  bool holds(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return held_.size() >= count; });
  }
  void let_go() {
    std::lock_guard lock(mutex_);
    for (Responder& responder : held_) responder.send(Response::no_content());
    held_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Responder> held_;
};

uint64_t refused() { return limit_hits()[static_cast<size_t>(Limit::http_connections)].hits; }

class Crowds : public ::testing::Test {
 protected:
  Crowds() {
    std::signal(SIGPIPE, SIG_IGN);  // as the daemon does
    settings.port = settings.tls_port = 0;
  }
  void start() {
    auto started = Transport::start(settings, api);
    ASSERT_TRUE(started) << started.error();
    server = std::move(*started);
  }
  void start_with_tls() {
    made = TlsContext::open(files.settings, false);
    ASSERT_TRUE(made) << made.error();
    settings.tls = made->get();
    start();
  }
  std::unique_ptr<TlsClient> tls_client() {
    return std::make_unique<TlsClient>(context.get(), server->tls_port());
  }

  CertificateFiles files;
  Result<std::unique_ptr<TlsContext>, std::string> made = std::string("not opened");
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()),
                                                            SSL_CTX_free};
  HoldingApi api;
  HttpSettings settings;
  std::unique_ptr<Transport> server;
};

TEST(HandshakeTurns, BetweenTwoStepsAllElseHasItsTurn) {
  boost::asio::io_context io;
  HandshakeTurns turns(io);
  constexpr int kCrowd = 20;
  std::vector<int> others_before;  // how often others had their turn before each step
  int others = 0;
  std::function<void()> other = [&] {
    ++others;
    if (others_before.size() < kCrowd) boost::asio::post(io, other);
  };
  for (int i = 0; i < 5; ++i) boost::asio::post(io, other);
  boost::asio::post(io, [&] {
    for (int i = 0; i < kCrowd; ++i) turns.take([&] { others_before.push_back(others); });
  });
  io.run();
  ASSERT_EQ(others_before.size(), static_cast<size_t>(kCrowd));
  for (size_t i = 1; i < kCrowd; ++i) EXPECT_GE(others_before[i] - others_before[i - 1], 5) << i;
}

TEST(HandshakeTurns, TheFirstComeFirst) {
  boost::asio::io_context io;
  HandshakeTurns turns(io);
  std::vector<int> order;
  for (int i = 0; i < 10; ++i) turns.take([&order, i] { order.push_back(i); });
  EXPECT_EQ(order.size(), 1u);
  io.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(Crowds, AllOfACrowdOfHandshakesComeThrough) {
  settings.header_timeout_ms = settings.idle_timeout_ms = 600'000;
  start_with_tls();
  std::vector<std::unique_ptr<TlsClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(tls_client());
    ASSERT_TRUE(clients.back()->connected());
    (void)clients.back()->go_on();  // its first word, and perhaps all of it
  }
  EXPECT_EQ(TestClient(server->port()).call("GET", "/").status, 200);
  for (auto& client : clients) {
    ASSERT_TRUE(client->shake_hands());
    ASSERT_TRUE(client->send(kGet));
    EXPECT_NE(client->receive_until("}").find(" 200 "), std::string::npos);
  }
}

TEST_F(Crowds, ACrowdOfHandshakesDoesNotKeepItFromStopping) {
  start_with_tls();
  std::vector<std::unique_ptr<TlsClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(tls_client());
    (void)clients.back()->go_on();  // its first word, and perhaps all of it
  }
  server->stop();
}

TEST_F(Crowds, HalfAHandshakeTakesNobodysPlace) {
  settings.connections_max = 4;
  settings.header_timeout_ms = 600'000;
  const uint64_t before = refused();
  start_with_tls();
  std::vector<std::unique_ptr<TlsClient>> half;
  for (int i = 0; i < 10; ++i) {
    half.push_back(tls_client());
    ASSERT_TRUE(half.back()->send_raw("\x16\x03\x01\x02"));
  }
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(half[i]->has_answer(10'000)) << i << " is still there";
  for (int n = 0; n < 6; ++n) {
    TestClient plain(server->port());
    EXPECT_EQ(plain.call("GET", "/").status, 200);
    auto secured = tls_client();
    ASSERT_TRUE(secured->shake_hands());
    ASSERT_TRUE(secured->send(kGet));
    EXPECT_NE(secured->receive_until("}").find(" 200 "), std::string::npos);
  }
  EXPECT_GE(refused() - before, 6u);
}

TEST_F(Crowds, OneTooManyTakesThePlaceOfWhoLetsItWaitTheLongest) {
  settings.connections_max = 3;
  start();
  TestClient first(server->port()), second(server->port()), half(server->port());
  EXPECT_EQ(first.call("GET", "/").status, 200);
  EXPECT_EQ(half.call("GET", "/").status, 200);
  half.send_raw("GET / HT");
  EXPECT_EQ(second.call("GET", "/").status, 200);
  EXPECT_EQ(first.call("GET", "/").status, 200);  // and now the half of a request is the oldest
  TestClient third(server->port());
  EXPECT_EQ(third.call("GET", "/").status, 200);
  EXPECT_TRUE(half.closed_by_peer());
  EXPECT_EQ(second.call("GET", "/").status, 200);
  EXPECT_EQ(first.call("GET", "/").status, 200);
}

TEST_F(Crowds, WhoIsBeingServedKeepsHisPlace) {
  settings.connections_max = 2;
  start();
  TestClient one(server->port()), two(server->port());
  for (TestClient* client : {&one, &two}) client->send_raw("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(api.holds(2));
  TestClient three(server->port());
  EXPECT_TRUE(three.closed_by_peer());
  api.let_go();
  for (TestClient* client : {&one, &two}) EXPECT_EQ(client->read_reply().status, 204);
}

TEST_F(Crowds, WhoIsRefusedAndGoesOnSendingIsClosedAllTheSame) {
  start();
  TestClient client(server->port());
  client.send_raw("POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 403);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (client.send_raw("more")) ASSERT_LT(std::chrono::steady_clock::now(), end);
}

}  // namespace
}  // namespace tarry::http
