#include "tarrymq/runtime/shard.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>

#include "tarrymq/runtime/as_shard.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

thread_local Shard* current_shard = nullptr;

// How many ready handlers run before the turn ends, and how often its stages are gone through.
constexpr int kHandlersPerTurn = 64;
constexpr int kStageRounds = 4;

}  // namespace

/// The mailbox and what ends a wait: a handler that does nothing for mail (Asio interrupts its wait
/// for it with one call of the system, and the woken side needs none), a steady timer for the
/// wheel.
struct Shard::Wakeup {
  explicit Wakeup(boost::asio::io_context& context) : io(context), timer(context) {}

  boost::asio::io_context& io;
  boost::asio::steady_timer timer;
  using Keep = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;
  std::unique_ptr<Keep> keep;
  std::optional<SteadyTime> timer_due;
  std::mutex mutex;
  std::vector<Task> inbox;             // guarded by mutex
  std::atomic<bool> signalled{false};  // a handler for it is on its way
};

TurnHook::~TurnHook() {
  if (scheduled_on_) scheduled_on_->drop_hook(*this);
}

Shard::Shard(ShardId id, const Clock& clock)
    : id_(id),
      clock_(clock),
      io_(std::make_unique<boost::asio::io_context>(1)),
      now_(clock.wall_now()),
      steady_now_(clock.steady_now()),
      timers_(steady_now_),
      wakeup_(std::make_unique<Wakeup>(*io_)) {
  // Without work of its own a context would call itself finished, and not wait.
  wakeup_->keep = std::make_unique<Wakeup::Keep>(boost::asio::make_work_guard(*io_));
}

Shard::~Shard() {
  // What has a hook may live on in another shard's mail.
  hooks_[0].insert(hooks_[0].end(), running_hooks_.begin(), running_hooks_.end());
  for (auto& list : hooks_) {
    for (TurnHook* hook : list) {
      if (hook) hook->scheduled_on_ = nullptr;
    }
  }
  local_mail_.clear();
  mail_.clear();
  outboxes_.clear();
  wakeup_->inbox.clear();
  // The descriptors belong to the io_context's services: first they, then it.
  wakeup_->timer.cancel();
  wakeup_->keep.reset();
  io_->poll();
  wakeup_.reset();
}

Shard* Shard::current() { return current_shard; }

void Shard::post(Task task) {
  Shard* here = current_shard;
  if (here == this) {
    local_mail_.push_back(std::move(task));
    return;
  }
  if (here) {
    for (auto& box : here->outboxes_) {
      if (box.to == this) {
        box.tasks.push_back(std::move(task));
        return;
      }
    }
    here->outboxes_.push_back({this, {}});
    here->outboxes_.back().tasks.push_back(std::move(task));
    return;
  }
  std::vector<Task> one;
  one.push_back(std::move(task));
  deliver(one);
}

void Shard::deliver(std::vector<Task>& batch) {
  {
    std::lock_guard lock(wakeup_->mutex);
    if (wakeup_->inbox.empty()) {
      wakeup_->inbox.swap(batch);
    } else {
      for (auto& task : batch) wakeup_->inbox.push_back(std::move(task));
    }
  }
  batch.clear();
  if (!wakeup_->signalled.exchange(true, std::memory_order_acq_rel))
    boost::asio::post(wakeup_->io, [] {});
}

void Shard::flush_outboxes() {
  for (auto& box : outboxes_) {
    if (!box.tasks.empty()) box.to->deliver(box.tasks);
  }
}

bool Shard::take_mail() {
  bool any = false;
  if (wakeup_->signalled.exchange(false, std::memory_order_acq_rel)) {
    std::lock_guard lock(wakeup_->mutex);
    mail_.swap(wakeup_->inbox);
  }
  // After the mail is in hand: a rejection in it that came later than the clock was read would be
  // due too early.
  refresh_now();
  for (auto& task : mail_) {
    task();
    any = true;
  }
  mail_.clear();
  if (!local_mail_.empty()) {
    any = true;
    std::vector<Task> batch;
    batch.swap(local_mail_);
    for (auto& task : batch) task();
  }
  return any;
}

bool Shard::end_turn() {
  bool any = false;
  for (int round = 0; round < kStageRounds; ++round) {
    bool again = false;
    for (auto& stage : hooks_) {
      if (stage.empty()) continue;
      again = true;
      running_hooks_.swap(stage);
      for (size_t i = 0; i < running_hooks_.size(); ++i) {
        TurnHook* hook = running_hooks_[i];
        if (!hook) continue;
        hook->scheduled_on_ = nullptr;
        running_hooks_[i] = nullptr;
        hook->on_turn_end();
      }
      running_hooks_.clear();
    }
    if (!again) break;
    any = true;
  }
  flush_outboxes();
  return any;
}

void Shard::at_turn_end(TurnStage stage, TurnHook& hook) {
  if (hook.scheduled_on_) return;
  hook.scheduled_on_ = this;
  hook.stage_ = stage;
  hooks_[static_cast<size_t>(stage)].push_back(&hook);
}

void Shard::drop_hook(TurnHook& hook) {
  for (auto* list : {&hooks_[static_cast<size_t>(hook.stage_)], &running_hooks_}) {
    for (auto& entry : *list) {
      if (entry == &hook) entry = nullptr;
    }
  }
  std::erase(hooks_[static_cast<size_t>(hook.stage_)], nullptr);
}

void Shard::refresh_now() {
  now_ = clock_.wall_now();
  steady_now_ = clock_.steady_now();
  time_is_stale_ = false;
}

bool Shard::turn(bool may_wait) {
  bool pending = !local_mail_.empty();
  for (auto& stage : hooks_) pending = pending || !stage.empty();
  if (may_wait && !pending) {
    auto due = timers_.next_due();
    if (due != wakeup_->timer_due) {
      wakeup_->timer_due = due;
      if (due) {
        wakeup_->timer.expires_at(
            std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due->ns)));
        wakeup_->timer.async_wait([](const boost::system::error_code&) {});
      } else {
        wakeup_->timer.cancel();
      }
    }
    time_is_stale_ = true;  // run_one() waits and then runs a handler, which must not see the time
                            // before the wait
    io_->run_one();
  }
  bool any = false;
  refresh_now();
  for (int n = 0; n < kHandlersPerTurn && io_->poll_one() > 0; ++n) any = true;
  any = take_mail() || any;
  if (auto due = timers_.next_due(); due && *due <= steady_now_) {
    timers_.advance(steady_now_);
    any = true;
  }
  any = end_turn() || any;
  if (wakeup_->timer_due && *wakeup_->timer_due <= steady_now_) wakeup_->timer_due.reset();
  return any;
}

void Shard::run() {
  TARRY_INVARIANT(current_shard == nullptr);
  current_shard = this;
  while (!stopping_) turn(true);
  flush_outboxes();
  current_shard = nullptr;
}

void Shard::stop() {
  post([this] { stopping_ = true; });
}

bool Shard::run_turn_for_test() {
  Shard* before = current_shard;
  current_shard = this;
  bool any = turn(false);
  current_shard = before;
  return any;
}

void run_as_shard(Shard& shard, const std::function<void()>& work) {
  Shard* before = current_shard;
  current_shard = &shard;
  work();
  current_shard = before;
}

void ShardAffine::check() const { TARRY_INVARIANT(Shard::current() == owner_); }

}  // namespace tarry
