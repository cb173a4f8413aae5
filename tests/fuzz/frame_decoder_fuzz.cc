#include <string>
#include <vector>

#include "fuzz/fuzz_support.h"
#include "tarrymq/amqp/frame_decoder.h"

namespace {

using namespace tarry;

constexpr uint32_t kFrameMax = 4096;

struct Seen {
  FrameType type;
  uint16_t channel;
  std::string payload;
  friend bool operator==(const Seen&, const Seen&) = default;
};
struct Outcome {
  std::vector<Seen> frames;
  FrameStatus last = FrameStatus::need_more;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Decodes what is in `buffer` until it ends; takes what it consumed out of it.
void drain(std::string& buffer, Outcome& out) {
  size_t at = 0;
  for (;;) {
    const DecodedFrame frame = decode_frame(as_bytes(buffer).subspan(at), kFrameMax);
    out.last = frame.status;
    if (frame.status != FrameStatus::frame) break;
    out.frames.push_back({frame.type, frame.channel, std::string(as_text(frame.payload))});
    at += frame.total_bytes;
  }
  if (out.last != FrameStatus::frame && out.last != FrameStatus::need_more) {
    FUZZ_CHECK(frame_error(out.last, as_bytes(buffer).subspan(at), kFrameMax).code == 501);
  }
  buffer.erase(0, at);
}

}  // namespace

/// The first byte says in how large pieces the rest comes. Whatever the pieces, the same frames
/// come out, and the same error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = 1 + data[0];
  const std::string stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  Outcome whole, pieces;
  std::string buffer = stream;
  drain(buffer, whole);
  buffer.clear();
  for (size_t at = 0; at < stream.size(); at += piece) {
    buffer.append(stream, at, piece);
    drain(buffer, pieces);
    if (pieces.last != FrameStatus::need_more) break;
  }
  FUZZ_CHECK(whole == pieces);
  (void)check_protocol_header(as_bytes(stream));
  return 0;
}
