#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/file_system.h"

namespace tarry {

/// Files of large segments that nothing is left in, kept to be written over by new ones: blocks and
/// pages that were written before are written again at half the price, and nothing has to be
/// unlinked. A file comes in three steps: put() gives it a name in the pool's folder; when its old
/// name is gone for good, prepare() makes sure that nothing in it can be taken for a segment; from
/// then on take() may give it out (FORMAT.md "Files that are written over").
class SegmentPool {
 public:
  /// `directory` is the pool's own and need not be there. `segment_bytes`: of the segments whose
  /// files these are. `aside` runs what may block, on another thread, in order.
  SegmentPool(FileSystem& files, std::string directory, uint32_t segment_bytes,
              std::function<void(Task)> aside);
  void segment_bytes(uint32_t bytes) { segment_bytes_ = bytes; }

  // -- The barrier's thread

  /// Moves a segment's file into the pool. The name it has there; none: unlink it.
  std::optional<std::string> put(const std::string& path);
  /// No start will find the file under its old name.
  void prepare(const std::string& name);
  /// Gives a file the name `path`; false: there is none.
  bool take(const std::string& path);
  /// How far a file that take() gave was written by now; behind that is what it held before.
  void note_end(const std::string& path, uint64_t end);
  /// It ends where it was written to, or is no more.
  void forget_end(const std::string& path);
  /// The same of all files below a folder.
  void forget_below(const std::string& directory);
  /// Cuts those that were not written since the last call where they were written to, so that a
  /// queue at rest keeps no more than it holds.
  void trim_idle();
  /// Cuts all, durably. An error: some file may still hold more.
  [[nodiscard]] FileError trim_all();
  /// `off`: gives back what it has and takes nothing more, until it is called with false.
  void set_off(bool off);

  // -- Any thread

  std::optional<uint64_t> end_of(const std::string& path);
  uint64_t bytes_kept_max() const { return kFilesMax * file_bytes_max(); }
  /// How much of a file must have been written at some time: what was elided has no blocks yet,
  /// they come with the lives that write there.
  uint64_t written_min() const { return segment_bytes_ / 8; }
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  /// While set nothing comes in: a backup reads files that have a second name.
  std::atomic<bool> closed{false};

 private:
  static constexpr size_t kFilesMax = 8;
  uint64_t file_bytes_min() const { return segment_bytes_ / 4 * 3; }
  uint64_t file_bytes_max() const { return segment_bytes_ / 4 * 6; }
  struct End {
    uint64_t bytes = 0;
    bool idle = false;  // not written since the last look
  };
  [[nodiscard]] FileError make_unusable(const std::string& path);
  [[nodiscard]] FileError cut(const std::string& path, uint64_t bytes);
  [[nodiscard]] FileError sync(const std::string& path);
  std::string path_of(const std::string& name) const { return directory_ + "/" + name; }
  void unlink(const std::string& name);

  FileSystem& files_;
  const std::function<void(Task)> aside_;
  const std::string directory_;
  std::atomic<uint64_t> segment_bytes_;
  uint64_t next_name_ = 0;
  std::atomic<uint64_t> taken_{0};

  std::mutex mutex_;  // the rest
  std::vector<std::string> ready_;
  size_t count_ = 0;  // ready or on the way
  bool off_ = false;
  std::map<std::string, End> ends_;
};

}  // namespace tarry
