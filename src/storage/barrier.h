#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "storage/segment_files.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/store.h"

namespace tarry {

struct Chunk;
class Barrier;

/// One thing for the barrier to do to a segment.
struct BarrierCall {
  enum class Kind : uint8_t { records, dead, events, seal, remove };
  Kind kind{};
  std::shared_ptr<SegmentFiles> files;
  uint32_t offset = 0;             // records, dead: where; seal: where the records end
  std::span<std::byte> bytes;      // records, in `chunk`
  uint32_t dead_bytes = 0;         // dead
  OrdinalRun ordinals;             // dead
  std::vector<OrdinalRun> elided;  // records
  std::shared_ptr<std::vector<std::byte>> events;
  uint32_t events_offset = 0;  // where in the ack log they go
  Chunk* chunk = nullptr;      // records: kept by the shard until the submission is back
  bool recycle = false;        // remove: nobody else works on its file
  uint32_t final_end = 0;  // records, set by the barrier: what SegmentFiles::add_records returned
};

/// What a shard hands over at once. Goes back to the shard when it is durable.
struct Submission {
  uint64_t epoch = 0;    // 0: only a part of what the shard has
  bool sync = false;     // somebody waits
  bool durable = false;  // owes a sync at level fsync
  std::vector<BarrierCall> calls;
};

/// A shard as the barrier knows it.
struct BarrierLink {
  /// Called on the barrier's thread with what has become durable, in order; posts it to the shard.
  std::function<void(std::vector<std::unique_ptr<Submission>>)> done;

 private:
  friend class Barrier;
  using Instant = std::chrono::steady_clock::time_point;
  std::deque<std::unique_ptr<Submission>> outstanding;
  std::vector<std::shared_ptr<SegmentFiles>> unwritten, unsynced;
  std::vector<std::shared_ptr<SegmentFiles>>
      removed;                        // the ack logs go once the directory is synced
  std::set<std::string> directories;  // names changed, to be synced
  std::set<std::string> created_in;   // directories known to be there
  Instant unsynced_since{};
  bool anything_unsynced = false, sync_wanted = false, failing = false;
  uint64_t failures = 0;  // in a row
};

/// Group commit: one thread that writes what the shards hand over, syncs the few files that
/// somebody waits for, and says so. No linger: the next round starts when the last one ends. What
/// could not be written or synced stays in memory and is tried again in a new file; its waiters
/// wait.
class Barrier {
 public:
  struct Options {
    std::string data_dir;
    Durability durability = Durability::fsync;
    uint64_t disk_free_min_bytes = 0;
    std::shared_ptr<SegmentPool> pool;
    bool manual = false;  // tests: no thread, the test calls run_round()
  };
  Barrier(FileSystem& files, Options options);
  ~Barrier();

  // -- Any thread

  void attach(BarrierLink& link);
  /// Forgets the link, after waiting for what it handed over, but not for ever if the disk fails.
  /// No more `done`.
  void detach(BarrierLink& link);
  void submit(BarrierLink& link, std::unique_ptr<Submission> submission);
  /// Runs `task` on the barrier's thread, between two rounds, after all that was submitted before
  /// it was applied. False, and nothing happens, once finish() was called.
  bool run(Task task);
  /// Ends its thread after a last round. True if all that was ever handed over has been written.
  /// Called once, or by the destructor.
  bool finish();
  bool disk_alarm() const { return alarm_.load(std::memory_order_relaxed); }
  bool refuses_appends() const { return refuses_.load(std::memory_order_relaxed); }
  void on_disk_alarm(std::function<void(bool, const std::string&)> listener);
  const std::shared_ptr<OpenFiles>& open_files() { return open_files_; }

  // -- The barrier's thread, or a test

  /// One round. `lazily_too`: also syncs what nobody waits for. Returns true if anything was done.
  bool run_round(bool lazily_too);
  void check_free_space();
  /// Of what lies below `directory`, which is about to be removed, nothing more is written.
  void give_up(const std::string& directory);

 private:
  struct Incoming {
    BarrierLink* link = nullptr;
    std::unique_ptr<Submission> submission;
    Task task;
  };
  void thread_main();
  bool wait_for_work();
  void apply(BarrierLink& link, Submission& submission);
  void remove(BarrierLink& link, const std::shared_ptr<SegmentFiles>& files, bool may_recycle);
  void write_link(BarrierLink& link);
  [[nodiscard]] FileError write_stream(BarrierLink& link, SegmentFiles& files, LogStream& stream);
  [[nodiscard]] FileError make_directories(BarrierLink& link, const std::string& directory);
  bool sync_due(const BarrierLink& link, bool lazily_too) const;
  void sync_links(const std::vector<BarrierLink*>& links);
  bool sync_streams(const std::vector<BarrierLink*>& links, size_t count);
  void sync_names(BarrierLink& link);
  void publish(BarrierLink& link, bool synced);
  void failed(BarrierLink& link, const std::string& path, const char* what, const FileError& error);
  void update_alarm();

  FileSystem& files_;
  const Options options_;
  const std::shared_ptr<OpenFiles> open_files_;

  std::mutex mutex_;  // the next five
  std::condition_variable wake_, round_over_;
  std::vector<Incoming> inbox_;
  std::vector<BarrierLink*> links_;
  bool stopping_ = false, in_round_ = false;
  std::function<void(bool, const std::string&)> listener_;

  std::atomic<bool> alarm_{false}, refuses_{false};
  bool lost_ = false;  // a shard left before all of its was written; under the mutex
  uint64_t free_bytes_ = 0;  // when it was last looked
  bool low_space_ = false, no_space_ = false, any_failing_ = false;
  std::string failure_;
  uint64_t space_checks_ = 0;
  std::chrono::steady_clock::time_point next_space_check_{}, next_retry_{};
  std::thread thread_;
};

}  // namespace tarry
