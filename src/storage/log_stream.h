#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/record_codec.h"
#include "storage/segment_pool.h"
#include "tarrymq/storage/file_system.h"

namespace tarry {

/// Which streams hold an open file, so that idle ones can be closed. Any thread.
class OpenFiles {
 public:
  explicit OpenFiles(size_t limit) : limit_(limit) {}
  /// Closes what was idle since the last but one sweep, and the least used above the limit.
  /// Barrier's thread.
  void sweep();
  size_t count();
  bool over_limit() { return count() > limit_; }

 private:
  friend class LogStream;
  const size_t limit_;
  std::mutex mutex_;
  std::vector<class LogStream*> open_;
  std::atomic<uint64_t> sweeps_{0};
};

/// One append-only byte stream of a segment (its records, or its ack events) in one file or, after
/// failed writes or syncs, in several: a *part* holds the bytes from its start offset on, at the
/// same offsets, and what an earlier part holds from there on is void. So a position stays what it
/// is when its bytes move. Barrier's thread, but for reading (reader()), which any thread may do.
class LogStream {
 public:
  struct Part {
    uint32_t index = 0;
    uint64_t start = kFileHeaderBytes;
  };
  LogStream(FileSystem& files, std::shared_ptr<OpenFiles> open_files, std::string base,
            FileHeader header);
  ~LogStream();
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;

  // -- Before use: a stream that is on disk already. `parts` are those that rule, `clean_end` where
  // it goes on;
  //    with `cut`, something else follows there and the stream goes on in a new part.
  void restore(std::vector<Part> parts, uint64_t clean_end, bool cut);

  /// Its file may be one that was written before, and go to the pool in the end. Before use.
  void use_pool(std::shared_ptr<SegmentPool> pool) { pool_ = std::move(pool); }

  // -- Writing

  /// `bytes` must live until they are durable (clear_durable) or dropped.
  void add(uint64_t offset, ByteSpan bytes);
  void add_owned(uint64_t offset, std::vector<std::byte> bytes);
  bool unwritten() const { return unwritten_from_ < pieces_.size(); }
  bool unsynced() const { return written_since_sync_; }
  /// Writes what was added. `created` is set if a file was made.
  [[nodiscard]] FileError write(bool& created);
  [[nodiscard]] FileError sync();
  [[nodiscard]] FileError sync_file_system();
  /// What was written is durable at the level that counts: the memory is no longer needed.
  void clear_durable();
  /// After a failed write or sync: what is not durable goes to a new part.
  void start_new_part();
  void drop_pieces();
  /// Nothing follows what was added: the file is cut behind it, if it is longer.
  void end_here() { ends_here_ = true; }
  /// Written, but perhaps not on the disk.
  uint64_t unsynced_bytes() const;
  /// Gives the file to the pool, if it is one that is worth it. The name it has there.
  std::optional<std::string> give_to_pool();
  /// Of an ack log: renames one of its parts to `.gone`, which says that the segment is being
  /// removed.
  [[nodiscard]] FileError retire();
  /// Unlinks all parts, last what retire() renamed. Missing ones are fine.
  [[nodiscard]] FileError unlink_all();
  bool on_disk() const { return on_disk_; }
  /// Any thread, as reading.
  std::vector<Part> parts() {
    std::lock_guard lock(mutex_);
    return parts_;
  }
  /// Any thread, as reading.
  bool single_part() {
    std::lock_guard lock(mutex_);
    return parts_.size() == 1 && parts_[0].index == 0;
  }
  uint64_t end() const { return end_; }  // of what was added

  // -- Reading, any thread

  struct Reader {
    std::shared_ptr<File> file;  // null: not open now; open `path` and give it to keep()
    std::string path;
    uint32_t part = 0;
    uint64_t end = UINT64_MAX;  // where the part ceases to rule
  };
  Reader reader(uint64_t offset);
  void keep(const Reader& reader);

  static std::string part_name(const std::string& base, bool ack_log, uint32_t part);
  static std::string retired_name(const std::string& base) { return base + ".gone"; }

 private:
  friend class OpenFiles;
  struct Piece {
    uint64_t offset;
    const std::byte* data;
    size_t bytes;
    std::vector<std::byte> owned;
  };
  [[nodiscard]] FileError open_part(bool& created);
  [[nodiscard]] FileError write_end();
  void set_handle(std::shared_ptr<File> file);

  FileSystem& files_;
  // Shared, since what was handed over may come back to a shard that outlives the store.
  const std::shared_ptr<OpenFiles> open_files_;
  const std::string base_;
  const FileHeader header_;
  std::shared_ptr<SegmentPool> pool_;  // null: it has nothing to do with it
  bool written_over_ = false;          // part 0 may go on behind what was written
  bool ends_here_ = false;
  uint64_t blocks_bytes_ = 0;  // of part 0 that were written at some time
  std::vector<Piece> pieces_;  // not durable yet
  size_t unwritten_from_ = 0;
  bool written_since_sync_ = false;
  bool on_disk_ = false;
  bool part_created_ = false;
  uint64_t end_ = kFileHeaderBytes;
  uint64_t durable_end_ = kFileHeaderBytes;

  std::mutex mutex_;  // the rest; taken once a batch or read window
  std::vector<Part> parts_{Part{}};
  std::shared_ptr<File> handle_;  // of the last part
  uint32_t old_handle_part_ = 0;
  std::shared_ptr<File> old_handle_;  // of an earlier part
  bool registered_ = false;
  std::atomic<uint64_t> used_at_sweep_{0};
};

}  // namespace tarry
