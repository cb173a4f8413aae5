// Parked records that recovery only counted, read from the ack log when they are asked for.
#include "storage/parked.h"

#include <algorithm>

#include "storage/log_state.h"
#include "storage/read_request.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr uint32_t kOrdinalsMax = 1u << 22;  // more than a segment has

}  // namespace

void ParkPlaces::set(uint32_t ordinal, uint32_t offset) {
  if (ordinal >= at_.size()) at_.resize(size_t{ordinal} + 1 + ordinal / 2);
  if (at_[ordinal] == 0) ++count_;
  at_[ordinal] = offset;
}

void ParkPlaces::erase(OrdinalRun run) {
  if (count_ == 0) return;
  const size_t end = std::min<size_t>(at_.size(), size_t{run.first} + run.count);
  for (size_t i = run.first; i < end; ++i) {
    if (at_[i] == 0) continue;
    at_[i] = 0;
    --count_;
  }
}

std::vector<std::byte> read_stream(const OpenStream& stream, uint64_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < stream.parts.size(); ++i) {
    const uint64_t start = stream.parts[i].start;
    const uint64_t end = i + 1 < stream.parts.size() ? stream.parts[i + 1].start : size;
    if (start < end && start < size) {
      read_with_holes(*stream.files[i], {bytes.data() + start, std::min(end, size) - start}, start);
    }
  }
  return bytes;
}

bool StreamWindow::read(const OpenStream& stream, uint64_t end, uint32_t offset,
                        std::span<std::byte> out) {
  constexpr uint32_t kWindowBytes = 256u << 10;
  if (bytes_.empty() || offset < start_ || offset + out.size() > start_ + bytes_.size()) {
    const auto& parts = stream.parts;
    size_t i = parts.size() - 1;
    while (i > 0 && parts[i].start > offset) --i;
    if (i + 1 < parts.size()) end = parts[i + 1].start;
    if (offset + out.size() > end) return false;
    bytes_.assign(std::min<uint64_t>(kWindowBytes, end - offset), std::byte{0});
    start_ = offset;
    read_with_holes(*stream.files[i], bytes_, offset);
    if (bytes_.size() < out.size()) return false;
  }
  std::copy_n(bytes_.begin() + (offset - start_), out.size(), out.begin());
  return true;
}

// -- Store's thread

bool ParkedReading::open(bool ack_log, const std::vector<LogStream::Part>& parts, OpenStream& out) {
  for (const LogStream::Part& part : parts) {
    auto file =
        files_.open(LogStream::part_name(kept_.base, ack_log, part.index), FileSystem::Open::read);
    if (!file) {
      log_for("storage")->warn("{}: what waits there cannot be read now: {}",
                               LogStream::part_name(kept_.base, ack_log, part.index),
                               file.error().message());
      return false;
    }
    out.parts.push_back(part);
    out.files.push_back(std::move(*file));
  }
  return !out.parts.empty();
}

void ParkedReading::run() {
  OpenStream ack_log;
  if (kept_.live) {
    read.good = open(true, kept_.ack_parts, ack_log);
    const auto size = read.good ? ack_log.files.back()->size() : Result<uint64_t>(uint64_t{0});
    read.good = read.good && size;
    if (!read.good) return;
    const std::vector<std::byte> acks =
        read_stream(ack_log, std::max<uint64_t>(*size, kept_.ack_parts.back().start));
    find_places(acks);
    return gather_live(acks);
  }
  std::byte trailer[kTrailerBytes] = {};
  read.good = open(true, kept_.ack_parts, ack_log) && open(false, kept_.record_parts, records_);
  if (!read.good) return;
  const auto size = records_.files.back()->size();
  if (size && *size > kept_.records_end + kTrailerBytes)
    read_with_holes(*records_.files.back(), trailer, *size - kTrailerBytes);
  const auto summary = decode_trailer(trailer, kept_.seed);
  read.good = summary && summary->footer_offset == kept_.records_end;
  if (!read.good) return;
  std::vector<std::byte> footer(kHeadBytes + summary->index_bytes + kTrailerBytes);
  read_with_holes(*records_.files.back(), footer, kept_.records_end);
  read.good = check_record(footer, kept_.seed).has_value();
  if (!read.good) return;
  const std::vector<std::byte> acks = read_stream(ack_log, kept_.ack_end);
  find_places(acks);
  gather(ByteSpan(footer).subspan(kHeadBytes, summary->index_bytes), acks);
}

/// The last park event of each record that is asked for. What ended a record's wait is no matter:
/// recovery has looked.
void ParkedReading::find_places(ByteSpan acks) {
  for (size_t i = 0; i < kept_.ack_parts.size(); ++i) {
    const bool last = i + 1 == kept_.ack_parts.size();
    const size_t end = last ? acks.size() : kept_.ack_parts[i + 1].start;
    for (size_t at = kept_.ack_parts[i].start; at < end;) {
      const auto event = decode_event(acks.subspan(at, end - at), kept_.seed);
      if (!event) {
        ++at;  // damage: recovery has reported it
        continue;
      }
      if (event->kind == AckKind::park && kept_.ordinals.test(event->first))
        places_.set(event->first, static_cast<uint32_t>(at));
      at += event->bytes;
    }
  }
}

