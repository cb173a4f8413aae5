#include "net/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tarrymq/runtime/invariant.h"

namespace tarry {

void TlsSession::Free::operator()(ssl_st* session) const { SSL_free(session); }

TlsSession::TlsSession(const TlsContext& context, int fd)
    : context_(context), session_(SSL_new(context.current().get())) {
  TARRY_INVARIANT(session_ != nullptr && SSL_set_fd(session_.get(), fd) == 1);
  SSL_set_accept_state(session_.get());
}

TlsSession::Step TlsSession::handshake() {
  ERR_clear_error();
  errno = 0;
  const int done = SSL_do_handshake(session_.get());
  if (done == 1) return Step::done;
  const int cause = errno;
  switch (SSL_get_error(session_.get(), done)) {
    case SSL_ERROR_WANT_READ:
      return Step::want_read;
    case SSL_ERROR_WANT_WRITE:
      return Step::want_write;
    case SSL_ERROR_ZERO_RETURN:
      failure_ = "the client closed the connection";
      break;
    case SSL_ERROR_SYSCALL:
      failure_ = cause == 0 ? "the client closed the connection" : std::strerror(cause);
      break;
    default:
      failure_ = tls_error_text();
      // Why a certificate was refused says more than that it was.
      if (const long why = SSL_get_verify_result(session_.get()); why != X509_V_OK) {
        failure_ += std::string(": ") + X509_verify_cert_error_string(why);
      }
  }
  return Step::failed;
}

ssize_t TlsSession::read(std::byte* at, size_t size) {
  size_t got = 0;
  while (got < size) {
    size_t n = 0;
    ERR_clear_error();
    const int ok = SSL_read_ex(session_.get(), at + got, size - got, &n);
    if (ok == 1) {
      got += n;
      continue;
    }
    if (got > 0) break;  // the next call says the rest
    switch (SSL_get_error(session_.get(), ok)) {
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
  return static_cast<ssize_t>(got);
}

ssize_t TlsSession::write(ByteSpan bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    size_t n = 0;
    ERR_clear_error();
    const int ok = SSL_write_ex(session_.get(), bytes.data() + sent, bytes.size() - sent, &n);
    if (ok == 1) {
      sent += n;
      continue;
    }
    const int error = SSL_get_error(session_.get(), ok);
    if (error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_WANT_READ) {
      errno = ECONNRESET;
      return -1;
    }
    if (sent > 0) break;
    errno = EAGAIN;
    return -1;
  }
  return static_cast<ssize_t>(sent);
}

void TlsSession::end_stream() {
  ERR_clear_error();
  (void)SSL_shutdown(session_.get());  // the peer may be gone already
}

}  // namespace tarry
