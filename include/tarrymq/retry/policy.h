#pragma once

#include <cstdint>
#include <optional>

namespace tarry {

/// Every delay is capped at this, whatever the arguments say (retry-spec 2).
inline constexpr uint64_t kDelayMsMax = 4'294'967'295;
inline constexpr uint64_t kDefaultDeliveryLimit =
    20;  // when retry is on and nothing else is said (retry-spec 1)

/// Which returns wait before they come back (retry-spec 39). The rest is requeued at once and
/// counted.
enum class RetryType : uint8_t {
  rejections,  // no x-delayed-retry-type: basic.reject and basic.nack with requeue (retry-spec,
               // section 2)
  all,         // failed and returned
  failed,      // basic.reject, channel or connection loss
  returned,    // basic.nack, consumer timeout
};

/// Checked values of a queue's retry arguments (retry-spec, section 1). All in ms but multiplier.
struct RetrySettings {
  uint64_t min_ms = 1;                 // >= 1
  std::optional<uint64_t> multiplier;  // >= 1; unset: linear
  std::optional<uint64_t> max_ms;      // >= 1; unset: no cap but kDelayMsMax
  uint8_t jitter_percent = 0;          // 0..100 (retry-spec 33)
  std::optional<uint64_t> max_age_ms;  // >= 1; since it came into the queue (retry-spec 34)
  RetryType type = RetryType::rejections;
  friend bool operator==(const RetrySettings&, const RetrySettings&) = default;
};

/// The delay before the retry that follows the `n`-th counted return, n >= 1 (retry-spec 1 and 2):
/// unset multiplier `min * n`; 1: `min`; m >= 2: `min * m^(n-1)`; then capped by max and
/// kDelayMsMax. Saturates, never wraps. For example min 500, multiplier 2, max 30000: 500, 1000,
/// 2000, 4000, 8000, 16000, 30000, 30000.
uint64_t retry_delay_ms(const RetrySettings& settings, uint64_t n);

/// A delay drawn evenly from `delay*(1-j) .. delay*(1+j)`, then capped as above, at least 1
/// (retry-spec 33). `random`: any evenly distributed number; not looked at without jitter.
uint64_t jittered_delay_ms(const RetrySettings& settings, uint64_t delay_ms, uint64_t random);

/// `now_ms + delay_ms`, saturating at UINT64_MAX.
uint64_t due_after(uint64_t now_ms, uint64_t delay_ms);

}  // namespace tarry
