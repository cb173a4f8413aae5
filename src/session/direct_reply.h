#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/ids.h"

namespace tarry {

/// Direct reply-to (RabbitMQ "direct reply-to"): a client consumes from this name, without
/// acknowledgements, and publishes requests with it as reply-to; the broker replaces it by an
/// address of that very channel, and what is published to the address through the default exchange
/// goes straight to the channel. No queue is behind it.
/// Its name is RabbitMQ's, or the one that LavinMQ has besides.
inline constexpr std::string_view kReplyPrefix = "amq.rabbitmq.reply-to.";
inline constexpr std::string_view kReplyPrefixToo = "amq.direct.reply-to.";

inline bool is_reply_name(std::string_view name) {
  return name == kReplyPrefix.substr(0, kReplyPrefix.size() - 1) ||
         name == kReplyPrefixToo.substr(0, kReplyPrefixToo.size() - 1);
}
inline bool is_reply_address(std::string_view name) {
  return name.starts_with(kReplyPrefix) || name.starts_with(kReplyPrefixToo);
}

/// Which channel a reply goes to. As text: the prefix, then connection, channel and serial in
/// hexadecimal with `-` between, a dot, and the secret, which keeps others from guessing it.
/// RabbitMQ's have that form too (something, a dot, 16 bytes in base64), and tests of clients go by
/// it.
struct ReplyAddress {
  std::string_view prefix = kReplyPrefix;
  ConnectionId connection;
  uint16_t channel = 0;
  uint32_t serial = 0;
  /// 16 random bytes in base64.
  std::array<char, 24> secret{};

  /// For ConnectionList.
  uint64_t key() const { return std::hash<std::string_view>{}({secret.data(), secret.size()}); }
  bool operator==(const ReplyAddress& other) const {
    return secret == other.secret && serial == other.serial;
  }
  std::string text() const;
  static bool parse(std::string_view name, ReplyAddress& out);
};

/// True for the route (exchange and key as short strings) of a reply. On the path of every publish.
inline bool is_reply_route(ByteSpan route) {
  constexpr size_t kHead = 2;  // the empty exchange's length, the key's length
  return route.size() > kHead && route[0] == std::byte{0} &&
         is_reply_address(as_text(route.subspan(kHead)));
}

class ConnectionList;

/// The consumer of a channel's replies. While it is there, `list` (may be null) knows it.
struct ReplyConsumer {
  ReplyConsumer(std::string tag, uint16_t channel, const ReplyAddress& address,
                ConnectionList* list);
  ~ReplyConsumer();
  ReplyConsumer(const ReplyConsumer&) = delete;
  ReplyConsumer& operator=(const ReplyConsumer&) = delete;

  ConnectionList* const list;
  std::string tag;
  DeliverTemplate frames;
  ReplyAddress address;
};

}  // namespace tarry
