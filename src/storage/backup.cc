// A copy of a live store (FORMAT.md "Backup").
//
// 1. The store thread is held, so that no definition is written, no directory removed, no space
// given back.
// 2. Between two rounds of the barrier, when the files are what a crash would leave, each file of a
// log gets a second
//    name in a folder of the data directory, and the definitions a checkpoint there (RocksDB's own,
//    of the same kind).
// 3. Both go on. Files only grow behind the sizes noted, a name that goes takes no bytes with it;
// holes wait, and no file is given to the pool to be written over.
// 4. The noted bytes are copied and synced below `<directory>.partial`, which gets its name when
// all of it is there.
#include "tarrymq/storage/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <vector>

#include "storage/rocks_stores.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr uint64_t kCopyPiece = 8u << 20;

std::string cause() { return std::strerror(errno); }

/// A file to copy: where its second name is, and how many of its bytes count.
struct Noted {
  std::string path;  // below the staging folder and the backup alike: "/queues/..."
  uint64_t bytes = 0;
};

/// An open descriptor.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0640)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

std::string sync_path(const std::string& path) {
  Descriptor file(path, O_RDONLY);
  if (!file || ::fsync(file.get()) != 0) return "cannot sync " + path + ": " + cause();
  return {};
}

/// By the kernel where it can (and shares the blocks where the file system can), else through
/// memory.
std::string copy_range(int from, int to, uint64_t begin, uint64_t end, BackupProgress& progress,
                       const std::atomic<bool>& cancel) {
  std::vector<char> buffer;
  while (begin < end) {
    if (cancel.load(std::memory_order_relaxed)) return "cancelled";
    auto in = static_cast<off_t>(begin), out = in;
    const size_t want = std::min(kCopyPiece, end - begin);
    ssize_t got = -1;
    if (buffer.empty()) got = ::copy_file_range(from, &in, to, &out, want, 0);
    if (got <= 0) {
      buffer.resize(1u << 20);
      got = ::pread(from, buffer.data(), std::min(want, buffer.size()), static_cast<off_t>(begin));
      if (got == 0) return "the file ends before what was noted of it";
      if (got > 0)
        got = ::pwrite(to, buffer.data(), static_cast<size_t>(got), static_cast<off_t>(begin));
      if (got < 0 && errno != EINTR) return cause();
      if (got < 0) continue;
    }
    begin += static_cast<uint64_t>(got);
    progress.bytes += static_cast<uint64_t>(got);
  }
  return {};
}

/// Its first `bytes` bytes; holes stay holes.
std::string copy_file(const std::string& from, const std::string& to, uint64_t bytes,
                      BackupProgress& progress, const std::atomic<bool>& cancel) {
  Descriptor in(from, O_RDONLY), out(to, O_WRONLY | O_CREAT | O_EXCL);
  if (!in) return "cannot read " + from + ": " + cause();
  if (!out) return "cannot write " + to + ": " + cause();
  if (::ftruncate(out.get(), static_cast<off_t>(bytes)) != 0)
    return "cannot write " + to + ": " + cause();
  for (uint64_t at = 0; at < bytes;) {
    const off_t data = ::lseek(in.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) {
      progress.bytes += bytes - at;
      break;  // a hole until the end
    }
    const uint64_t begin = std::min(bytes, data < 0 ? at : static_cast<uint64_t>(data));
    const off_t hole = ::lseek(in.get(), static_cast<off_t>(begin), SEEK_HOLE);
    const uint64_t end = std::min(bytes, hole < 0 ? bytes : static_cast<uint64_t>(hole));
    progress.bytes += begin - at;
    if (std::string error = copy_range(in.get(), out.get(), begin, end, progress, cancel);
        !error.empty()) {
      return "copying " + from + " to " + to + ": " + error;
    }
    at = end;
  }
  if (::fsync(out.get()) != 0) return "cannot sync " + to + ": " + cause();
  ++progress.files;
  return {};
}

