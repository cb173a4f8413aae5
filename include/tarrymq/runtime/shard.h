#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/ids.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/runtime/timer_wheel.h"

namespace boost::asio {
class io_context;
}

namespace tarry {

/// The order in which a turn ends. Each stage runs everything that was scheduled for it; a hook may
/// schedule itself or others for any stage again, which runs in this turn too (up to a bound, then
/// in the next).
enum class TurnStage : uint8_t {
  queues,       // queue actors deliver and gather confirms
  connections,  // outbound batches leave, one send a connection
  storage,      // chunks and events are handed to the barrier
};
inline constexpr size_t kTurnStages = 3;

/// To be called once at the end of the turn. Leaves its shard when destroyed, and may outlive it.
class TurnHook {
 public:
  virtual ~TurnHook();
  virtual void on_turn_end() = 0;

 private:
  friend class Shard;
  class Shard* scheduled_on_ = nullptr;
  TurnStage stage_{};
};

/// A thread with one io_context, its own clock reading, timer wheel and mailbox. All state of a
/// shard is touched by its own thread alone; to another shard goes a Task in its mailbox. What one
/// source shard posts to another arrives in the order it was posted. A turn: wait for readiness,
/// run what is ready, timers that are due, mail; then the turn's end in stages.
class Shard {
 public:
  Shard(ShardId id, const Clock& clock);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  ShardId id() const { return id_; }
  /// The shard whose thread calls, or null on any other thread.
  static Shard* current();

  // -- Any thread

  /// Runs `task` on this shard. From another shard's thread it leaves at the end of that shard's
  /// turn (batched); from the own thread it runs later in this turn or in the next; from elsewhere
  /// it is on its way at once.
  void post(Task task);
  /// Runs turns until stop(). Calls from the thread that is to be the shard.
  void run();
  /// run() returns after the present turn. Mail that comes later is kept but not run.
  void stop();

  // -- Own thread only

  boost::asio::io_context& io() { return *io_; }
  TimerWheel& timers() { return timers_; }
  /// Time as last read: since the wait for readiness ended, or by refresh_now().
  WallTime now() {
    if (time_is_stale_) [[unlikely]]
      refresh_now();
    return now_;
  }
  SteadyTime steady_now() {
    if (time_is_stale_) [[unlikely]]
      refresh_now();
    return steady_now_;
  }
  const Clock& clock() const { return clock_; }
  /// Reads the clock. To be called after each socket read, so that no delay starts before its
  /// rejection was sent.
  void refresh_now();
  void at_turn_end(TurnStage stage, TurnHook& hook);
  /// For tests: one turn that does not wait. Returns true if anything was done.
  bool run_turn_for_test();

 private:
  friend class TurnHook;
  struct Wakeup;

  bool take_mail();
  bool end_turn();
  void flush_outboxes();
  void deliver(std::vector<Task>& batch);  // from any thread
  bool turn(bool may_wait);
  void drop_hook(TurnHook& hook);

  const ShardId id_;
  const Clock& clock_;
  std::unique_ptr<boost::asio::io_context> io_;
  WallTime now_;
  SteadyTime steady_now_;
  bool time_is_stale_ = false;  // the turn waited, and nobody has read the clock since
  TimerWheel timers_;
  std::vector<TurnHook*> hooks_[kTurnStages];
  std::vector<TurnHook*> running_hooks_;
  struct Outbox {
    Shard* to;
    std::vector<Task> tasks;
  };
  std::vector<Outbox> outboxes_;
  std::vector<Task> local_mail_;
  std::vector<Task> mail_;
  std::unique_ptr<Wakeup> wakeup_;
  bool stopping_ = false;
};

/// Aborts when a shard-owned object is touched from another thread. A member of each such class.
class ShardAffine {
 public:
  explicit ShardAffine(const Shard& owner) : owner_(&owner) {}
  const Shard& owner() const { return *owner_; }
  void check() const;

 private:
  const Shard* owner_;
};

}  // namespace tarry
