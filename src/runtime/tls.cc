#include "tarrymq/runtime/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

// Forward secrecy and authenticated encryption alone (RFC 9325, 4.2). Of TLS 1.3 OpenSSL's own
// choice.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr const char* kSuites =
    "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
constexpr int kWarnDays = 21;
constexpr unsigned char kSessionContext[] = "tarrymq";

using Names = std::map<std::string, TlsContext::Made, std::less<>>;

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

TlsContext::Made own(SSL_CTX* context) {
  return {context, [](SSL_CTX* made) { SSL_CTX_free(made); }};
}

/// The names of a context live as long as it does, which may be longer than its TlsContext: a
/// handshake may be under way.
int names_index() {
  static const int index = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr, [](void*, void* names, CRYPTO_EX_DATA*, int, long, void*) {
        delete static_cast<Names*>(names);
      });
  return index;
}

/// The certificate of the name that the client asks for: that name's own, else the one of "*" and
/// its domain.
int choose_by_name(SSL* session, int*, void* argument) {
  const auto& names = *static_cast<const Names*>(argument);
  const char* asked = SSL_get_servername(session, TLSEXT_NAMETYPE_host_name);
  if (asked == nullptr) return SSL_TLSEXT_ERR_NOACK;
  const std::string name = lower_case(asked);
  auto found = names.find(name);
  if (const size_t dot = name.find('.'); found == names.end() && dot != std::string::npos) {
    found = names.find("*" + name.substr(dot));
  }
  if (found == names.end()) return SSL_TLSEXT_ERR_NOACK;
  return SSL_set_SSL_CTX(session, found->second.get()) != nullptr ? SSL_TLSEXT_ERR_OK
                                                                  : SSL_TLSEXT_ERR_ALERT_FATAL;
}

std::string failed_to(const char* setting, const std::string& value, const std::string& what) {
  return std::string(setting) + " = \"" + value + "\": " + what;
}

void warn_of_expiry(const X509* certificate, const std::string& file) {
  const ASN1_TIME* end = X509_get0_notAfter(certificate);
  int days = 0, seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, end) != 1) return;
  if (days < 0 || seconds < 0) {
    log_for("tls")->warn("the certificate {} has expired: clients that check it will refuse it",
                         file);
  } else if (days < kWarnDays) {
    log_for("tls")->warn("the certificate {} expires in {} days", file, days);
  }
}

std::string use_certificate(SSL_CTX* context, const char* cert_setting, const std::string& cert,
                            const char* key_setting, const std::string& key) {
  ERR_clear_error();
  // Nobody is there to be asked for a pass phrase.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(context, cert.c_str()) != 1) {
    return failed_to(cert_setting, cert, "no certificate (PEM) can be read: " + tls_error_text());
  }
  X509* const certificate = SSL_CTX_get0_certificate(context);
  const bool read = SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1;
  const bool others = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_X509;
  if (!read && !others) {
    return failed_to(key_setting, key,
                     "no key (PEM, without a pass phrase) can be read: " + tls_error_text());
  }
  ERR_clear_error();
  // A key of another kind is no error to OpenSSL before somebody needs it.
  if (!read || X509_check_private_key(certificate, SSL_CTX_get0_privatekey(context)) != 1) {
    ERR_clear_error();
    return failed_to(key_setting, key, "is not the key of the certificate " + cert);
  }
  warn_of_expiry(certificate, cert);
  return {};
}

std::string use_rules(SSL_CTX* context, const TlsSettings& settings, bool clients) {
  const bool newest = settings.min_version == "1.3";
  SSL_CTX_set_min_proto_version(context, newest ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Writes come from a buffer that may move and of which a part is enough; an idle connection keeps
  // no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  // Many small records in one call of the system, and a large one in one instead of two.
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_session_id_context(context, kSessionContext, sizeof kSessionContext - 1);
  const char* ciphers = settings.ciphers.empty() ? kCiphers : settings.ciphers.c_str();
  if (SSL_CTX_set_cipher_list(context, ciphers) != 1) {
    return failed_to("tls_ciphers", settings.ciphers,
                     "no cipher of TLS 1.2 goes by that: " + tls_error_text());
  }
  const char* suites = settings.ciphersuites.empty() ? kSuites : settings.ciphersuites.c_str();
  if (SSL_CTX_set_ciphersuites(context, suites) != 1) {
    return failed_to("tls_ciphersuites", settings.ciphersuites,
                     "not all are cipher suites of TLS 1.3: " + tls_error_text());
  }
  if (!clients || settings.verify == "none") return {};
  if (settings.ca.empty()) {
    return failed_to("tls_verify", settings.verify,
                     "tls_ca must say who may sign clients' certificates");
  }
  STACK_OF(X509_NAME)* signers = SSL_load_client_CA_file(settings.ca.c_str());
  if (signers == nullptr || SSL_CTX_load_verify_file(context, settings.ca.c_str()) != 1) {
    sk_X509_NAME_pop_free(signers, X509_NAME_free);
    return failed_to("tls_ca", settings.ca,
                     "no certificates (PEM) can be read: " + tls_error_text());
  }
  SSL_CTX_set_client_CA_list(context, signers);
  SSL_CTX_set_verify(
      context,
      SSL_VERIFY_PEER | (settings.verify == "required" ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
      nullptr);
  return {};
}

Result<TlsContext::Made, std::string> make_context(const TlsSettings& settings, bool clients,
                                                   const char* cert_setting,
                                                   const std::string& cert, const char* key_setting,
                                                   const std::string& key) {
  auto context = own(SSL_CTX_new(TLS_server_method()));
  if (!context) return "TLS is not to be had: " + tls_error_text();
  std::string error = use_rules(context.get(), settings, clients);
  if (error.empty()) error = use_certificate(context.get(), cert_setting, cert, key_setting, key);
  if (!error.empty()) return error;
  return context;
}

/// A context for each NAME.crt of the directory, which has a NAME.key beside it.
Result<Names, std::string> read_names(const TlsSettings& settings, bool clients) {
  namespace fs = std::filesystem;
  Names names;
  std::error_code ec;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(settings.sni_dir, ec), end; !ec && it != end; it.increment(ec)) {
    if (it->path().extension() == ".crt") files.push_back(it->path());
  }
  if (ec) return failed_to("tls_sni_dir", settings.sni_dir, "cannot be read: " + ec.message());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    fs::path key = file;
    key.replace_extension(".key");
    auto made =
        make_context(settings, clients, "tls_sni_dir", file.string(), "tls_sni_dir", key.string());
    if (!made) return made.error();
    names.emplace(lower_case(file.stem().string()), std::move(*made));
  }
  return Result<Names, std::string>(boost::system::in_place_value, std::move(names));
}

