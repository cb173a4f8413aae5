#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tarrymq/runtime/result.h"

namespace tarry {

class Store;

/// How far a backup is; written by the one who makes it, read by any thread.
struct BackupProgress {
  std::atomic<uint64_t> files{0}, bytes{0}, bytes_total{0};
};

/// Makes `directory` a data directory of its own with what `store` holds now, while the store goes
/// on: everything that was confirmed before the call is in it, and it is what a crash at one
/// instant of the call would have left, so that a broker can be started on it. What was
/// acknowledged shortly before may be ready again there. The store stands still for the time of a
/// hard link a file; the bytes are copied behind its back afterwards. `directory`: an absolute path
/// on this machine that must not exist, in a folder that does. It appears under its name when
/// everything is on the disk, a failed or cancelled backup leaves nothing. One backup at a time.
/// Blocks; not from a shard or a thread of the store. `cancel`: looked at now and then; true ends
/// it. The error is one clear line. Layout: storage/FORMAT.md "Backup".
Result<void, std::string> back_up(Store& store, const std::string& directory,
                                  BackupProgress& progress, const std::atomic<bool>& cancel);

}  // namespace tarry
