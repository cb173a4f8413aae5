#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tarry::http_test {

struct Reply {
  int status = 0;                              // 0: no whole answer came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
};

/// A blocking client on one keep-alive connection, made of plain sockets so that it shares nothing
/// with the server.
class TestClient {
 public:
  explicit TestClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~TestClient() { ::close(fd_); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  bool send_raw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  /// `credentials`: base64 of user:password, "" for none. `more`: further header lines, each with
  /// its CRLF.
  Reply call(std::string_view method, std::string_view path, std::string_view body = "",
             std::string_view credentials = kGuest, std::string_view more = "") {
    std::string text =
        std::string(method) + ' ' + std::string(path) + " HTTP/1.1\r\nHost: 127.0.0.1:1\r\n";
    if (!credentials.empty()) text += "Authorization: Basic " + std::string(credentials) + "\r\n";
    text += more;
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text += "\r\n" + std::string(body);
    if (!send_raw(text)) return {};
    return read_reply(method == "HEAD");
  }
  Reply read_reply(bool head_only = false) {
    while (buffer_.find("\r\n\r\n") == std::string::npos) {
      if (!fill()) return {};
    }
    Reply reply;
    const size_t end = buffer_.find("\r\n\r\n");
    reply.status = std::stoi(buffer_.substr(9, 3));
    for (size_t at = buffer_.find("\r\n") + 2; at < end;) {
      const size_t line_end = buffer_.find("\r\n", at);
      const std::string line = buffer_.substr(at, line_end - at);
      std::string name = line.substr(0, line.find(':'));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      reply.headers[name] = line.substr(line.find(':') + 2);
      at = line_end + 2;
    }
    buffer_.erase(0, end + 4);
    const size_t length =
        reply.headers.contains("content-length") ? std::stoul(reply.headers["content-length"]) : 0;
    while (!head_only && buffer_.size() < length) {
      if (!fill()) return {};
    }
    if (!head_only) {
      reply.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    }
    return reply;
  }
  /// True when the server closed (nothing more came) within a minute.
  bool closed_by_peer() {
    while (fill()) buffer_.clear();
    return !timed_out_;
  }

  static constexpr std::string_view kGuest = "Z3Vlc3Q6Z3Vlc3Q=";
  static constexpr std::string_view kWatcher = "d2F0Y2hlcjpwdw==";
  static constexpr std::string_view kMaker = "bWFrZXI6cHc=";
  static constexpr std::string_view kTenant = "dGVuYW50OnB3";
  static constexpr std::string_view kNobody = "bm9ib2R5OnB3";

 private:
  bool fill() {
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, 60'000) != 1) {
      timed_out_ = true;
      return false;
    }
    char bytes[16384];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  int fd_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string buffer_;
};

}  // namespace tarry::http_test