Result<TlsContext::Made, std::string> read_everything(const TlsSettings& settings, bool clients) {
  auto context =
      make_context(settings, clients, "tls_cert", settings.cert, "tls_key", settings.key);
  if (!context || settings.sni_dir.empty()) return context;
  auto names = read_names(settings, clients);
  if (!names) return names.error();
  auto kept = std::make_unique<Names>(std::move(*names));
  SSL_CTX_set_tlsext_servername_callback(context->get(), choose_by_name);
  SSL_CTX_set_tlsext_servername_arg(context->get(), kept.get());
  if (SSL_CTX_set_ex_data(context->get(), names_index(), kept.get()) != 1)
    return std::string("TLS: out of memory");
  (void)kept.release();  // the context's now
  return context;
}

int64_t valid_until(SSL_CTX* context) {
  tm parts{};
  const X509* certificate = SSL_CTX_get0_certificate(context);
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) == 1 ? timegm(&parts) : 0;
}

int64_t first_to_expire(SSL_CTX* context) {
  int64_t first = valid_until(context);
  const auto* names = static_cast<const Names*>(SSL_CTX_get_ex_data(context, names_index()));
  if (names == nullptr) return first;
  for (const auto& [name, other] : *names) first = std::min(first, valid_until(other.get()));
  return first;
}

std::string name_text(const X509_NAME* name) {
  std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  if (!out || X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) < 0)
    return {};
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<size_t>(std::max(size, 0L))};
}

std::string time_text(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  std::array<char, 32> text{};
  return {text.data(), strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// As UTF-8; "" for what no user can be called, so that a name cut short by a NUL byte is nobody's.
std::string text_of(const ASN1_STRING* string) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, string);
  if (size < 0) return {};
  std::string text(reinterpret_cast<const char*>(utf8), static_cast<size_t>(size));
  OPENSSL_free(utf8);
  return text.find('\0') == std::string::npos ? text : std::string();
}

std::string common_name(const X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int last = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  // Two common names leave open who it is.
  if (last < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, last) >= 0) return {};
  return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last)));
}

/// The first of its kind.
std::string alternative_name(const X509* certificate, int kind) {
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string text;
  for (int i = 0; text.empty() && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == kind) text = text_of(name->d.ia5);
  }
  GENERAL_NAMES_free(names);
  return text;
}

std::string user_in(const X509* certificate, const std::string& where) {
  if (where == "dns") return alternative_name(certificate, GEN_DNS);
  if (where == "email") return alternative_name(certificate, GEN_EMAIL);
  if (where == "uri") return alternative_name(certificate, GEN_URI);
  return common_name(certificate);
}

}  // namespace

std::string tls_error_text() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (error == 0) return "no further cause is known";
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* reason = ERR_reason_error_string(error);
  if (reason != nullptr) return reason;
  std::array<char, 160> text{};
  ERR_error_string_n(error, text.data(), text.size());
  return text.data();
}

Result<std::unique_ptr<TlsContext>, std::string> TlsContext::open(const TlsSettings& settings,
                                                                  bool clients) {
  std::unique_ptr<TlsContext> context(new TlsContext(clients));
  if (auto read = context->reload(settings); !read) return read.error();
  return context;
}

Result<void, std::string> TlsContext::reload(const TlsSettings& settings) {
  auto made = read_everything(settings, clients_);
  if (!made) return made.error();
  std::lock_guard lock(mutex_);
  made_ = std::move(*made);
  valid_until_s_ = first_to_expire(made_.get());
  user_from_ = settings.user_from;
  return {};
}

int64_t TlsContext::valid_until_s() const {
  std::lock_guard lock(mutex_);
  return valid_until_s_;
}

TlsContext::Made TlsContext::current() const {
  std::lock_guard lock(mutex_);
  return made_;
}

TlsFacts TlsContext::facts_of(ssl_st* session) const {
  TlsFacts facts;
  facts.version = SSL_get_version(session);
  facts.cipher = SSL_get_cipher_name(session);
  if (const char* name = SSL_get_servername(session, TLSEXT_NAMETYPE_host_name))
    facts.server_name = name;
  const X509* certificate = SSL_get0_peer_certificate(session);
  if (certificate == nullptr) return facts;
  facts.peer_subject = name_text(X509_get_subject_name(certificate));
  facts.peer_issuer = name_text(X509_get_issuer_name(certificate));
  facts.peer_validity = time_text(X509_get0_notBefore(certificate)) + " - " +
                        time_text(X509_get0_notAfter(certificate));
  if (SSL_get_verify_result(session) != X509_V_OK) return facts;
  std::lock_guard lock(mutex_);
  if (user_from_ == "none") return facts;
  facts.user = user_in(certificate, user_from_);
  return facts;
}

}  // namespace tarry
