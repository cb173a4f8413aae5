#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/runtime/result.h"

namespace tarry {

/// A set of addresses, as "10.0.0.0/8, ::1". Immutable after parse(); any thread.
class Networks {
 public:
  /// Numeric addresses and networks (address/prefix length) with commas between them; "" is none.
  /// The error names the part that is neither.
  static Result<Networks, std::string> parse(std::string_view text);
  bool empty() const { return v4_.empty() && v6_.empty(); }
  /// An IPv4 address that came over an IPv6 socket counts as what it is.
  bool contains(const boost::asio::ip::address& address) const;

 private:
  std::string add(std::string_view part);  // "" or what is wrong
  std::vector<boost::asio::ip::network_v4> v4_;
  std::vector<boost::asio::ip::network_v6> v6_;
};

/// What is one customer's: the IPv4 address itself, of an IPv6 address its first 64 bits.
/// `address`: as text; what is no address stays as it is.
std::string neighbourhood_of(const std::string& address);

/// `address`, or the IPv4 address that it wraps.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

}  // namespace tarry
