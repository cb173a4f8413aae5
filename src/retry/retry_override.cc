#include "tarrymq/retry/retry_override.h"

#include <algorithm>
#include <array>

namespace tarry {
namespace {

struct OverrideKey {
  std::string_view name;
  std::optional<uint64_t> RetryOverride::*value;
  int64_t min, max;
  std::string_view unit;
};
constexpr std::array<OverrideKey, 6> kOverrideKeys{{
    {"min", &RetryOverride::min_ms, 1, INT64_MAX, " (milliseconds)"},
    {"multiplier", &RetryOverride::multiplier, 1, INT64_MAX, ""},
    {"max", &RetryOverride::max_ms, 1, INT64_MAX, " (milliseconds)"},
    {"limit", &RetryOverride::limit, 0, INT64_MAX, ""},
    {"jitter", &RetryOverride::jitter_percent, 0, 100, " (percent)"},
    {"max_age", &RetryOverride::max_age_ms, 1, INT64_MAX, " (milliseconds)"},
}};

std::string allowed_values(const OverrideKey& key) {
  std::string text = "an integer ";
  if (key.max == INT64_MAX) {
    text += ">= " + std::to_string(key.min);
  } else {
    text += "from " + std::to_string(key.min) + " to " + std::to_string(key.max);
  }
  return text.append(key.unit);
}

uint64_t plus_saturating(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }
uint64_t times_saturating(uint64_t a, uint64_t b) {
  return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}
/// What jitter leaves of a delay at the least.
uint64_t shortest_ms(const RetrySettings& settings, uint64_t delay_ms) {
  return std::max<uint64_t>(1, delay_ms - delay_ms * settings.jitter_percent / 100);
}

}  // namespace

Result<void, std::string> set_retry_value(RetryOverride& out, std::string_view key,
                                          const ArgumentValue& value) {
  const auto known = std::find_if(kOverrideKeys.begin(), kOverrideKeys.end(),
                                  [&](const OverrideKey& k) { return k.name == key; });
  if (known == kOverrideKeys.end()) {
    return "unknown key '" + std::string(key) +
           "': allowed are min, multiplier, max, limit, jitter and max_age";
  }
  const auto* number = std::get_if<int64_t>(&value);
  if (!number || *number < known->min || *number > known->max) {
    const std::string what = number ? std::to_string(*number) : std::get<OtherArgument>(value).what;
    return std::string(key) + ": it was " + what + ", allowed is " + allowed_values(*known);
  }
  out.*known->value = static_cast<uint64_t>(*number);
  return {};
}

RetrySettings with_override(RetrySettings declared, const RetryOverride& changes) {
  if (changes.min_ms) declared.min_ms = *changes.min_ms;
  if (changes.multiplier) declared.multiplier = changes.multiplier;
  if (changes.max_ms) declared.max_ms = changes.max_ms;
  if (changes.jitter_percent)
    declared.jitter_percent = static_cast<uint8_t>(*changes.jitter_percent);
  if (changes.max_age_ms) declared.max_age_ms = changes.max_age_ms;
  return declared;
}

RetrySchedule retry_schedule(const RetrySettings& settings, uint64_t limit) {
  RetrySchedule out;
  out.deliveries_max = plus_saturating(limit, 1);
  const uint64_t listed = std::min<uint64_t>(limit, kScheduleListMax);
  out.cut = listed < limit;
  uint64_t age_ms = 0;  // at the n-th rejection, at least
  for (uint64_t n = 1; n <= listed; ++n) {
    if (settings.max_age_ms && age_ms > *settings.max_age_ms) {
      out.deliveries_max = n;
      out.cut = false;
      return out;
    }
    const uint64_t delay_ms = retry_delay_ms(settings, n);
    age_ms = plus_saturating(age_ms, shortest_ms(settings, delay_ms));
    out.delays_ms.push_back(delay_ms);
    out.total_ms = plus_saturating(out.total_ms, out.delays_ms.back());
  }
  if (!out.cut) return out;
  // Behind the list: a linear schedule grows until its cap, the others have long become constant.
  const uint64_t cap = std::min(settings.max_ms.value_or(kDelayMsMax), kDelayMsMax);
  uint64_t constant_from = listed + 1;
  if (!settings.multiplier) {
    const uint64_t growing =
        std::min(limit, cap / settings.min_ms);  // the last n with min * n <= cap
    if (growing > listed) {
      const uint64_t count = growing - listed;  // below 2^32, like each delay
      const uint64_t ends = settings.min_ms * (listed + 1) + settings.min_ms * growing;
      out.total_ms =
          plus_saturating(out.total_ms, count % 2 == 0 ? times_saturating(count / 2, ends)
                                                       : times_saturating(count, ends / 2));
      constant_from = growing + 1;
    }
  }
  if (constant_from <= limit) {
    const uint64_t each = retry_delay_ms(settings, limit);
    out.total_ms = plus_saturating(out.total_ms, times_saturating(each, limit - constant_from + 1));
  }
  return out;
}

}  // namespace tarry
