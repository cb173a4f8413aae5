#include "http/transport.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "tarrymq/runtime/networks.h"
#include "test_client.h"

namespace tarry::http {
namespace {

using http_test::Reply;
using http_test::TestClient;

/// Echoes the body. "/who" says where the client is; "/hold" keeps the responder, "/drop" drops it;
/// "/refuse" is refused before the body. The body of "/large" may be that.
class EchoApi final : public Api {
 public:
  void admit(Request& head, Admitted done) override {
    if (!head.segments.empty() && head.segments[0] == "refuse")
      return done(Response::forbidden("no"), {});
    head.may_be_large = !head.segments.empty() && head.segments[0] == "large";
    done(std::nullopt, {});
  }
  void serve(std::shared_ptr<Request> request, Responder responder) override {
    const std::string what = request->segments.empty() ? "" : request->segments[0];
    if (what == "drop") return;
    if (what == "hold") {
      std::lock_guard lock(mutex);
      held.push_back(std::move(responder));
      arrived.set_value();
      return;
    }
    Response response;
    response.content_type = "text/plain";
    response.body = what != "who"
                        ? std::move(request->body)
                        : request->peer_host + (request->peer_loopback ? ", this machine" : "");
    responder.send(std::move(response));
  }
  std::mutex mutex;
  std::vector<Responder> held;
  std::promise<void> arrived;
};

class TransportTest : public ::testing::Test {
 protected:
  void start(HttpSettings settings = {}) {
    settings.port = 0;
    auto started = Transport::start(settings, api);
    ASSERT_TRUE(started) << started.error();
    server = std::move(*started);
  }
  void start_behind(const char* proxies, HttpSettings settings = {}) {
    auto parsed = Networks::parse(proxies);
    ASSERT_TRUE(parsed);
    behind = std::move(*parsed);
    settings.proxy_sources = &behind;
    start(settings);
  }
  EchoApi api;
  Networks behind;  // outlives the server
  std::unique_ptr<Transport> server;
};

TEST_F(TransportTest, AConnectionServesManyRequests) {
  start();
  TestClient client(server->port());
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(client.call("POST", "/", "body " + std::to_string(i)).body,
              "body " + std::to_string(i));
}

TEST_F(TransportTest, ARequestThatComesByteByByteIsServed) {
  start();
  TestClient client(server->port());
  for (const char c : std::string("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"))
    client.send_raw({&c, 1});
  EXPECT_EQ(client.read_reply().body, "abc");
}

TEST_F(TransportTest, RequestsSentAheadAreAnsweredInOrder) {
  start();
  TestClient client(server->port());
  std::string both;
  for (const char* body : {"1", "2", "3"})
    both += std::string("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n") + body;
  client.send_raw(both);
  for (const char* body : {"1", "2", "3"}) EXPECT_EQ(client.read_reply().body, body);
}

TEST_F(TransportTest, ChunkedBodiesArePutTogether) {
  start();
  TestClient client(server->port());
  client.send_raw(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "abc");
}

TEST_F(TransportTest, ContinueIsSentToWhoWaitsForIt) {
  start();
  TestClient client(server->port());
  client.send_raw(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 100);
  client.send_raw("ab");
  EXPECT_EQ(client.read_reply().body, "ab");
}

TEST_F(TransportTest, ABodyOverTheLimitIs413) {
  HttpSettings settings;
  settings.body_bytes_max = 1000;
  start(settings);
  TestClient known(server->port());
  known.send_raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(known.read_reply().status, 413);
  TestClient chunked(server->port());
  chunked.send_raw("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                   std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_reply().status, 413);
  EXPECT_EQ(TestClient(server->port()).call("POST", "/", std::string(1000, 'x')).body.size(),
            1000u);
}

TEST_F(TransportTest, OnlyWhatMayBeLargeIsTakenThen) {
  HttpSettings settings;
  settings.small_body_bytes_max = 1000;
  start(settings);
  const std::string most(1000, 'x'), more(1001, 'x');
  EXPECT_EQ(TestClient(server->port()).call("POST", "/", most).body, most);
  EXPECT_EQ(TestClient(server->port()).call("POST", "/large", more).body, more);
  const Reply known = TestClient(server->port()).call("POST", "/", more);
  EXPECT_EQ(known.status, 413);
  EXPECT_NE(known.body.find("larger than 1000 bytes"), std::string::npos) << known.body;
  TestClient chunked(server->port());
  chunked.send_raw("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                   more + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_reply().status, 413);
}

TEST_F(TransportTest, WhatAProxyMayReadOtherwiseIs400) {
  start();
  for (const std::string head :
       {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n", "POST / HTTP/1.1\r\n"}) {
    TestClient client(server->port());
    // Where the next request would begin for who takes it that there is no body.
    client.send_raw(head + "\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    EXPECT_EQ(client.read_reply().status, 400) << head;
    EXPECT_TRUE(client.closed_by_peer()) << head;
  }
  TestClient old(server->port());
  old.send_raw("POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_EQ(old.read_reply().body, "x");
}

TEST_F(TransportTest, AHeaderOverTheLimitIs431) {
  start();
  TestClient client(server->port());
  client.send_raw("GET / HTTP/1.1\r\nX: " + std::string(40'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 431);
}

TEST_F(TransportTest, WhatIsNoHttpIs400) {
  start();
  TestClient client(server->port());
  client.send_raw(std::string_view("AMQP\0\0\x9\x1\r\n\r\n", 12));
  EXPECT_EQ(client.read_reply().status, 400);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(TransportTest, WhoTheClientIsAProxySays) {
  start_behind("127.0.0.1");
  for (const auto& [header, who] :
       std::map<std::string, std::string>{{"PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\n", "192.0.2.7"},
                                          {"PROXY TCP6 ::ffff:192.0.2.7 ::1 5 80\r\n", "192.0.2.7"},
                                          {"PROXY TCP6 ::1 ::1 5 80\r\n", "::1, this machine"},
                                          {"PROXY UNKNOWN\r\n", "127.0.0.1, this machine"}}) {
    TestClient client(server->port());
    client.send_raw(header);
    EXPECT_EQ(client.call("GET", "/who").body, who);
    EXPECT_EQ(client.call("GET", "/who").body, who) << "the second time";
  }
}

TEST_F(TransportTest, AProxyThatSaysNothingOfTheClientIsCutOff) {
  HttpSettings settings;
  settings.header_timeout_ms = 50;
  start_behind("127.0.0.1", settings);
  TestClient silent(server->port()), half(server->port()), other(server->port());
  half.send_raw("PROXY TCP4 192.0.2.7 192.0.2.1 5 ");
  other.send_raw("GET /who HTTP/1.1\r\nHost: a\r\n\r\n");
  for (TestClient* refused : {&silent, &half, &other}) {
    EXPECT_EQ(refused->read_reply().status, 0);
    EXPECT_TRUE(refused->closed_by_peer());
  }
}

TEST_F(TransportTest, AHeaderOfAnotherProxyIsToldFromABadRequest) {
  start_behind("");
  TestClient client(server->port());
  client.send_raw("PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\nGET /who HTTP/1.1\r\nHost: a\r\n\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("http_proxy_protocol_trusted_sources"), std::string::npos);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(TransportTest, APortThatTakesNoHeaderOfAProxySaysSo) {
  start();
  TestClient client(server->port());
  client.send_raw("PROXY TCP4 192.0.2.7 192.0.2.1 5 80\r\nGET /who HTTP/1.1\r\nHost: a\r\n\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("this port takes from nobody"), std::string::npos) << reply.body;
}

TEST_F(TransportTest, ASlowHeaderIsCutOff) {
  HttpSettings settings;
  settings.header_timeout_ms = 50;
  start(settings);
  TestClient client(server->port());
  client.send_raw("GET / HT");
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(TransportTest, AnIdleConnectionIsClosed) {
  HttpSettings settings;
  settings.idle_timeout_ms = 50;
  start(settings);
  TestClient client(server->port());
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(TransportTest, ARefusalKeepsTheConnectionWhenTheBodyIsSmall) {
  start();
  TestClient client(server->port());
  EXPECT_EQ(client.call("POST", "/refuse", "small").status, 403);
  EXPECT_EQ(client.call("POST", "/", "next").body, "next");
  client.send_raw("POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 403);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(TransportTest, HeadHasALengthButNoBody) {
  start();
  TestClient client(server->port());
  const Reply reply = client.call("HEAD", "/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(client.call("POST", "/", "x").body, "x");
}

TEST_F(TransportTest, ADroppedResponderIs500) {
  start();
  EXPECT_EQ(TestClient(server->port()).call("GET", "/drop").status, 500);
}

TEST_F(TransportTest, AnswersMayComeFromAnotherThread) {
  start();
  TestClient client(server->port());
  client.send_raw("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  api.arrived.get_future().wait();
  std::thread([&] { api.held[0].send(Response::json(Json{{"late", true}})); }).join();
  EXPECT_EQ(client.read_reply().json()["late"], true);
}

TEST_F(TransportTest, AnAnswerAfterTheServerHasStoppedGoesNowhere) {
  start();
  TestClient client(server->port());
  client.send_raw("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  api.arrived.get_future().wait();
  server->stop();
  api.held[0].send(Response::no_content());
  api.held.clear();
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(TransportTest, StopClosesIdleConnectionsAtOnce) {
  // The least of three: one that waits for them takes two seconds every time, a busy machine now
  // and then.
  auto least = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 3; ++i) {
    start();
    TestClient client(server->port());
    EXPECT_EQ(client.call("GET", "/").status, 200);
    const auto begin = std::chrono::steady_clock::now();
    server->stop();
    least = std::min(least, std::chrono::steady_clock::now() - begin);
    EXPECT_TRUE(client.closed_by_peer());
  }
  EXPECT_LT(least, std::chrono::milliseconds(1500));
}

TEST_F(TransportTest, APortInUseIsOneLineWithItsName) {
  start();
  HttpSettings settings;
  settings.port = server->port();
  const auto second = Transport::start(settings, api);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().find(std::to_string(server->port())), std::string::npos);
  EXPECT_EQ(second.error().find('\n'), std::string::npos);
}

TEST_F(TransportTest, ABadAddressIsAnError) {
  HttpSettings settings;
  settings.binds = {"not an address"};
  EXPECT_FALSE(Transport::start(settings, api));
}

}  // namespace
}  // namespace tarry::http
