#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/retry/policy.h"
#include "tarrymq/retry/retry_arguments.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// What an operator has changed of a live queue's retries (retry-spec 36), or what a preview asks
/// about. Unset: as declared. Ranges are those of the arguments (retry-spec, sections 1 and 7).
struct RetryOverride {
  std::optional<uint64_t> min_ms, multiplier, max_ms, limit, jitter_percent, max_age_ms;
  bool empty() const { return *this == RetryOverride(); }
  friend bool operator==(const RetryOverride&, const RetryOverride&) = default;
};

/// Sets one value by its key in the HTTP API: min, multiplier, max, limit, jitter or max_age
/// (retry-spec, section 8). The error names the key, what the value was and what is allowed.
Result<void, std::string> set_retry_value(RetryOverride& out, std::string_view key,
                                          const ArgumentValue& value);

/// The declared settings with the changes over them (the limit is not among them).
RetrySettings with_override(RetrySettings declared, const RetryOverride& changes);

/// The longest list that a schedule shows; its sums are of all retries.
inline constexpr size_t kScheduleListMax = 1000;

/// What will happen to a message that is rejected every time: the delays before the 1st, 2nd ...
/// retry, without jitter. It ends where the message is older than the largest age for certain
/// (not looked at behind the list).
struct RetrySchedule {
  std::vector<uint64_t> delays_ms;  // the first kScheduleListMax
  uint64_t total_ms = 0;            // of all of them, saturating: until the dead letter
  uint64_t deliveries_max = 1;      // the first one included
  bool cut = false;                 // there are more than the list shows
};
RetrySchedule retry_schedule(const RetrySettings& settings, uint64_t limit);

}  // namespace tarry
