#pragma once

#include <compare>
#include <cstdint>

namespace tarry {

/// An instant of the monotonic clock, in nanoseconds since an arbitrary start. Lives only as long
/// as the process.
struct SteadyTime {
  int64_t ns = 0;
  friend constexpr auto operator<=>(SteadyTime, SteadyTime) = default;
  constexpr SteadyTime plus_ms(int64_t ms) const { return {ns + ms * 1'000'000}; }
};

/// An instant of broker time, in nanoseconds since the Unix epoch. Broker time is the wall clock at
/// start plus a stored offset and runs steadily from there, so that a step of the system's wall
/// clock moves no due time (retry-spec 29). Due times, expiries and publish times are broker time;
/// on disk they are whole milliseconds.
struct WallTime {
  int64_t ns = 0;
  friend constexpr auto operator<=>(WallTime, WallTime) = default;
  /// The millisecond that this instant lies in: compare a due time with this one ("now >= due").
  constexpr uint64_t floor_ms() const { return static_cast<uint64_t>(ns / 1'000'000); }
  /// Rounded up: start a delay from this one, so that it is never early (retry-spec 23).
  constexpr uint64_t ceil_ms() const { return static_cast<uint64_t>((ns + 999'999) / 1'000'000); }
  static constexpr WallTime from_ms(uint64_t ms) { return {static_cast<int64_t>(ms) * 1'000'000}; }
};

/// Where all code gets the time from. Any thread may call.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime steady_now() const = 0;
  /// Broker time. Never steps while the process runs.
  virtual WallTime wall_now() const = 0;
  /// The system's wall clock as it is, for what people read (`x-death` time, logs).
  virtual WallTime system_now() const = 0;
};

/// The machine's clocks. `offset_ns` is what a former run stored (system clock + offset = broker
/// time); `not_before` is the last broker time a former run stored: broker time starts no earlier.
class SystemClock final : public Clock {
 public:
  explicit SystemClock(int64_t offset_ns = 0, WallTime not_before = {});
  SteadyTime steady_now() const override;
  WallTime wall_now() const override;
  WallTime system_now() const override;
  /// Broker time minus the system's clock as they are now: what to store for the next start.
  int64_t offset_ns() const;

 private:
  SteadyTime steady_start_;
  WallTime wall_start_;
};

/// Stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  SteadyTime steady_now() const override { return steady_; }
  WallTime wall_now() const override { return wall_; }
  WallTime system_now() const override { return {wall_.ns + system_step_ns_}; }
  void advance_ms(int64_t ms) { advance_ns(ms * 1'000'000); }
  void advance_ns(int64_t ns) {
    steady_.ns += ns;
    wall_.ns += ns;
  }
  /// As an operator who sets the machine's clock: broker time does not follow.
  void step_system_ms(int64_t ms) { system_step_ns_ += ms * 1'000'000; }

 private:
  SteadyTime steady_{1'000'000'000};
  WallTime wall_{1'800'000'000'000'000'000};
  int64_t system_step_ns_ = 0;
};

}  // namespace tarry
