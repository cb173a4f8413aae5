#include "support/faulty_file_system.h"

#include <algorithm>
#include <cstring>

namespace tarry {
namespace {

namespace errc = boost::system::errc;
FileError io_error() { return errc::make_error_code(errc::io_error); }
FileError no_such_file() { return errc::make_error_code(errc::no_such_file_or_directory); }
std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

uint32_t scramble(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

}  // namespace

class FaultyFile final : public File {
 public:
  FaultyFile(FaultyFileSystem& files, std::string path,
             std::shared_ptr<FaultyFileSystem::Inode> inode)
      : files_(files),
        path_(std::move(path)),
        inode_(std::move(inode)),
        generation_(files.generation_) {}

  Result<size_t> pread(std::span<std::byte> out, uint64_t offset) override {
    std::lock_guard lock(files_.mutex_);
    if (stale()) return io_error();
    if (offset >= inode_->now.size()) return size_t{0};
    size_t n = std::min<uint64_t>(out.size(), inode_->now.size() - offset);
    std::memcpy(out.data(), inode_->now.data() + offset, n);
    return n;
  }
  Result<size_t> pread_nowait(std::span<std::byte> out, uint64_t offset) override {
    {
      std::lock_guard lock(files_.mutex_);
      if (files_.cold_) return errc::make_error_code(errc::resource_unavailable_try_again);
    }
    return pread(out, offset);
  }
  FileError pwritev(std::span<const ByteSpan> pieces, uint64_t offset) override {
    std::lock_guard lock(files_.mutex_);
    if (stale()) return io_error();
    bool torn = false;
    FileError error = files_.begin("write", path_, &torn);
    if (error && !torn) return error;
    FaultyFileSystem::Write write;
    write.offset = offset;
    for (ByteSpan piece : pieces) write.bytes.insert(write.bytes.end(), piece.begin(), piece.end());
    files_.bytes_written_ += write.bytes.size();
    files_.apply(inode_->now, write);
    inode_->unsynced.push_back(std::move(write));
    return error;
  }
  FileError sync_data() override {
    std::lock_guard lock(files_.mutex_);
    if (stale()) return io_error();
    if (FileError error = files_.begin("sync", path_)) {
      if (!files_.crashed_) {
        // The pages are dropped; a second sync would say that all is well.
        files_.forget_unsynced(*inode_, FaultyFileSystem::Survives::nothing, 0);
      }
      return error;
    }
    files_.sync_inode(*inode_);
    return {};
  }
  FileError sync_file_system() override {
    std::lock_guard lock(files_.mutex_);
    if (stale()) return io_error();
    if (FileError error = files_.begin("syncfs", path_)) return error;
    for (auto& [name, inode] : files_.names_) {
      if (inode) files_.sync_inode(*inode);
    }
    files_.durable_names_ = files_.names_;
    files_.renames_.clear();
    return {};
  }
  FileError truncate(uint64_t size_bytes) override {
    std::lock_guard lock(files_.mutex_);
    if (stale()) return io_error();
    if (FileError error = files_.begin("truncate", path_)) return error;
    FaultyFileSystem::Write write{true, size_bytes, {}};
    files_.apply(inode_->now, write);
    inode_->unsynced.push_back(std::move(write));
    return {};
  }
  FileError punch(uint64_t offset, uint64_t bytes) override {
    std::lock_guard lock(files_.mutex_);
    if (stale()) return io_error();
    if (FileError error = files_.begin("punch", path_)) return error;
    if (offset >= inode_->now.size()) return {};
    bytes = std::min(bytes, inode_->now.size() - offset);
    FaultyFileSystem::Write write{false, offset, std::vector<std::byte>(bytes)};
    files_.apply(inode_->now, write);
    files_.bytes_punched_ += bytes;
    inode_->unsynced.push_back(std::move(write));
    return {};
  }
  Result<uint64_t> size() override {
    std::lock_guard lock(files_.mutex_);
    return static_cast<uint64_t>(inode_->now.size());
  }

 private:
  bool stale() const { return files_.crashed_ || generation_ != files_.generation_; }
  FaultyFileSystem& files_;
  const std::string path_;
  const std::shared_ptr<FaultyFileSystem::Inode> inode_;
  const uint64_t generation_;
};

namespace {

class FaultyLock final : public FileLock {
 public:
  FaultyLock(std::shared_ptr<std::set<std::string>> locks, std::string path)
      : locks_(std::move(locks)), path_(std::move(path)) {}
  ~FaultyLock() override { locks_->erase(path_); }