class Backup {
 public:
  Backup(Store& store, std::string directory, BackupProgress& progress,
         const std::atomic<bool>& cancel)
      : impl_(store.impl()),
        data_dir_(impl_.options.data_dir),
        staging_(data_dir_ + "/" + kBackupLinksName),
        directory_(std::move(directory)),
        partial_(directory_ + ".partial"),
        progress_(progress),
        cancel_(cancel) {}

  std::string run() {
    if (std::string error = check_target(); !error.empty()) return error;
    if (impl_.backup_running.exchange(true)) return "another backup is being made";
    impl_.pool->closed = true;
    std::string error = note_all();
    if (error.empty()) error = copy_all();
    std::error_code ignored;  // what is left of it goes at the next start, or is the user's to see
    std::filesystem::remove_all(staging_, ignored);
    if (!error.empty() && made_partial_) std::filesystem::remove_all(partial_, ignored);
    impl_.pool->closed = false;
    impl_.backup_running = false;
    return error;
  }

 private:
  std::string check_target() const {
    if (!directory_.starts_with('/')) return "'" + directory_ + "' is no absolute path";
    struct stat found {};
    for (const std::string& path : {directory_, partial_}) {
      if (::lstat(path.c_str(), &found) == 0)
        return path + " is there already; a backup wants a new directory";
    }
    const std::string above = directory_.substr(0, std::max<size_t>(directory_.rfind('/'), 1));
    if (::stat(above.c_str(), &found) != 0) return above + ": " + cause();
    if (!S_ISDIR(found.st_mode)) return above + " is no directory";
    std::error_code error;
    const auto canonical = std::filesystem::weakly_canonical(directory_, error).string() + "/";
    const auto own = std::filesystem::weakly_canonical(data_dir_, error).string() + "/";
    if (canonical.starts_with(own))
      return directory_ + " is inside of the data directory " + data_dir_;
    return {};
  }

  /// Steps 1 to 3. Waits for both threads.
  std::string note_all() {
    std::promise<std::string> noted;
    auto answer = noted.get_future();
    impl_.store_thread.run([this, &noted] { noted.set_value(hold_and_note()); });
    return answer.get();
  }

  /// On the store thread.
  std::string hold_and_note() {
    std::error_code error;
    std::filesystem::remove_all(staging_, error);
    if (!std::filesystem::create_directories(staging_, error))
      return "cannot make " + staging_ + ": " + error.message();
    if (impl_.barrier->disk_alarm()) return "the disk alarm is on; make room, then ask again";
    std::promise<std::string> linked;
    auto answer = linked.get_future();
    if (!impl_.barrier->run([this, &linked] { linked.set_value(note_files("/queues")); }))
      return "the broker is stopping";
    return answer.get();
  }

  /// On the barrier's thread, with the store thread waiting.
  std::string note_files(const std::string& top) {
    if (std::string wrong = link_tree(top); !wrong.empty()) return wrong;
    const std::string definitions = std::string("/") + kRocksDirectoryName;
    if (std::string wrong = impl_.checkpoint(staging_ + definitions); !wrong.empty()) return wrong;
    return note_checkpoint(definitions);
  }

  std::string link_tree(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directory(staging_ + path, error);
    if (error) return "cannot make " + staging_ + path + ": " + error.message();
    directories_.push_back(path);
    for (auto it = std::filesystem::directory_iterator(data_dir_ + path, error);
         !error && it != end(it); it.increment(error)) {
      const std::string child = path + "/" + it->path().filename().string();
      if (it->is_directory(error)) {
        if (std::string wrong = link_tree(child); !wrong.empty()) return wrong;
      } else if (!child.ends_with(".damaged")) {
        if (std::string wrong = link_one(child); !wrong.empty()) return wrong;
      }
    }
    return error ? "cannot list " + data_dir_ + path + ": " + error.message() : "";
  }

