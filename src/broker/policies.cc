#include "broker/policies.h"

#include <re2/re2.h>

#include <array>

#include "broker/wording.h"
#include "tarrymq/retry/policy.h"

namespace tarry {
namespace {

enum class KeyKind : uint8_t { number, text, overflow, strategy };

struct KeyRule {
  std::string_view name;
  KeyKind kind;
  int64_t min;
  bool for_operators;
};

constexpr std::array kKeys = {
    KeyRule{"message-ttl", KeyKind::number, 0, true},
    KeyRule{"expires", KeyKind::number, 1, true},
    KeyRule{"max-length", KeyKind::number, 0, true},
    KeyRule{"max-length-bytes", KeyKind::number, 0, true},
    KeyRule{"delivery-limit", KeyKind::number, -1, true},  // -1: says nothing, as in RabbitMQ
    KeyRule{"overflow", KeyKind::overflow, 0, true},
    KeyRule{"consumer-timeout", KeyKind::number, 0, false},
    KeyRule{"dead-letter-exchange", KeyKind::text, 0, false},
    KeyRule{"dead-letter-routing-key", KeyKind::text, 0, false},
    KeyRule{"dead-letter-strategy", KeyKind::strategy, 0, false},
    KeyRule{"alternate-exchange", KeyKind::text, 0, false},
};
constexpr std::array kApplyTo = {"all",           "queues", "exchanges", "classic_queues",
                                 "quorum_queues", "streams"};
constexpr std::string_view kRetryPrefix = "delayed-retry-";

const KeyRule* find_key(std::string_view name, bool operator_policy) {
  for (const KeyRule& rule : kKeys) {
    if (rule.name == name && (rule.for_operators || !operator_policy)) return &rule;
  }
  return nullptr;
}

std::optional<std::string> complaint_about(std::string_view key, const FieldValue& value,
                                           bool operator_policy) {
  std::string name(key);
  if (key.starts_with(kRetryPrefix)) {
    return name +
           " comes from the queue's declaration alone and cannot be set by a policy; to change the "
           "retries of a "
           "queue that lives, use the retry override: PUT /api/queues/{vhost}/{queue}/retry";
  }
  const KeyRule* rule = find_key(key, operator_policy);
  if (!rule)
    return name + " is not a recognised " + (operator_policy ? "operator policy" : "policy") +
           " setting";
  if (rule->kind == KeyKind::number) {
    auto number = value.integer();
    if (number && *number >= rule->min) return std::nullopt;
    return name + ": expected an integer of at least " + std::to_string(rule->min) + ", got " +
           (value.text() ? "the text '" + *value.text() + "'" : value.to_text());
  }
  const std::string* text = value.text();
  if (!text) return name + ": expected a string, got " + value.to_text();
  if (rule->kind == KeyKind::overflow && *text != "drop-head" && *text != "reject-publish" &&
      *text != "reject-publish-dlx") {
    return name + ": expected drop-head, reject-publish or reject-publish-dlx, got '" + *text + "'";
  }
  if (rule->kind == KeyKind::strategy && *text != "at-most-once" && *text != "at-least-once") {
    return name + ": expected at-most-once or at-least-once, got '" + *text + "'";
  }
  return std::nullopt;
}

bool applies(std::string_view to, PolicyTarget target) {
  if (to == "all") return true;
  if (target == PolicyTarget::exchange) return to == "exchanges";
  if (to == "queues") return true;
  return to == (target == PolicyTarget::quorum_queue ? "quorum_queues" : "classic_queues");
}

void lower(std::optional<uint64_t>& setting, const FieldTable& definition, std::string_view key) {
  const FieldValue* value = definition.find(key);
  if (!value) return;
  auto number = value->integer();
  if (!number || *number < 0) return;
  if (!setting || static_cast<uint64_t>(*number) < *setting)
    setting = static_cast<uint64_t>(*number);
}

void fill(std::optional<std::string>& setting, const FieldTable& definition, std::string_view key) {
  if (setting) return;
  const FieldValue* value = definition.find(key);
  if (value && value->text()) setting = *value->text();
}

Overflow overflow_of(const std::string& word) {
  if (word == "reject-publish") return Overflow::reject_publish;
  if (word == "reject-publish-dlx") return Overflow::reject_publish_dlx;
  return Overflow::drop_head;
}

}  // namespace

Result<Pattern, std::string> Pattern::compile(const std::string& text) {
  Pattern pattern;
  if (text.empty()) return pattern;
  RE2::Options options(RE2::Quiet);
  auto re = std::make_shared<const RE2>(text, options);
  if (!re->ok()) return re->error();
  pattern.everything_ = text == ".*" || text == "^.*$" || text == "^.*";
  pattern.re_ = std::move(re);
  return pattern;
}

std::string Pattern::literal(const std::string& text) { return RE2::QuoteMeta(text); }

bool Pattern::matches(std::string_view name) const {
  if (everything_) return true;
  return re_ && RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *re_);
}

