#pragma once

#include <cstdint>
#include <string>

#include "tarrymq/runtime/result.h"

namespace tarry {

/// The last backup that was asked for in this run.
struct BackupState {
  enum class Phase : uint8_t { none, running, done, failed };
  Phase phase = Phase::none;
  std::string directory, error;  // error: of a failed one, a line
  uint64_t files = 0, bytes = 0, bytes_total = 0;
  uint64_t started_ms = 0, ended_ms = 0;  // the system's clock; ended_ms 0: it runs
};

/// Taking leave of the clients, for a stop that hurts nobody. There is no way back but a start.
struct DrainState {
  enum class Phase : uint8_t {
    none,
    waiting,  // no new connections; the ones there are go on
    closing,  // the time is up: they were told with 320
    drained,  // nobody is there, and nobody gets in
  };
  Phase phase = Phase::none;
  uint64_t connections = 0;  // sockets of AMQP clients that are open
  uint64_t closed = 0;       // connections that were closed when the time was up
  uint64_t left_ms = 0;      // of the time, while waiting
};

/// What belongs to the process and not to the broker inside it: implemented by main, asked for by
/// HTTP. Any thread.
class ProcessOperations {
 public:
  virtual ~ProcessOperations() = default;
  /// Begins a backup (storage/backup.h) on a thread of its own; backup() tells how it goes. The
  /// error says why it did not begin: another one runs.
  virtual Result<void, std::string> start_backup(const std::string& directory) = 0;
  virtual BackupState backup() const = 0;
  /// Begins to drain. After `timeout_ms` who is still there is closed with 320. Once more: with the
  /// new time, if that of the first is not over.
  virtual void start_drain(uint64_t timeout_ms) = 0;
  virtual DrainState drain() const = 0;
};

}  // namespace tarry
