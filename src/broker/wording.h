#pragma once

#include <string>
#include <string_view>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"

namespace tarry {

/// Texts that clients know from RabbitMQ, so that what matches on them goes on matching.

/// `queue 'q' in vhost '/'`.
inline std::string named(std::string_view kind, std::string_view name, std::string_view vhost) {
  std::string out(kind);
  out.append(" '").append(name).append("' in vhost '").append(vhost).append("'");
  return out;
}
/// Names and keys are AMQP short strings. Over AMQP they cannot be longer; over HTTP and in
/// definitions they can.
inline constexpr size_t kNameBytesMax = 255;
inline PeerError name_too_long(std::string_view what, std::string_view name) {
  return PeerError::precondition_failed("invalid " + std::string(what) + " of " +
                                        std::to_string(name.size()) + " bytes: at most " +
                                        std::to_string(kNameBytesMax) + " are allowed");
}
inline std::string queue_named(std::string_view name, std::string_view vhost) {
  return named("queue", name, vhost);
}
inline std::string exchange_named(std::string_view name, std::string_view vhost) {
  return named("exchange", name, vhost);
}

/// For a text of a room that knows no vhosts: puts ` in vhost '/'` behind `subject` (`queue 'q'`).
std::string with_vhost(std::string text, const std::string& subject, std::string_view vhost);

/// What HTTP answers with 400: `text` names what was wrong and what is allowed.
PeerError bad_request(std::string text);

PeerError no_queue(std::string_view name, std::string_view vhost);
PeerError no_exchange(std::string_view name, std::string_view vhost);
PeerError locked_queue(std::string_view name, std::string_view vhost);
/// 403 for everything that names amq.retry-... (retry-spec 20).
PeerError internal_queue(std::string_view name, std::string_view vhost);
PeerError default_exchange_refused();

/// `inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'`.
PeerError inequivalent(std::string_view arg, const std::string& whose, std::string_view received,
                       std::string_view current);
/// The same for an argument, where either may be missing:
/// `... received the value '1' of type 'signedint' but current is none`.
PeerError inequivalent_argument(std::string_view arg, const std::string& whose,
                                const FieldValue* received, const FieldValue* current);
/// `the value '1' of type 'signedint'`, or `none`.
std::string value_in_words(const FieldValue* value);

}  // namespace tarry
