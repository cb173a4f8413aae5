#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/tls.h"

namespace tarry {

/// TLS on one connected socket that does not block. read() and write() are as recv and send: what
/// could not be done now is -1 with EAGAIN. Own shard.
class TlsSession {
 public:
  enum class Step : uint8_t { done, want_read, want_write, failed };

  /// `fd` outlives the session.
  TlsSession(const TlsContext& context, int fd);

  Step handshake();
  /// After a handshake that failed.
  const std::string& failure() const { return failure_; }
  TlsFacts facts() const { return context_.facts_of(session_.get()); }

  /// Fills `size` bytes, or what has arrived. 0: the peer's end of the stream.
  ssize_t read(std::byte* at, size_t size);
  /// What was not taken is to be offered again, with the same bytes at its beginning.
  ssize_t write(ByteSpan bytes);
  /// Tells the peer that nothing comes any more.
  void end_stream();

 private:
  struct Free {
    void operator()(ssl_st* session) const;
  };
  const TlsContext& context_;
  std::unique_ptr<ssl_st, Free> session_;
  std::string failure_;
};

}  // namespace tarry
