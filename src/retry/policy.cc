#include "tarrymq/retry/policy.h"

#include <algorithm>

#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

/// a * b, or `cap` if that is less. Requires: cap >= 1.
uint64_t times_capped(uint64_t a, uint64_t b, uint64_t cap) {
  if (a != 0 && b > cap / a) return cap;
  return std::min(a * b, cap);
}

}  // namespace

uint64_t retry_delay_ms(const RetrySettings& settings, uint64_t n) {
  TARRY_INVARIANT(n >= 1);
  TARRY_INVARIANT(settings.min_ms >= 1);
  const uint64_t cap = std::min(settings.max_ms.value_or(kDelayMsMax), kDelayMsMax);
  if (!settings.multiplier) return times_capped(settings.min_ms, n, cap);
  const uint64_t multiplier = *settings.multiplier;
  uint64_t delay = std::min(settings.min_ms, cap);
  if (multiplier <= 1) return delay;
  // At least doubled each time, so the cap is reached after at most 32 steps, however large n is.
  for (uint64_t i = 1; i < n && delay < cap; ++i) delay = times_capped(delay, multiplier, cap);
  return delay;
}

uint64_t jittered_delay_ms(const RetrySettings& settings, uint64_t delay_ms, uint64_t random) {
  TARRY_INVARIANT(settings.jitter_percent <= 100);
  TARRY_INVARIANT(delay_ms <= kDelayMsMax);
  if (settings.jitter_percent == 0) return delay_ms;
  const uint64_t spread =
      delay_ms * settings.jitter_percent / 100;  // at most 2^32 * 100: no overflow
  const uint64_t drawn = delay_ms - spread + random % (2 * spread + 1);
  const uint64_t cap = std::min(settings.max_ms.value_or(kDelayMsMax), kDelayMsMax);
  return std::clamp<uint64_t>(drawn, 1, cap);
}

uint64_t due_after(uint64_t now_ms, uint64_t delay_ms) {
  return delay_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + delay_ms;
}

}  // namespace tarry
