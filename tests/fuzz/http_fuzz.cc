#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "fuzz/fuzz_support.h"
#include "tarrymq/http/management_server.h"
#include "tarrymq/runtime/log.h"
#include "unit/broker/broker_fixture.h"

namespace {

using namespace tarry;

// On a machine that has other things to do, and a disk that is behind, 15 s were not enough.
constexpr int kAnswerMs = 60'000;

/// False: not within kAnswerMs. The fuzzer's own alarm ends a poll() early.
bool readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, kAnswerMs);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

/// A broker with its HTTP server, both real.
class FuzzedServer final : public BrokerTest {
 public:
  FuzzedServer() {
    FUZZ_CHECK(try_start().empty());
    HttpSettings settings;
    settings.port = 0;
    auto started = ManagementServer::start(settings, management());
    FUZZ_CHECK(started.has_value());
    server_ = std::move(*started);
    prepare();
  }
  ~FuzzedServer() override { server_.reset(); }
  void TestBody() override {}

  /// Sends all of it on one connection, and nothing after it; reads until the server closes that.
  std::string answer(std::string_view bytes) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FUZZ_CHECK(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // closed before the end
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    ::shutdown(fd, SHUT_WR);
    std::string answers;
    char piece[16384];
    for (;;) {
      FUZZ_CHECK(readable(fd));
      const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
      if (got <= 0) break;
      answers.append(piece, static_cast<size_t>(got));
    }
    ::close(fd);
    return answers;
  }
  /// Whether the input locked the next ones out: by a new password, say.
  bool still_open() {
    const auto guest_user = management().user("guest");
    return guest_user && guest_user->password_hash == password_hash_ &&
           guest_user->has_tag("administrator") && management().may_access("guest", "/") &&
           management().user("tenant") && management().may_access("tenant", "tenant");
  }

 private:
  void prepare() {
    password_hash_ = management().user("guest")->password_hash;
    UserInfo tenant;
    tenant.name = "tenant";
    tenant.tags = {"management"};
    ask<Result<bool, PeerError>>([&](auto done) { management().put_vhost({"tenant"}, done); });
    ask<Result<bool, PeerError>>([&](auto done) { management().put_user(tenant, "pw", done); });
    ask<Result<bool, PeerError>>([&](auto done) {
      management().put_permission({"tenant", "tenant", ".*", ".*", ".*"}, done);
    });
  }

  std::unique_ptr<ManagementServer> server_;
  std::string password_hash_;
};

/// One request from lines: the method, the path with its query, the user; the rest is the body.
std::string request_of(std::string_view text) {
  const auto line = [&text] {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    return std::string(one);
  };
  const std::string method = line(), path = line(), user = line();
  return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic " +
         (user == "tenant" ? "dGVuYW50OnB3" : "Z3Vlc3Q6Z3Vlc3Q=") +
         "\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + std::string(text);
}

/// Whole answers one behind the other, and none says that something broke.
void check_answers(std::string_view answers, bool some_without_body) {
  while (!answers.empty()) {
    FUZZ_CHECK(answers.starts_with("HTTP/1.1 ") && answers.size() > 12);
    const std::string_view status = answers.substr(9, 3);
    FUZZ_CHECK(status >= "100" && status < "600" && status != "500");
    const size_t end = answers.find("\r\n\r\n");
    FUZZ_CHECK(end != std::string_view::npos);
    if (some_without_body) return;
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const size_t at = answers.substr(0, end).find(kLength);
    size_t length = 0;
    if (at != std::string_view::npos)
      length = std::stoul(std::string(answers.substr(at + kLength.size(), 12)));
    FUZZ_CHECK(answers.size() >= end + 4 + length);
    answers.remove_prefix(end + 4 + length);
  }
}

}  // namespace

/// Input: requests, with a line "%%" between them; of one that begins with "RAW" and a line's end
/// the rest is sent as it is. All go over one connection to a server with a whole broker behind it.
/// What is answered is well-formed, and never 500.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kInputsAServer = 300;
  constexpr std::string_view kBetween = "\n%%\n", kRaw = "RAW\n";
  static const bool quiet = set_log_level("off");
  FUZZ_CHECK(quiet);
  // Made at once: so it is destroyed before what RocksDB makes for itself at its first use.
  static auto server = std::make_unique<FuzzedServer>();
  static int left = kInputsAServer;
  if (left-- <= 0 || !server->still_open()) {
    server.reset();
    server = std::make_unique<FuzzedServer>();
    left = kInputsAServer;
  }
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string bytes;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(kBetween));
    rest.remove_prefix(std::min(rest.size(), one.size() + kBetween.size()));
    bytes += one.starts_with(kRaw) ? std::string(one.substr(kRaw.size())) : request_of(one);
  }
  check_answers(server->answer(bytes), bytes.find("HEAD ") != std::string::npos);
  return 0;
}
