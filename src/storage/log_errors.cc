// The error texts that consumers left (retry-spec 35): in memory until their events are written,
// then in the ack log. They are read as records are: without blocking, or by the store's thread.
#include <algorithm>
#include <utility>

#include "storage/ack_events.h"
#include "storage/log_state.h"
#include "storage/read_request.h"
#include "storage/store_impl.h"

namespace tarry {
namespace {

constexpr uint32_t kLengthBytes = 4;
constexpr size_t kTextBytes = kLengthBytes + kErrorTextBytesMax;

/// The text in what could be read of it; none: too little of it.
std::optional<std::string> text_in(ByteSpan bytes, bool whole) {
  const bool enough = bytes.size() >= kLengthBytes &&
                      load_le<uint32_t>(bytes.data()) <= bytes.size() - kLengthBytes;
  if (!enough && !whole) return std::nullopt;
  return text_behind_length(bytes);
}

}  // namespace

void ErrorReading::run() {
  if (!reader.file) {
    auto file = store_files.open(reader.path, FileSystem::Open::write);
    if (!file) return;  // no text: it says nothing of the message itself
    reader.file = std::move(*file);
    files->acks().keep(reader);
  }
  std::byte bytes[kTextBytes];
  if (auto n = reader.file->pread(bytes, place)) text = *text_in({bytes, *n}, true);
}

/// Where the text of a record begins in the ack log, with its length; 0: it is in memory, or there
/// is none. `text`: what is in memory.
uint32_t LogState::error_place(const Segment& segment, uint32_t ordinal, std::string& text) const {
  if (const std::string* kept = segment.errors.text(ordinal)) {
    text = *kept;
    return 0;
  }
  const uint32_t place = segment.errors.place(ordinal);
  if (place == 0) return 0;
  const uint32_t start = place - kLengthBytes;
  if (start >= segment.events_offset) {
    text = text_behind_length(ByteSpan(segment.events).subspan(start - segment.events_offset));
    return 0;
  }
  // Handed over: its events are kept until they are on disk.
  if (auto handed = shard_.event_text(*segment.files, start)) {
    text = std::move(*handed);
    return 0;
  }
  if (auto read = read_errors_.find({segment.number, start}); read != read_errors_.end()) {
    text = read->second;
    return 0;
  }
  return start;
}

/// A record that was found is given out once park_error() has its text without waiting for the
/// disk.
Fetch LogState::with_error(Segment& segment, const Fetched& found) {
  if (!found.has_error) [[likely]]
    return Fetch::ok;
  std::string in_memory;
  const uint32_t place = error_place(segment, found.position.ordinal, in_memory);
  if (place == 0) return Fetch::ok;
  for (const auto& reading : error_readings_) {
    if (reading->segment == segment.number && reading->place == place) return Fetch::pending;
  }
  LogStream::Reader reader = segment.files->acks().reader(place);
  if (reader.file) {
    std::byte bytes[kTextBytes];
    const auto n = reader.file->pread_nowait(bytes, place);
    if (n) {
      if (auto text = text_in({bytes, *n}, false)) {
        keep_read_error(segment.number, place, std::move(*text));
        return Fetch::ok;
      }
    }
  }
  auto reading = std::make_shared<ErrorReading>(shard_.impl().files);
  reading->log = this;
  reading->files = segment.files;
  reading->reader = std::move(reader);
  reading->segment = segment.number;
  reading->place = place;
  error_readings_.push_back(reading);
  Shard& shard = shard_.shard();
  shard_.store().on_store_thread([reading, &shard] {
    reading->run();
    shard.post([reading] {
      if (reading->log) reading->log->error_read(*reading);
    });
  });
  return Fetch::pending;
}

void LogState::error_read(ErrorReading& reading) {
  keep_read_error(reading.segment, reading.place, std::move(reading.text));
  std::erase_if(error_readings_, [&](const auto& r) { return r.get() == &reading; });
  if (waker) waker();
}

/// Until the turn's end at least; some for longer.
void LogState::keep_read_error(uint32_t segment, uint32_t place, std::string text) {
  read_errors_.insert_or_assign({segment, place}, std::move(text));
  shard_.list_sweep(*this);
}

std::string LogState::park_error(const Position& position) {
  Segment* segment = find(position.segment);
  if (!segment || segment->errors.empty()) return {};
  std::string text;
  const uint32_t place = error_place(*segment, position.ordinal, text);
  if (place == 0) return text;
  // Nobody has read the record in this turn.
  ErrorReading reading(shard_.impl().files);
  reading.files = segment->files;
  reading.reader = segment->files->acks().reader(place);
  reading.place = place;
  reading.run();
  return reading.text;
}

}  // namespace tarry
