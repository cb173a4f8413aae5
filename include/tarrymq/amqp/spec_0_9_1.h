#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tarry {

/// The numbers of AMQP 0-9-1 (and of RabbitMQ's extensions to it), in the specification's order.

enum class FrameType : uint8_t { method = 1, header = 2, body = 3, heartbeat = 8 };

inline constexpr uint8_t kFrameEnd = 206;
inline constexpr size_t kFrameHeadBytes = 7;  // type (1), channel (2), payload size (4), big-endian
inline constexpr size_t kFrameOverheadBytes = 8;  // head and end octet
inline constexpr uint32_t kFrameMaxLowest = 4096;
inline constexpr size_t kContentHeaderFixedBytes = 14;  // class, weight, body size, flags

/// What a client sends first, and what a server answers to anything else before it closes.
inline constexpr std::string_view kProtocolHeader{"AMQP\0\0\x9\x1", 8};

namespace reply {
inline constexpr uint16_t success = 200, content_too_large = 311, no_route = 312,
                          no_consumers = 313, connection_forced = 320, invalid_path = 402,
                          access_refused = 403, not_found = 404, resource_locked = 405,
                          precondition_failed = 406, frame_error = 501, syntax_error = 502,
                          command_invalid = 503, channel_error = 504, unexpected_frame = 505,
                          resource_error = 506, not_allowed = 530, not_implemented = 540,
                          internal_error = 541;
/// "PRECONDITION_FAILED" for 406 and so on; "UNKNOWN" for a number that the protocol has not.
constexpr std::string_view name(uint16_t code) {
  switch (code) {
    case success:
      return "SUCCESS";
    case content_too_large:
      return "CONTENT_TOO_LARGE";
    case no_route:
      return "NO_ROUTE";
    case no_consumers:
      return "NO_CONSUMERS";
    case connection_forced:
      return "CONNECTION_FORCED";
    case invalid_path:
      return "INVALID_PATH";
    case access_refused:
      return "ACCESS_REFUSED";
    case not_found:
      return "NOT_FOUND";
    case resource_locked:
      return "RESOURCE_LOCKED";
    case precondition_failed:
      return "PRECONDITION_FAILED";
    case frame_error:
      return "FRAME_ERROR";
    case syntax_error:
      return "SYNTAX_ERROR";
    case command_invalid:
      return "COMMAND_INVALID";
    case channel_error:
      return "CHANNEL_ERROR";
    case unexpected_frame:
      return "UNEXPECTED_FRAME";
    case resource_error:
      return "RESOURCE_ERROR";
    case not_allowed:
      return "NOT_ALLOWED";
    case not_implemented:
      return "NOT_IMPLEMENTED";
    case internal_error:
      return "INTERNAL_ERROR";
    default:
      return "UNKNOWN";
  }
}
}  // namespace reply

namespace class_id {
inline constexpr uint16_t connection = 10, channel = 20, access = 30, exchange = 40, queue = 50,
                          basic = 60, confirm = 85, tx = 90;
}  // namespace class_id

/// Class and method in one number, as the first four bytes of a method frame's payload read
/// big-endian.
namespace method_id {
constexpr uint32_t of(uint16_t klass, uint16_t method) { return uint32_t{klass} << 16 | method; }
constexpr uint16_t klass(uint32_t id) { return static_cast<uint16_t>(id >> 16); }
constexpr uint16_t method(uint32_t id) { return static_cast<uint16_t>(id); }

inline constexpr uint32_t connection_start = of(10, 10), connection_start_ok = of(10, 11),
                          connection_secure = of(10, 20), connection_secure_ok = of(10, 21),
                          connection_tune = of(10, 30), connection_tune_ok = of(10, 31),
                          connection_open = of(10, 40), connection_open_ok = of(10, 41),
                          connection_close = of(10, 50), connection_close_ok = of(10, 51),
                          connection_blocked = of(10, 60), connection_unblocked = of(10, 61),
                          connection_update_secret = of(10, 70),
                          connection_update_secret_ok = of(10, 71);
inline constexpr uint32_t channel_open = of(20, 10), channel_open_ok = of(20, 11),
                          channel_flow = of(20, 20), channel_flow_ok = of(20, 21),
                          channel_close = of(20, 40), channel_close_ok = of(20, 41);
inline constexpr uint32_t access_request = of(30, 10), access_request_ok = of(30, 11);
inline constexpr uint32_t exchange_declare = of(40, 10), exchange_declare_ok = of(40, 11),
                          exchange_delete = of(40, 20), exchange_delete_ok = of(40, 21),
                          exchange_bind = of(40, 30), exchange_bind_ok = of(40, 31),
                          exchange_unbind = of(40, 40), exchange_unbind_ok = of(40, 51);
inline constexpr uint32_t queue_declare = of(50, 10), queue_declare_ok = of(50, 11),
                          queue_bind = of(50, 20), queue_bind_ok = of(50, 21),
                          queue_purge = of(50, 30), queue_purge_ok = of(50, 31),
                          queue_delete = of(50, 40), queue_delete_ok = of(50, 41),
                          queue_unbind = of(50, 50), queue_unbind_ok = of(50, 51);
inline constexpr uint32_t basic_qos = of(60, 10), basic_qos_ok = of(60, 11),
                          basic_consume = of(60, 20), basic_consume_ok = of(60, 21),
                          basic_cancel = of(60, 30), basic_cancel_ok = of(60, 31),
                          basic_publish = of(60, 40), basic_return = of(60, 50),
                          basic_deliver = of(60, 60), basic_get = of(60, 70),
                          basic_get_ok = of(60, 71), basic_get_empty = of(60, 72),
                          basic_ack = of(60, 80), basic_reject = of(60, 90),
                          basic_recover_async = of(60, 100), basic_recover = of(60, 110),
                          basic_recover_ok = of(60, 111), basic_nack = of(60, 120);
inline constexpr uint32_t confirm_select = of(85, 10), confirm_select_ok = of(85, 11);
inline constexpr uint32_t tx_select = of(90, 10), tx_select_ok = of(90, 11), tx_commit = of(90, 20),
                          tx_commit_ok = of(90, 21), tx_rollback = of(90, 30),
                          tx_rollback_ok = of(90, 31);
}  // namespace method_id

}  // namespace tarry
