#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tarrymq/amqp/basic_methods.h"
#include "tarrymq/amqp/connection_methods.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/amqp/topology_methods.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// Each method of the protocol, both directions, is a plain struct in namespace `method`: `id`
/// (method_id), its fields in wire order, and `fields()`, the one place that says how they are on
/// the wire. Texts and tables borrow: what is parsed borrows the frame, what is sent must live for
/// the call. Tables are raw bytes: the 4-byte length and the entries. Parsed ones are checked and
/// always there; in a struct that is sent, an empty span stands for an empty table. Reserved fields
/// are skipped when read and written as zero.
using Method = std::variant<
    method::ConnectionStart, method::ConnectionStartOk, method::ConnectionSecure,
    method::ConnectionSecureOk, method::ConnectionTune, method::ConnectionTuneOk,
    method::ConnectionOpen, method::ConnectionOpenOk, method::ConnectionClose,
    method::ConnectionCloseOk, method::ConnectionBlocked, method::ConnectionUnblocked,
    method::ConnectionUpdateSecret, method::ConnectionUpdateSecretOk, method::ChannelOpen,
    method::ChannelOpenOk, method::ChannelFlow, method::ChannelFlowOk, method::ChannelClose,
    method::ChannelCloseOk, method::AccessRequest, method::AccessRequestOk, method::ExchangeDeclare,
    method::ExchangeDeclareOk, method::ExchangeDelete, method::ExchangeDeleteOk,
    method::ExchangeBind, method::ExchangeBindOk, method::ExchangeUnbind, method::ExchangeUnbindOk,
    method::QueueDeclare, method::QueueDeclareOk, method::QueueBind, method::QueueBindOk,
    method::QueuePurge, method::QueuePurgeOk, method::QueueDelete, method::QueueDeleteOk,
    method::QueueUnbind, method::QueueUnbindOk, method::BasicQos, method::BasicQosOk,
    method::BasicConsume, method::BasicConsumeOk, method::BasicCancel, method::BasicCancelOk,
    method::BasicPublish, method::BasicReturn, method::BasicDeliver, method::BasicGet,
    method::BasicGetOk, method::BasicGetEmpty, method::BasicAck, method::BasicReject,
    method::BasicRecoverAsync, method::BasicRecover, method::BasicRecoverOk, method::BasicNack,
    method::ConfirmSelect, method::ConfirmSelectOk, method::TxSelect, method::TxSelectOk,
    method::TxCommit, method::TxCommitOk, method::TxRollback, method::TxRollbackOk>;

/// Class and method of a method frame's payload (method_id); 0 if it is too short to have them.
inline uint32_t peek_method_id(ByteSpan payload) {
  return payload.size() < 4 ? 0 : load_be<uint32_t>(payload.data());
}

/// Parses any method. Errors, all hard, with class and method id set: 540 unknown class or method;
/// 501 arguments too short, bytes behind them, or a malformed table among them (as RabbitMQ does).
Result<Method, PeerError> parse_method(ByteSpan payload);

/// "basic.publish" for 60.40; "60.99" for what is unknown. For logs and error texts.
std::string method_name(uint32_t id);

/// The 501 for a method whose arguments don't parse; for callers of the functions below.
PeerError method_syntax_error(ByteSpan payload);

// The hot ones, without variant and without error values. `payload` begins with the class and
// method id, which the caller has looked at (peek_method_id). False: the arguments are too short or
// too long (method_syntax_error).

struct PublishFields {
  ByteSpan route{};  // exchange and routing key as two short strings, as they lie in the frame: the
                     // key of route caches and what a record keeps
  std::string_view exchange{}, routing_key{};
  bool mandatory = false, immediate = false;
};

inline bool parse_publish(ByteSpan payload, PublishFields& out) {
  constexpr size_t kRouteAt = 6;  // behind class, method and the reserved ticket
  const size_t size = payload.size();
  if (size < kRouteAt + 3) return false;
  const std::byte* p = payload.data();
  const size_t exchange_bytes = std::to_integer<uint8_t>(p[kRouteAt]);
  const size_t key_at = kRouteAt + 1 + exchange_bytes;
  if (size < key_at + 2) return false;
  const size_t key_bytes = std::to_integer<uint8_t>(p[key_at]);
  if (size != key_at + 1 + key_bytes + 1) return false;
  const auto bits = std::to_integer<uint8_t>(p[size - 1]);
  const char* text = reinterpret_cast<const char*>(p);
  out.route = payload.subspan(kRouteAt, size - kRouteAt - 1);
  out.exchange = {text + kRouteAt + 1, exchange_bytes};
  out.routing_key = {text + key_at + 1, key_bytes};
  out.mandatory = (bits & 1) != 0;
  out.immediate = (bits & 2) != 0;
  return true;
}

namespace detail {
inline constexpr size_t kSettleBytes = 13;  // class, method, delivery tag, bits
}

inline bool parse_ack(ByteSpan payload, method::BasicAck& out) {
  if (payload.size() != detail::kSettleBytes) return false;
  out.delivery_tag = load_be<uint64_t>(payload.data() + 4);
  out.multiple = (std::to_integer<uint8_t>(payload[12]) & 1) != 0;
  return true;
}
inline bool parse_reject(ByteSpan payload, method::BasicReject& out) {
  if (payload.size() != detail::kSettleBytes) return false;
  out.delivery_tag = load_be<uint64_t>(payload.data() + 4);
  out.requeue = (std::to_integer<uint8_t>(payload[12]) & 1) != 0;
  return true;
}
inline bool parse_nack(ByteSpan payload, method::BasicNack& out) {
  if (payload.size() != detail::kSettleBytes) return false;
  const auto bits = std::to_integer<uint8_t>(payload[12]);
  out.delivery_tag = load_be<uint64_t>(payload.data() + 4);
  out.multiple = (bits & 1) != 0;
  out.requeue = (bits & 2) != 0;
  return true;
}

/// Exchange and routing key of route bytes (two short strings, as in PublishFields and in a
/// record). Empty views if `route` is not that.
struct RouteNames {
  std::string_view exchange, routing_key;
};
inline RouteNames split_route(ByteSpan route) {
  if (route.size() < 2) return {};
  const size_t exchange_bytes = std::to_integer<uint8_t>(route[0]);
  if (route.size() < exchange_bytes + 2) return {};
  const size_t key_bytes = std::to_integer<uint8_t>(route[exchange_bytes + 1]);
  if (route.size() != exchange_bytes + key_bytes + 2) return {};
  const char* text = reinterpret_cast<const char*>(route.data());
  return {{text + 1, exchange_bytes}, {text + exchange_bytes + 2, key_bytes}};
}
/// The reverse. Both at most 255 bytes; what is longer is cut.
std::string make_route(std::string_view exchange, std::string_view routing_key);

}  // namespace tarry