 private:
  std::shared_ptr<std::set<std::string>> locks_;
  std::string path_;
};

}  // namespace

FaultyFileSystem::FaultyFileSystem() = default;
FaultyFileSystem::~FaultyFileSystem() = default;

FileError FaultyFileSystem::begin(const char* kind, const std::string& path, bool* torn) {
  if (crashed_) return io_error();
  ++calls_;
  if (crash_at_ && calls_ == crash_at_) {
    crashed_ = true;
    if (torn) *torn = true;
    return io_error();
  }
  return fault_ ? fault_(kind, path) : FileError{};
}

void FaultyFileSystem::apply(std::vector<std::byte>& bytes, const Write& write) {
  if (write.truncate) {
    bytes.resize(write.offset);
    return;
  }
  if (bytes.size() < write.offset + write.bytes.size())
    bytes.resize(write.offset + write.bytes.size());
  std::copy(write.bytes.begin(), write.bytes.end(),
            bytes.begin() + static_cast<ptrdiff_t>(write.offset));
}

void FaultyFileSystem::sync_inode(Inode& inode) {
  if (inode.unsynced.empty()) return;
  inode.synced = inode.now;
  inode.unsynced.clear();
}

void FaultyFileSystem::forget_unsynced(Inode& inode, Survives how, uint32_t seed) {
  size_t count = inode.unsynced.size();
  if (count == 0) return;
  std::vector<std::byte> bytes = inode.synced;
  for (size_t i = 0; i < count; ++i) {
    Write write = inode.unsynced[i];
    bool last = i + 1 == count;
    if (how == Survives::nothing) break;
    if (how == Survives::first_writes && i >= (count + 1) / 2) break;
    if (how == Survives::last_writes && i < (count + 1) / 2 && !(last && count == 1)) continue;
    if (last && (how == Survives::torn || how == Survives::garbage) && !write.truncate &&
        !write.bytes.empty()) {
      size_t keep = scramble(seed + static_cast<uint32_t>(count)) % write.bytes.size();
      if (how == Survives::torn) {
        write.bytes.resize(keep);
      } else {
        for (size_t b = keep; b < write.bytes.size(); ++b) {
          write.bytes[b] = static_cast<std::byte>(scramble(seed + static_cast<uint32_t>(b)));
        }
      }
    }
    apply(bytes, write);
  }
  inode.now = inode.synced = std::move(bytes);
  inode.unsynced.clear();
}

void FaultyFileSystem::crash_at(uint64_t n) {
  std::lock_guard lock(mutex_);
  crash_at_ = n ? calls_ + n : 0;
}
bool FaultyFileSystem::crashed() const {
  std::lock_guard lock(mutex_);
  return crashed_;
}
uint64_t FaultyFileSystem::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

void FaultyFileSystem::reboot(Survives how, uint32_t seed) {
  std::lock_guard lock(mutex_);
  crashed_ = false;
  crash_at_ = 0;
  ++generation_;
  locks_ = std::make_shared<std::set<std::string>>();
  if (how == Survives::nothing || how == Survives::old_names || how == Survives::some_names) {
    auto survives = [&](const std::string& name) {
      uint32_t drawn = seed;
      for (char c : name) drawn = scramble(drawn + static_cast<unsigned char>(c));
      return how == Survives::some_names && drawn % 2 == 0;
    };
    Names names = durable_names_;
    for (auto& entry : names_) {
      if (!names.contains(entry.first) && survives(entry.first)) names.insert(entry);
    }
    std::erase_if(names,
                  [&](const auto& e) { return !names_.contains(e.first) && survives(e.first); });
    for (const Rename& r : renames_) {
      if (how != Survives::some_names || !durable_names_.contains(r.from)) continue;
      const bool done = survives(r.to + " renamed");
      if (done && (names_.contains(r.to) || !survives(r.to + " unlinked")))
        names[r.to] = r.inode;
      else
        names.erase(r.to);
      if (done)
        names.erase(r.from);
      else
        names[r.from] = r.inode;
    }
    names_ = std::move(names);
    // Sorted, so that directories come before what is in them.
    std::erase_if(names_, [&](const auto& e) {
      std::string above = parent(e.first);
      return !above.empty() && !names_.contains(above);
    });
  }
  for (auto& [name, inode] : names_) {
    if (!inode) continue;
    if (how == Survives::everything) continue;
    if (how == Survives::old_names || how == Survives::some_names) {
      sync_inode(*inode);
    } else {
      forget_unsynced(*inode, how, seed);
    }
  }
  if (how == Survives::everything) return;
  durable_names_ = names_;
  renames_.clear();
}

std::unique_ptr<FaultyFileSystem> FaultyFileSystem::clone() const {
  std::lock_guard lock(mutex_);
  auto copy = std::make_unique<FaultyFileSystem>();
  std::map<const Inode*, std::shared_ptr<Inode>> copied;
  auto copy_names = [&](const Names& from, Names& to) {
    for (auto& [name, inode] : from) {
      if (inode && !copied[inode.get()]) copied[inode.get()] = std::make_shared<Inode>(*inode);
      to[name] = inode ? copied[inode.get()] : nullptr;
    }
  };
  copy_names(names_, copy->names_);
  copy_names(durable_names_, copy->durable_names_);
  for (const Rename& r : renames_) copy->renames_.push_back({r.from, r.to, copied[r.inode.get()]});
  copy->free_bytes_ = free_bytes_;
  return copy;
}

void FaultyFileSystem::set_fault(
    std::function<FileError(const std::string&, const std::string&)> fault) {
  std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}
void FaultyFileSystem::set_free_bytes(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  free_bytes_ = bytes;
}
void FaultyFileSystem::set_cold(bool cold) {
  std::lock_guard lock(mutex_);
  cold_ = cold;
}
void FaultyFileSystem::flip_byte(const std::string& path, uint64_t offset) {
  std::lock_guard lock(mutex_);
  auto& inode = *names_.at(path);
  inode.now.at(offset) ^= std::byte{0x5a};
  if (offset < inode.synced.size()) inode.synced[offset] ^= std::byte{0x5a};
}
void FaultyFileSystem::cut(const std::string& path, uint64_t size) {
  std::lock_guard lock(mutex_);
  auto& inode = *names_.at(path);
  inode.now.resize(size);
  inode.unsynced.clear();
  inode.synced = inode.now;
}
void FaultyFileSystem::copy_to(FaultyFileSystem& other) const {
  auto copy = clone();
  std::lock_guard lock(other.mutex_);
  other.names_ = copy->names_;
  other.durable_names_ = copy->durable_names_;
  other.renames_ = copy->renames_;
  other.locks_ = std::make_shared<std::set<std::string>>();
  ++other.generation_;
}
bool FaultyFileSystem::exists(const std::string& path) const {
  std::lock_guard lock(mutex_);
  return names_.contains(path);
}
uint64_t FaultyFileSystem::size_of(const std::string& path) const {
  std::lock_guard lock(mutex_);
  return names_.at(path)->now.size();
}
std::vector<std::string> FaultyFileSystem::all_files() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (auto& [name, inode] : names_) {
    if (inode) out.push_back(name);
  }
  return out;
}
uint64_t FaultyFileSystem::bytes_written() const {
  std::lock_guard lock(mutex_);
  return bytes_written_;
}

uint64_t FaultyFileSystem::bytes_punched() const {
  std::lock_guard lock(mutex_);
  return bytes_punched_;
}

Result<std::unique_ptr<File>> FaultyFileSystem::open(const std::string& path, Open how) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  auto it = names_.find(path);
  if (it == names_.end()) {
    if (how != Open::create || !names_.contains(parent(path))) return no_such_file();
    if (FileError error = begin("create", path)) return error;
    it = names_.emplace(path, std::make_shared<Inode>()).first;
  }
  return std::make_unique<FaultyFile>(*this, path, it->second);
}

