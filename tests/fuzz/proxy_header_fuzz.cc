#include <string>

#include "fuzz/fuzz_support.h"
#include "tarrymq/runtime/proxy_header.h"

/// A header that comes byte by byte needs more until it is what it is at once; what is behind it
/// changes nothing.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tarry;
  using Status = ProxyHeader::Status;
  const ByteSpan in = fuzz::input(data, std::min<size_t>(size, kProxyHeaderMax + 100));
  const ProxyHeader whole = parse_proxy_header(in);
  FUZZ_CHECK((whole.status == Status::malformed) == !whole.fault.empty());
  if (whole.status != Status::malformed) FUZZ_CHECK(in.empty() || begins_like_proxy_header(in));
  if (whole.status == Status::complete) FUZZ_CHECK(whole.size > 0 && whole.size <= in.size());
  for (size_t n = 0; n < in.size(); ++n) {
    const ProxyHeader part = parse_proxy_header(in.first(n));
    if (part.status == Status::need_more) {
      FUZZ_CHECK(part.size > n);
      if (whole.status == Status::complete) FUZZ_CHECK(part.size <= whole.size);
      continue;
    }
    FUZZ_CHECK(part.status == whole.status);
    if (part.status == Status::malformed) return 0;
    FUZZ_CHECK(part.size == whole.size && part.size == n);
    FUZZ_CHECK(part.connection.has_value() == whole.connection.has_value());
    if (!part.connection) return 0;
    FUZZ_CHECK(part.connection->source == whole.connection->source);
    FUZZ_CHECK(part.connection->destination == whole.connection->destination);
    return 0;
  }
  FUZZ_CHECK(whole.status == Status::need_more || whole.size == in.size() ||
             whole.status == Status::malformed);
  return 0;
}
