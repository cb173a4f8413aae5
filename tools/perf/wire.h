#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tarry::perf {

// The load generator has an encoding of its own, so that it can't share a mistake with the broker.
// Big-endian all over.

inline void store64(char* at, uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(at, &v, sizeof v);
}
inline uint64_t load64(const char* at) {
  uint64_t v;
  std::memcpy(&v, at, sizeof v);
  return __builtin_bswap64(v);
}
inline uint32_t load32(const char* at) {
  uint32_t v;
  std::memcpy(&v, at, sizeof v);
  return __builtin_bswap32(v);
}
inline uint16_t load16(const char* at) {
  uint16_t v;
  std::memcpy(&v, at, sizeof v);
  return __builtin_bswap16(v);
}

/// Appends in AMQP's encoding.
class Encoder {
 public:
  Encoder& u8(uint8_t v) {
    bytes.push_back(static_cast<char>(v));
    return *this;
  }
  Encoder& u16(uint16_t v) { return u8(static_cast<uint8_t>(v >> 8)).u8(static_cast<uint8_t>(v)); }
  Encoder& u32(uint32_t v) {
    return u16(static_cast<uint16_t>(v >> 16)).u16(static_cast<uint16_t>(v));
  }
  Encoder& u64(uint64_t v) {
    return u32(static_cast<uint32_t>(v >> 32)).u32(static_cast<uint32_t>(v));
  }
  Encoder& raw(std::string_view v) {
    bytes.append(v);
    return *this;
  }
  Encoder& short_string(std::string_view v) { return u8(static_cast<uint8_t>(v.size())).raw(v); }
  Encoder& long_string(std::string_view v) { return u32(static_cast<uint32_t>(v.size())).raw(v); }
  std::string bytes;
};

/// Field table from `key=value` texts: a whole number becomes a long (l), true and false booleans,
/// the rest strings.
std::string encode_table(const std::vector<std::pair<std::string, std::string>>& entries);

inline constexpr char kFrameEnd = static_cast<char>(0xCE);
inline constexpr uint8_t kMethodFrame = 1, kHeaderFrame = 2, kBodyFrame = 3, kHeartbeatFrame = 8;
inline constexpr size_t kFrameHead = 7, kFrameOverhead = 8;

std::string frame(uint8_t type, uint16_t channel, std::string_view payload);
std::string method_frame(uint16_t channel, uint16_t class_id, uint16_t method_id,
                         std::string_view arguments);

constexpr uint32_t method_key(uint16_t class_id, uint16_t method_id) {
  return static_cast<uint32_t>(class_id) << 16 | method_id;
}
inline constexpr uint32_t kConnectionClose = method_key(10, 50), kChannelClose = method_key(20, 40),
                          kBasicReturn = method_key(60, 50), kBasicDeliver = method_key(60, 60),
                          kBasicAck = method_key(60, 80), kBasicNack = method_key(60, 120),
                          kBasicCancel = method_key(60, 30);

/// A whole basic.publish: method, header and body frames, the body split at frame_max.
/// `body_offset` is where the body's first byte is.
struct EncodedPublish {
  std::string bytes;
  size_t body_offset = 0;
};
EncodedPublish encode_publish(std::string_view exchange, std::string_view routing_key,
                              bool persistent, std::string_view body, uint32_t frame_max);

}  // namespace tarry::perf
