#include "tarrymq/runtime/clock.h"

#include <time.h>

#include <algorithm>

namespace tarry {
namespace {

int64_t read(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

SystemClock::SystemClock(int64_t offset_ns, WallTime not_before)
    : steady_start_{read(CLOCK_MONOTONIC)},
      wall_start_{std::max(read(CLOCK_REALTIME) + offset_ns, not_before.ns)} {}

SteadyTime SystemClock::steady_now() const { return {read(CLOCK_MONOTONIC)}; }
WallTime SystemClock::wall_now() const {
  return {wall_start_.ns + (read(CLOCK_MONOTONIC) - steady_start_.ns)};
}
WallTime SystemClock::system_now() const { return {read(CLOCK_REALTIME)}; }
int64_t SystemClock::offset_ns() const { return wall_now().ns - system_now().ns; }

}  // namespace tarry
