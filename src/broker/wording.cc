#include "broker/wording.h"

#include "broker/holding.h"

namespace tarry {

PeerError no_queue(std::string_view name, std::string_view vhost) {
  return PeerError::not_found("no " + queue_named(name, vhost));
}

PeerError no_exchange(std::string_view name, std::string_view vhost) {
  return PeerError::not_found("no " + exchange_named(name, vhost));
}

PeerError locked_queue(std::string_view name, std::string_view vhost) {
  return PeerError::resource_locked(
      "cannot obtain exclusive access to locked " + queue_named(name, vhost) +
      ". It could be originally declared on another connection or the exclusive "
      "property value does not match that of the original declaration.");
}

std::string with_vhost(std::string text, const std::string& subject, std::string_view vhost) {
  const size_t at = text.find(subject);
  if (at != std::string::npos)
    text.insert(at + subject.size(), " in vhost '" + std::string(vhost) + "'");
  return text;
}

PeerError bad_request(std::string text) { return PeerError::soft(400, std::move(text)); }

PeerError internal_queue(std::string_view name, std::string_view vhost) {
  std::string text =
      "operation on internal " + queue_named(name, vhost) + " refused: names that begin with '";
  if (is_holding_name(name))
    text.append(kHoldingPrefix).append("' belong to exchanges that delay");
  else
    text.append(kCompanionPrefix).append("' belong to the retries of other queues");
  return PeerError::access_refused(std::move(text));
}

PeerError default_exchange_refused() {
  return PeerError::access_refused("operation not permitted on the default exchange");
}

PeerError inequivalent(std::string_view arg, const std::string& whose, std::string_view received,
                       std::string_view current) {
  std::string text = "inequivalent arg '";
  text.append(arg).append("' for ").append(whose).append(": received ");
  text.append(received).append(" but current is ").append(current);
  return PeerError::precondition_failed(std::move(text));
}

std::string value_in_words(const FieldValue* value) {
  if (!value) return "none";
  return "the value '" + value->to_text() + "' of type '" + std::string(value->type_name()) + "'";
}

PeerError inequivalent_argument(std::string_view arg, const std::string& whose,
                                const FieldValue* received, const FieldValue* current) {
  return inequivalent(arg, whose, value_in_words(received), value_in_words(current));
}

}  // namespace tarry
