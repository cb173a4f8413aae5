#include <gtest/gtest.h>

#include "tarrymq/amqp/frame_decoder.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "unit/amqp/amqp_support.h"

namespace tarry {
namespace {

using test::ExactCopy;
using test::TextSink;

constexpr uint32_t kFrameMax = 4096;

std::string frame_bytes(int type, std::string_view payload) {
  std::string out(7, '\0');
  out[0] = static_cast<char>(type);
  out[2] = 9;
  store_be(reinterpret_cast<std::byte*>(out.data()) + 3, static_cast<uint32_t>(payload.size()));
  return out.append(payload) + '\xce';
}

TEST(FrameDecoder, GivesAWholeFrameInPlace) {
  for (const int type : {1, 2, 3, 8}) {
    const std::string bytes = frame_bytes(type, "payload") + "behind";
    const DecodedFrame frame = decode_frame(as_bytes(bytes), kFrameMax);
    ASSERT_EQ(frame.status, FrameStatus::frame);
    EXPECT_EQ(static_cast<int>(frame.type), type);
    EXPECT_EQ(frame.channel, 9);
    EXPECT_EQ(as_text(frame.payload), "payload");
    EXPECT_EQ(frame.payload.data(), as_bytes(bytes).data() + 7);
    EXPECT_EQ(frame.total_bytes, 15U);
  }
}

TEST(FrameDecoder, EveryCutNeedsMoreAndSaysHowMuchOnceItKnows) {
  const std::string bytes = frame_bytes(3, "payload");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const DecodedFrame frame = decode_frame(ExactCopy(bytes.substr(0, size)).span(), kFrameMax);
    EXPECT_EQ(frame.status, FrameStatus::need_more) << size;
    EXPECT_EQ(frame.total_bytes, size < 7 ? 0 : bytes.size());
  }
}

// frame-max counts the whole frame; who counts the payload alone is let through.
TEST(FrameDecoder, AFrameMayComeEightBytesLongerThanFrameMax) {
  const std::string fits = frame_bytes(3, std::string(kFrameMax, 'b'));
  EXPECT_EQ(decode_frame(as_bytes(fits), kFrameMax).status, FrameStatus::frame);
  const std::string head = frame_bytes(3, std::string(kFrameMax + 1, 'b')).substr(0, 7);
  EXPECT_EQ(decode_frame(as_bytes(head), kFrameMax).status, FrameStatus::too_large)
      << "seen at the head";
  const std::string huge("\3\0\1\xff\xff\xff\xff", 7);
  EXPECT_EQ(decode_frame(as_bytes(huge), kFrameMax).status, FrameStatus::too_large);
  const PeerError error = frame_error(FrameStatus::too_large, as_bytes(head), kFrameMax);
  EXPECT_EQ(error.code, 501);
  EXPECT_TRUE(error.hard);
  EXPECT_NE(error.text.find("4105"), std::string::npos) << error.text;
  EXPECT_NE(error.text.find("4096"), std::string::npos) << error.text;
}

TEST(FrameDecoder, ABadTypeIsSeenAtTheFirstByte) {
  for (int type = 0; type < 256; ++type) {
    const std::string bytes(1, static_cast<char>(type));
    const bool known = (type >= 1 && type <= 3) || type == 8;
    EXPECT_EQ(decode_frame(as_bytes(bytes), kFrameMax).status,
              known ? FrameStatus::need_more : FrameStatus::bad_type)
        << type;
  }
  const std::string http = "GET / HTTP/1.1";
  const PeerError error = frame_error(FrameStatus::bad_type, as_bytes(http), kFrameMax);
  EXPECT_EQ(error.code, 501);
  EXPECT_NE(error.text.find("71"), std::string::npos) << error.text;
}

TEST(FrameDecoder, ABadEndOctetIsAFrameError) {
  std::string bytes = frame_bytes(1, "payload");
  bytes.back() = '\x01';
  EXPECT_EQ(decode_frame(as_bytes(bytes), kFrameMax).status, FrameStatus::bad_end);
  const PeerError error = frame_error(FrameStatus::bad_end, as_bytes(bytes), kFrameMax);
  EXPECT_EQ(error.code, 501);
  EXPECT_NE(error.text.find("channel 9"), std::string::npos) << error.text;
}

class ProtocolHeader : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(BothForms, ProtocolHeader,
                         ::testing::Values(std::string("AMQP\0\0\x9\x1", 8),
                                           std::string("AMQP\1\1\0\x9", 8)));

TEST_P(ProtocolHeader, IsAcceptedWholeAndRefusedAtTheFirstWrongByte) {
  const std::string& header = GetParam();
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_EQ(check_protocol_header(ExactCopy(header.substr(0, size)).span()),
              ProtocolHeaderStatus::need_more);
    std::string wrong = header.substr(0, size + 1);
    wrong.back() ^= 4;
    EXPECT_EQ(check_protocol_header(ExactCopy(wrong).span()), ProtocolHeaderStatus::refused)
        << size;
  }
  EXPECT_EQ(check_protocol_header(as_bytes(header)), ProtocolHeaderStatus::accepted);
  EXPECT_EQ(check_protocol_header(as_bytes(header + "more")), ProtocolHeaderStatus::accepted);
}

