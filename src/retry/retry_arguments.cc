#include "tarrymq/retry/retry_arguments.h"

#include <utility>

namespace tarry {
namespace {

constexpr std::string_view kMin = "x-delayed-retry-min";
constexpr std::string_view kMultiplier = "x-delayed-retry-multiplier";
constexpr std::string_view kMax = "x-delayed-retry-max";
constexpr std::string_view kJitter = "x-delayed-retry-jitter";
constexpr std::string_view kMaxAge = "x-delayed-retry-max-age";
constexpr std::string_view kType = "x-delayed-retry-type";
constexpr std::string_view kLimit = "x-delivery-limit";
constexpr std::string_view kDeduplication = "x-message-deduplication";
constexpr std::string_view kQueueType = "x-queue-type";

struct Range {
  std::string_view name;
  int64_t min;
  int64_t max;
  std::string_view unit;
};
constexpr Range kRanges[] = {
    {kMin, 1, INT64_MAX, " (milliseconds)"},    {kMultiplier, 1, INT64_MAX, ""},
    {kMax, 1, INT64_MAX, " (milliseconds)"},    {kJitter, 0, 100, " (percent)"},
    {kMaxAge, 1, INT64_MAX, " (milliseconds)"},
};

std::string invalid(std::string_view argument, std::string_view queue, std::string_view what,
                    std::string_view allowed) {
  std::string text = "invalid arg '";
  text += argument;
  text += "' for queue '";
  text += queue;
  text += "': it was ";
  text += what;
  text += ", allowed is ";
  text += allowed;
  return text;
}

std::string allowed_text(const Range& range) {
  std::string text = "an integer";
  if (range.max == INT64_MAX) {
    text += " >= " + std::to_string(range.min);
  } else {
    text += " from " + std::to_string(range.min) + " to " + std::to_string(range.max);
  }
  text += range.unit;
  return text;
}

/// The checked value of an argument, none if it is not there.
Result<std::optional<uint64_t>, std::string> read(const Range& range, std::string_view queue,
                                                  const ArgumentLookup& lookup) {
  const auto value = lookup(range.name);
  if (!value) return std::optional<uint64_t>();
  if (const auto* other = std::get_if<OtherArgument>(&*value)) {
    return invalid(range.name, queue, other->what, allowed_text(range));
  }
  const int64_t number = std::get<int64_t>(*value);
  if (number < range.min || number > range.max) {
    return invalid(range.name, queue, std::to_string(number), allowed_text(range));
  }
  return std::optional<uint64_t>(static_cast<uint64_t>(number));
}

enum class DeclaredType : uint8_t { none, disabled, all, failed, returned };

/// Rule 39: `x-delayed-retry-type`.
Result<DeclaredType, std::string> read_type(std::string_view queue, const ArgumentLookup& lookup) {
  const auto value = lookup(kType);
  if (!value) return DeclaredType::none;
  const auto* other = std::get_if<OtherArgument>(&*value);
  const std::string_view word = other && other->is_string ? other->text : std::string_view();
  if (word == "disabled") return DeclaredType::disabled;
  if (word == "all") return DeclaredType::all;
  if (word == "failed") return DeclaredType::failed;
  if (word == "returned") return DeclaredType::returned;
  return invalid(kType, queue, other ? other->what : std::to_string(std::get<int64_t>(*value)),
                 "all, failed, returned or disabled");
}

RetryType retry_type(DeclaredType declared) {
  switch (declared) {
    case DeclaredType::all:
      return RetryType::all;
    case DeclaredType::failed:
      return RetryType::failed;
    case DeclaredType::returned:
      return RetryType::returned;
    case DeclaredType::none:
    case DeclaredType::disabled:
      break;
  }
  return RetryType::rejections;
}

/// Rule 5: what does not go with retries. Empty if all is well.
std::string exclusion(std::string_view queue, const ArgumentLookup& lookup) {
  if (auto value = lookup(kDeduplication)) {
    const auto* other = std::get_if<OtherArgument>(&*value);
    if (other && other->boolean == true) {
      return invalid(kDeduplication, queue, other->what,
                     "no message deduplication on a queue with x-delayed-retry-min");
    }
  }
  if (auto value = lookup(kQueueType)) {
    const auto* other = std::get_if<OtherArgument>(&*value);
    if (other && other->is_string && other->text == "stream") {
      return invalid(kQueueType, queue, other->what,
                     "classic or quorum on a queue with x-delayed-retry-min");
    }
  }
  if (queue.size() > kRetryQueueNameBytesMax) {
    return invalid(kMin, queue,
                   "on a queue whose name has " + std::to_string(queue.size()) + " bytes",
                   "a name of up to " + std::to_string(kRetryQueueNameBytesMax) +
                       " bytes, since the waiting messages lie in '" +
                       std::string(kCompanionPrefix) + "<queue>'");
  }
  return {};
}

}  // namespace

std::string companion_name(std::string_view queue) {
  return std::string(kCompanionPrefix) += queue;
}

bool is_companion_name(std::string_view name) { return name.starts_with(kCompanionPrefix); }

Result<RetryArguments, std::string> check_retry_arguments(std::string_view queue_name,
                                                          const ArgumentLookup& lookup) {
  RetryArguments result;
  const auto type = read_type(queue_name, lookup);
  if (!type) return type.error();
  const bool disabled = *type == DeclaredType::disabled;
  std::optional<uint64_t> min, jitter;
  std::optional<uint64_t>* const targets[] = {&min, &result.settings.multiplier,
                                              &result.settings.max_ms, &jitter,
                                              &result.settings.max_age_ms};
  static_assert(std::size(kRanges) == std::size(targets));
  for (size_t i = 0; i < std::size(kRanges); ++i) {
    auto value = read(kRanges[i], queue_name, lookup);
    if (!value) return std::move(value).error();
    *targets[i] = *value;
    if (i > 0 && *value && !min && !disabled) {
      return invalid(kRanges[i].name, queue_name, "given without " + std::string(kMin),
                     "only together with " + std::string(kMin) + ", which is missing");
    }
  }
  if (!min && !disabled && *type != DeclaredType::none) {
    return invalid(kType, queue_name, "given without " + std::string(kMin),
                   "only together with " + std::string(kMin) + ", which is missing (but disabled)");
  }
  result.enabled = min.has_value() && !disabled;
  result.settings.min_ms = min.value_or(1);
  result.settings.jitter_percent = static_cast<uint8_t>(jitter.value_or(0));
  result.settings.type = retry_type(*type);

  // -1 is what clients written for RabbitMQ send for "no limit" (retry-spec 3).
  const auto declared_limit = lookup(kLimit);
  const bool minus_one = declared_limit && std::holds_alternative<int64_t>(*declared_limit) &&
                         std::get<int64_t>(*declared_limit) == -1;
  if (!minus_one || result.enabled) {
    auto limit = read({kLimit, 0, INT64_MAX, result.enabled ? "" : ", or -1 for no limit"},
                      queue_name, lookup);
    if (!limit) return std::move(limit).error();
    result.delivery_limit = *limit;
  }
  if (result.enabled) {
    if (auto text = exclusion(queue_name, lookup); !text.empty()) return text;
  }
  return result;
}

}  // namespace tarry
