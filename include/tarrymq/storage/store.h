#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/ids.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/task.h"

namespace tarry {

class FileLock;
class FileSystem;
class DefinitionStore;
class DueStore;

enum class Durability : uint8_t {
  fsync,  // confirmed = on the disk: survives a power cut
  os,     // confirmed = in the kernel: survives a crash of the process
};

struct StoreOptions {
  std::string data_dir;
  Durability durability = Durability::fsync;
  uint64_t tail_memory_bytes = 64ull
                               << 20;  // all tail chunks of the process; above it logs write early
  uint64_t disk_free_min_bytes =
      50ull << 20;  // below it the disk alarm is on; below half of it appends are refused
  /// A segment with more parked records than this is only counted at start, and what is in its ack
  /// log is read again when it comes due.
  uint32_t parked_listed_max = 1024;
};

/// The data directory of one process: its lock, the barrier thread (group commit), the store thread
/// (RocksDB, cold reads), the definitions and the due index. One per broker. Thread-safe where it
/// says so. Layout: `<data_dir>/lock`, `definitions/` and so on: storage/FORMAT.md.
class Store {
 public:
  /// Takes the lock. Errors: StoreError::locked (another process has it), or the system's.
  /// `why`: if given, gets a line with the details of an error that has any.
  static Result<std::unique_ptr<Store>> open(StoreOptions options, FileSystem& files,
                                             std::string* why = nullptr);
  ~Store();  // flushes, joins its threads, releases the lock

  const StoreOptions& options() const;
  FileSystem& files();
  DefinitionStore& definitions();
  DueStore& due();

  /// The directory of a queue's logs, `queues/<id as 16 hex digits>`; a lane's is below it.
  std::string queue_directory(QueueId id) const;
  /// The same for a queue that is not durable, `transient/<id>`: what a former run left there is
  /// removed at open.
  std::string transient_directory(QueueId id) const;
  /// The ids for which there is a directory of the first kind. At start, before the shards run.
  std::vector<QueueId> queue_directories();
  /// What kept logs from being opened (a file of another format, an error of the disk), a line
  /// each. At start, after the queues were brought back: with any of these a queue would seem empty
  /// that is not.
  std::vector<std::string> unopened_logs();
  /// Unlinks a queue's directory, of whichever kind, on the store thread. The removal of its
  /// definition is durable. Any thread.
  void remove_queue_directory(QueueId id);

  /// Runs `work` on the store thread; it may block. Any thread.
  void on_store_thread(Task work);

  /// True while less than disk_free_min_bytes are free or writes fail. Any thread. `listener` is
  /// called on a thread of the store's at each change.
  bool disk_alarm() const;
  /// True while writes fail or less than half of disk_free_min_bytes is free: durable logs take
  /// nothing more. Any thread.
  bool refuses_appends() const;
  void on_disk_alarm(std::function<void(bool on, const std::string& why)> listener);

  struct Impl;
  Impl& impl() { return *impl_; }  // for the storage room

 private:
  friend Result<std::unique_ptr<Store>> open_manual_store(StoreOptions options, FileSystem& files);
  static Result<std::unique_ptr<Store>> open_parts(StoreOptions options, FileSystem& files,
                                                   std::unique_ptr<FileLock> lock, bool manual,
                                                   std::string* why);
  Store();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarry
