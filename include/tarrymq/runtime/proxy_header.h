#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/networks.h"

namespace tarry {

/// What a proxy says of the connection that it hands on. None: it speaks for itself (LOCAL,
/// UNKNOWN, a health check).
struct ProxiedConnection {
  struct End {
    boost::asio::ip::address address;
    uint16_t port = 0;
    bool operator==(const End&) const = default;
  };
  End source, destination;
};

struct ProxyHeader {
  enum class Status : uint8_t { need_more, complete, malformed };
  Status status = Status::need_more;
  // Of the header when complete; when need_more it has at least so many bytes.
  size_t size = 0;
  std::optional<ProxiedConnection> connection;
  std::string fault;  // when malformed: what is wrong
};

/// A longer header of version 2 is refused: its further fields are not used here.
inline constexpr size_t kProxyHeaderMax = 4096;

/// A header of the PROXY protocol, version 1 or 2, at the beginning of `bytes`. Pure.
/// Source: haproxy.org/download/1.8/doc/proxy-protocol.txt, sections 2.1 and 2.2.
ProxyHeader parse_proxy_header(ByteSpan bytes);
/// Whether `bytes` (one at least) may be the beginning of one. No protocol of ours begins so.
bool begins_like_proxy_header(ByteSpan bytes);

}  // namespace tarry
