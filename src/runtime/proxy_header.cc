#include "tarrymq/runtime/proxy_header.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tarry {
namespace {

namespace proxied_ip = boost::asio::ip;

constexpr std::string_view kTextStart = "PROXY ";
constexpr std::string_view kBinaryStart("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr size_t kTextMin = 15, kTextMax = 107;  // with its CRLF
constexpr size_t kBinaryHead = 16;

ProxyHeader proxy_header_of_at_least(size_t size) {
  ProxyHeader header;
  header.size = size;
  return header;
}

ProxyHeader malformed_proxy(std::string fault) {
  ProxyHeader header;
  header.status = ProxyHeader::Status::malformed;
  header.fault = std::move(fault);
  return header;
}

bool may_begin(std::string_view text, std::string_view start) {
  const size_t n = std::min(text.size(), start.size());
  return text.substr(0, n) == start.substr(0, n);
}

/// Decimal, without a sign or zeros before it.
std::optional<uint16_t> port_in(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return port;
}

std::optional<proxied_ip::address> address_in(std::string_view text, bool v6) {
  boost::system::error_code ec;
  const auto address = proxied_ip::make_address(std::string(text), ec);
  if (ec || address.is_v6() != v6 || text.find('%') != std::string_view::npos) return std::nullopt;
  return address;
}

/// "TCP4 192.0.2.1 198.51.100.1 5000 5672": what is between "PROXY " and CRLF.
ProxyHeader parse_proxy_line(std::string_view line, size_t size) {
  ProxyHeader header;
  header.status = ProxyHeader::Status::complete;
  header.size = size;
  if (line == "UNKNOWN" || line.starts_with("UNKNOWN ")) return header;
  std::string_view words[5];
  size_t count = 0;
  for (size_t begin = 0; begin <= line.size(); ++count) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    if (count == std::size(words))
      return malformed_proxy("more than a protocol, two addresses and two ports");
    words[count] = line.substr(begin, end - begin);
    begin = end + 1;
  }
  const bool v6 = words[0] == "TCP6";
  if (!v6 && words[0] != "TCP4")
    return malformed_proxy("a protocol that is none of TCP4, TCP6 and UNKNOWN");
  if (count != std::size(words))
    return malformed_proxy("less than a protocol, two addresses and two ports");
  const auto source = address_in(words[1], v6), destination = address_in(words[2], v6);
  if (!source || !destination)
    return malformed_proxy("an address that is none of " + std::string(words[0]));
  const auto from = port_in(words[3]), to = port_in(words[4]);
  if (!from || !to) return malformed_proxy("a port that is not 0..65535");
  header.connection = ProxiedConnection{{*source, *from}, {*destination, *to}};
  return header;
}

ProxyHeader parse_proxy_text(std::string_view text) {
  const size_t end = text.substr(0, kTextMax).find('\n');
  if (end == std::string_view::npos) {
    if (text.size() >= kTextMax) return malformed_proxy("a line of more than 107 bytes");
    return proxy_header_of_at_least(
        std::max(kTextMin, text.size() + (text.back() == '\r' ? 1 : 2)));
  }
  if (text[end - 1] != '\r') return malformed_proxy("a line that does not end with CRLF");
  return parse_proxy_line(text.substr(kTextStart.size(), end - 1 - kTextStart.size()), end + 1);
}

uint16_t port_at(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(static_cast<unsigned char>(bytes[at]) << 8 |
                               static_cast<unsigned char>(bytes[at + 1]));
}

template <class Bytes>
Bytes bytes_at(std::string_view bytes, size_t at) {
  Bytes out;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), out.size(),
              reinterpret_cast<char*>(out.data()));
  return out;
}

/// Bytes 0-11 the signature, 12 version 2 and command, 13 family and protocol, 14-15 the length of
/// the rest (big endian); the rest: source and destination address, source and destination port,
/// then fields that are skipped.
ProxyHeader parse_proxy_binary(std::string_view bytes) {
  if (bytes.size() < kBinaryHead) return proxy_header_of_at_least(kBinaryHead);
  const auto command = static_cast<unsigned char>(bytes[12]),
             family = static_cast<unsigned char>(bytes[13]);
  const size_t length = port_at(bytes, 14);
  if (command >> 4 != 2) return malformed_proxy("a version that is not 2");
  if ((command & 15) > 1) return malformed_proxy("a command that is neither LOCAL nor PROXY");
  if (kBinaryHead + length > kProxyHeaderMax) return malformed_proxy("more than 4096 bytes");
  const bool local = (command & 15) == 0;
  const bool v4 = family == 0x11, v6 = family == 0x21;
  if (!local && !v4 && !v6 && family != 0) {
    return malformed_proxy("a family and protocol that is neither TCP over IPv4 nor TCP over IPv6");
  }
  const size_t needed = local || family == 0 ? 0 : v4 ? 12 : 36;
  if (length < needed) return malformed_proxy("less bytes than its addresses need");
  if (bytes.size() < kBinaryHead + length) return proxy_header_of_at_least(kBinaryHead + length);
  ProxyHeader header;
  header.status = ProxyHeader::Status::complete;
  header.size = kBinaryHead + length;
  if (needed == 0) return header;
  const std::string_view rest = bytes.substr(kBinaryHead);
  ProxiedConnection connection;
  if (v4) {
    using Bytes = proxied_ip::address_v4::bytes_type;
    connection.source = {proxied_ip::address_v4(bytes_at<Bytes>(rest, 0)), port_at(rest, 8)};
    connection.destination = {proxied_ip::address_v4(bytes_at<Bytes>(rest, 4)), port_at(rest, 10)};
  } else {
    using Bytes = proxied_ip::address_v6::bytes_type;
    connection.source = {proxied_ip::address_v6(bytes_at<Bytes>(rest, 0)), port_at(rest, 32)};
    connection.destination = {proxied_ip::address_v6(bytes_at<Bytes>(rest, 16)), port_at(rest, 34)};
  }
  header.connection = connection;
  return header;
}

}  // namespace

bool begins_like_proxy_header(ByteSpan bytes) {
  const std::string_view text = as_text(bytes);
  return may_begin(text, kTextStart) || may_begin(text, kBinaryStart);
}

ProxyHeader parse_proxy_header(ByteSpan bytes) {
  const std::string_view text = as_text(bytes);
  if (text.empty()) return proxy_header_of_at_least(kTextMin);
  if (!begins_like_proxy_header(bytes)) return malformed_proxy("no PROXY header at all");
  if (text.front() == kTextStart.front())
    return text.size() < kTextStart.size() ? proxy_header_of_at_least(kTextMin)
                                           : parse_proxy_text(text);
  return text.size() < kBinaryStart.size() ? proxy_header_of_at_least(kBinaryHead)
                                           : parse_proxy_binary(text);
}

}  // namespace tarry
