#include "tarrymq/runtime/timer_wheel.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tarrymq/runtime/invariant.h"

// A timer lies at the level of the highest 6-bit digit in which its tick differs from the wheel's,
// in the slot of its own digit there. So every timer of a level is due before every timer of the
// next, and within a level slots are due in their order: the next thing to do is the first slot of
// the lowest level in use. Opening a slot of a level above 0 moves the wheel to its first tick and
// places what was in it anew, one or more levels lower.

namespace tarry {
namespace {
constexpr int64_t kNsPerTick = 1'000'000;
}

void Timer::cancel() {
  if (wheel_) wheel_->unlink(*this);
}

TimerWheel::TimerWheel(SteadyTime start) : tick_(floor_tick(start)), passed_tick_(tick_) {
  // INT64_MAX nanoseconds are fewer ticks than the levels span, so any distance has a place.
  static_assert(uint64_t{INT64_MAX} / kNsPerTick < uint64_t{1} << (kSlotBits * kLevels));
}

TimerWheel::~TimerWheel() {
  for (auto& list : lists_) {
    while (list.first) unlink(*list.first);
  }
}

uint64_t TimerWheel::floor_tick(SteadyTime time) {
  return time.ns <= 0 ? 0 : static_cast<uint64_t>(time.ns / kNsPerTick);
}

uint64_t TimerWheel::ceil_tick(SteadyTime time) {
  if (time.ns <= 0) return 0;
  return static_cast<uint64_t>(time.ns / kNsPerTick) + (time.ns % kNsPerTick != 0);
}

void TimerWheel::append(Timer& timer, uint32_t slot) {
  List& list = lists_[slot];
  timer.wheel_ = this;
  timer.slot_ = slot;
  timer.next_ = nullptr;
  timer.previous_ = list.last;
  (list.last ? list.last->next_ : list.first) = &timer;
  list.last = &timer;
  if (slot < kExpired) occupied_[slot / kSlots] |= uint64_t{1} << (slot % kSlots);
}

void TimerWheel::unlink(Timer& timer) {
  List& list = lists_[timer.slot_];
  (timer.previous_ ? timer.previous_->next_ : list.first) = timer.next_;
  (timer.next_ ? timer.next_->previous_ : list.last) = timer.previous_;
  if (!list.first && timer.slot_ < kExpired) {
    occupied_[timer.slot_ / kSlots] &= ~(uint64_t{1} << (timer.slot_ % kSlots));
  }
  timer.wheel_ = nullptr;
}

void TimerWheel::place(Timer& timer) {
  const uint64_t difference = timer.due_tick_ ^ tick_;
  const uint32_t level = (63 - static_cast<uint32_t>(std::countl_zero(difference))) / kSlotBits;
  const uint32_t digit = (timer.due_tick_ >> (level * kSlotBits)) % kSlots;
  append(timer, level * kSlots + digit);
}

void TimerWheel::schedule(Timer& timer, SteadyTime due) {
  timer.cancel();
  timer.due_tick_ = ceil_tick(due);
  if (timer.due_tick_ <= passed_tick_) {
    append(timer, kExpired);
  } else {
    place(timer);
  }
}

bool TimerWheel::next_slot(uint32_t& slot, uint64_t& tick) const {
  for (uint32_t level = 0; level < kLevels; ++level) {
    if (!occupied_[level]) continue;
    const auto digit = static_cast<uint32_t>(std::countr_zero(occupied_[level]));
    const uint32_t shift = level * kSlotBits;
    slot = level * kSlots + digit;
    tick = (tick_ >> (shift + kSlotBits) << (shift + kSlotBits)) | uint64_t{digit} << shift;
    TARRY_INVARIANT(tick > tick_);
    return true;
  }
  return false;
}

void TimerWheel::open_slot(uint32_t slot) {
  while (Timer* timer = lists_[slot].first) {
    unlink(*timer);
    if (timer->due_tick_ == tick_) {
      append(*timer, kFiring);
    } else {
      place(*timer);
    }
  }
}

void TimerWheel::fire() {
  while (Timer* timer = lists_[kFiring].first) {
    unlink(*timer);
    // The callback may destroy its timer: it runs from here and goes back only if there still is
    // somebody.
    bool destroyed = false;
    timer->destroyed_ = &destroyed;
    auto on_due = std::move(timer->on_due_);
    on_due();
    if (destroyed) continue;
    timer->destroyed_ = nullptr;
    timer->on_due_ = std::move(on_due);
  }
}

void TimerWheel::advance(SteadyTime now) {
  const uint64_t target = std::max(floor_tick(now), tick_);
  TARRY_INVARIANT(lists_[kFiring].first == nullptr);
  passed_tick_ = target;
  while (Timer* timer = lists_[kExpired].first) {
    unlink(*timer);
    append(*timer, kFiring);
  }
  fire();
  uint32_t slot;
  uint64_t tick;
  while (next_slot(slot, tick) && tick <= target) {
    tick_ = tick;
    open_slot(slot);
    fire();
  }
  tick_ = target;
}

std::optional<SteadyTime> TimerWheel::next_due() const {
  uint32_t slot;
  uint64_t tick = tick_;
  if (!lists_[kExpired].first && !next_slot(slot, tick)) return std::nullopt;
  if (tick > uint64_t{INT64_MAX} / kNsPerTick) return SteadyTime{INT64_MAX};
  return SteadyTime{static_cast<int64_t>(tick) * kNsPerTick};
}

}  // namespace tarry
