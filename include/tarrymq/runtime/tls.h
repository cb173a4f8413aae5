#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tarrymq/runtime/result.h"

struct ssl_st;
struct ssl_ctx_st;

namespace tarry {

/// What TLS needs to know of the settings; the texts are theirs (tls_cert and so on), checked by
/// open() and reload().
struct TlsSettings {
  std::string cert, key;              // PEM files: our certificate with its chain, and its key
  std::string ca;                     // PEM file: who may sign clients' certificates
  std::string sni_dir;                // directory of NAME.crt and NAME.key; "": none
  std::string min_version = "1.2";    // or "1.3"
  std::string ciphers, ciphersuites;  // OpenSSL's lists, of TLS 1.2 and 1.3; "": ours
  std::string verify =
      "none";  // client certificates: none, peer (checked if there is one), required
  std::string user_from = "common_name";  // or dns, email, uri: where a client's certificate has
                                          // the user's name; or none
};

/// What came of a handshake. Immutable afterwards.
struct TlsFacts {
  std::string version, cipher;  // "TLSv1.3", "TLS_AES_256_GCM_SHA384"
  std::string server_name;      // that the client asked for (SNI), or ""
  std::string peer_subject, peer_issuer,
      peer_validity;  // of the client's certificate; "" without one
  std::optional<std::string>
      user;  // whom a checked certificate names, if that is wanted; "" if it names nobody
};

/// Certificates, keys and rules of the TLS listeners of one kind, kept as they were last read. Any
/// thread.
class TlsContext {
 public:
  using Made = std::shared_ptr<ssl_ctx_st>;

  /// Errors: one line that names setting, file and cause. Warnings (a certificate that has expired
  /// or soon will) are logged. `clients`: false for listeners that ask no client for a certificate,
  /// whatever the settings say.
  static Result<std::unique_ptr<TlsContext>, std::string> open(const TlsSettings& settings,
                                                               bool clients);
  /// Reads all files again. New connections get what is there now; an error changes nothing.
  Result<void, std::string> reload(const TlsSettings& settings);

  /// For one new connection.
  Made current() const;
  /// When the first of the certificates that current() may show expires: seconds since 1970.
  int64_t valid_until_s() const;
  /// What `session`, whose handshake is over, has come to.
  TlsFacts facts_of(ssl_st* session) const;

 private:
  explicit TlsContext(bool clients) : clients_(clients) {}
  const bool clients_;
  mutable std::mutex mutex_;  // guards what follows
  Made made_;
  int64_t valid_until_s_ = 0;
  std::string user_from_;
};

/// What OpenSSL says of the last thing that failed on this thread, in one line; empties its queue.
std::string tls_error_text();

}  // namespace tarry
