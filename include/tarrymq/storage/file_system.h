#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

using FileError = boost::system::error_code;  // the system's; no error = done in full

/// An open file. Reads may come from any thread at once; writes, syncs and truncations from one
/// thread at a time. Closed when destroyed (which syncs nothing).
class File {
 public:
  virtual ~File() = default;
  /// Fills `out` from `offset`; fewer bytes only at the end of the file.
  virtual Result<size_t> pread(std::span<std::byte> out, uint64_t offset) = 0;
  /// As pread(), but only what is in memory: may give fewer bytes, or
  /// `resource_unavailable_try_again` for none.
  virtual Result<size_t> pread_nowait(std::span<std::byte> out, uint64_t offset) = 0;
  /// Writes all pieces one behind the other at `offset`. After an error any part of them may have
  /// been written.
  [[nodiscard]] virtual FileError pwritev(std::span<const ByteSpan> pieces, uint64_t offset) = 0;
  /// fdatasync. After an error nothing is known about what was written since the last good one:
  /// never ask again.
  [[nodiscard]] virtual FileError sync_data() = 0;
  /// syncfs: everything in the file system that holds this file.
  [[nodiscard]] virtual FileError sync_file_system() = 0;
  [[nodiscard]] virtual FileError truncate(uint64_t size_bytes) = 0;
  /// Gives the blocks of a range back; it reads as zeros then, the size stays.
  /// operation_not_supported where files can have no holes.
  [[nodiscard]] virtual FileError punch(uint64_t offset, uint64_t bytes) = 0;
  virtual Result<uint64_t> size() = 0;
};

/// Held until destroyed.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct DirectoryEntry {
  std::string name;
  bool directory = false;
};

/// All of the operating system that storage uses (RocksDB apart), so that tests can crash it at any
/// call. Names are paths; a change of names is durable after sync_directory() of the directory that
/// holds them. Any thread.
class FileSystem {
 public:
  enum class Open { read, write, create };  // create: for reading and writing, made if missing
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<File>> open(const std::string& path, Open how) = 0;
  /// A missing file is an error: no_such_file_or_directory.
  [[nodiscard]] virtual FileError unlink(const std::string& path) = 0;
  [[nodiscard]] virtual FileError rename(const std::string& from, const std::string& to) = 0;
  /// Error file_exists if it is there.
  [[nodiscard]] virtual FileError make_directory(const std::string& path) = 0;
  [[nodiscard]] virtual FileError remove_directory(const std::string& path) = 0;
  /// Sorted by name. A missing directory: no_such_file_or_directory.
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path) = 0;
  [[nodiscard]] virtual FileError sync_directory(const std::string& path) = 0;
  virtual Result<uint64_t> free_bytes(const std::string& path) = 0;
  /// Error resource_unavailable_try_again if another holds it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

/// The machine's.
FileSystem& posix_file_system();

}  // namespace tarry
