#include "perf/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <csignal>

#include "perf/link.h"

namespace tarry::perf {
namespace {

SSL_CTX* client_context() {
  static SSL_CTX* const context = [] {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes as to any file
    SSL_CTX* made = SSL_CTX_new(TLS_client_method());
    if (made == nullptr) die("TLS is not to be had");
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(made, 1);
    return made;
  }();
  return context;
}

}  // namespace

void Tls::Free::operator()(ssl_st* session) const { SSL_free(session); }

Tls::Tls(int fd, const std::string& name) : session_(SSL_new(client_context())) {
  SSL_set_fd(session_.get(), fd);
  SSL_set_tlsext_host_name(session_.get(), name.c_str());
  if (SSL_connect(session_.get()) == 1) return;
  const char* why = ERR_reason_error_string(ERR_get_error());
  die(std::string("TLS handshake: ") + (why != nullptr ? why : "the broker closed the socket"));
}

Tls::~Tls() = default;

/// -1 with errno, or 0 at the broker's end of the stream.
ssize_t Tls::failed(int result) {
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default:
      errno = ECONNRESET;
      return -1;
  }
}

ssize_t Tls::write(std::string_view bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    size_t n = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(session_.get(), bytes.data() + sent, bytes.size() - sent, &n);
    if (result != 1) return sent > 0 ? static_cast<ssize_t>(sent) : failed(result);
    sent += n;
  }
  return static_cast<ssize_t>(sent);
}

ssize_t Tls::read(char* at, size_t size) {
  size_t n = 0;
  ERR_clear_error();
  const int result = SSL_read_ex(session_.get(), at, size, &n);
  return result == 1 ? static_cast<ssize_t>(n) : failed(result);
}

}  // namespace tarry::perf
