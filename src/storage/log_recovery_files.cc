// Which files a log has at start, whether their headers can be believed, and what is kept aside.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "storage/log_recovery.h"
#include "storage/read_request.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

bool not_there(const FileError& error) {
  return error == boost::system::errc::no_such_file_or_directory;
}

struct FileName {
  uint32_t number = 0, part = 0;
  bool ack_log = false, retired = false, known = false;
};

/// NNNNNNNN[.part].seg or .ack, NNNNNNNN.gone; anything else that begins with a number keeps that
/// number from being used again.
std::optional<FileName> parse_name(const std::string& name) {
  FileName out;
  if (name.size() < 8) return {};
  const std::string digits = name.substr(0, 8);
  char* end = nullptr;
  out.number = static_cast<uint32_t>(std::strtoul(digits.c_str(), &end, 16));
  if (*end) return {};
  std::string rest = name.substr(8);
  if (rest.size() > 4 && rest[0] == '.') {
    out.part = static_cast<uint32_t>(std::strtoul(rest.c_str() + 1, &end, 10));
    if (end != rest.c_str() + 1) rest = end;
  }
  out.ack_log = rest == ".ack";
  out.retired = rest == ".gone";
  out.known = out.ack_log || out.retired || rest == ".seg";
  return out;
}

/// Segment numbers start above the clock, so that a number whose files are long gone, or never
/// were, is not given again (design-notes 2): half seconds since 2025.
uint32_t number_from_clock(const Clock& clock) {
  constexpr int64_t k2025 = 1'735'689'600;
  int64_t halves = clock.system_now().ns / 500'000'000 - 2 * k2025;
  return halves < 1 ? 1 : static_cast<uint32_t>(std::min<int64_t>(halves, UINT32_MAX / 2));
}

bool all_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Whether there is anything in it that `seed` makes whole.
bool holds_something(ByteSpan bytes, bool ack_log, uint32_t seed) {
  for (size_t at = kFileHeaderBytes; at < bytes.size(); ++at) {
    const ByteSpan rest = bytes.subspan(at);
    if (ack_log ? decode_event(rest, seed).has_value() : check_record(rest, seed).has_value())
      return true;
  }
  return false;
}

}  // namespace

void LogRecovery::report_file(const std::string& path, const std::string& what) {
  ++log_.damaged;
  log_for("storage")->error("{}: {} {}", log_.options.label, path, what);
}

std::optional<uint64_t> LogRecovery::size_at_stop(const std::string& path) const {
  if (!inventory_) return {};
  auto it = inventory_->find(path.substr(path.rfind('/') + 1));
  return it == inventory_->end() ? std::optional<uint64_t>() : it->second;
}

void LogRecovery::report_vanished(const std::vector<DirectoryEntry>& entries) {
  if (!inventory_ || !log_.options.durable) return;
  for (const auto& [name, bytes] : *inventory_) {
    const std::string& wanted = name;  // C++20, but not Clang 14, lets a lambda capture a binding
    const bool there = std::any_of(entries.begin(), entries.end(),
                                   [&wanted](const auto& e) { return e.name == wanted; });
    if (there || bytes <= kFileHeaderBytes) continue;
    report_file(log_.options.directory + "/" + name,
                "was there at the last stop (" + std::to_string(bytes) + " bytes) and is missing");
  }
}

FileError LogRecovery::list(std::map<uint32_t, Found>& found) {
  log_.next_number_ = std::max({number_from_clock(shard_.shard().clock()),
                                shard_.impl().segment_floor.load(), log_.next_number_});
  log_.failed_path = log_.options.directory;
  auto entries = files_.list(log_.options.directory);
  if (!entries && not_there(entries.error())) {
    report_vanished({});
    return {};
  }
  if (!entries) return entries.error();
  report_vanished(*entries);
  for (const DirectoryEntry& entry : *entries) {
    auto name = parse_name(entry.name);
    if (!name) continue;
    log_.next_number_ = std::max(log_.next_number_, name->number + 1);
    if (!name->known) continue;
    if (!log_.options.durable) {
      if (FileError error = files_.unlink(log_.options.directory + "/" + entry.name)) return error;
      continue;
    }
    Found& files = found[name->number];
    files.retired |= name->retired;
    if (!name->retired)
      (name->ack_log ? files.ack_parts : files.record_parts).push_back(name->part);
  }
  return {};
}

