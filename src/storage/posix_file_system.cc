#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tarrymq/storage/file_system.h"

namespace tarry {
namespace {

FileError last_error() { return {errno, boost::system::system_category()}; }
FileError result_of(int rc) { return rc == 0 ? FileError{} : last_error(); }

constexpr size_t kPiecesPerCall = 512;  // below IOV_MAX

class PosixFile final : public File {
 public:
  explicit PosixFile(int fd) : fd_(fd) {}
  ~PosixFile() override { ::close(fd_); }

  Result<size_t> pread(std::span<std::byte> out, uint64_t offset) override {
    size_t done = 0;
    while (done < out.size()) {
      ssize_t n =
          ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (n < 0) {
        if (errno == EINTR) continue;
        return last_error();
      }
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  Result<size_t> pread_nowait(std::span<std::byte> out, uint64_t offset) override {
    iovec piece{out.data(), out.size()};
    for (;;) {
      ssize_t n = ::preadv2(fd_, &piece, 1, static_cast<off_t>(offset), RWF_NOWAIT);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno == EINTR) continue;
      // Where the file system does not know the flag, the caller reads on its other thread.
      if (errno == EOPNOTSUPP) errno = EAGAIN;
      return last_error();
    }
  }

  FileError pwritev(std::span<const ByteSpan> pieces, uint64_t offset) override {
    iovec out[kPiecesPerCall];
    size_t next = 0, within = 0;
    while (next < pieces.size()) {
      size_t count = 0;
      for (size_t i = next; i < pieces.size() && count < kPiecesPerCall; ++i) {
        size_t from = i == next ? within : 0;
        out[count++] = {const_cast<std::byte*>(pieces[i].data()) + from, pieces[i].size() - from};
      }
      ssize_t n = ::pwritev(fd_, out, static_cast<int>(count), static_cast<off_t>(offset));
      if (n < 0) {
        if (errno == EINTR) continue;
        return last_error();
      }
      offset += static_cast<uint64_t>(n);
      size_t left = static_cast<size_t>(n);
      while (next < pieces.size() && left >= pieces[next].size() - within) {
        left -= pieces[next].size() - within;
        ++next;
        within = 0;
      }
      within += left;
    }
    return {};
  }

  FileError sync_data() override { return result_of(::fdatasync(fd_)); }
  FileError sync_file_system() override { return result_of(::syncfs(fd_)); }
  FileError truncate(uint64_t size_bytes) override {
    return result_of(::ftruncate(fd_, static_cast<off_t>(size_bytes)));
  }
  FileError punch(uint64_t offset, uint64_t bytes) override {
    return result_of(::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(offset), static_cast<off_t>(bytes)));
  }
  Result<uint64_t> size() override {
    struct stat st;
    if (::fstat(fd_, &st) != 0) return last_error();
    return static_cast<uint64_t>(st.st_size);
  }

 private:
  const int fd_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}
  ~PosixLock() override { ::close(fd_); }

 private:
  const int fd_;
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, Open how) override {
    int flags = O_CLOEXEC;
    flags |= how == Open::read ? O_RDONLY : how == Open::write ? O_RDWR : O_RDWR | O_CREAT;
    int fd = ::open(path.c_str(), flags, 0640);
    if (fd < 0) return last_error();
    return std::make_unique<PosixFile>(fd);
  }
  FileError unlink(const std::string& path) override { return result_of(::unlink(path.c_str())); }
  FileError rename(const std::string& from, const std::string& to) override {
    return result_of(::rename(from.c_str(), to.c_str()));
  }
  FileError make_directory(const std::string& path) override {
    return result_of(::mkdir(path.c_str(), 0750));
  }
  FileError remove_directory(const std::string& path) override {
    return result_of(::rmdir(path.c_str()));
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (!dir) return last_error();
    std::vector<DirectoryEntry> entries;
    while (dirent* e = ::readdir(dir)) {
      std::string name = e->d_name;
      if (name == "." || name == "..") continue;
      bool directory = e->d_type == DT_DIR;
      if (e->d_type == DT_UNKNOWN) {
        struct stat st;
        directory = ::lstat((path + "/" + name).c_str(), &st) == 0 && S_ISDIR(st.st_mode);
      }
      entries.push_back({std::move(name), directory});
    }
    ::closedir(dir);
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }
  FileError sync_directory(const std::string& path) override {
    int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return last_error();
    FileError error = result_of(::fsync(fd));
    ::close(fd);
    return error;
  }
  Result<uint64_t> free_bytes(const std::string& path) override {
    struct statvfs st;
    if (::statvfs(path.c_str(), &st) != 0) return last_error();
    return static_cast<uint64_t>(st.f_bavail) * st.f_frsize;
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0) return last_error();
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      FileError error = last_error();
      ::close(fd);
      return error;
    }
    return std::make_unique<PosixLock>(fd);
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace tarry