Result<Policy, PeerError> check_policy(PolicyInfo info, bool operator_policy) {
  auto pattern = Pattern::compile(info.pattern);
  if (!pattern)
    return bad_request("pattern: invalid regular expression '" + info.pattern +
                       "': " + pattern.error());
  bool known = false;
  for (std::string_view to : kApplyTo) known = known || to == info.apply_to;
  if (!known) {
    return bad_request(
        "apply-to: expected all, queues, exchanges, classic_queues, quorum_queues or streams, got "
        "'" +
        info.apply_to + "'");
  }
  if (operator_policy && info.apply_to == "exchanges") {
    return bad_request("apply-to: an operator policy applies to queues, got 'exchanges'");
  }
  if (info.definition.empty())
    return bad_request("definition: expected at least one setting, got none");
  for (const auto& [key, value] : info.definition.entries) {
    if (auto complaint = complaint_about(key, value, operator_policy))
      return bad_request(*complaint);
  }
  return Policy{std::move(info), std::move(*pattern)};
}

std::vector<std::string> remove_unknown_keys(PolicyInfo& info, bool operator_policy) {
  std::vector<std::string> removed;
  for (const auto& [key, value] : info.definition.entries) {
    if (!find_key(key, operator_policy)) removed.push_back(key);
  }
  for (const std::string& key : removed) info.definition.erase(key);
  return removed;
}

const Policy* ruling_policy(const PolicySet& policies, std::string_view name, PolicyTarget target) {
  const Policy* best = nullptr;
  for (const auto& [key, policy] : policies) {
    if (best && policy.info.priority <= best->info.priority) continue;
    if (applies(policy.info.apply_to, target) && policy.pattern.matches(name)) best = &policy;
  }
  return best;
}

FieldTable merge_definitions(const Policy* policy, const Policy* operator_policy) {
  FieldTable merged = policy ? policy->info.definition : FieldTable();
  if (!operator_policy) return merged;
  for (const auto& [key, value] : operator_policy->info.definition.entries) {
    const FieldValue* mine = merged.find(key);
    auto theirs = value.integer();
    bool mine_is_lower =
        mine && theirs && mine->integer() && *mine->integer() >= 0 && *mine->integer() <= *theirs;
    if (!mine_is_lower) merged.set(key, value);
  }
  return merged;
}

QueueSettings effective_settings(const QueueSettings& declared, bool overflow_declared,
                                 bool retry_enabled, const FieldTable& definition) {
  QueueSettings out = declared;
  lower(out.message_ttl_ms, definition, "message-ttl");
  lower(out.expires_ms, definition, "expires");
  lower(out.max_length, definition, "max-length");
  lower(out.max_length_bytes, definition, "max-length-bytes");
  lower(out.delivery_limit, definition, "delivery-limit");
  lower(out.consumer_timeout_ms, definition, "consumer-timeout");
  fill(out.dead_letter_exchange, definition, "dead-letter-exchange");
  fill(out.dead_letter_routing_key, definition, "dead-letter-routing-key");
  const FieldValue* overflow = overflow_declared ? nullptr : definition.find("overflow");
  if (overflow && overflow->text()) out.overflow = overflow_of(*overflow->text());
  if (!out.delivery_limit && retry_enabled) out.delivery_limit = kDefaultDeliveryLimit;
  return out;
}

}  // namespace tarry
