#include "tarrymq/amqp/methods.h"

#include <gtest/gtest.h>

#include <set>

#include "tarrymq/amqp/frame_decoder.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "unit/amqp/amqp_support.h"

namespace tarry {
namespace {

using test::ExactCopy;
using test::TextSink;

/// Gives each field of a method a value of its own, so that two that are mixed up differ.
class Filler {
 public:
  explicit Filler(const std::string& table) : table_(table) {}
  void octet(uint8_t& v) { v = static_cast<uint8_t>(next()); }
  template <class Integer>
  void integer(Integer& v) {
    v = static_cast<Integer>(0x0102030405060708ULL * next());
  }
  void short_text(std::string_view& v) { v = texts_[next() % 8]; }
  void long_text(std::string_view& v) { v = texts_[next() % 8]; }
  void table(ByteSpan& v) { v = as_bytes(table_); }
  void bits(auto&... bits) { ((bits = (next() % 3 == 1)), ...); }
  void reserved_short() {}
  void reserved_short_text() {}
  void reserved_long_text() {}
  void reserved_bits() {}

 private:
  unsigned next() { return ++count_; }
  const std::string& table_;
  unsigned count_ = 0;
  const std::string_view texts_[8] = {"",  "one",   "two words", "three.four",
                                      "5", "sixth", "\xc3\xa9",  "eight"};
};

/// Field by field, as the structs have no equality of their own.
class Lister {
 public:
  void octet(uint8_t v) { out += std::to_string(v) + ","; }
  void integer(uint64_t v) { out += std::to_string(v) + ","; }
  void short_text(std::string_view v) { out += std::string(v) + ","; }
  void long_text(std::string_view v) { out += std::string(v) + ","; }
  void table(ByteSpan v) { out += std::string(as_text(v)) + ","; }
  void bits(auto... bits) { ((out += bits ? "1," : "0,"), ...); }
  void reserved_short() {}
  void reserved_short_text() {}
  void reserved_long_text() {}
  void reserved_bits() {}
  std::string out;
};

template <class M>
std::string listed(const M& m) {
  Lister lister;
  M::fields(m, lister);
  return lister.out;
}

std::string payload_of(const auto& m) {
  TextSink sink;
  append_method(sink, 7, m);
  const DecodedFrame frame = decode_frame(as_bytes(sink.bytes), 1 << 20);
  EXPECT_EQ(frame.status, FrameStatus::frame);
  EXPECT_EQ(frame.type, FrameType::method);
  EXPECT_EQ(frame.channel, 7);
  EXPECT_EQ(frame.total_bytes, sink.bytes.size());
  return std::string(as_text(frame.payload));
}

template <class Do>
void for_each_method(Do&& act) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (act(std::variant_alternative_t<I, Method>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Method>>{});
}

TEST(Methods, EachOneComesBackAsItWasSent) {
  const std::string table = test::table_of_every_type().encode();
  std::set<uint32_t> ids;
  for_each_method([&](auto m) {
    using M = decltype(m);
    Filler filler(table);
    M::fields(m, filler);
    const std::string payload = payload_of(m);
    EXPECT_EQ(peek_method_id(as_bytes(payload)), M::id);
    const auto parsed = parse_method(as_bytes(payload));
    ASSERT_TRUE(parsed) << method_name(M::id) << ": " << parsed.error().text;
    ASSERT_TRUE(std::holds_alternative<M>(*parsed)) << method_name(M::id);
    EXPECT_EQ(listed(std::get<M>(*parsed)), listed(m)) << method_name(M::id);
    EXPECT_TRUE(ids.insert(M::id).second) << "two methods of one id";
    EXPECT_EQ(method_name(M::id).find_first_of("0123456789"), std::string::npos)
        << method_name(M::id);
  });
  EXPECT_EQ(ids.size(), 66U);
}

TEST(Methods, NamesAreTextAndKeysOfMessagesMayBeAnything) {
  method::QueueDeclare declare;
  for (const char* good :
       {"", "q", "k\xc3\xa4se", "\xe2\x98\x83", "\xf0\x9f\x90\x87", "\xf4\x8f\xbf\xbf"}) {
    declare.queue = good;
    EXPECT_TRUE(parse_method(as_bytes(payload_of(declare)))) << good;
  }
  for (const char* bad : {"\xff", "q\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xe0\x80\xaf",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x90"}) {
    declare.queue = bad;
    const auto parsed = parse_method(as_bytes(payload_of(declare)));
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, 501);
    EXPECT_EQ(parsed.error().text, "malformed UTF-8 in a name of queue.declare");
  }
  EXPECT_TRUE(parse_method(as_bytes(payload_of(method::BasicGet{"\xff"}))));
}

TEST(Methods, EveryCutAndEveryByteBehindIsASyntaxError) {
  const std::string table = test::table_of_every_type().encode();
  for_each_method([&](auto m) {
    using M = decltype(m);
    Filler filler(table);
    M::fields(m, filler);
    const std::string payload = payload_of(m);
    for (size_t size = 0; size < payload.size(); ++size) {
      const auto cut = parse_method(ExactCopy(std::string_view(payload).substr(0, size)).span());
      ASSERT_FALSE(cut) << method_name(M::id) << " " << size;
      EXPECT_EQ(cut.error().code, 501);
      EXPECT_TRUE(cut.error().hard);
      EXPECT_EQ(cut.error().class_id, size < 4 ? 0 : method_id::klass(M::id));
      EXPECT_EQ(cut.error().method_id, size < 4 ? 0 : method_id::method(M::id));
    }
    const auto longer = parse_method(as_bytes(payload + '\0'));
    ASSERT_FALSE(longer) << method_name(M::id);
    EXPECT_EQ(longer.error().code, 501);
  });
}

TEST(Methods, AnUnknownClassOrMethodIsNotImplemented) {
  for (const uint32_t id :
       {method_id::of(60, 99), method_id::of(61, 10), method_id::of(0, 0), method_id::of(40, 41)}) {
    std::string payload(4, '\0');
    store_be(reinterpret_cast<std::byte*>(payload.data()), id);
    const auto result = parse_method(as_bytes(payload));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, 540);
    EXPECT_TRUE(result.error().hard);
    EXPECT_EQ(result.error().class_id, method_id::klass(id));
    EXPECT_EQ(result.error().method_id, method_id::method(id));
  }
}

TEST(Methods, AMalformedTableInTheArgumentsIsAFrameError) {
  const std::string bad = test::table_bytes("\1aq");
  const std::string payload =
      payload_of(method::QueueDeclare{.queue = "q", .arguments = as_bytes(bad)});
  const auto result = parse_method(as_bytes(payload));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, 501);
  EXPECT_TRUE(result.error().hard);
  EXPECT_EQ(result.error().class_id, 50);
  EXPECT_EQ(result.error().method_id, 10);
  EXPECT_NE(result.error().text.find("queue.declare"), std::string::npos);
  EXPECT_NE(result.error().text.find("unknown type letter"), std::string::npos);
}

