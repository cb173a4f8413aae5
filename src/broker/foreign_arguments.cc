#include "broker/foreign_arguments.h"

#include <algorithm>
#include <array>
#include <span>

#include "broker/wording.h"

namespace tarry {
namespace {

enum class ForeignValue : uint8_t { word, number, max_age };

struct ForeignRule {
  std::string_view name;
  bool classic, quorum;  // the types it goes with
  ForeignValue kind;
  int64_t min = 0, max = INT64_MAX;  // of a number
  std::span<const std::string_view> words = {};
};

constexpr std::array<std::string_view, 2> kModes{"default", "lazy"};
constexpr std::array<std::string_view, 4> kLeaderLocators{"client-local", "balanced", "random",
                                                          "least-leaders"};

/// By RabbitMQ 3.10, and the leader locator of classic queues by 4.0, which takes it for them too.
constexpr std::array kForeignRules{
    ForeignRule{"x-queue-mode", true, true, ForeignValue::word, 0, 0, kModes},
    ForeignRule{"x-queue-version", true, true, ForeignValue::number, 1, 2},
    ForeignRule{"x-queue-leader-locator", true, true, ForeignValue::word, 0, 0, kLeaderLocators},
    ForeignRule{"x-consumer-disconnected-timeout", true, true, ForeignValue::number},
    ForeignRule{"x-quorum-initial-group-size", false, true, ForeignValue::number, 1},
    ForeignRule{"x-quorum-target-group-size", false, true, ForeignValue::number, 1},
    ForeignRule{"x-max-in-memory-length", false, true, ForeignValue::number},
    ForeignRule{"x-max-in-memory-bytes", false, true, ForeignValue::number},
    ForeignRule{"x-initial-cluster-size", false, false, ForeignValue::number, 1},
    ForeignRule{"x-max-age", false, false, ForeignValue::max_age},
    ForeignRule{"x-stream-max-segment-size-bytes", false, false, ForeignValue::number},
    ForeignRule{"x-stream-filter-size-bytes", false, false, ForeignValue::number},
};

/// Empty, or what is allowed.
std::string allowed_instead(const ForeignRule& rule, const FieldValue& value) {
  if (rule.kind == ForeignValue::word) {
    const std::string* word = value.text();
    if (word && std::ranges::find(rule.words, *word) != rule.words.end()) return {};
    std::string text = "expected ";
    for (size_t i = 0; i < rule.words.size(); ++i) {
      if (i > 0) text += i + 1 == rule.words.size() ? " or " : ", ";
      text += rule.words[i];
    }
    return text;
  }
  if (value.is_integer()) {
    const int64_t number = value.integer().value_or(INT64_MAX);
    if (number >= rule.min && number <= rule.max) return {};
  }
  if (rule.max != INT64_MAX)
    return "expected " + std::to_string(rule.min) + " or " + std::to_string(rule.max);
  return "expected an integer of at least " + std::to_string(rule.min);
}

}  // namespace

std::string_view queue_type_of(const FieldTable& arguments) {
  const FieldValue* type = arguments.find("x-queue-type");
  return type && type->text() ? std::string_view(*type->text()) : "classic";
}

std::optional<std::string> foreign_complaint(std::string_view argument, const FieldValue& value,
                                             std::string_view queue_type) {
  const auto* rule = std::ranges::find(kForeignRules, argument, &ForeignRule::name);
  if (rule == kForeignRules.end()) return std::nullopt;
  const bool quorum = queue_type == "quorum";
  if (!(quorum ? rule->quorum : rule->classic)) {
    return " of queue type " + std::string(quorum ? "rabbit_quorum_queue" : "rabbit_classic_queue");
  }
  std::string allowed = allowed_instead(*rule, value);
  if (allowed.empty()) return std::nullopt;
  return ": " + allowed + ", got " + value_in_words(&value);
}

Result<void, PeerError> check_foreign_arguments(const std::string& vhost,
                                                const QueueDeclare& declare) {
  const std::string_view type = queue_type_of(declare.arguments);
  for (const auto& [argument, value] : declare.arguments.entries) {
    if (auto complaint = foreign_complaint(argument, value, type)) {
      return PeerError::precondition_failed("invalid arg '" + argument + "' for " +
                                            queue_named(declare.name, vhost) + *complaint);
    }
  }
  return {};
}

}  // namespace tarry
