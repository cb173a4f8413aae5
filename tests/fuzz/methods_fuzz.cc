#include <string>

#include "fuzz/fuzz_support.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/amqp/methods.h"

namespace {

struct TextSink {
  std::string bytes;
  std::byte* append(size_t size) {
    const size_t at = bytes.size();
    bytes.resize(at + size);
    return reinterpret_cast<std::byte*>(bytes.data()) + at;
  }
};

std::string encoded(const tarry::Method& method) {
  TextSink sink;
  std::visit([&](const auto& m) { tarry::append_method(sink, 0, m); }, method);
  return sink.bytes.substr(tarry::kFrameHeadBytes, sink.bytes.size() - tarry::kFrameOverheadBytes);
}

}  // namespace

/// A method that parses is written again with the same size but for its reserved texts, and that
/// parses to the same. The fast functions agree with the general one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tarry;
  const ByteSpan in = fuzz::input(data, size);
  const auto parsed = parse_method(in);
  const uint32_t id = peek_method_id(in);
  PublishFields publish;
  method::BasicAck ack;
  method::BasicReject reject;
  method::BasicNack nack;
  if (id == method_id::basic_publish) {
    FUZZ_CHECK(parse_publish(in, publish) == parsed.has_value());
    if (parsed) {
      FUZZ_CHECK(publish.routing_key == std::get<method::BasicPublish>(*parsed).routing_key);
      FUZZ_CHECK(split_route(publish.route).exchange == publish.exchange);
      FUZZ_CHECK(split_route(publish.route).routing_key == publish.routing_key);
    }
  }
  if (id == method_id::basic_ack) FUZZ_CHECK(parse_ack(in, ack) == parsed.has_value());
  if (id == method_id::basic_reject) FUZZ_CHECK(parse_reject(in, reject) == parsed.has_value());
  if (id == method_id::basic_nack) FUZZ_CHECK(parse_nack(in, nack) == parsed.has_value());
  if (!parsed) {
    const PeerError& error = parsed.error();
    FUZZ_CHECK(error.hard && !error.text.empty());
    FUZZ_CHECK(error.code == 501 || error.code == 502 || error.code == 540);
    return 0;
  }
  const std::string once = encoded(*parsed);
  const auto again = parse_method(as_bytes(once));
  FUZZ_CHECK(again.has_value() && again->index() == parsed->index());
  FUZZ_CHECK(encoded(*again) == once);
  return 0;
}
