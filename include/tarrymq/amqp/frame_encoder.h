#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>

#include "tarrymq/amqp/method_writer.h"
#include "tarrymq/amqp/methods.h"
#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// Where frames go: `append` gives room for that many bytes, all of which are filled before the
/// next call.
template <class S>
concept FrameSink = requires(S& s, size_t size) {
  { s.append(size) } -> std::same_as<std::byte*>;
};

namespace detail {
inline std::byte* put_frame_head(std::byte* at, FrameType type, uint16_t channel,
                                 size_t payload_bytes) {
  at[0] = static_cast<std::byte>(type);
  store_be(at + 1, channel);
  store_be(at + 3, static_cast<uint32_t>(payload_bytes));
  return at + kFrameHeadBytes;
}
inline std::byte* put_bytes(std::byte* at, ByteSpan bytes) {
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}
inline std::byte* put_frame_end(std::byte* at) {
  *at = std::byte{kFrameEnd};
  return at + 1;
}
inline std::byte* put_frame(std::byte* at, FrameType type, uint16_t channel, ByteSpan payload) {
  return put_frame_end(put_bytes(put_frame_head(at, type, channel, payload.size()), payload));
}
}  // namespace detail

/// Any method of namespace `method`.
template <FrameSink Sink, class M>
void append_method(Sink& out, uint16_t channel, const M& m) {
  MethodSizer sizer;
  M::fields(m, sizer);
  const size_t payload_bytes = 4 + sizer.size();
  MethodWriter writer(detail::put_frame_head(out.append(payload_bytes + kFrameOverheadBytes),
                                             FrameType::method, channel, payload_bytes));
  writer.integer(M::id);
  M::fields(m, writer);
  detail::put_frame_end(writer.at());
}

template <FrameSink Sink>
void append_heartbeat(Sink& out) {
  detail::put_frame(out.append(kFrameOverheadBytes), FrameType::heartbeat, 0, {});
}

/// The body in as many frames as frame_max asks for; none if it is empty.
template <FrameSink Sink>
void append_body(Sink& out, uint16_t channel, ByteSpan body, uint32_t frame_max) {
  const size_t most = frame_max - kFrameOverheadBytes;
  while (!body.empty()) {
    const ByteSpan part = body.first(std::min(body.size(), most));
    detail::put_frame(out.append(part.size() + kFrameOverheadBytes), FrameType::body, channel,
                      part);
    body = body.subspan(part.size());
  }
}

/// Content header (`header`: its payload) and body. A header frame cannot be split, so one that is
/// above frame_max goes out as it is.
template <FrameSink Sink>
void append_content(Sink& out, uint16_t channel, ByteSpan header, ByteSpan body,
                    uint32_t frame_max) {
  detail::put_frame(out.append(header.size() + kFrameOverheadBytes), FrameType::header, channel,
                    header);
  append_body(out, channel, body, frame_max);
}

/// basic.deliver for one consumer: everything that does not change between its deliveries, laid out
/// once. A delivery of a body that fits one frame is one reservation, this prefix, three patched
/// fields and copies.
class DeliverTemplate {
 public:
  DeliverTemplate(uint16_t channel, std::string_view consumer_tag);

  /// `route`: exchange and routing key as two short strings; `header`: content header payload.
  template <FrameSink Sink>
  void append(Sink& out, uint64_t delivery_tag, bool redelivered, ByteSpan route, ByteSpan header,
              ByteSpan body, uint32_t frame_max) const {
    const bool one_frame = body.size() <= frame_max - kFrameOverheadBytes;
    const bool with_body = one_frame && !body.empty();
    const size_t head_bytes = head_size(route, header);
    std::byte* at = out.append(head_bytes + (with_body ? body.size() + kFrameOverheadBytes : 0));
    at = put_head(at, delivery_tag, redelivered, route, header);
    if (with_body) detail::put_frame(at, FrameType::body, channel_, body);
    if (!one_frame) append_body(out, channel_, body, frame_max);
  }
  /// Method and header frame alone, for a body that goes another way.
  template <FrameSink Sink>
  void append_head(Sink& out, uint64_t delivery_tag, bool redelivered, ByteSpan route,
                   ByteSpan header) const {
    put_head(out.append(head_size(route, header)), delivery_tag, redelivered, route, header);
  }
  uint16_t channel() const { return channel_; }
  std::string_view consumer_tag() const {
    return as_text(ByteSpan(prefix_).subspan(12, prefix_bytes_ - 12));
  }

 private:
  static constexpr size_t kTagAndBit = 9;  // delivery tag (8), redelivered (1)

  size_t head_size(ByteSpan route, ByteSpan header) const {
    return prefix_bytes_ + kTagAndBit + route.size() + 1 + header.size() + kFrameOverheadBytes;
  }
  std::byte* put_head(std::byte* at, uint64_t delivery_tag, bool redelivered, ByteSpan route,
                      ByteSpan header) const {
    std::memcpy(at, prefix_.data(), prefix_bytes_);
    store_be(at + 3,
             static_cast<uint32_t>(prefix_bytes_ - kFrameHeadBytes + kTagAndBit + route.size()));
    at += prefix_bytes_;
    store_be(at, delivery_tag);
    at[8] = std::byte{redelivered};
    at = detail::put_frame_end(detail::put_bytes(at + kTagAndBit, route));
    return detail::put_frame(at, FrameType::header, channel_, header);
  }

  // type, channel, size (patched), class, method, consumer tag as a short string
  std::array<std::byte, kFrameHeadBytes + 4 + 256> prefix_;
  uint16_t prefix_bytes_ = 0;
  uint16_t channel_ = 0;
};

}  // namespace tarry
