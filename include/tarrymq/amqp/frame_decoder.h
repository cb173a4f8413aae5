#pragma once

#include <cstdint>

#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// How much longer than frame-max a frame may come: many clients let the payload alone grow to
/// frame-max, and RabbitMQ has always taken that. We send none of these.
inline constexpr uint64_t kFrameGraceBytes = kFrameOverheadBytes;

/// The older form of the protocol header, for 0-9: RabbitMQ starts 0-9-1 on it, and some clients
/// send no other.
inline constexpr std::string_view kProtocolHeaderOfOld{"AMQP\1\1\0\x9", 8};

/// A frame on the wire, all integers big-endian:
///
///     type (1) | channel (2) | payload size (4) | payload | end octet 206 (1)
///
/// frame-max counts all of it; what comes in may be kFrameGraceBytes longer.
enum class FrameStatus : uint8_t {
  frame,      // a whole one: the other fields of DecodedFrame are set
  need_more,  // not an error: come again with more bytes
  bad_type,   // none of FrameType; seen at the first byte
  too_large,  // above frame-max and grace; seen as soon as the head is there
  bad_end,    // the end octet is not 206
};

/// One frame looked at in place; `payload` borrows the input.
struct DecodedFrame {
  FrameStatus status = FrameStatus::need_more;
  FrameType type = FrameType::method;  // `type`, `channel`, `payload`: valid with status frame only
  uint16_t channel = 0;
  ByteSpan payload;
  size_t total_bytes = 0;  // of the frame, to go on behind it (frame), or what the frame will need
                           // (need_more, 0: not known)
};

/// The frame at the start of `in`. `frame_max`: as negotiated, at least 4096. Any thread; keeps no
/// state.
inline DecodedFrame decode_frame(ByteSpan in, uint32_t frame_max) {
  DecodedFrame out;
  if (in.empty()) return out;
  const auto type = std::to_integer<uint8_t>(in[0]);
  if ((type < 1 || type > 3) && type != 8) [[unlikely]] {
    out.status = FrameStatus::bad_type;
    return out;
  }
  if (in.size() < kFrameHeadBytes) return out;
  const uint64_t payload_bytes = load_be<uint32_t>(in.data() + 3);
  out.total_bytes = payload_bytes + kFrameOverheadBytes;
  if (out.total_bytes > frame_max + kFrameGraceBytes) [[unlikely]] {
    out.status = FrameStatus::too_large;
    return out;
  }
  if (in.size() < out.total_bytes) return out;
  if (std::to_integer<uint8_t>(in[out.total_bytes - 1]) != kFrameEnd) [[unlikely]] {
    out.status = FrameStatus::bad_end;
    return out;
  }
  out.status = FrameStatus::frame;
  out.type = static_cast<FrameType>(type);
  out.channel = load_be<uint16_t>(in.data() + 1);
  out.payload = in.subspan(kFrameHeadBytes, payload_bytes);
  return out;
}

/// What a bad frame (status bad_type, too_large or bad_end) means for the peer: 501 FRAME_ERROR,
/// hard, with what was found and what is allowed. `in`, `frame_max`: as given to decode_frame.
PeerError frame_error(FrameStatus status, ByteSpan in, uint32_t frame_max);

enum class ProtocolHeaderStatus : uint8_t { accepted, need_more, refused };

/// Compares the first bytes of a connection with the 8 bytes of AMQP 0-9-1, in either form. Refused
/// at the first byte that differs: the server then sends kProtocolHeader and closes (AMQP
/// 0-9-1, 4.2.2).
inline ProtocolHeaderStatus check_protocol_header(ByteSpan in) {
  const size_t size = in.size() < kProtocolHeader.size() ? in.size() : kProtocolHeader.size();
  const std::string_view got(reinterpret_cast<const char*>(in.data()), size);
  if (!kProtocolHeader.starts_with(got) && !kProtocolHeaderOfOld.starts_with(got))
    return ProtocolHeaderStatus::refused;
  return size == kProtocolHeader.size() ? ProtocolHeaderStatus::accepted
                                        : ProtocolHeaderStatus::need_more;
}

}  // namespace tarry
