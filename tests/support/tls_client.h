#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tarrymq/runtime/tls.h"

namespace tarry::testing {

/// A certificate that has signed itself, and its key, in one file each; gone with this.
struct CertificateFiles {
  CertificateFiles() {
    std::string pattern = std::filesystem::temp_directory_path() / "tarrymq-tls-XXXXXX";
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

/// Does what it can without waiting, or waits for a minute.
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
  bool has_answer(int patience_ms = 0) const {
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, patience_ms) == 1;
  }
  bool shake_hands() {
    while (!go_on()) {
      if (SSL_get_error(session_.get(), -1) != SSL_ERROR_WANT_READ || !has_answer(kPatienceMs))
        return false;
    }
    return true;
  }
  /// Beside TLS.
  bool send_raw(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool send(std::string_view bytes) {
    return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  /// Up to and with `end`; what has come when it ends before that.
  std::string receive_until(std::string_view end) {
    std::string got;
    while (!got.ends_with(end)) {
      char byte = 0;
      const int n = SSL_read(session_.get(), &byte, 1);
      if (n == 1) {
        got += byte;
      } else if (SSL_get_error(session_.get(), n) != SSL_ERROR_WANT_READ ||
                 !has_answer(kPatienceMs)) {
        break;
      }
    }
    return got;
  }

 private:
  static constexpr int kPatienceMs = 60'000;
  int fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> session_;
  bool connected_ = false;
};

}  // namespace tarry::testing