RecoveredPark ParkedReading::describe(uint32_t ordinal, uint32_t offset, const IndexRun& run,
                                      ByteSpan acks) {
  AckPark park;
  if (const uint32_t place = places_.get(ordinal)) {
    park = load_park(acks.data() + place);
    if (kept_.live) {
      RecoveredPark out = park_of(park, {segment, ordinal, park.offset}, run, UINT64_MAX,
                                  [](uint32_t, std::span<std::byte>) { return false; });
      out.body_bytes = park.body_bytes;
      return out;
    }
  } else {
    // Damaged since it was counted: when it is due is not known any more, but not later than this.
    ++unreadable;
    park.due_ms = kept_.last_due_ms;
    park.no_ttl = true;
  }
  return park_of(park, {segment, ordinal, offset}, run, kept_.queue_ttl_ms,
                 [&](uint32_t at, std::span<std::byte> out) {
                   return window_.read(records_, kept_.records_end, at, out);
                 });
}

void ParkedReading::gather(ByteSpan index_bytes, ByteSpan acks) {
  all_.reserve(kept_.count);
  IndexReader index(index_bytes);
  uint32_t ordinal = 0, offset = kFileHeaderBytes;
  while (auto run = index.next()) {
    const uint32_t end = ordinal + run->count;
    if (!run->skipped) {
      for (uint32_t i = kept_.ordinals.find(ordinal, end, true); i < end;
           i = kept_.ordinals.find(i + 1, end, true)) {
        const RecoveredPark park = describe(i, offset + (i - ordinal) * run->bytes, *run, acks);
        all_.push_back({park.ends_ms(kept_.queue_ttl_ms), park});
      }
    }
    offset += run->skipped ? run->bytes : run->count * run->bytes;
    ordinal = end;
  }
  take_first();
}

/// The segment may be open, so that there is no index: offsets are looked up when records are read.
void ParkedReading::gather_live(ByteSpan acks) {
  all_.reserve(kept_.count);
  for (uint32_t i = kept_.ordinals.find(0, kOrdinalsMax, true); i < kOrdinalsMax;
       i = kept_.ordinals.find(i + 1, kOrdinalsMax, true)) {
    const RecoveredPark park = describe(i, 0, {}, acks);
    all_.push_back({park.due_ms, park});
  }
  take_first();
}

void ParkedReading::take_first() {
  const size_t taken = std::min(at_most_, all_.size());
  const auto middle = all_.begin() + static_cast<ptrdiff_t>(taken);
  if (middle != all_.end()) {
    std::nth_element(all_.begin(), middle, all_.end());
    read.next_ms = middle->ends_ms;
  }
  std::sort(all_.begin(), middle);
  read.records.reserve(taken);
  for (auto one = all_.begin(); one != middle; ++one) read.records.push_back(one->park);
  read.left = all_.size() - taken;
}

// -- Shard

bool LogState::keep_parked(uint32_t number, std::span<const uint32_t> ordinals,
                           uint64_t last_due_ms) {
  Segment* segment = find(number);
  if (!segment || !writes_events() || destroyed) return false;
  if (segment->parked && !segment->parked->live) return false;
  if (!segment->parked) {
    segment->parked = std::make_unique<ParkedKept>();
    segment->parked->live = true;
    segment->parked->base = segment_base_name(options.directory, number);
    segment->parked->seed = segment->files->seed();
  }
  ParkedKept& kept = *segment->parked;
  kept.last_due_ms = std::max(kept.last_due_ms, last_due_ms);
  for (const uint32_t ordinal : ordinals) kept.ordinals.set(ordinal);
  kept.count += static_cast<uint32_t>(ordinals.size());
  return true;
}

void LogState::read_parked(uint32_t number, size_t at_most, std::function<void(ParkedRead)> done) {
  Segment* segment = find(number);
  Shard& shard = shard_.shard();
  if (segment && segment->parked && segment->parked->live)
    segment->parked->ack_parts = segment->files->acks().parts();
  auto work = std::make_shared<ParkedReading>(
      shard_.impl().files, segment && segment->parked ? *segment->parked : ParkedKept{}, at_most);
  work->log = this;
  work->segment = number;
  work->done = std::move(done);
  parked_readings_.push_back(work);
  const auto back = [work] {
    if (work->log) work->log->parked_read(*work);
  };
  if (!segment || !segment->parked) return shard.post(back);  // purged meanwhile
  shard_.store().on_store_thread([work, &shard, back] {
    work->run();
    shard.post(back);
  });
}

void LogState::parked_read(ParkedReading& work) {
  std::shared_ptr<ParkedReading> kept;
  for (auto& one : parked_readings_) {
    if (one.get() == &work) kept = one;
  }
  std::erase(parked_readings_, kept);
  Segment* segment = find(work.segment);
  ParkedRead read = std::move(work.read);
  if (!segment || !segment->parked) {
    read = {};
  } else if (read.good) {
    for (RecoveredPark& park : read.records) {
      segment->parked->ordinals.reset(park.position.ordinal);
      park.counter = std::max(park.counter, segment->counters.get(park.position.ordinal));
    }
    segment->parked->count = static_cast<uint32_t>(read.left);
    if (read.left == 0) {
      segment->parked.reset();
      if (segment->all_gone()) shard_.list_sweep(*this);
    }
  }
  if (work.unreadable > 0) {
    ++damaged;
    log_for("storage")->error(
        "{}: the ack log of segment {:08x} of {} is damaged by now: when {} waiting messages are "
        "due is not known",
        options.label, work.segment, options.directory, work.unreadable);
  }
  work.done(std::move(read));
}

bool MessageLog::keep_parked(uint32_t segment, std::span<const uint32_t> ordinals,
                             uint64_t last_due_ms) {
  return state_->keep_parked(segment, ordinals, last_due_ms);
}
void MessageLog::read_parked(uint32_t segment, size_t at_most,
                             std::function<void(ParkedRead)> done) {
  state_->read_parked(segment, at_most, std::move(done));
}

}  // namespace tarry
