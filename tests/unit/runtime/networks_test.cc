#include "tarrymq/runtime/networks.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

bool has(const std::string& text, const std::string& address) {
  auto networks = Networks::parse(text);
  EXPECT_TRUE(networks.has_value()) << text;
  return networks && networks->contains(boost::asio::ip::make_address(address));
}

TEST(Networks, AnAddressIsInANetworkByItsFirstBits) {
  EXPECT_TRUE(has("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(has("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(has("192.0.2.128/25", "192.0.2.128"));
  EXPECT_FALSE(has("192.0.2.128/25", "192.0.2.127"));
  EXPECT_TRUE(has("192.0.2.77/24", "192.0.2.1"));  // what is behind the length does not count
  EXPECT_TRUE(has("192.0.2.7", "192.0.2.7"));
  EXPECT_FALSE(has("192.0.2.7", "192.0.2.6"));
  EXPECT_TRUE(has("0.0.0.0/0", "203.0.113.9"));
  EXPECT_FALSE(has("0.0.0.0/0", "::1"));
  EXPECT_TRUE(has("2001:db8::/32", "2001:db8:ffff::1"));
  EXPECT_FALSE(has("2001:db8::/32", "2001:db9::1"));
  EXPECT_TRUE(has("::1", "::1"));
  EXPECT_TRUE(has("::/0", "2001:db8::1"));
}

TEST(Networks, AnIpv4AddressWithinIpv6IsAnIpv4Address) {
  EXPECT_TRUE(has("10.0.0.0/8", "::ffff:10.1.2.3"));
  EXPECT_FALSE(has("::/0", "::ffff:10.1.2.3"));
}

TEST(Networks, AListHasCommasAndBlanks) {
  for (const char* address : {"10.1.1.1", "::1", "192.0.2.1"})
    EXPECT_TRUE(has(" 10.0.0.0/8,::1 , 192.0.2.1", address));
  auto none = Networks::parse("");
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->empty());
}

TEST(Networks, WhatIsNoneIsNamed) {
  for (const char* bad : {"example.org", "10.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1",
                          "::1/129", "10.0.0.0/8,,::1", ",", "10.0.0.0/8x", "1.2.3.4.5"}) {
    EXPECT_FALSE(Networks::parse(bad).has_value()) << bad;
  }
  EXPECT_EQ(Networks::parse("::1,10.0.0.0/33").error(),
            "'10.0.0.0/33': the length behind the slash must be 0..32");
}

TEST(Networks, OneCustomerIsAnIpv4AddressOrHalfAnIpv6One) {
  EXPECT_EQ(neighbourhood_of("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(neighbourhood_of("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(neighbourhood_of("2001:db8:1:2:3::4"), neighbourhood_of("2001:db8:1:2::"));
  EXPECT_NE(neighbourhood_of("2001:db8:1:2::"), neighbourhood_of("2001:db8:1:3::"));
  EXPECT_EQ(neighbourhood_of("no address"), "no address");
}

}  // namespace
}  // namespace tarry
