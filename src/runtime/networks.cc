#include "tarrymq/runtime/networks.h"

#include <algorithm>
#include <charconv>

namespace tarry {

namespace ip = boost::asio::ip;

ip::address unmapped(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

std::string neighbourhood_of(const std::string& text) {
  boost::system::error_code ec;
  const auto address = ip::make_address(text, ec);
  if (ec) return text;
  const auto plain = unmapped(address);
  return plain.is_v4() ? plain.to_string()
                       : ip::make_network_v6(plain.to_v6(), 64).canonical().to_string();
}

std::string Networks::add(std::string_view part) {
  const size_t slash = std::min(part.find('/'), part.size());
  boost::system::error_code ec;
  const auto address = ip::make_address(std::string(part.substr(0, slash)), ec);
  if (ec) return "'" + std::string(part) + "' is no numeric address";
  const unsigned longest = address.is_v4() ? 32 : 128;
  unsigned length = longest;
  if (slash < part.size()) {
    const std::string_view digits = part.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (error != std::errc() || end != digits.data() + digits.size() || length > longest) {
      return "'" + std::string(part) + "': the length behind the slash must be 0.." +
             std::to_string(longest);
    }
  }
  if (address.is_v4())
    v4_.push_back(ip::make_network_v4(address.to_v4(), static_cast<unsigned short>(length)));
  else
    v6_.push_back(ip::make_network_v6(address.to_v6(), static_cast<unsigned short>(length)));
  return {};
}

Result<Networks, std::string> Networks::parse(std::string_view text) {
  Networks networks;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (std::string error = networks.add(part); !error.empty()) return error;
  }
  return networks;
}

bool Networks::contains(const ip::address& any) const {
  const ip::address address = unmapped(any);
  if (address.is_v4()) {
    return std::any_of(v4_.begin(), v4_.end(), [&](const ip::network_v4& network) {
      return (address.to_v4().to_uint() & network.netmask().to_uint()) ==
             network.network().to_uint();
    });
  }
  return std::any_of(v6_.begin(), v6_.end(), [&](const ip::network_v6& network) {
    return ip::make_network_v6(address.to_v6(), network.prefix_length()).network() ==
           network.network();
  });
}

}  // namespace tarry
