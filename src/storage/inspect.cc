#include "storage/inspect.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "storage/log_stream.h"
#include "storage/read_request.h"
#include "storage/segment_files.h"
#include "storage/segment_index.h"

namespace tarry {
namespace {

using RecordState = InspectedRecord::State;

struct FoundParts {
  std::vector<uint32_t> records, acks;
};

/// The bytes of one stream at their offsets, and what was wrong with its headers.
struct InspectedStream {
  std::vector<std::byte> bytes;
  FileHeader header;  // of the first part that could be read
  bool readable = false;
  std::string path;  // of the last part
};

std::string at_byte(const std::string& path, size_t at) {
  return path + ", byte " + std::to_string(at) + ": ";
}

std::vector<std::byte> file_bytes(FileSystem& files, const std::string& path,
                                  std::vector<std::string>& damage) {
  auto file = files.open(path, FileSystem::Open::read);
  auto size = file ? (*file)->size() : Result<uint64_t>(file.error());
  if (!size) {
    damage.push_back(path + ": " + size.error().message());
    return {};
  }
  std::vector<std::byte> bytes(*size);
  read_with_holes(**file, bytes, 0);
  return bytes;
}

/// Believes a header as recovery does, but writes nothing.
std::optional<FileHeader> believed_header(std::vector<std::byte>& bytes, const std::string& path,
                                          uint64_t incarnation, std::vector<std::string>& damage) {
  if (bytes.size() < kFileHeaderBytes) {
    damage.push_back(path + ": " + std::to_string(bytes.size()) + " bytes, shorter than a header");
    return {};
  }
  FileHeader header;
  HeaderCheck check = decode_file_header(bytes, header);
  if (check == HeaderCheck::good) return header;
  if (check == HeaderCheck::unused) return {};  // taken to be written over, and not begun
  if (check == HeaderCheck::other_version) {
    damage.push_back(path + ": format version " +
                     std::to_string(load_le<uint32_t>(bytes.data() + 8)) + ", this program reads " +
                     std::to_string(kFormatVersion));
    return {};
  }
  damage.push_back(at_byte(path, 0) + "the header is damaged");
  std::byte copy[kFileHeaderBytes];
  std::copy_n(bytes.begin(), kFileHeaderBytes, copy);
  if (repair_file_header(copy) && decode_file_header(copy, header) == HeaderCheck::good)
    return header;
  header = {};
  header.incarnation = incarnation;
  if (bytes.size() > kTrailerBytes) {
    if (auto named = trailer_incarnation(ByteSpan(bytes).last(kTrailerBytes)))
      header.incarnation = *named;
  }
  if (header.incarnation == 0) return {};
  return header;
}

InspectedStream read_stream(FileSystem& files, const std::string& base, bool ack_log,
                            const std::vector<uint32_t>& parts, uint64_t incarnation,
                            std::vector<std::string>& damage) {
  InspectedStream stream;
  for (uint32_t part : parts) {
    const std::string path = LogStream::part_name(base, ack_log, part);
    std::vector<std::byte> bytes = file_bytes(files, path, damage);
    auto header = believed_header(bytes, path, incarnation, damage);
    if (!header) continue;
    if (!stream.readable) stream.header = *header;
    stream.readable = true;
    stream.path = path;
    const size_t from = std::min<size_t>(header->start, bytes.size());
    stream.bytes.resize(std::max<size_t>(header->start, bytes.size()));
    std::copy(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(),
              stream.bytes.begin() + static_cast<ptrdiff_t>(from));
  }
  return stream;
}

class SegmentInspector {
 public:
  SegmentInspector(FileSystem& files, const std::string& directory, uint32_t number)
      : files_(files) {
    base_ = segment_base_name(directory, number);
    out_.number = number;
  }

  InspectedSegment run(const FoundParts& found) {
    InspectedStream acks = read_stream(files_, base_, true, found.acks, 0, out_.damage);
    InspectedStream records = read_stream(files_, base_, false, found.records,
                                          acks.readable ? acks.header.incarnation : 0, out_.damage);
    if (found.records.empty())
      out_.damage.push_back(base_ + ".seg is missing, though its ack log is there");
    out_.ack_bytes = acks.bytes.size();
    out_.file_bytes = records.bytes.size();
    if (!records.readable) return std::move(out_);
    out_.incarnation = records.header.incarnation;
    out_.queue_id = records.header.queue_id;
    out_.lane = records.header.lane;
    seed_ = checksum_seed(out_.incarnation);
    walk_records(records);
    if (acks.readable && acks.header.incarnation != out_.incarnation &&
        acks.header.incarnation != 0) {
      out_.damage.push_back(acks.path + ": belongs to another segment (its incarnation differs)");
    } else if (!found.acks.empty() && acks.bytes.size() > kFileHeaderBytes) {
      walk_acks(acks);
    }
    return std::move(out_);
  }

