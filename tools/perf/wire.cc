#include "perf/wire.h"

#include <algorithm>
#include <charconv>

namespace tarry::perf {

std::string encode_table(const std::vector<std::pair<std::string, std::string>>& entries) {
  Encoder inner;
  for (const auto& [key, value] : entries) {
    inner.short_string(key);
    int64_t number = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) {
      inner.u8('l').u64(static_cast<uint64_t>(number));
    } else if (value == "true" || value == "false") {
      inner.u8('t').u8(value == "true");
    } else {
      inner.u8('S').long_string(value);
    }
  }
  return Encoder().long_string(inner.bytes).bytes;
}

std::string frame(uint8_t type, uint16_t channel, std::string_view payload) {
  Encoder out;
  out.u8(type).u16(channel).long_string(payload).u8(static_cast<uint8_t>(kFrameEnd));
  return out.bytes;
}

std::string method_frame(uint16_t channel, uint16_t class_id, uint16_t method_id,
                         std::string_view arguments) {
  return frame(kMethodFrame, channel, Encoder().u16(class_id).u16(method_id).raw(arguments).bytes);
}

EncodedPublish encode_publish(std::string_view exchange, std::string_view routing_key,
                              bool persistent, std::string_view body, uint32_t frame_max) {
  constexpr uint16_t kChannel = 1, kDeliveryModeFlag = 1 << 12;
  EncodedPublish out;
  Encoder publish;
  publish.u16(0).short_string(exchange).short_string(routing_key).u8(0);
  out.bytes = method_frame(kChannel, 60, 40, publish.bytes);
  Encoder header;
  header.u16(60).u16(0).u64(body.size()).u16(kDeliveryModeFlag).u8(persistent ? 2 : 1);
  out.bytes += frame(kHeaderFrame, kChannel, header.bytes);
  out.body_offset = out.bytes.size() + kFrameHead;
  size_t part_max = frame_max - kFrameOverhead;
  for (size_t at = 0; at < body.size(); at += part_max) {
    out.bytes += frame(kBodyFrame, kChannel, body.substr(at, std::min(part_max, body.size() - at)));
  }
  return out;
}

}  // namespace tarry::perf
