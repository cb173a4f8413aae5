#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tarrymq/runtime/clock.h"

namespace tarry {

class TimerWheel;

/// One thing to be called at an instant. Owned by whoever waits; leaves its wheel when destroyed.
/// The callback may schedule or cancel any timer, this one included, and may destroy this timer.
class Timer {
 public:
  explicit Timer(std::function<void()> on_due) : on_due_(std::move(on_due)) {}
  ~Timer() {
    cancel();
    if (destroyed_) *destroyed_ = true;
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool scheduled() const { return wheel_ != nullptr; }
  void cancel();

 private:
  friend class TimerWheel;
  std::function<void()> on_due_;
  TimerWheel* wheel_ = nullptr;
  uint64_t due_tick_ = 0;
  Timer* next_ = nullptr;
  Timer* previous_ = nullptr;
  uint32_t slot_ = 0;
  bool* destroyed_ = nullptr;  // while the callback runs: where the destructor leaves word
};

/// A hierarchical timer wheel with ticks of one millisecond: schedule and cancel are O(1), an
/// advance costs what comes due plus the slots crossed. Belongs to one shard; time is an argument.
/// Never early: a timer for `due` fires in the first advance whose `now` is at or after `due`
/// rounded up to a tick. Instants before the clock's zero count as zero.
class TimerWheel {
 public:
  explicit TimerWheel(SteadyTime start);
  ~TimerWheel();
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// (Re)schedules. A `due` in the past means the next advance. Any distance is allowed.
  void schedule(Timer& timer, SteadyTime due);
  /// Calls every timer due by `now`, in order of their ticks, and within a tick in the order they
  /// were scheduled in (those that went through a coarser slot first). Timers scheduled by a
  /// callback for an instant that has passed are called by the next advance, so this always ends.
  /// Not from a callback.
  void advance(SteadyTime now);
  /// When to advance next: at or before the earliest timer, never later. None if the wheel is
  /// empty.
  std::optional<SteadyTime> next_due() const;

 private:
  friend class Timer;
  static constexpr uint32_t kSlotBits = 6;
  static constexpr uint32_t kSlots = 1u << kSlotBits;
  static constexpr uint32_t kLevels = 8;  // 64^8 ms: longer than any delay

  static constexpr uint32_t kExpired =
      kLevels * kSlots;                              // "slot" of what is due in the next advance
  static constexpr uint32_t kFiring = kExpired + 1;  // of what this advance is about to call

  struct List {
    Timer* first = nullptr;
    Timer* last = nullptr;
  };

  static uint64_t floor_tick(SteadyTime time);
  static uint64_t ceil_tick(SteadyTime time);
  void place(Timer& timer);
  void append(Timer& timer, uint32_t slot);
  void unlink(Timer& timer);
  bool next_slot(uint32_t& slot, uint64_t& tick) const;
  void open_slot(uint32_t slot);
  void fire();

  uint64_t tick_;  // every tick up to and including this one was fired
  uint64_t
      passed_tick_;  // what is due by then is past: tick_, and while advancing the tick advanced to
  uint64_t occupied_[kLevels] = {};
  List lists_[kFiring + 1];
};

}  // namespace tarry