TEST(Methods, TheBytesOnTheWireAreTheSpecifications) {
  const std::string args = test::table_bytes("");
  EXPECT_EQ(payload_of(method::QueueDeclare{.queue = "qq", .durable = true, .no_wait = true}),
            std::string("\0\x32\0\x0a\0\0\2qq\x12", 10) + args);
  EXPECT_EQ(payload_of(method::ExchangeUnbindOk{}), std::string("\0\x28\0\x33", 4));
  EXPECT_EQ(payload_of(method::ConnectionOpen{.vhost = "/"}),
            std::string("\0\x0a\0\x28\1/\0\0", 8));
  EXPECT_EQ(payload_of(method::ChannelOpenOk{}), std::string("\0\x14\0\x0b\0\0\0\0", 8));
  EXPECT_EQ(payload_of(method::BasicNack{.delivery_tag = 258, .requeue = true}),
            std::string("\0\x3c\0\x78\0\0\0\0\0\0\1\2\2", 13));
  EXPECT_EQ(
      payload_of(method::ConnectionTune{.channel_max = 2047, .frame_max = 131072, .heartbeat = 60}),
      std::string("\0\x0a\0\x1e\x07\xff\0\2\0\0\0\x3c", 12));
}

TEST(Methods, ReservedFieldsAndUnusedBitsAreSkippedWhateverTheyHold) {
  const auto publish =
      parse_method(as_bytes(std::string_view("\0\x3c\0\x28\xab\xcd\1e\1k\xfd", 11)));
  ASSERT_TRUE(publish);
  EXPECT_EQ(std::get<method::BasicPublish>(*publish).exchange, "e");
  EXPECT_TRUE(std::get<method::BasicPublish>(*publish).mandatory);
  EXPECT_FALSE(std::get<method::BasicPublish>(*publish).immediate);
  const auto open = parse_method(as_bytes(std::string_view("\0\x0a\0\x28\1/\3abc\1", 11)));
  ASSERT_TRUE(open);
  EXPECT_EQ(std::get<method::ConnectionOpen>(*open).vhost, "/");
}