/// Its removal was cut short: everything in it was settled. The ack log goes when the records are
/// gone for good.
FileError LogRecovery::finish_removal(uint32_t number, const Found& found) {
  const std::string base = segment_base_name(log_.options.directory, number);
  for (bool ack_log : {false, true}) {
    for (uint32_t part : ack_log ? found.ack_parts : found.record_parts) {
      if (FileError error = files_.unlink(LogStream::part_name(base, ack_log, part))) return error;
    }
    if (FileError error = files_.sync_directory(log_.options.directory)) return error;
  }
  return files_.unlink(LogStream::retired_name(base));
}

/// An ack log alone: its segment vanished.
FileError LogRecovery::put_aside_acks(uint32_t number, const Found& found) {
  const std::string base = segment_base_name(log_.options.directory, number);
  bool reported =
      size_at_stop(LogStream::part_name(base, false, 0)).has_value();  // by report_vanished()
  for (uint32_t part : found.ack_parts) {
    const std::string path = LogStream::part_name(base, true, part);
    auto file = files_.open(path, FileSystem::Open::read);
    auto size = file ? (*file)->size() : Result<uint64_t>(file.error());
    if (size && *size <= kFileHeaderBytes) {
      if (FileError error = files_.unlink(path)) return error;
      continue;
    }
    if (!reported)
      report_file(LogStream::part_name(base, false, 0), "is missing, though its ack log is there");
    reported = true;
    if (FileError error = put_aside(path)) return error;
  }
  return {};
}

/// Kept for a person to look at, never read again.
FileError LogRecovery::put_aside(const std::string& path) {
  FileError error = files_.rename(path, path + ".damaged");
  if (error) log_for("storage")->warn("could not put {} aside: {}", path, error.message());
  return error;
}

/// What the header of a segment's ack log says, in case that the segment's own cannot be read. 0:
/// nothing.
uint64_t LogRecovery::incarnation_of_acks(uint32_t number, const Found& found) {
  const std::string base = segment_base_name(log_.options.directory, number);
  for (uint32_t part : found.ack_parts) {
    auto file = files_.open(LogStream::part_name(base, true, part), FileSystem::Open::read);
    if (!file) continue;
    std::byte bytes[kFileHeaderBytes] = {};
    read_with_holes(**file, bytes, 0);
    FileHeader header;
    if (decode_file_header(bytes, header) == HeaderCheck::good && header.ack_log &&
        header.number == number) {
      return header.incarnation;
    }
  }
  return 0;
}

/// Makes the header from what must be in it, if the bytes behind it bear that out.
bool LogRecovery::rebuild_header(PartFile& part, const FileHeader& expected) {
  if (expected.part > 0) return false;  // where it begins to rule is not known
  std::vector<std::byte> bytes(part.size);
  read_with_holes(*part.file, bytes, 0);
  std::vector<uint64_t> candidates;
  if (expected.incarnation) candidates.push_back(expected.incarnation);
  if (!expected.ack_log && bytes.size() > kTrailerBytes) {
    if (auto named = trailer_incarnation(ByteSpan(bytes).last(kTrailerBytes)))
      candidates.push_back(*named);
  }
  for (uint64_t incarnation : candidates) {
    if (!holds_something(bytes, expected.ack_log, checksum_seed(incarnation))) continue;
    part.header = expected;
    part.header.incarnation = incarnation;
    return true;
  }
  return false;
}

LogRecovery::Fit LogRecovery::judge_header(PartFile& part, const FileHeader& expected,
                                           HeaderCheck check) {
  const auto fits = [&](const FileHeader& h) {
    return h.ack_log == expected.ack_log && h.number == expected.number &&
           h.part == expected.part && h.queue_id == expected.queue_id && h.lane == expected.lane &&
           (expected.incarnation == 0 || h.incarnation == expected.incarnation);
  };
  if (check == HeaderCheck::good) return fits(part.header) ? Fit::good : Fit::no;
  if (part.size <= kFileHeaderBytes) return Fit::no;
  std::byte bytes[kFileHeaderBytes] = {};
  read_with_holes(*part.file, bytes, 0);
  const bool one_byte = repair_file_header(bytes) &&
                        decode_file_header(bytes, part.header) == HeaderCheck::good &&
                        fits(part.header);
  if (!one_byte && !rebuild_header(part, expected)) return Fit::no;
  encode_file_header(bytes, part.header);
  const ByteSpan piece(bytes);
  FileError error = part.file->pwritev({&piece, 1}, 0);
  if (!error) error = part.file->sync_data();
  if (error)
    log_for("storage")->warn("could not write the header of {} anew: {}", part.path,
                             error.message());
  return Fit::made_new;
}

