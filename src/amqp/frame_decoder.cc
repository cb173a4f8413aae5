#include "tarrymq/amqp/frame_decoder.h"

#include "tarrymq/runtime/limit_hits.h"

namespace tarry {

PeerError frame_error(FrameStatus status, ByteSpan in, uint32_t frame_max) {
  std::string text;
  if (status == FrameStatus::too_large) count_limit_hit(Limit::frame_max);
  if (status == FrameStatus::bad_type) {
    text = "unknown frame type " + std::to_string(std::to_integer<int>(in[0])) +
           ", expected 1 (method), 2 (header), 3 (body) or 8 (heartbeat)";
  } else {
    const uint64_t total = uint64_t{load_be<uint32_t>(in.data() + 3)} + kFrameOverheadBytes;
    const std::string where = "frame of type " + std::to_string(std::to_integer<int>(in[0])) +
                              " on channel " + std::to_string(load_be<uint16_t>(in.data() + 1));
    text = status == FrameStatus::too_large
               ? where + " has " + std::to_string(total) +
                     " bytes, more than frame_max, which is " + std::to_string(frame_max)
               : where + " ends in octet " + std::to_string(std::to_integer<int>(in[total - 1])) +
                     ", expected 206";
  }
  return PeerError::connection(reply::frame_error, std::move(text));
}

}  // namespace tarry
