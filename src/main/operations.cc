#include "main/operations.h"

#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

uint64_t left_ms(SteadyTime now, SteadyTime deadline) {
  return deadline > now ? static_cast<uint64_t>(deadline.ns - now.ns + 999'999) / 1'000'000 : 0;
}

}  // namespace

Result<void, std::string> Operations::start_backup(const std::string& directory) {
  std::lock_guard lock(mutex_);
  if (backup_.phase == BackupState::Phase::running)
    return "a backup to " + backup_.directory + " is being made";
  if (cancel_) return std::string("the broker is stopping");
  if (backup_thread_.joinable())
    backup_thread_.join();  // of one that is over: its last step took this lock
  backup_ = {};
  backup_.phase = BackupState::Phase::running;
  backup_.directory = directory;
  backup_.started_ms = clock_.system_now().floor_ms();
  progress_ = std::make_shared<BackupProgress>();
  backup_thread_ = std::thread([this, directory] { run_backup(directory); });
  return {};
}

void Operations::run_backup(const std::string& directory) {
  log_for("main")->info("backup to {} begins", directory);
  std::shared_ptr<BackupProgress> progress;
  {
    std::lock_guard lock(mutex_);
    progress = progress_;
  }
  const auto made = back_up(store_, directory, *progress, cancel_);
  std::lock_guard lock(mutex_);
  backup_.phase = made ? BackupState::Phase::done : BackupState::Phase::failed;
  if (!made) backup_.error = made.error();
  backup_.ended_ms = clock_.system_now().floor_ms();
  if (made)
    log_for("main")->info("backup to {} is complete: {} files, {} bytes", directory,
                          progress->files.load(), progress->bytes.load());
}

BackupState Operations::backup() const {
  std::lock_guard lock(mutex_);
  BackupState state = backup_;
  if (progress_) {
    state.files = progress_->files;
    state.bytes = progress_->bytes;
    state.bytes_total = progress_->bytes_total;
  }
  return state;
}

void Operations::start_drain(uint64_t timeout_ms) {
  std::lock_guard lock(mutex_);
  if (drain_.phase != DrainState::Phase::none && drain_.phase != DrainState::Phase::waiting) return;
  deadline_ = clock_.steady_now().plus_ms(static_cast<int64_t>(timeout_ms));
  if (drain_.phase == DrainState::Phase::waiting) return;
  drain_.phase = DrainState::Phase::waiting;
  daemon_.stop_listening();
  log_for("main")->info("draining: no new connections; the {} there are have {} ms",
                        daemon_.open_links(), timeout_ms);
}

DrainState Operations::drain() const {
  std::lock_guard lock(mutex_);
  DrainState state = drain_;
  state.connections = daemon_.open_links();
  if (state.phase == DrainState::Phase::waiting)
    state.left_ms = left_ms(clock_.steady_now(), deadline_);
  return state;
}

void Operations::tick() {
  using Phase = DrainState::Phase;
  Phase phase = Phase::none;
  bool over = false;
  {
    std::lock_guard lock(mutex_);
    phase = drain_.phase;
    over = clock_.steady_now() >= deadline_;
  }
  if (phase == Phase::none || phase == Phase::drained) return;
  // The lock is not held while the daemon is called: who asks how it goes does not wait.
  Phase next = phase;
  uint64_t closed = 0;
  if (daemon_.open_links() == 0) {
    next = Phase::drained;
  } else if (over && phase == Phase::waiting) {
    closed = daemon_.say_goodbye();
    next = Phase::closing;
  } else if (over) {
    daemon_.end_links();
    next = Phase::drained;
  }
  std::lock_guard lock(mutex_);
  if (next == phase) return;
  drain_.phase = next;
  drain_.closed += closed;
  if (next == Phase::closing)
    deadline_ = clock_.steady_now().plus_ms(static_cast<int64_t>(daemon_.goodbye_timeout_ms));
  if (next == Phase::drained)
    log_for("main")->info("drained: no client is left, {} were closed", drain_.closed);
}

void Operations::stop() {
  cancel_ = true;
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    thread = std::move(backup_thread_);
  }
  if (thread.joinable()) thread.join();
}

}  // namespace tarry