  std::string link_one(const std::string& path) {
    const std::string from = data_dir_ + path, to = staging_ + path;
    struct stat found {};
    if (::stat(from.c_str(), &found) != 0) return "cannot read " + from + ": " + cause();
    // What lies behind the end of a file that is written over is nothing's, and may yet change.
    const uint64_t bytes = impl_.pool->end_of(from).value_or(static_cast<uint64_t>(found.st_size));
    if (::link(from.c_str(), to.c_str()) != 0) {
      // A file system without hard links: the bytes now, while everything stands still.
      BackupProgress aside;
      if (std::string wrong = copy_file(from, to, bytes, aside, cancel_); !wrong.empty())
        return wrong;
    }
    notes_.push_back({path, bytes});
    progress_.bytes_total += bytes;
    return {};
  }

  /// The checkpoint is nobody's but ours: its files are final.
  std::string note_checkpoint(const std::string& path) {
    directories_.push_back(path);
    std::error_code error;
    for (auto it = std::filesystem::directory_iterator(staging_ + path, error);
         !error && it != end(it); it.increment(error)) {
      const uint64_t bytes = it->file_size(error);
      if (error) break;
      notes_.push_back({path + "/" + it->path().filename().string(), bytes});
      progress_.bytes_total += bytes;
    }
    return error ? "cannot list " + staging_ + path + ": " + error.message() : "";
  }

  std::string copy_all() {
    std::error_code error;
    if (!std::filesystem::create_directory(partial_, error)) {
      return "cannot make " + partial_ + ": " + (error ? error.message() : "it is there already");
    }
    made_partial_ = true;
    for (const std::string& path : directories_) {
      std::filesystem::create_directory(partial_ + path, error);
      if (error) return "cannot make " + partial_ + path + ": " + error.message();
    }
    for (const Noted& one : notes_) {
      std::string wrong =
          copy_file(staging_ + one.path, partial_ + one.path, one.bytes, progress_, cancel_);
      if (!wrong.empty()) return wrong;
    }
    if (std::string wrong = copy_clock(); !wrong.empty()) return wrong;
    // As after a clean stop: a start on the copy notices what got lost on the way there.
    const std::string definitions = fingerprint_on_disk(partial_ + "/" + kRocksDirectoryName);
    if (FileError wrong = Inventory::write(impl_.files, partial_, definitions)) {
      return "cannot write the inventory of " + partial_ + ": " + wrong.message();
    }
    for (auto path = directories_.rbegin(); path != directories_.rend(); ++path) {
      if (std::string wrong = sync_path(partial_ + *path); !wrong.empty()) return wrong;
    }
    if (std::string wrong = sync_path(partial_); !wrong.empty()) return wrong;
    if (::rename(partial_.c_str(), directory_.c_str()) != 0)
      return "cannot name it " + directory_ + ": " + cause();
    return sync_path(directory_.substr(0, std::max<size_t>(directory_.rfind('/'), 1)));
  }

  /// It is replaced as a whole whenever it changes, so any moment's is one. There may be none.
  std::string copy_clock() {
    struct stat found {};
    const std::string from = data_dir_ + "/clock";
    if (::stat(from.c_str(), &found) != 0) return {};
    BackupProgress aside;
    return copy_file(from, partial_ + "/clock", static_cast<uint64_t>(found.st_size), aside,
                     cancel_);
  }

  Store::Impl& impl_;
  const std::string data_dir_, staging_, directory_, partial_;
  BackupProgress& progress_;
  const std::atomic<bool>& cancel_;
  std::vector<std::string> directories_;  // each behind the one it lies in
  std::vector<Noted> notes_;
  bool made_partial_ = false;
};

}  // namespace

Result<void, std::string> back_up(Store& store, const std::string& directory,
                                  BackupProgress& progress, const std::atomic<bool>& cancel) {
  std::string error = Backup(store, directory, progress, cancel).run();
  if (error.empty()) return {};
  log_for("storage")->error("no backup to {}: {}", directory, error);
  return error;
}

}  // namespace tarry
