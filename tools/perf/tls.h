#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

struct ssl_st;

namespace tarry::perf {

/// TLS on a connected socket, blocking or not. The certificate is not checked: this loads a broker,
/// it does not trust it. One thread.
class Tls {
 public:
  /// Shakes hands, blocking. `name`: the broker's, for its choice of a certificate.
  Tls(int fd, const std::string& name);
  ~Tls();

  /// As send and recv.
  ssize_t write(std::string_view bytes);
  ssize_t read(char* at, size_t size);

 private:
  struct Free {
    void operator()(ssl_st* session) const;
  };
  ssize_t failed(int result);
  std::unique_ptr<ssl_st, Free> session_;
};

}  // namespace tarry::perf
