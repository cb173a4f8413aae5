#include "storage/log_stream.h"

#include <algorithm>

namespace tarry {

void OpenFiles::sweep() {
  std::vector<std::shared_ptr<File>> closing;  // closed outside the lock
  std::lock_guard lock(mutex_);
  ++sweeps_;
  if (open_.size() > limit_) {
    std::sort(open_.begin(), open_.end(), [](const LogStream* a, const LogStream* b) {
      return a->used_at_sweep_.load() > b->used_at_sweep_.load();
    });
  }
  constexpr uint64_t kIdleSweeps = 10;
  size_t kept = 0;
  for (LogStream* stream : open_) {
    bool idle = stream->used_at_sweep_.load() + kIdleSweeps < sweeps_;
    if ((idle || kept >= limit_) && !stream->written_since_sync_ && !stream->unwritten()) {
      std::lock_guard stream_lock(stream->mutex_);
      closing.push_back(std::move(stream->handle_));
      closing.push_back(std::move(stream->old_handle_));
      stream->handle_ = stream->old_handle_ = nullptr;
      stream->registered_ = false;
    } else {
      open_[kept++] = stream;
    }
  }
  open_.resize(kept);
}

size_t OpenFiles::count() {
  std::lock_guard lock(mutex_);
  return open_.size();
}

LogStream::LogStream(FileSystem& files, std::shared_ptr<OpenFiles> open_files, std::string base,
                     // cppcheck-suppress passedByValue  // a handful of numbers, kept
                     FileHeader header)
    : files_(files), open_files_(std::move(open_files)), base_(std::move(base)), header_(header) {}

LogStream::~LogStream() {
  std::lock_guard lock(open_files_->mutex_);
  if (registered_) std::erase(open_files_->open_, this);
}

std::string LogStream::part_name(const std::string& base, bool ack_log, uint32_t part) {
  std::string name = base;
  if (part) name += "." + std::to_string(part);
  return name + (ack_log ? ".ack" : ".seg");
}

void LogStream::restore(std::vector<Part> parts, uint64_t clean_end, bool cut) {
  parts_ = std::move(parts);
  end_ = durable_end_ = clean_end;
  on_disk_ = true;
  part_created_ = true;
  if (cut) start_new_part();
}

void LogStream::add(uint64_t offset, ByteSpan bytes) {
  if (bytes.empty()) return;
  end_ = offset + bytes.size();
  if (unwritten()) {
    Piece& last = pieces_.back();
    if (last.owned.empty() && last.data + last.bytes == bytes.data() &&
        last.offset + last.bytes == offset) {
      last.bytes += bytes.size();
      return;
    }
  }
  pieces_.push_back({offset, bytes.data(), bytes.size(), {}});
}

void LogStream::add_owned(uint64_t offset, std::vector<std::byte> bytes) {
  end_ = offset + bytes.size();
  pieces_.push_back({offset, nullptr, bytes.size(), std::move(bytes)});
}

FileError LogStream::open_part(bool& created) {
  {
    std::lock_guard lock(mutex_);
    if (handle_ && part_created_) return {};
  }
  Part part = parts_.back();
  std::string path = part_name(base_, header_.ack_log, part.index);
  if (!part_created_ && pool_ && part.index == 0 && !written_over_) {
    written_over_ = pool_->take(path);
    if (written_over_) blocks_bytes_ = pool_->written_min();
  }
  const bool there = part_created_ || written_over_;
  auto file = files_.open(path, there ? FileSystem::Open::write : FileSystem::Open::create);
  if (!file) {
    // Whoever removed the directory took it along: the next try makes a new one.
    if (file.error() == boost::system::errc::no_such_file_or_directory) written_over_ = false;
    return file.error();
  }
  if (!part_created_) {
    FileHeader header = header_;
    header.written_over = written_over_;
    header.part = part.index;
    header.start = part.start;
    std::byte bytes[kFileHeaderBytes];
    encode_file_header(bytes, header);
    ByteSpan piece(bytes);
    if (FileError error = (*file)->pwritev({&piece, 1}, 0)) return error;
    part_created_ = true;
    on_disk_ = true;
    created = true;
    written_since_sync_ = true;
  }
  set_handle(std::move(*file));
  return {};
}

void LogStream::set_handle(std::shared_ptr<File> file) {
  std::lock_guard registry(open_files_->mutex_);
  std::lock_guard lock(mutex_);
  handle_ = std::move(file);
  used_at_sweep_.store(open_files_->sweeps_.load());
  if (!registered_) open_files_->open_.push_back(this);
  registered_ = true;
}

FileError LogStream::write(bool& created) {
  if (!unwritten()) return {};
  if (FileError error = open_part(created)) return error;
  std::vector<ByteSpan> group;
  size_t next = unwritten_from_;
  while (next < pieces_.size()) {
    uint64_t start = pieces_[next].offset, at = start;
    group.clear();
    size_t i = next;
    for (; i < pieces_.size() && pieces_[i].offset == at; ++i) {
      const Piece& p = pieces_[i];
      group.push_back({p.owned.empty() ? p.data : p.owned.data(), p.bytes});
      at += p.bytes;
    }
    if (FileError error = handle_->pwritev(group, start)) return error;
    written_since_sync_ = true;
    blocks_bytes_ += at - start;
    unwritten_from_ = next = i;
  }
  if (written_over_) {
    if (FileError error = write_end()) return error;
  }
  used_at_sweep_.store(open_files_->sweeps_.load());
  return {};
}

/// Of a file that was longer before.
FileError LogStream::write_end() {
  const std::string path = part_name(base_, header_.ack_log, 0);
  const Piece& last = pieces_.back();
  const uint64_t end = last.offset + last.bytes;
  pool_->note_end(path, end);
  if (!ends_here_) return {};
  if (FileError error = handle_->truncate(end)) return error;
  pool_->forget_end(path);
  written_over_ = false;
  return {};
}

uint64_t LogStream::unsynced_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < unwritten_from_; ++i) bytes += pieces_[i].bytes;
  return bytes;
}