TEST(Methods, TheFastPublishReadsWhatTheGeneralOneReads) {
  const std::string long_key(255, 'k');
  for (const std::string_view exchange : {std::string_view(""), std::string_view("amq.topic")}) {
    for (const std::string_view key :
         {std::string_view(""), std::string_view("a.b"), std::string_view(long_key)}) {
      for (int bits = 0; bits < 4; ++bits) {
        const std::string payload = payload_of(method::BasicPublish{.exchange = exchange,
                                                                    .routing_key = key,
                                                                    .mandatory = (bits & 1) != 0,
                                                                    .immediate = (bits & 2) != 0});
        PublishFields out;
        ASSERT_TRUE(parse_publish(as_bytes(payload), out));
        EXPECT_EQ(out.exchange, exchange);
        EXPECT_EQ(out.routing_key, key);
        EXPECT_EQ(out.mandatory, (bits & 1) != 0);
        EXPECT_EQ(out.immediate, (bits & 2) != 0);
        EXPECT_EQ(as_text(out.route), make_route(exchange, key));
        for (size_t size = 4; size < payload.size(); ++size) {
          EXPECT_FALSE(
              parse_publish(ExactCopy(std::string_view(payload).substr(0, size)).span(), out))
              << size;
        }
        EXPECT_FALSE(parse_publish(as_bytes(payload + '\0'), out));
      }
    }
  }
}

TEST(Methods, TheFastSettlementsReadWhatTheGeneralOneReads) {
  const std::string ack =
      payload_of(method::BasicAck{.delivery_tag = 1ULL << 60, .multiple = true});
  const std::string reject = payload_of(method::BasicReject{.delivery_tag = 3, .requeue = true});
  const std::string nack =
      payload_of(method::BasicNack{.delivery_tag = 4, .multiple = false, .requeue = true});
  method::BasicAck a;
  method::BasicReject r;
  method::BasicNack n;
  ASSERT_TRUE(parse_ack(as_bytes(ack), a) && parse_reject(as_bytes(reject), r) &&
              parse_nack(as_bytes(nack), n));
  EXPECT_EQ(a.delivery_tag, 1ULL << 60);
  EXPECT_TRUE(a.multiple);
  EXPECT_EQ(r.delivery_tag, 3U);
  EXPECT_TRUE(r.requeue);
  EXPECT_EQ(n.delivery_tag, 4U);
  EXPECT_FALSE(n.multiple);
  EXPECT_TRUE(n.requeue);
  for (size_t size = 4; size < ack.size(); ++size) {
    const ExactCopy cut(std::string_view(ack).substr(0, size));
    EXPECT_FALSE(parse_ack(cut.span(), a) || parse_reject(cut.span(), r) ||
                 parse_nack(cut.span(), n))
        << size;
  }
  EXPECT_FALSE(parse_ack(as_bytes(ack + '\0'), a));
}

TEST(Methods, RouteBytesSplitIntoWhatTheyWereMadeOf) {
  const std::string route = make_route("ex", "a.b");
  EXPECT_EQ(route, std::string("\2ex\3a.b"));
  EXPECT_EQ(split_route(as_bytes(route)).exchange, "ex");
  EXPECT_EQ(split_route(as_bytes(route)).routing_key, "a.b");
  for (size_t size = 0; size < route.size(); ++size) {
    EXPECT_EQ(split_route(ExactCopy(route.substr(0, size)).span()).exchange, "") << size;
  }
}

TEST(Methods, TooLongShortTextsAreCutBetweenCharacters) {
  const std::string text = std::string(254, 'a') + "\xc3\xa9" + "tail";
  const std::string payload =
      payload_of(method::ConnectionClose{.reply_code = 541, .reply_text = text});
  const auto parsed = parse_method(as_bytes(payload));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<method::ConnectionClose>(*parsed).reply_text, std::string(254, 'a'));
}

TEST(ReplyCodes, HaveTheirNames) {
  EXPECT_EQ(reply::name(406), "PRECONDITION_FAILED");
  EXPECT_EQ(reply::name(540), "NOT_IMPLEMENTED");
  EXPECT_EQ(reply::name(1), "UNKNOWN");
}

}  // namespace
}  // namespace tarry
