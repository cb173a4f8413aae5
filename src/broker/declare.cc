#include "broker/declare.h"

#include <array>
#include <optional>

#include "broker/holding.h"
#include "broker/wording.h"
#include "tarrymq/retry/retry_arguments.h"

namespace tarry {
namespace {

using Complaint = std::optional<std::string>;

struct Subject {
  const QueueDeclare& declare;
  CheckedQueue& out;
};
using Check = Complaint (*)(const FieldValue&, Subject);

std::string got(const FieldValue& value) { return ", got " + value_in_words(&value); }

/// An integer of any width; what does not fit into 63 bits is above every bound.
Complaint whole_number(const FieldValue& value, int64_t min, int64_t max, uint64_t& out) {
  if (!value.is_integer()) return "expected an integer" + got(value);
  int64_t number = value.integer().value_or(INT64_MAX);
  if (number < min || number > max) {
    std::string allowed = "expected an integer of at least " + std::to_string(min);
    if (max != INT64_MAX) allowed += " and at most " + std::to_string(max);
    return allowed + got(value);
  }
  out = static_cast<uint64_t>(number);
  return std::nullopt;
}

template <auto Setting, int64_t Min>
Complaint number_setting(const FieldValue& value, Subject s) {
  uint64_t number = 0;
  if (auto complaint = whole_number(value, Min, INT64_MAX, number)) return complaint;
  s.out.settings.*Setting = number;
  return std::nullopt;
}

Complaint text(const FieldValue& value) {
  return value.text() ? Complaint() : "expected a string" + got(value);
}

Complaint overflow(const FieldValue& value, Subject s) {
  const std::string* word = value.text();
  if (word && *word == "drop-head")
    s.out.settings.overflow = Overflow::drop_head;
  else if (word && *word == "reject-publish")
    s.out.settings.overflow = Overflow::reject_publish;
  else if (word && *word == "reject-publish-dlx")
    s.out.settings.overflow = Overflow::reject_publish_dlx;
  else
    return "expected drop-head, reject-publish or reject-publish-dlx" + got(value);
  return std::nullopt;
}

Complaint dead_letter_exchange(const FieldValue& value, Subject s) {
  if (auto complaint = text(value)) return complaint;
  s.out.settings.dead_letter_exchange = *value.text();
  return std::nullopt;
}

Complaint dead_letter_routing_key(const FieldValue& value, Subject s) {
  if (auto complaint = text(value)) return complaint;
  if (!s.declare.arguments.find("x-dead-letter-exchange"))
    return "needs x-dead-letter-exchange, which is not there";
  s.out.settings.dead_letter_routing_key = *value.text();
  return std::nullopt;
}

Complaint dead_letter_strategy(const FieldValue& value, Subject s) {
  const std::string* word = value.text();
  s.out.settings.dead_letter_at_least_once = word && *word == "at-least-once";
  if (word && (*word == "at-most-once" || *word == "at-least-once")) return std::nullopt;
  return "expected at-most-once or at-least-once" + got(value);
}

Complaint max_priority(const FieldValue& value, Subject s) {
  uint64_t number = 0;
  if (auto complaint = whole_number(value, 0, 255, number)) return complaint;
  s.out.identity.max_priority = static_cast<uint16_t>(number);
  return std::nullopt;
}

Complaint single_active_consumer(const FieldValue& value, Subject s) {
  auto on = value.boolean();
  if (!on) return "expected a boolean" + got(value);
  s.out.identity.single_active_consumer = *on;
  return std::nullopt;
}

Complaint boolean(const FieldValue& value, Subject) {
  return value.boolean() ? Complaint() : "expected a boolean" + got(value);
}

Complaint queue_type(const FieldValue& value, Subject s) {
  const std::string* word = value.text();
  if (word && *word == "classic") return std::nullopt;
  if (word && *word == "quorum") {
    if (!s.declare.durable) return "a queue of type quorum must be durable, got durable = false";
    s.out.identity.quorum_type = true;
    return std::nullopt;
  }
  if (word && *word == "stream") return std::nullopt;  // refused by check_queue: not as a bad value
  return "expected classic or quorum" + got(value);
}

/// The retry arguments and x-delivery-limit are checked together by the retry room.
Complaint by_retry_room(const FieldValue&, Subject) { return std::nullopt; }

struct ArgumentRule {
  std::string_view name;
  Check check;
};

/// Every argument that has a meaning here, and so counts in equivalence. Any other one is stored
/// and ignored: those of other brokers' placement and storage (foreign_arguments.h; x-ha-*,
/// x-queue-master-locator) as well as a client's own.
constexpr std::array kRules = {
    ArgumentRule{"x-message-ttl", number_setting<&QueueSettings::message_ttl_ms, 0>},
    ArgumentRule{"x-expires", number_setting<&QueueSettings::expires_ms, 1>},
    ArgumentRule{"x-max-length", number_setting<&QueueSettings::max_length, 0>},
    ArgumentRule{"x-max-length-bytes", number_setting<&QueueSettings::max_length_bytes, 0>},
    ArgumentRule{"x-consumer-timeout", number_setting<&QueueSettings::consumer_timeout_ms, 0>},
    ArgumentRule{"x-overflow", overflow},
    ArgumentRule{"x-dead-letter-exchange", dead_letter_exchange},
    ArgumentRule{"x-dead-letter-routing-key", dead_letter_routing_key},
    ArgumentRule{"x-dead-letter-strategy", dead_letter_strategy},
    ArgumentRule{"x-max-priority", max_priority},
    ArgumentRule{"x-single-active-consumer", single_active_consumer},
    ArgumentRule{"x-message-deduplication", boolean},
    ArgumentRule{"x-queue-type", queue_type},
    ArgumentRule{"x-delivery-limit", by_retry_room},
    ArgumentRule{"x-delayed-retry-min", by_retry_room},
    ArgumentRule{"x-delayed-retry-multiplier", by_retry_room},
    ArgumentRule{"x-delayed-retry-max", by_retry_room},
    ArgumentRule{"x-delayed-retry-jitter", by_retry_room},
    ArgumentRule{"x-delayed-retry-max-age", by_retry_room},
    ArgumentRule{"x-delayed-retry-type", by_retry_room},
};

/// A number above 63 bits counts as the largest one; where there is a lower bound for it, its own
/// digits are shown.
ArgumentValue as_argument(std::string_view name, const FieldValue& value) {
  const bool shown = name == "x-delayed-retry-jitter" && !value.integer();
  if (value.is_integer() && !shown) return value.integer().value_or(INT64_MAX);
  OtherArgument other;
  other.what = value_in_words(&value);
  if (const std::string* s = value.text()) {
    other.text = *s;
    other.is_string = true;
  }
  other.boolean = value.boolean();
  return other;
}

bool is_stream(const FieldTable& arguments) {
  const FieldValue* type = arguments.find("x-queue-type");
  return type && type->text() && *type->text() == "stream";
}

/// No x-queue-type is classic.
bool same_queue_type(const FieldValue* a, const FieldValue* b) {
  static const FieldValue classic = FieldValue::text("classic");
  return (a ? *a : classic).equivalent(b ? *b : classic);
}

const char* flag(bool on) { return on ? "'true'" : "'false'"; }

}  // namespace

Result<CheckedQueue, PeerError> check_queue(const std::string& vhost, const QueueDeclare& declare) {
  if (declare.name.size() > kNameBytesMax) return name_too_long("queue name", declare.name);
  CheckedQueue out;
  out.identity.vhost = vhost;
  out.identity.name = declare.name;
  // An exclusive queue ends with its connection, so nothing of it is worth keeping over a restart.
  out.identity.durable = declare.durable && !declare.exclusive;
  out.identity.exclusive = declare.exclusive;
  out.identity.auto_delete = declare.auto_delete;
  if (is_holding_name(declare.name))
    out.identity.holds_for = declare.name.substr(kHoldingPrefix.size());
  std::string whose = " for " + queue_named(declare.name, vhost) + ": ";
  for (const ArgumentRule& rule : kRules) {
    const FieldValue* value = declare.arguments.find(rule.name);
    if (!value) continue;
    if (auto complaint = rule.check(*value, {declare, out})) {
      return PeerError::precondition_failed("invalid arg '" + std::string(rule.name) + "'" + whose +
                                            *complaint);
    }
  }
  auto retry = check_retry_arguments(declare.name,
                                     [&](std::string_view name) -> std::optional<ArgumentValue> {
                                       const FieldValue* value = declare.arguments.find(name);
                                       if (!value) return std::nullopt;
                                       return as_argument(name, *value);
                                     });
  if (!retry)
    return PeerError::precondition_failed(
        with_vhost(retry.error(), "queue '" + declare.name + "'", vhost));
  auto deduplication = deduplication_of(declare.arguments);
  if (!deduplication) {
    const ArgumentComplaint& complaint = deduplication.error();
    return PeerError::precondition_failed("invalid arg '" + complaint.argument + "'" + whose +
                                          complaint.text);
  }
  out.identity.deduplication = std::move(*deduplication);
  if (is_stream(declare.arguments)) {
    return PeerError::connection(
        540, "x-queue-type 'stream' is not implemented" + whose + "expected classic or quorum");
  }
  out.identity.retry_enabled = retry->enabled;
  out.settings.retry = retry->settings;
  out.settings.delivery_limit = retry->delivery_limit;
  return out;
}

Result<void, PeerError> check_queue_equivalent(const std::string& vhost,
                                               const QueueDeclare& declare,
                                               const ExistingQueue& existing) {
  std::string whose = queue_named(declare.name, vhost);
  if (declare.durable != existing.durable &&
      !declare.exclusive) {  // that one ends with its connection in any case
    return inequivalent("durable", whose, flag(declare.durable), flag(existing.durable));
  }
  if (declare.auto_delete != existing.auto_delete) {
    return inequivalent("auto_delete", whose, flag(declare.auto_delete),
                        flag(existing.auto_delete));
  }
  for (const ArgumentRule& rule : kRules) {
    const FieldValue* received = declare.arguments.find(rule.name);
    const FieldValue* current = existing.arguments.find(rule.name);
    if (!received && !current) continue;
    bool same = rule.name == "x-queue-type" ? same_queue_type(received, current)
                                            : received && current && received->equivalent(*current);
    if (!same) return inequivalent_argument(rule.name, whose, received, current);
  }
  return {};
}

}  // namespace tarry
