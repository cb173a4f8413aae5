#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tarrymq/broker/process_operations.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/storage/backup.h"

namespace tarry {

class Store;

/// Backup and drain: what they need of the daemon comes as calls. Made and ended by the main
/// thread, which also calls tick(); the rest is any thread's.
class Operations final : public ProcessOperations {
 public:
  struct Daemon {
    std::function<void()> stop_listening;   // any thread
    std::function<uint64_t()> open_links;   // any thread: AMQP sockets
    std::function<uint64_t()> say_goodbye;  // main thread: 320 to all; how many there were
    std::function<void()> end_links;        // main thread: ends what is left
    uint64_t goodbye_timeout_ms = 1'000;    // between these two
  };
  Operations(Store& store, const Clock& clock, Daemon daemon)
      : store_(store), clock_(clock), daemon_(std::move(daemon)) {}
  ~Operations() override { stop(); }

  Result<void, std::string> start_backup(const std::string& directory) override;
  BackupState backup() const override;
  void start_drain(uint64_t timeout_ms) override;
  DrainState drain() const override;

  /// To be called about once a second.
  void tick();
  /// Ends a backup that runs, which leaves nothing of it. The store is still there.
  void stop();

 private:
  void run_backup(const std::string& directory);

  Store& store_;
  const Clock& clock_;
  const Daemon daemon_;
  mutable std::mutex mutex_;  // the next three
  BackupState backup_;
  DrainState drain_;
  SteadyTime deadline_{};
  std::shared_ptr<BackupProgress> progress_;  // under the mutex; what it points to has atomics
  std::atomic<bool> cancel_{false};
  std::thread backup_thread_;
};

}  // namespace tarry
