#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "support/tls_client.h"
#include "tarrymq/net/listener.h"
#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

/// On one shard whose turns the test takes.
class Handshakes : public ::testing::Test {
 protected:
  Handshakes() {
    std::signal(SIGPIPE, SIG_IGN);  // as the daemon does
    made = TlsContext::open(files.settings, true);
    listener = AmqpListener::open({&home}, access, list, settings, {{"127.0.0.1", 0, made->get()}});
    (*listener)->start();
  }
  ~Handshakes() override {
    clients.clear();
    (*listener)->stop();
    bool ended = false;
    (*listener)->abort_all([&] { ended = true; });
    EXPECT_TRUE(turns_until([&] { return ended; }));
    EXPECT_EQ((*listener)->open_links(), 0u);
  }
  void connect(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<TlsClient>(context.get(), (*listener)->ports().at(0)));
      ASSERT_TRUE(clients.back()->connected());
    }
    ASSERT_TRUE(turns_until([&] { return (*listener)->open_links() == count; }));
  }
  template <class Holds>
  bool turns_until(Holds holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      shard.run_turn_for_test();
    }
    return true;
  }
  size_t answered() const {
    return static_cast<size_t>(
        std::count_if(clients.begin(), clients.end(), [](auto& c) { return c->has_answer(); }));
  }

  CertificateFiles files;
  SystemClock clock;
  Shard shard{ShardId(0), clock};
  char dummy = 0;
  QueueShard home{shard, *reinterpret_cast<Store*>(&dummy)};
  FakeAccess access{home};
  ConnectionList list;
  SessionSettings settings;
  Result<std::unique_ptr<TlsContext>, std::string> made = std::string("not opened");
  Result<std::unique_ptr<AmqpListener>> listener = boost::system::error_code();
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()),
                                                            SSL_CTX_free};
  std::vector<std::unique_ptr<TlsClient>> clients;
};

TEST_F(Handshakes, OfACrowdATurnHasTwoAtMost) {
  constexpr size_t kCrowd = 40;
  connect(kCrowd);
  for (auto& client : clients) EXPECT_FALSE(client->go_on());
  size_t most = 0, seen = 0;
  EXPECT_TRUE(turns_until([&] {
    const size_t now = answered();
    most = std::max(most, now - seen);
    seen = now;
    return seen == kCrowd;
  }));
  EXPECT_LE(most, 2u);
  size_t done = 0;
  EXPECT_TRUE(turns_until([&] {
    done = 0;
    for (auto& client : clients) done += client->go_on();
    return done == kCrowd;
  }));
}

TEST_F(Handshakes, WhoLeavesTheCrowdIsForgotten) {
  connect(30);
  for (auto& client : clients) EXPECT_FALSE(client->go_on());
  shard.run_turn_for_test();
  for (size_t i = 0; i < 15; ++i) clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i));
  EXPECT_TRUE(turns_until([&] {
    return std::all_of(clients.begin(), clients.end(), [](auto& c) { return c->go_on(); });
  }));
  EXPECT_TRUE(turns_until([&] { return (*listener)->open_links() == 15; }));
}

TEST_F(Handshakes, ACrowdDoesNotKeepItFromStopping) {
  connect(30);
  for (auto& client : clients) EXPECT_FALSE(client->go_on());
  shard.run_turn_for_test();
}

}  // namespace
}  // namespace tarry::testing
