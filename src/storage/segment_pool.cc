#include "storage/segment_pool.h"

#include <array>

#include "storage/record_codec.h"
#include "tarrymq/runtime/log.h"

namespace tarry {

SegmentPool::SegmentPool(FileSystem& files, std::string directory, uint32_t segment_bytes,
                         std::function<void(Task)> aside)
    : files_(files),
      aside_(std::move(aside)),
      directory_(std::move(directory)),
      segment_bytes_(segment_bytes) {}

std::optional<std::string> SegmentPool::put(const std::string& path) {
  if (closed.load()) return {};
  {
    std::lock_guard lock(mutex_);
    if (off_ || count_ >= kFilesMax) return {};
    ++count_;
  }
  const std::string name = std::to_string(next_name_++);
  FileError error = files_.rename(path, path_of(name));
  if (error == boost::system::errc::no_such_file_or_directory) {
    error = files_.make_directory(directory_);
    if (!error) error = files_.rename(path, path_of(name));
  }
  if (!error) {
    forget_end(path);
    return name;
  }
  std::lock_guard lock(mutex_);
  --count_;
  return {};
}

void SegmentPool::prepare(const std::string& name) {
  aside_([this, name] {
    const FileError error = make_unusable(path_of(name));
    if (!error) {
      std::lock_guard lock(mutex_);
      if (!off_) {
        ready_.push_back(name);
        return;
      }
    }
    unlink(name);
  });
}

/// Its header says that it is no segment, and there is no trailer at its end; durably, for the file
/// may get its next name before anything else of it is.
FileError SegmentPool::make_unusable(const std::string& path) {
  auto file = files_.open(path, FileSystem::Open::write);
  if (!file) return file.error();
  auto size = (*file)->size();
  if (!size) return size.error();
  if (*size < file_bytes_min() || *size > file_bytes_max())
    return make_error_code(boost::system::errc::file_too_large);
  std::array<std::byte, kFileHeaderBytes> header{};
  encode_unused_header(header.data());
  const ByteSpan front(header);
  const std::array<std::byte, kTrailerBytes> nothing{};
  const ByteSpan back(nothing);
  FileError error = (*file)->pwritev({&back, 1}, *size - nothing.size());
  if (!error) error = (*file)->pwritev({&front, 1}, 0);
  return error ? error : (*file)->sync_data();
}

bool SegmentPool::take(const std::string& path) {
  std::string name;
  {
    std::lock_guard lock(mutex_);
    if (ready_.empty()) return false;
    name = ready_.back();
    ready_.pop_back();
  }
  if (files_.rename(path_of(name), path)) {
    unlink(name);
    return false;
  }
  ++taken_;
  std::lock_guard lock(mutex_);
  --count_;
  ends_[path] = {kFileHeaderBytes, false};
  return true;
}

void SegmentPool::note_end(const std::string& path, uint64_t end) {
  std::lock_guard lock(mutex_);
  ends_[path] = {end, false};
}

void SegmentPool::forget_end(const std::string& path) {
  std::lock_guard lock(mutex_);
  ends_.erase(path);
}

void SegmentPool::forget_below(const std::string& directory) {
  std::lock_guard lock(mutex_);
  std::erase_if(ends_, [&](const auto& e) { return e.first.starts_with(directory + "/"); });
}

std::optional<uint64_t> SegmentPool::end_of(const std::string& path) {
  std::lock_guard lock(mutex_);
  auto it = ends_.find(path);
  return it == ends_.end() ? std::optional<uint64_t>() : it->second.bytes;
}

FileError SegmentPool::cut(const std::string& path, uint64_t bytes) {
  auto file = files_.open(path, FileSystem::Open::write);
  if (!file && file.error() == boost::system::errc::no_such_file_or_directory) return {};
  return file ? (*file)->truncate(bytes) : file.error();
}

FileError SegmentPool::sync(const std::string& path) {
  auto file = files_.open(path, FileSystem::Open::write);
  if (!file && file.error() == boost::system::errc::no_such_file_or_directory) return {};
  return file ? (*file)->sync_data() : file.error();
}

void SegmentPool::trim_idle() {
  std::lock_guard lock(mutex_);
  for (auto it = ends_.begin(); it != ends_.end();) {
    const bool was_idle = std::exchange(it->second.idle, true);
    if (was_idle && !cut(it->first, it->second.bytes))
      it = ends_.erase(it);
    else
      ++it;
  }
}

FileError SegmentPool::trim_all() {
  std::lock_guard lock(mutex_);
  FileError first;
  for (const auto& [path, end] : ends_) {
    FileError error = cut(path, end.bytes);
    if (!error) error = sync(path);
    if (error && !first) first = error;
  }
  ends_.clear();
  return first;
}

void SegmentPool::set_off(bool off) {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    off_ = off;
    if (off) names.swap(ready_);
  }
  for (const std::string& name : names) unlink(name);
}

void SegmentPool::unlink(const std::string& name) {
  if (FileError error = files_.unlink(path_of(name)))
    log_for("storage")->warn("could not unlink {}: {}", path_of(name), error.message());
  std::lock_guard lock(mutex_);
  --count_;
}

}  // namespace tarry