std::optional<std::string> LogStream::give_to_pool() {
  if (!pool_ || !part_created_ || !single_part() || blocks_bytes_ < pool_->written_min()) return {};
  return pool_->put(part_name(base_, header_.ack_log, 0));
}

FileError LogStream::sync() {
  if (!written_since_sync_) return {};
  bool created = false;
  if (FileError error = open_part(created)) return error;
  return handle_->sync_data();
}

FileError LogStream::sync_file_system() {
  bool created = false;
  if (FileError error = open_part(created)) return error;
  return handle_->sync_file_system();
}

void LogStream::clear_durable() {
  if (unwritten_from_)
    durable_end_ = pieces_[unwritten_from_ - 1].offset + pieces_[unwritten_from_ - 1].bytes;
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<ptrdiff_t>(unwritten_from_));
  unwritten_from_ = 0;
  written_since_sync_ = false;
}

void LogStream::start_new_part() {
  std::lock_guard lock(mutex_);
  if (part_created_) {
    if (written_over_) pool_->forget_end(part_name(base_, header_.ack_log, 0));
    written_over_ = false;
    parts_.push_back({parts_.back().index + 1, durable_end_});
    old_handle_ = nullptr;
    handle_ = nullptr;
  }
  part_created_ = false;
  written_since_sync_ = false;
  unwritten_from_ = 0;
}

void LogStream::drop_pieces() {
  pieces_.clear();
  unwritten_from_ = 0;
  written_since_sync_ = false;
}

FileError LogStream::retire() {
  uint32_t last;
  {
    std::lock_guard lock(mutex_);
    last = parts_.back().index;
  }
  for (uint32_t part = 0; part <= last; ++part) {
    FileError error = files_.rename(part_name(base_, true, part), retired_name(base_));
    if (error != boost::system::errc::no_such_file_or_directory) return error;
  }
  return {};
}

FileError LogStream::unlink_all() {
  std::vector<Part> parts;
  {
    std::lock_guard lock(mutex_);
    parts = parts_;
    handle_ = old_handle_ = nullptr;
  }
  FileError first_error;
  if (written_over_) pool_->forget_end(part_name(base_, header_.ack_log, 0));
  // All numbers up to the last: a part that failed or was superseded may lie there too.
  const auto unlink = [&](const std::string& path) {
    FileError error = files_.unlink(path);
    if (error && error != boost::system::errc::no_such_file_or_directory && !first_error)
      first_error = error;
  };
  for (uint32_t part = 0; part <= parts.back().index; ++part)
    unlink(part_name(base_, header_.ack_log, part));
  if (header_.ack_log && !first_error) unlink(retired_name(base_));
  return first_error;
}

LogStream::Reader LogStream::reader(uint64_t offset) {
  std::lock_guard lock(mutex_);
  used_at_sweep_.store(open_files_->sweeps_.load());
  size_t i = parts_.size() - 1;
  while (i > 0 && parts_[i].start > offset) --i;
  Reader reader;
  reader.part = parts_[i].index;
  reader.path = part_name(base_, header_.ack_log, reader.part);
  if (i + 1 < parts_.size()) {
    reader.end = parts_[i + 1].start;
    if (old_handle_ && old_handle_part_ == reader.part) reader.file = old_handle_;
  } else {
    reader.file = handle_;
  }
  return reader;
}

void LogStream::keep(const Reader& reader) {
  std::lock_guard registry(open_files_->mutex_);
  std::lock_guard lock(mutex_);
  if (reader.part == parts_.back().index) {
    if (!handle_) handle_ = reader.file;
  } else {
    old_handle_ = reader.file;
    old_handle_part_ = reader.part;
  }
  used_at_sweep_.store(open_files_->sweeps_.load());
  if (!registered_) open_files_->open_.push_back(this);
  registered_ = true;
}

}  // namespace tarry
