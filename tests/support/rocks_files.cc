#include "support/rocks_files.h"

#include <rocksdb/file_system.h>

#include <utility>

namespace tarry {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

IOStatus io_status(const FileError& error, const std::string& path) {
  if (!error) return IOStatus::OK();
  if (error == boost::system::errc::no_such_file_or_directory) return IOStatus::PathNotFound(path);
  return IOStatus::IOError(path, error.message());
}

/// RocksDB names a directory with or without a slash at its end.
std::string trimmed(const std::string& path) {
  return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

/// Fewer bytes only at the end, as RocksDB wants it.
IOStatus read_at(File& file, uint64_t offset, size_t n, rocksdb::Slice* result, char* scratch) {
  auto read = file.pread({reinterpret_cast<std::byte*>(scratch), n}, offset);
  if (!read) return io_status(read.error(), "read");
  *result = rocksdb::Slice(scratch, *read);
  return IOStatus::OK();
}

class SequentialRocksFile final : public rocksdb::FSSequentialFile {
 public:
  explicit SequentialRocksFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  IOStatus Read(size_t n, const IOOptions&, rocksdb::Slice* result, char* scratch,
                IODebugContext*) override {
    auto status = read_at(*file_, at_, n, result, scratch);
    if (status.ok()) at_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    at_ += n;
    return IOStatus::OK();
  }

 private:
  const std::unique_ptr<File> file_;
  uint64_t at_ = 0;
};

class RandomRocksFile final : public rocksdb::FSRandomAccessFile {
 public:
  explicit RandomRocksFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, rocksdb::Slice* result, char* scratch,
                IODebugContext*) const override {
    return read_at(*file_, offset, n, result, scratch);
  }

 private:
  const std::unique_ptr<File> file_;
};

class WritableRocksFile final : public rocksdb::FSWritableFile {
 public:
  WritableRocksFile(std::unique_ptr<File> file, uint64_t size)
      : file_(std::move(file)), size_(size) {}
  using FSWritableFile::Append;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions&, IODebugContext*) override {
    const ByteSpan piece = as_bytes(data.ToStringView());
    if (piece.empty()) return IOStatus::OK();
    FileError error = file_->pwritev({&piece, 1}, size_);
    if (!error) size_ += piece.size();
    return io_status(error, "append");
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    size_ = size;
    return io_status(file_->truncate(size), "truncate");
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return io_status(file_->sync_data(), "sync");
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }

 private:
  const std::unique_ptr<File> file_;
  uint64_t size_;
};

class RocksDirectory final : public rocksdb::FSDirectory {
 public:
  RocksDirectory(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return io_status(files_.sync_directory(path_), path_);
  }

 private:
  FileSystem& files_;
  const std::string path_;
};

class NullLogger final : public rocksdb::Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
  size_t GetLogFileSize() const override { return 0; }
};

class NoLock final : public rocksdb::FileLock {};

class RocksFiles final : public rocksdb::FileSystem {
 public:
  explicit RocksFiles(tarry::FileSystem& files) : files_(files) {}
  const char* Name() const override { return "tarry"; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* out,
                             IODebugContext*) override {
    auto file = files_.open(path, tarry::FileSystem::Open::read);
    if (!file) return io_status(file.error(), path);
    *out = std::make_unique<SequentialRocksFile>(std::move(*file));
    return IOStatus::OK();
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
                               IODebugContext*) override {
    auto file = files_.open(path, tarry::FileSystem::Open::read);
    if (!file) return io_status(file.error(), path);
    *out = std::make_unique<RandomRocksFile>(std::move(*file));
    return IOStatus::OK();
  }
  IOStatus NewWritableFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>* out,
                           IODebugContext*) override {
    auto file = files_.open(path, tarry::FileSystem::Open::create);
    if (!file) return io_status(file.error(), path);
    auto size = (*file)->size();
    if (size && *size > 0) {
      if (FileError error = (*file)->truncate(0)) return io_status(error, path);
    }
    *out = std::make_unique<WritableRocksFile>(std::move(*file), 0);
    return IOStatus::OK();
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* out, IODebugContext*) override {
    auto entries = files_.list(trimmed(path));
    if (!entries) return io_status(entries.error(), path);
    *out = std::make_unique<RocksDirectory>(files_, trimmed(path));
    return IOStatus::OK();
  }
  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    if (files_.list(trimmed(path)) || files_.open(path, tarry::FileSystem::Open::read))
      return IOStatus::OK();
    return IOStatus::NotFound(path);
  }
  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* out,
                       IODebugContext*) override {
    auto entries = files_.list(trimmed(path));
    if (!entries) return io_status(entries.error(), path);
    out->clear();
    for (auto& entry : *entries) out->push_back(entry.name);
    return IOStatus::OK();
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return io_status(files_.unlink(path), path);
  }
  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return io_status(files_.make_directory(trimmed(path)), path);
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    FileError error = files_.make_directory(trimmed(path));
    return error == boost::system::errc::file_exists ? IOStatus::OK() : io_status(error, path);
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return io_status(files_.remove_directory(trimmed(path)), path);
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* out,
                       IODebugContext*) override {
    auto file = files_.open(path, tarry::FileSystem::Open::read);
    auto size = file ? (*file)->size() : Result<uint64_t>(file.error());
    if (!size) return io_status(size.error(), path);
    *out = *size;
    return IOStatus::OK();
  }
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t* out,
                                   IODebugContext*) override {
    *out = 0;
    return IOStatus::OK();
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return io_status(files_.rename(from, to), from);
  }
  IOStatus LockFile(const std::string&, const IOOptions&, rocksdb::FileLock** out,
                    IODebugContext*) override {
    *out = new NoLock;
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete lock;
    return IOStatus::OK();
  }
  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>* out,
                     IODebugContext*) override {
    *out = std::make_shared<NullLogger>();
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* out,
                           IODebugContext*) override {
    *out = path;
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string* out, IODebugContext*) override {
    *out = "/d";
    return IOStatus::OK();
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* out,
                       IODebugContext*) override {
    *out = static_cast<bool>(files_.list(trimmed(path)));
    return IOStatus::OK();
  }

 private:
  tarry::FileSystem& files_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_rocks_env(FileSystem& files) {
  return rocksdb::NewCompositeEnv(std::make_shared<RocksFiles>(files));
}

}  // namespace tarry
