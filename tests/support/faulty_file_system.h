#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tarrymq/storage/file_system.h"

namespace tarry {

/// A file system in memory that a test can crash at any mutating call (write, sync, truncate,
/// unlink, rename, punch, make or remove directory, directory sync, creation of a file), and that
/// then forgets what was not synced in one of the ways that a disk may. Fault model: what was
/// synced (and whose directory was) is kept to the byte. Of the rest, in each file, any of: all,
/// none, the first writes, all but the last one torn at a byte, or garbage. Any thread; a crash
/// ends all calls with io_error until reboot().
class FaultyFileSystem final : public FileSystem {
 public:
  enum class Survives : uint8_t {
    everything,    // as after kill -9: all is there, and no more of it durable than before
    nothing,       // no unsynced byte, no unsynced name
    first_writes,  // per file, the first half of its unsynced writes; all names
    last_writes,   // per file, the second half: an earlier page was lost, a later one was not
    torn,          // all, but the last write of each file only up to a byte that `seed` picks
    garbage,       // as torn, and what is missing is there as garbage
    old_names,     // all bytes, but names as they were last synced
    some_names,    // all bytes, but of the changes of names only some, whichever came first
  };
  static constexpr Survives kAllWays[] = {
      Survives::everything, Survives::nothing, Survives::first_writes, Survives::last_writes,
      Survives::torn,       Survives::garbage, Survives::old_names,    Survives::some_names};

  FaultyFileSystem();
  ~FaultyFileSystem() override;

  // -- Crashing

  /// The n-th mutating call from now on (1 = the next) crashes: it takes effect in part or not at
  /// all.
  void crash_at(uint64_t n);
  bool crashed() const;
  /// Mutating calls so far.
  uint64_t calls() const;
  /// After the crash (or at any time): forgets what does not survive, forgets open files, works
  /// again.
  void reboot(Survives how, uint32_t seed);
  /// A copy of the present state, crash rules cleared.
  std::unique_ptr<FaultyFileSystem> clone() const;

  // -- Faults without a crash

  /// Called for each mutating call with its kind ("write", "sync", "sync_dir", "create", ...) and
  /// path; an error is returned to the caller. A failed sync drops the unsynced bytes, as a kernel
  /// may.
  void set_fault(std::function<FileError(const std::string& kind, const std::string& path)> fault);
  void set_free_bytes(uint64_t bytes);
  /// Reads come with EAGAIN from pread_nowait (a cold page cache).
  void set_cold(bool cold);
  /// Changes a byte of a file, synced or not.
  void flip_byte(const std::string& path, uint64_t offset);
  /// Shortens a file, synced or not.
  void cut(const std::string& path, uint64_t size);
  /// Makes `other` what this is.
  void copy_to(FaultyFileSystem& other) const;
  bool exists(const std::string& path) const;
  uint64_t size_of(const std::string& path) const;
  std::vector<std::string> all_files() const;
  uint64_t bytes_written() const;
  uint64_t bytes_punched() const;

  // -- FileSystem

  Result<std::unique_ptr<File>> open(const std::string& path, Open how) override;
  FileError unlink(const std::string& path) override;
  FileError rename(const std::string& from, const std::string& to) override;
  FileError make_directory(const std::string& path) override;
  FileError remove_directory(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override;
  FileError sync_directory(const std::string& path) override;
  Result<uint64_t> free_bytes(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  friend class FaultyFile;
  struct Write {
    bool truncate = false;
    uint64_t offset = 0;  // of the bytes, or the new size
    std::vector<std::byte> bytes;
  };
  struct Inode {
    std::vector<std::byte> now, synced;
    std::vector<Write> unsynced;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;  // null: a directory

  /// Counts the call; an error if it must fail. `torn` is set if it crashes and may take effect in
  /// part.
  FileError begin(const char* kind, const std::string& path, bool* torn = nullptr);
  static void apply(std::vector<std::byte>& bytes, const Write& write);
  void sync_inode(Inode& inode);
  void forget_unsynced(Inode& inode, Survives how, uint32_t seed);

  mutable std::mutex mutex_;
  struct Rename {
    std::string from, to;
    std::shared_ptr<Inode> inode;
  };
  Names names_, durable_names_;
  std::vector<Rename> renames_;  // not durable yet: each takes place as a whole or not at all
  uint64_t calls_ = 0, crash_at_ = 0, generation_ = 0, bytes_written_ = 0, bytes_punched_ = 0;
  bool crashed_ = false, cold_ = false;
  uint64_t free_bytes_ = 1ull << 40;
  std::function<FileError(const std::string&, const std::string&)> fault_;
  std::shared_ptr<std::set<std::string>> locks_ = std::make_shared<std::set<std::string>>();
};

}  // namespace tarry
