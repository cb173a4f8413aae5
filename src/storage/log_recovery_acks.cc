#include <algorithm>

#include "storage/log_recovery.h"
#include "tarrymq/runtime/log.h"

namespace tarry {

FileError LogRecovery::read_acks(Opening& opening, const Found& found) {
  Stream stream;
  Segment& segment = *opening.segment;
  if (FileError error =
          open_stream(opening.number, true, found.ack_parts, opening.records.incarnation, stream)) {
    return error;
  }
  if (stream.parts.empty()) {
    // A torn one may lie there: a part of the next number can't be mixed up with it.
    if (!found.ack_parts.empty()) {
      segment.files->acks().restore({{found.ack_parts.back(), kFileHeaderBytes}}, kFileHeaderBytes,
                                    true);
    }
    return {};
  }
  opening.acks = read_all(stream);
  opening.ack_parts = stream.parts;
  const std::vector<std::byte>& bytes = opening.acks;
  uint32_t seed = segment.files->seed();
  size_t at = kFileHeaderBytes;
  for (size_t part = 0; part < stream.parts.size(); ++part) {
    bool last = part + 1 == stream.parts.size();
    size_t end = last ? bytes.size() : stream.parts[part + 1].start;
    at = stream.parts[part].start;
    for (size_t look = at; look < end;) {
      auto event = decode_event(ByteSpan(bytes).subspan(look, end - look), seed);
      if (!event) {
        ++look;  // whole events behind it mean damage; none, and it is a torn tail
        continue;
      }
      if (look > at) report_damaged_acks(opening.number, at, look);
      apply(opening, *event, static_cast<uint32_t>(look));
      at = look += event->bytes;
    }
    if (!last && at < end) report_damaged_acks(opening.number, at, end);
  }
  const std::string last_path = LogStream::part_name(
      segment_base_name(log_.options.directory, opening.number), true, stream.parts.back().index);
  if (at < bytes.size() && size_at_stop(last_path))
    report_damaged_acks(opening.number, at, bytes.size());
  if (at < bytes.size()) {
    // So that a later start does not take it for damage. If it fails, that only says too much.
    FileError error = stream.files.back()->truncate(at);
    if (error)
      log_for("storage")->warn("could not cut off the end of {}: {}", last_path, error.message());
  }
  bool cut = at < bytes.size() || stream.parts.back().index != found.ack_parts.back();
  if (stream.parts.back().index != found.ack_parts.back()) {
    stream.parts.push_back(
        {found.ack_parts.back(), at});  // its header is torn: a number that is taken
  }
  segment.files->acks().restore(std::move(stream.parts), at, cut);
  segment.events_offset = static_cast<uint32_t>(at);
  return {};
}

void LogRecovery::report_damaged_acks(uint32_t segment, size_t from, size_t to) {
  ++log_.damaged;
  log_for("storage")->error(
      "{}: the ack log of segment {:08x} of {} is damaged at bytes {} to {}: what they settled or "
      "delayed may come back",
      log_.options.label, segment, log_.options.directory, from, to);
}

void LogRecovery::mark_gone(Opening& opening, uint32_t first, uint32_t count) {
  Segment& segment = *opening.segment;
  if (first >= segment.count)
    return;  // its record was never written; the ordinal is never given again
  count = std::min(count, segment.count - first);
  segment.mark_gone({first, count});
  if (!segment.counters.empty()) segment.counters.erase({first, count});
  if (!segment.errors.empty()) segment.errors.erase({first, count});
  opening.parks.erase({first, count});
  auto& dying = opening.dying;
  if (count < dying.size()) {
    for (uint32_t i = first; i < first + count; ++i) dying.erase(i);
  } else {
    std::erase_if(dying,
                  [&](const auto& p) { return p.first >= first && p.first - first < count; });
  }
}

void LogRecovery::apply(Opening& opening, const AckEvent& event, uint32_t offset) {
  Segment& segment = *opening.segment;
  const bool lives = event.first < segment.count && !segment.is_gone(event.first);
  if (lives && event.error_bytes > 0) segment.errors.set(event.first, offset + event.error_at);
  switch (event.kind) {
    case AckKind::gone:
      mark_gone(opening, event.first, event.count);
      break;
    case AckKind::park:
      if (!lives) break;
      opening.parks.set(event.first, offset);
      if (!opening.dying.empty()) opening.dying.erase(event.first);
      if (!segment.counters.empty()) segment.counters.erase({event.first, 1});
      break;
    case AckKind::dying:
      if (!lives) break;
      opening.dying[event.first] = event.dying;
      opening.parks.erase({event.first, 1});
      break;
    case AckKind::error:
      break;
    case AckKind::raise: {
      if (event.first >= segment.count) break;
      OrdinalRun run{event.first, std::min(event.count, segment.count - event.first)};
      segment.counters.set(run, event.counter);
      break;
    }
    case AckKind::delivered:
      segment.redelivered_below = segment.marked =
          std::max(segment.marked, std::min(event.first, segment.count));
      break;
    case AckKind::all_gone: {
      uint32_t at = 0;
      for (const OrdinalRun& spared : event.spared) {
        if (spared.first > at) mark_gone(opening, at, spared.first - at);
        at = spared.first + spared.count;
      }
      if (at < event.first) mark_gone(opening, at, event.first - at);
      break;
    }
    case AckKind::move_closed:
      opening.closed_moves.insert(event.first);
      break;
  }
}

/// Counts what is there, from the summary alone if nothing is out of the ordinary, else by the
/// index.
void LogRecovery::take_stock(Opening& opening) {
  Segment& segment = *opening.segment;
  const SegmentSummary& summary = opening.summary;
  bool plain = segment.gone_count == 0 && opening.parks.count() == 0 && opening.dying.empty() &&
               summary.skipped == 0 && summary.origins == 0 && summary.persistent == summary.count;
  if (plain) {
    log_.fresh_count_ += summary.count;
    log_.fresh_bytes_ += summary.body_bytes;
    return;
  }
  if (segment.all_gone() && summary.origins == 0) return;
  load_index(opening);
  opening.in_batch = log_.options.in_batch && opening.index_written &&
                     opening.parks.count() > shard_.store().options().parked_listed_max;
  uint32_t ordinal = 0, offset = kFileHeaderBytes;
  IndexReader index(opening.index);
  bool first_found = false;
  while (auto run = index.next()) {
    if (ordinal + run->count > segment.count) break;
    if (run->skipped) {
      segment.mark_gone({ordinal, run->count});
      ordinal += run->count;
      offset += run->bytes;
      continue;
    }
    take_stock_of_run(opening, *run, ordinal, offset);
    uint32_t fresh = ordinal;
    while (!first_found && fresh < ordinal + run->count &&
           (segment.is_gone(fresh) || segment.held.test(fresh))) {
      ++fresh;
    }
    if (!first_found && fresh < ordinal + run->count) {
      first_found = true;
      segment.first_ordinal = fresh;
      segment.first_offset = offset + (fresh - ordinal) * run->bytes;
    }
    ordinal += run->count;
    offset += run->count * run->bytes;
  }
  if (!first_found) {
    segment.first_ordinal = segment.count;
    segment.first_offset = segment.end;
  }
  if (opening.batch.count > 0) keep_batch(opening);
  for (uint32_t i = segment.first_ordinal; i < segment.count; ++i) {
    if (segment.is_gone(i) || segment.held.test(i)) segment.not_fresh.set(i);
  }
}

void LogRecovery::take_stock_of_run(Opening& opening, const IndexRun& run, uint32_t ordinal,
                                    uint32_t offset) {
  Segment& segment = *opening.segment;
  for (uint32_t i = ordinal; i < ordinal + run.count; ++i, offset += run.bytes) {
    if (!run.persistent) {
      segment.mark_gone({i, 1});
      opening.parks.erase({i, 1});
      opening.dying.erase(i);
      segment.errors.erase({i, 1});
      continue;
    }
    if (run.origin && !opening.closed_moves.contains(i)) {
      std::byte head[kHeadBytes + kOriginBytes];
      if (read_at(opening, offset, head)) {
        Origin origin = decode_origin(head);
        origin.sole = load_head(head).hops == 0;
        Position position{segment.number, i, offset};
        log_.recovered_origins.push_back({origin, position});
        log_.open_moves_[origin] = position;
        ++segment.open_moves;
      }
    }
    if (segment.is_gone(i)) continue;
    if (auto dying = opening.dying.empty() ? opening.dying.end() : opening.dying.find(i);
        dying != opening.dying.end()) {
      const AckDying& d = dying->second;
      log_.recovered_dying.push_back(
          {{segment.number, i, offset}, d.reason, d.delivery_count, d.died_ms, run.body_bytes});
      segment.held.set(i);
      continue;
    }
    if (opening.parks.get(i) != 0) {
      add_parked(opening, run, i, offset);
      continue;
    }
    ++log_.fresh_count_;
    log_.fresh_bytes_ += run.body_bytes;
  }
}

void LogRecovery::add_parked(Opening& opening, const IndexRun& run, uint32_t ordinal,
                             uint32_t offset) {
  Segment& segment = *opening.segment;
  const AckPark park = load_park(opening.acks.data() + opening.parks.get(ordinal));
  const uint64_t queue_ttl_ms = log_.options.queue_ttl_ms;
  RecoveredPark out =
      park_of(park, {segment.number, ordinal, offset}, run, queue_ttl_ms,
              [&](uint32_t at, std::span<std::byte> head) { return read_at(opening, at, head); });
  out.counter = std::max(out.counter, segment.counters.get(ordinal));
  segment.held.set(ordinal);
  if (!opening.in_batch) {
    log_.recovered_parked.push_back(out);
    return;
  }
  if (!segment.parked) segment.parked = std::make_unique<ParkedKept>();
  ParkedKept& kept = *segment.parked;
  kept.ordinals.set(ordinal);
  kept.last_due_ms = std::max(kept.last_due_ms, out.due_ms);
  ParkedBatch& batch = opening.batch;
  const uint64_t ends_ms = out.ends_ms(queue_ttl_ms);
  ++batch.count;
  batch.body_bytes += out.body_bytes;
  batch.first_ms = std::min(batch.first_ms, ends_ms);
  batch.last_ms = std::max(batch.last_ms, ends_ms);
  log_.options.in_batch(out);
}

void LogRecovery::keep_batch(Opening& opening) {
  Segment& segment = *opening.segment;
  ParkedKept& kept = *segment.parked;
  kept.base = segment_base_name(log_.options.directory, segment.number);
  kept.record_parts = opening.records.parts;
  kept.ack_parts = opening.ack_parts;
  kept.ack_end = segment.events_offset;
  kept.records_end = segment.end;
  kept.seed = segment.files->seed();
  kept.queue_ttl_ms = log_.options.queue_ttl_ms;
  kept.count = static_cast<uint32_t>(opening.batch.count);
  opening.batch.segment = segment.number;
  opening.batch.ordinals = segment.count;
  log_.recovered_batches.push_back(opening.batch);
}

}  // namespace tarry
