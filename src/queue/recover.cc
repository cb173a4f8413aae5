// What a queue finds on disk when the broker starts.
#include <algorithm>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"

namespace tarry {

void QueueActor::recover(std::vector<std::pair<Origin, QueueId>>& origins) {
  refresh_time();
  for (uint16_t number = 0; number <= identity_.max_priority; ++number) {
    const auto lane_number = static_cast<uint8_t>(number);
    auto log = open_log(lane_number, true);
    if (!log) {
      home_.impl().log->error("{}: cannot open its log: {}", text_of(""), log.error().message());
      continue;
    }
    recover_lane(lane_number, std::move(*log), origins);
  }
}

void QueueActor::recover_lane(uint8_t number, std::unique_ptr<MessageLog> opened,
                              std::vector<std::pair<Origin, QueueId>>& origins) {
  MessageLog& log = *opened;
  for (const RecoveredOrigin& found : log.recovered_origins()) {
    origins.emplace_back(found.origin, id_);
  }
  for (const RecoveredPark& park : log.recovered_parked()) {
    companion().park_at_once(entry_of(park, number, queue_ttl_ms_));
  }
  for (const RecoveredDying& dying : log.recovered_dying()) {
    log.take_back(dying.position);
    found_dying_.emplace(std::pair(number, position_key(dying.position)), dying);
  }
  const bool used = log.fresh_count() > 0 || !log.recovered_parked().empty() ||
                    !log.recovered_dying().empty() || !log.recovered_origins().empty() ||
                    log.segment_count() > 0;
  const std::vector<ParkedBatch> batches = log.recovered_batches();
  log.forget_recovered();
  if (!used) return;
  adopt_lane(number, std::move(opened));
  // Nothing says whether some of these have an expiration: look at each, until it is empty.
  lanes_[number]->own_ttl_seen = true;
  lanes_[number]->greatest_own_expiry = UINT64_MAX;
  persistent_seen_ = 1;
  for (const ParkedBatch& batch : batches) park_batch(number, batch);
}

/// The companion reads them when they come due.
void QueueActor::park_batch(uint8_t lane, const ParkedBatch& batch) {
  ColdEntries entries;
  entries.count = batch.count;
  entries.first_due_ms = batch.first_ms;
  entries.last_due_ms = batch.last_ms;
  entries.ranks = batch.ordinals;
  entries.read = reader_of(lane, batch.segment, queue_ttl_ms_, false);
  companion().park_cold(std::move(entries), batch.body_bytes);
}

/// What waits long and is in the ack log, whole and durable, needs not be in memory as well. While
/// somebody looks at what waits nothing changes its place.
ColdKeeper QueueActor::keeper() {
  return [this](uint8_t lane, uint32_t segment, std::span<const DueEntry> entries) -> ColdReader {
    if (!errands_.empty()) return {};
    std::vector<uint32_t> ordinals;
    uint64_t last_due_ms = 0;
    for (const DueEntry& entry : entries) {
      ordinals.push_back(entry.position.ordinal);
      last_due_ms = std::max(last_due_ms, entry.due_ms);
    }
    if (!find_lane(lane)->log->keep_parked(segment, ordinals, last_due_ms)) return {};
    return reader_of(lane, segment, UINT64_MAX, true);
  };
}

ColdReader QueueActor::reader_of(uint8_t lane, uint32_t segment, uint64_t queue_ttl_ms,
                                 bool stored) {
  return [=, this](size_t at_most, auto done) {
    find_lane(lane)->log->read_parked(segment, at_most, [=](ParkedRead read) {
      ColdRead cold{read.good, {}, read.left, read.next_ms};
      cold.entries.reserve(read.records.size());
      for (const RecoveredPark& park : read.records) {
        cold.entries.push_back({entry_of(park, lane, queue_ttl_ms), park.position.ordinal});
        cold.entries.back().entry.stored = stored;
      }
      done(std::move(cold));
    });
  };
}

DueEntry QueueActor::entry_of(const RecoveredPark& park, uint8_t lane, uint64_t queue_ttl_ms) {
  DueEntry entry{park.due_ms,     park.position, park.counter, park.delay_ms,
                 park.body_bytes, lane,          kDue};
  end_by_expiry(entry, park.expires_ms(queue_ttl_ms));
  return entry;
}

}  // namespace tarry