 private:
  void walk_records(const InspectedStream& stream) {
    const ByteSpan bytes(stream.bytes);
    size_t at = kFileHeaderBytes;
    while (at < bytes.size()) {
      auto head = check_record(bytes.subspan(at), seed_);
      if (head && head->kind == RecordKind::footer) {
        out_.sealed = true;
        return;
      }
      if (!head) {
        const size_t next = next_record(bytes, at + 1);
        const bool inside = next < bytes.size();
        // What such a file holds behind its end is nothing's, until it is cut there.
        if (!inside && stream.header.written_over) return;
        out_.damage.push_back(at_byte(stream.path, at) +
                              (inside
                                   ? std::to_string(next - at) + " bytes are damaged"
                                   : "no whole record from here to the end (cut off, or damaged)"));
        if (inside) out_.ordinals = load_head(bytes.data() + next).ordinal;
        at = next;
        continue;
      }
      out_.ordinals = head->ordinal + 1;
      if (head->kind == RecordKind::skip) {
        out_.skipped += head->ttl_ms;
        out_.ordinals = head->ordinal + head->ttl_ms;
        at += head->header_bytes;
        continue;
      }
      add_record(bytes.subspan(at, head->length), *head, static_cast<uint32_t>(at));
      at += head->length;
    }
  }

  size_t next_record(ByteSpan bytes, size_t from) const {
    for (size_t at = from; at + kHeadBytes <= bytes.size(); ++at) {
      if (head_makes_sense(load_head(bytes.data() + at)) && check_record(bytes.subspan(at), seed_))
        return at;
    }
    return bytes.size();
  }

  void add_record(ByteSpan bytes, const RecordHead& head, uint32_t offset) {
    InspectedRecord record;
    record.ordinal = head.ordinal;
    record.offset = offset;
    record.head = head;
    record.counter = decode_record(bytes.data(), head).counter;
    record.has_origin = head.flags & kFlagOrigin;
    if (record.has_origin) record.origin = decode_origin(bytes.data());
    record.bytes.assign(bytes.begin(), bytes.end());
    by_ordinal_[head.ordinal] = out_.records.size();
    out_.records.push_back(std::move(record));
  }

  void walk_acks(const InspectedStream& stream) {
    const ByteSpan bytes(stream.bytes);
    size_t at = kFileHeaderBytes;
    for (size_t look = at; look < bytes.size();) {
      auto event = decode_event(bytes.subspan(look), seed_);
      if (!event) {
        ++look;
        continue;
      }
      if (look > at)
        out_.damage.push_back(at_byte(stream.path, at) + std::to_string(look - at) +
                              " bytes are damaged");
      apply(*event, bytes.subspan(look, event->bytes));
      ++out_.ack_events;
      at = look += event->bytes;
    }
    if (at < bytes.size()) {
      out_.damage.push_back(at_byte(stream.path, at) +
                            "no whole event from here to the end (cut off, or damaged)");
    }
  }

  template <class Do>
  void each(uint32_t first, uint32_t count, Do what) {
    const uint64_t end = uint64_t{first} + count;
    for (auto it = by_ordinal_.lower_bound(first); it != by_ordinal_.end() && it->first < end;
         ++it) {
      what(out_.records[it->second]);
    }
  }

  void apply(const AckEvent& event, ByteSpan bytes) {
    const auto go = [](InspectedRecord& r) { r.state = RecordState::gone; };
    if (event.error_bytes > 0) {
      each(event.first, 1, [&](InspectedRecord& r) {
        r.error = std::string(as_text(bytes.subspan(event.error_at, event.error_bytes)));
      });
    }
    switch (event.kind) {
      case AckKind::gone:
        return each(event.first, event.count, go);
      case AckKind::park:
        return each(event.first, 1, [&](InspectedRecord& r) {
          if (r.state == RecordState::gone) return;
          r.state = RecordState::parked;
          r.due_ms = event.park.due_ms;
          r.counter = event.park.counter;
        });
      case AckKind::raise:
        return each(event.first, event.count,
                    [&](InspectedRecord& r) { r.counter = event.counter; });
      case AckKind::delivered:
        return each(0, event.first, [](InspectedRecord& r) { r.delivered = true; });
      case AckKind::dying:
        return each(event.first, 1, [](InspectedRecord& r) {
          if (r.state != RecordState::gone) r.state = RecordState::dying;
        });
      case AckKind::all_gone: {
        uint32_t from = 0;
        for (const OrdinalRun& spared : event.spared) {
          if (spared.first > from) each(from, spared.first - from, go);
          from = spared.first + spared.count;
        }
        if (event.first > from) each(from, event.first - from, go);
        return;
      }
      case AckKind::move_closed:
      case AckKind::error:
        return;
    }
  }

  FileSystem& files_;
  std::string base_;
  uint32_t seed_ = 0;
  std::map<uint32_t, size_t> by_ordinal_;
  InspectedSegment out_;
};

}  // namespace

std::vector<InspectedSegment> inspect_log(FileSystem& files, const std::string& directory) {
  std::vector<InspectedSegment> out;
  auto entries = files.list(directory);
  if (!entries) {
    out.emplace_back().damage.push_back(directory + ": " + entries.error().message());
    return out;
  }
  std::map<uint32_t, FoundParts> found;
  for (const DirectoryEntry& entry : *entries) {
    const bool ack_log = entry.name.ends_with(".ack");
    if (entry.name.size() < 12 || !(ack_log || entry.name.ends_with(".seg"))) continue;
    const auto number =
        static_cast<uint32_t>(std::strtoul(entry.name.substr(0, 8).c_str(), nullptr, 16));
    const auto part = static_cast<uint32_t>(std::strtoul(entry.name.c_str() + 9, nullptr, 10));
    (ack_log ? found[number].acks : found[number].records).push_back(part);
  }
  for (auto& [number, parts] : found) {
    std::sort(parts.records.begin(), parts.records.end());
    std::sort(parts.acks.begin(), parts.acks.end());
    out.push_back(SegmentInspector(files, directory, number).run(parts));
  }
  return out;
}

}  // namespace tarry
