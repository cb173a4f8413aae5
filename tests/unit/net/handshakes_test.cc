#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include "tarrymq/net/listener.h"
#include "tarrymq/runtime/tls.h"
#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

/// A certificate that has signed itself, and its key, in one file each; gone with this.
struct CertificateFiles {
  CertificateFiles() {
    std::string pattern = ::testing::TempDir() + "handshakes-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_RSA_gen(2048),
                                                                   EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 60L * 60 * 24 * 90);
    X509_set_pubkey(made.get(), pair.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
    X509_sign(made.get(), pair.get(), EVP_sha256());
    settings.cert = folder + "/server.crt";
    settings.key = folder + "/server.key";
    if (FILE* out = std::fopen(settings.cert.c_str(), "w")) {
      PEM_write_X509(out, made.get());
      std::fclose(out);
    }
    if (FILE* out = std::fopen(settings.key.c_str(), "w")) {
      PEM_write_PrivateKey(out, pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
      std::fclose(out);
    }
  }
  ~CertificateFiles() { std::filesystem::remove_all(folder); }
  CertificateFiles(const CertificateFiles&) = delete;
  CertificateFiles& operator=(const CertificateFiles&) = delete;

  std::string folder;
  TlsSettings settings;
};

/// Shakes hands as far as it can without waiting.
class TlsClient {
 public:
  TlsClient(SSL_CTX* context, uint16_t port)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        session_(SSL_new(context), SSL_free) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
    SSL_set_fd(session_.get(), fd_);
    SSL_set_connect_state(session_.get());
  }
  TlsClient(TlsClient&& other) = delete;
  ~TlsClient() { ::close(fd_); }
  bool connected() const { return connected_; }
  /// True when it is done.
  bool go_on() { return SSL_do_handshake(session_.get()) == 1; }
  bool has_answer() const {
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }

 private:
  int fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> session_;
  bool connected_ = false;
};

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