FileError LogRecovery::open_stream(uint32_t number, bool ack_log,
                                   const std::vector<uint32_t>& parts, uint64_t incarnation,
                                   Stream& out) {
  std::string base = segment_base_name(log_.options.directory, number);
  for (uint32_t index : parts) {
    PartFile part;
    part.path = log_.failed_path = LogStream::part_name(base, ack_log, index);
    shard_.impl().pool->forget_end(part.path);  // of an earlier opening by this process
    auto file = files_.open(part.path, FileSystem::Open::write);
    if (!file) return file.error();
    part.file = std::move(*file);
    auto size = part.file->size();
    if (!size) return size.error();
    part.size = *size;
    std::byte bytes[kFileHeaderBytes] = {};
    read_with_holes(*part.file, bytes, 0);
    HeaderCheck check = decode_file_header(bytes, part.header);
    if (check == HeaderCheck::other_version) {
      log_for("storage")->error("{} is of format version {}; this program reads version {}",
                                part.path, load_le<uint32_t>(bytes + 8), kFormatVersion);
      return make_error_code(StoreError::wrong_format);
    }
    if (check == HeaderCheck::unused) {
      // It was taken to be written over, and nothing in it was durable yet.
      part.file.reset();
      if (FileError error = files_.unlink(part.path)) return error;
      continue;
    }
    if (auto before = size_at_stop(part.path); before && *before != part.size) {
      report_file(part.path, "has " + std::to_string(part.size) +
                                 " bytes, at the last stop it had " + std::to_string(*before));
    }
    FileHeader expected;
    expected.ack_log = ack_log;
    expected.number = number;
    expected.part = index;
    // Its own first part rules over what the other log says.
    expected.incarnation = out.incarnation ? out.incarnation : incarnation;
    expected.queue_id = log_.options.queue_id;
    expected.lane = log_.options.lane;
    if (!ack_log && check == HeaderCheck::good && out.incarnation == 0) expected.incarnation = 0;
    const Fit fit = judge_header(part, expected, check);
    if (fit == Fit::no) {
      // Made, but its first sync never returned: nothing in it was confirmed. Else damage.
      const bool empty =
          part.size <= kFileHeaderBytes || (check == HeaderCheck::bad && all_zero(bytes));
      if (index == 0 && (!ack_log || empty)) continue;  // a segment: quarantine()
      part.file.reset();
      if (!empty)
        report_file(part.path, "has a header that is damaged or another file's; kept as " +
                                   part.path + ".damaged");
      if (FileError error = empty ? files_.unlink(part.path) : put_aside(part.path)) return error;
      continue;
    }
    if (fit == Fit::made_new) report_file(part.path, "had a damaged header, which was made anew");
    out.incarnation = part.header.incarnation;
    out.size = std::max<uint64_t>(part.size, kFileHeaderBytes);
    out.parts.push_back({index, part.header.start});
    out.files.push_back(std::move(part.file));
  }
  return {};
}

/// No header is readable, nor to be made anew. What is there is kept aside, never served.
FileError LogRecovery::quarantine(uint32_t number, const Found& found) {
  const std::string base = segment_base_name(log_.options.directory, number);
  bool lost = !found.ack_parts.empty();
  for (bool ack_log : {false, true}) {
    for (uint32_t part : ack_log ? found.ack_parts : found.record_parts) {
      const std::string path = LogStream::part_name(base, ack_log, part);
      auto file = files_.open(path, FileSystem::Open::read);
      if (!file) continue;  // put aside already
      auto size = (*file)->size();
      if (size && *size <= kFileHeaderBytes) {
        if (FileError error = files_.unlink(path)) return error;
        continue;
      }
      lost = true;
      if (FileError error = put_aside(path)) return error;
    }
  }
  if (lost) {
    report_file(LogStream::part_name(base, false, 0),
                "is empty or has no readable header; what there is of it is kept as *.damaged");
  }
  return {};
}

}  // namespace tarry