/// Takes frames apart again: the payloads in order, each checked for its type and channel.
std::vector<std::string> payloads(const std::string& bytes, std::vector<FrameType> types,
                                  uint32_t frame_max) {
  std::vector<std::string> out;
  ByteSpan rest = as_bytes(bytes);
  for (const FrameType type : types) {
    const DecodedFrame frame = decode_frame(rest, frame_max);
    EXPECT_EQ(frame.status, FrameStatus::frame);
    EXPECT_EQ(frame.type, type);
    EXPECT_EQ(frame.channel, 5);
    out.emplace_back(as_text(frame.payload));
    rest = rest.subspan(frame.total_bytes);
  }
  EXPECT_TRUE(rest.empty());
  return out;
}

TEST(FrameEncoder, SplitsABodyAtFrameMax) {
  const size_t most = kFrameMax - 8;
  for (const size_t size : {size_t{0}, size_t{1}, most, most + 1, 2 * most, 2 * most + 1}) {
    std::string body(size, 'x');
    if (size > 0) body.back() = 'y';
    TextSink sink;
    append_content(sink, 5, as_bytes("header"), as_bytes(body), kFrameMax);
    std::vector<FrameType> types{FrameType::header};
    types.insert(types.end(), (size + most - 1) / most, FrameType::body);
    const auto parts = payloads(sink.bytes, types, kFrameMax);
    EXPECT_EQ(parts[0], "header");
    std::string whole;
    for (size_t i = 1; i < parts.size(); ++i) whole += parts[i];
    EXPECT_EQ(whole, body) << size;
  }
}

TEST(FrameEncoder, AHeartbeatIsEightBytesOnChannel0) {
  TextSink sink;
  append_heartbeat(sink);
  EXPECT_EQ(sink.bytes, std::string("\x8\0\0\0\0\0\0\xce", 8));
}

TEST(DeliverTemplate, WritesWhatTheGeneralEncoderWrites) {
  const std::string long_tag(255, 't');
  for (const std::string_view tag :
       {std::string_view("c"), std::string_view(""), std::string_view(long_tag)}) {
    const DeliverTemplate deliver(5, tag);
    EXPECT_EQ(deliver.consumer_tag(), tag);
    EXPECT_EQ(deliver.channel(), 5);
    for (const size_t size : {0, 16, 4088, 4089, 10000}) {
      const std::string body(size, 'b');
      const std::string route = make_route("exchange", "key");
      const bool redelivered = size == 16;
      TextSink fast, general;
      deliver.append(fast, 1ULL << 40, redelivered, as_bytes(route), as_bytes("header"),
                     as_bytes(body), kFrameMax);
      append_method(general, 5,
                    method::BasicDeliver{.consumer_tag = tag,
                                         .delivery_tag = 1ULL << 40,
                                         .redelivered = redelivered,
                                         .exchange = "exchange",
                                         .routing_key = "key"});
      TextSink head = general;
      append_content(general, 5, as_bytes("header"), as_bytes(body), kFrameMax);
      EXPECT_EQ(fast.bytes, general.bytes) << size;
      append_content(head, 5, as_bytes("header"), {}, kFrameMax);
      TextSink fast_head;
      deliver.append_head(fast_head, 1ULL << 40, redelivered, as_bytes(route), as_bytes("header"));
      EXPECT_EQ(fast_head.bytes, head.bytes);
    }
  }
}

}  // namespace
}  // namespace tarry
