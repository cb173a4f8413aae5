#include "tarrymq/runtime/proxy_header.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

using Status = ProxyHeader::Status;

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
const std::string kFour =
    kSignature + std::string("\x21\x11\0\x0c\xc0\0\2\x07\xc6\x33\x64\1\xc7\x38\x16\x28", 16);

ProxyHeader parse(std::string_view text) { return parse_proxy_header(as_bytes(text)); }

TEST(ProxyHeader, EveryBeginningNeedsMoreAndWhatFollowsIsNotItsOwn) {
  for (const std::string& header : {std::string("PROXY TCP4 192.0.2.7 198.51.100.1 51000 5672\r\n"),
                                    std::string("PROXY UNKNOWN and whatever\r\n"), kFour}) {
    for (size_t n = 0; n < header.size(); ++n) {
      const ProxyHeader part = parse(std::string_view(header).substr(0, n));
      EXPECT_EQ(part.status, Status::need_more) << header << " cut at " << n;
      EXPECT_GT(part.size, n) << header;
      EXPECT_LE(part.size, header.size()) << header << " cut at " << n;
    }
    for (std::string more : {"", "A", "AMQP", "\r\n"}) {
      const ProxyHeader whole = parse(header + more);
      EXPECT_EQ(whole.status, Status::complete);
      EXPECT_EQ(whole.size, header.size());
    }
  }
}

TEST(ProxyHeader, SaysWhoTheClientIs) {
  const ProxyHeader four = parse(kFour);
  ASSERT_TRUE(four.connection);
  EXPECT_EQ(four.connection->source.address.to_string(), "192.0.2.7");
  EXPECT_EQ(four.connection->source.port, 51000);
  EXPECT_EQ(four.connection->destination.address.to_string(), "198.51.100.1");
  EXPECT_EQ(four.connection->destination.port, 5672);
  const ProxyHeader six = parse("PROXY TCP6 2001:db8::7 ::1 1 65535\r\n");
  ASSERT_TRUE(six.connection);
  EXPECT_EQ(six.connection->source.address.to_string(), "2001:db8::7");
  EXPECT_EQ(six.connection->destination.port, 65535);
  EXPECT_FALSE(parse("PROXY UNKNOWN\r\n").connection);
}

TEST(ProxyHeader, EachByteOfABinaryOneThatIsWrongIsFoundOrChangesTheAddress) {
  for (size_t at = 0; at < kFour.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bent = kFour;
      bent[at] = static_cast<char>(bent[at] ^ (1 << bit));
      const ProxyHeader header = parse(bent);
      if (at < 12) {
        EXPECT_EQ(header.status, Status::malformed) << at;
      }
      if (at >= 16) {
        EXPECT_EQ(header.status, Status::complete) << at;
      }
      if (header.status == Status::complete) {
        EXPECT_EQ(header.size, bent.size()) << at;
      }
      EXPECT_EQ(header.status == Status::malformed, !header.fault.empty()) << at;
    }
  }
}

TEST(ProxyHeader, NothingOfOursBeginsLikeOne) {
  for (std::string_view other : {"AMQP", "A", "\x16\x03\x01", "GET /", "proxy "}) {
    EXPECT_FALSE(begins_like_proxy_header(as_bytes(other))) << other;
    EXPECT_EQ(parse(other).status, Status::malformed) << other;
  }
  EXPECT_TRUE(begins_like_proxy_header(as_bytes("P")));
  EXPECT_TRUE(begins_like_proxy_header(as_bytes("\r\n")));
  EXPECT_FALSE(begins_like_proxy_header(as_bytes("PUT")));
}

}  // namespace
}  // namespace tarry
