#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "tarrymq/retry/policy.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// `amq.retry-<queue>`: the companion's name (retry-spec 18).
inline constexpr std::string_view kCompanionPrefix = "amq.retry-";
std::string companion_name(std::string_view queue);
/// True for any name that is or could be a companion's (retry-spec 20).
bool is_companion_name(std::string_view name);
/// Longest name, in bytes, of a queue with retries: its companion's name is a short string too
/// (retry-spec 5).
inline constexpr size_t kRetryQueueNameBytesMax = 255 - kCompanionPrefix.size();

/// A queue argument as this room sees it, since it knows no AMQP types: the value of any integer
/// type, or else what it was, in words for an error text (for example `string "500"`, `double 0.5`,
/// `boolean true`). An unsigned 64-bit value above INT64_MAX is passed as INT64_MAX: out of every
/// range but those that end there.
struct OtherArgument {
  std::string what;       // type and value, for the error text
  std::string_view text;  // the value of a string argument; borrowed
  bool is_string = false;
  std::optional<bool> boolean;
};
using ArgumentValue = std::variant<int64_t, OtherArgument>;
/// Looks an argument of the declaration up; none if it is not there. Views live until
/// check_retry_arguments returns.
using ArgumentLookup = std::function<std::optional<ArgumentValue>(std::string_view name)>;

/// What a declaration says about retries, checked.
struct RetryArguments {
  bool enabled = false;    // `x-delayed-retry-min` is there, and not type `disabled`
  RetrySettings settings;  // meaningful when enabled
  std::optional<uint64_t> delivery_limit;  // as declared; none: not declared, or -1 without retries
  /// The limit that the arguments alone lead to: the declared one, else 20 with retries, else none
  /// (retry-spec 1).
  std::optional<uint64_t> own_limit() const {
    if (delivery_limit || !enabled) return delivery_limit;
    return kDefaultDeliveryLimit;
  }
};

/// Checks the retry arguments of a queue declaration (retry-spec 3, 4, 5) before anything is
/// created. The error is the text of a 406 PRECONDITION_FAILED: it names the argument, what it was
/// and what is allowed. Arguments: x-delayed-retry-{min,multiplier,max,jitter,max-age,type},
/// x-delivery-limit, and of others' arguments x-message-deduplication and x-queue-type as far as
/// they exclude retries.
Result<RetryArguments, std::string> check_retry_arguments(std::string_view queue_name,
                                                          const ArgumentLookup& lookup);

}  // namespace tarry