FileError FaultyFileSystem::unlink(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  if (!names_.contains(path)) return no_such_file();
  if (FileError error = begin("unlink", path)) return error;
  names_.erase(path);
  return {};
}

FileError FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  auto it = names_.find(from);
  if (it == names_.end() || !names_.contains(parent(to))) return no_such_file();
  if (FileError error = begin("rename", from)) return error;
  renames_.push_back({from, to, it->second});
  names_[to] = it->second;
  names_.erase(from);
  return {};
}

FileError FaultyFileSystem::make_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  if (names_.contains(path)) return errc::make_error_code(errc::file_exists);
  if (path.rfind('/') != 0 && !names_.contains(parent(path))) return no_such_file();
  if (FileError error = begin("make_directory", path)) return error;
  names_[path] = nullptr;
  return {};
}

FileError FaultyFileSystem::remove_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (FileError error = begin("remove_directory", path)) return error;
  names_.erase(path);
  return {};
}

Result<std::vector<DirectoryEntry>> FaultyFileSystem::list(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  if (!names_.contains(path)) return no_such_file();
  std::vector<DirectoryEntry> out;
  for (auto& [name, inode] : names_) {
    if (parent(name) == path && name.size() > path.size())
      out.push_back({name.substr(path.size() + 1), !inode});
  }
  return out;
}

FileError FaultyFileSystem::sync_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  if (!path.empty() && path != "/" && !names_.contains(path)) return no_such_file();
  if (FileError error = begin("sync_dir", path)) return error;
  auto in_directory = [&](const auto& entry) {
    return parent(entry.first) == (path == "/" ? "" : path);
  };
  std::erase_if(durable_names_,
                [&](const auto& e) { return in_directory(e) && !names_.contains(e.first); });
  for (auto& entry : names_) {
    if (in_directory(entry)) durable_names_[entry.first] = entry.second;
  }
  std::erase_if(renames_,
                [&](const Rename& r) { return parent(r.to) == (path == "/" ? "" : path); });
  return {};
}

Result<uint64_t> FaultyFileSystem::free_bytes(const std::string&) {
  std::lock_guard lock(mutex_);
  return free_bytes_;
}

Result<std::unique_ptr<FileLock>> FaultyFileSystem::lock(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (crashed_) return io_error();
  if (!locks_->insert(path).second)
    return errc::make_error_code(errc::resource_unavailable_try_again);
  if (!names_.contains(path)) names_[path] = std::make_shared<Inode>();
  return std::make_unique<FaultyLock>(locks_, path);
}

}  // namespace tarry
