#pragma once

#include "tarrymq/amqp/frame_decoder.h"

namespace tarry {

/// Field by field: of neighbours that are compared in one expression the compiler makes one wider
/// load, which has to wait until all stores before it have left the processor (a quarter of the
/// time of a small publish).
inline bool is_content(const DecodedFrame& frame, FrameType type, uint16_t channel) {
  const FrameStatus status = frame.status;
  if (status != FrameStatus::frame) return false;
  const FrameType found = frame.type;
  if (found != type) return false;
  return frame.channel == channel;
}

}  // namespace tarry
