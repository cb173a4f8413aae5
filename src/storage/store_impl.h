#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/barrier.h"
#include "storage/inventory.h"
#include "tarrymq/storage/definition_store.h"
#include "tarrymq/storage/due_index.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/store.h"

namespace tarry {

/// One thread that may block: RocksDB, cold reads, removal of directories. Tasks run in the order
/// of the calls.
class StoreThread {
 public:
  explicit StoreThread(bool manual);
  ~StoreThread() { stop(); }
  void run(Task task);  // any thread; dropped after stop()
  void stop();          // runs what is queued, then joins
  void wait();          // until all that was queued before the call has run; not from a task
  bool run_queued();    // manual mode: on the test's thread

 private:
  void thread_main();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

struct Store::Impl {
  Impl(StoreOptions o, FileSystem& f, bool manual);
  /// Tests, before a log is opened.
  void segment_bytes(uint32_t min, uint32_t max) {
    segment_bytes_min = min;
    segment_bytes_max = max;
    pool->segment_bytes(max);
  }

  StoreOptions options;
  FileSystem& files;
  const bool manual;
  std::unique_ptr<FileLock> lock;
  StoreThread store_thread;
  /// The first segments of a log, and the largest, whose files are written over when they are
  /// empty.
  uint32_t segment_bytes_min = 64u << 10, segment_bytes_max = 16u << 20;
  std::shared_ptr<SegmentPool> pool;
  std::unique_ptr<Barrier> barrier;
  std::unique_ptr<DefinitionStore> definitions;
  std::unique_ptr<DueStore> due;
  std::function<std::string()> fingerprint;  // of the definitions; null: none are open
  std::function<std::string(const std::string&)> checkpoint;  // RocksStores::checkpoint
  /// While a backup's names exist no bytes of a file are given back (log_compact.cc). Set and
  /// cleared by backup.cc.
  std::atomic<bool> backup_running{false};
  /// Bytes in tail chunks of all shards.
  std::atomic<uint64_t> tail_bytes{0};
  /// Of them, records that the barrier has and that are not durable yet.
  std::atomic<uint64_t> unsynced_bytes{0};
  /// Above every segment number of a log that was destroyed: its names may still be on the way out.
  std::atomic<uint32_t> segment_floor{0};
  Inventory inventory;  // of the last clean stop; not changed while shards run
  /// Logs that could not be opened, with the reason. The mutex is for this alone.
  std::mutex unopened_mutex;
  std::vector<std::string> unopened;
};

/// Folder of the data directory in which a backup that is being made keeps its names; removed at
/// open.
inline constexpr const char* kBackupLinksName = "backup-links";

/// For tests: a store without threads of its own and without RocksDB (definitions() and due() must
/// not be asked for). The test runs the barrier's rounds (impl().barrier->run_round) and
/// store_thread.run_queued().
Result<std::unique_ptr<Store>> open_manual_store(StoreOptions options, FileSystem& files);

}  // namespace tarry
