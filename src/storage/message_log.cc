#include "tarrymq/storage/message_log.h"

#include "storage/log_state.h"
#include "storage/parked.h"
#include "storage/read_request.h"
#include "storage/store_impl.h"

namespace tarry {

LogState::~LogState() {
  for (auto& request : reading_) request->log = nullptr;
  for (auto& reading : parked_readings_) reading->log = nullptr;
  for (auto& reading : error_readings_) reading->log = nullptr;
  release_all_chunks();
  shard_.forget(*this);
}

/// Unlinks the files that were made and forgets the rest.
void LogState::destroy() {
  destroyed = true;
  for (auto& segment : segments) remove_files(*segment);
  shard_.send_calls();
  release_all_chunks();
  shard_.forget(*this);
  listed_dirty = listed_lazy = listed_sweep = listed_spillable = false;
  dirty_segments_.clear();
  segments.clear();
  open_moves_.clear();
  cursor_ = {};
  peeked_bytes_ = 0;
  fresh_count_ = fresh_bytes_ = unhanded_bytes = 0;
  auto& floor = shard_.impl().segment_floor;
  uint32_t seen = floor.load();
  while (seen < next_number_ && !floor.compare_exchange_weak(seen, next_number_)) {
  }
}

MessageLog::MessageLog() = default;
MessageLog::~MessageLog() = default;

Result<std::unique_ptr<MessageLog>> MessageLog::open(StoreShard& shard, Options options) {
  std::unique_ptr<MessageLog> log(new MessageLog);
  log->state_ = std::make_unique<State>(*shard.state_, std::move(options), log->fresh_count_,
                                        log->fresh_bytes_);
  if (FileError error = log->state_->recover()) {
    if (log->state_->options.durable) {
      Store::Impl& impl = shard.store().impl();
      std::lock_guard lock(impl.unopened_mutex);
      impl.unopened.push_back(log->state_->options.label + ": " + log->state_->failed_path + ": " +
                              error.message());
    }
    return error;
  }
  return log;
}

Result<Position> MessageLog::append(const RecordParts& parts) { return state_->append(parts); }
Fetch MessageLog::peek(Fetched& out) { return state_->peek(out); }
void MessageLog::take() { state_->take(); }
Fetch MessageLog::read(const Position& position, Fetched& out) {
  return state_->read(position, out);
}
void MessageLog::set_size_watcher(std::function<void()> watcher) {
  state_->size_watcher = std::move(watcher);
}
void MessageLog::set_waker(std::function<void()> waker) { state_->waker = std::move(waker); }
void MessageLog::take_back(const Position& position) { state_->take_back(position); }
void MessageLog::settle(const Run& run) { state_->settle(run); }
void MessageLog::requeue(const Run& run, uint32_t counter, bool counter_raised) {
  state_->requeue(run, counter, counter_raised);
}
void MessageLog::park(const Position& position, const ParkEvent& event) {
  state_->park(position, event);
}
void MessageLog::mark_dying(const Position& position, const DyingEvent& event) {
  state_->mark_dying(position, event);
}
void MessageLog::note_error(const Position& position, std::string_view error) {
  state_->note_error(position, error);
}
std::string MessageLog::park_error(const Position& position) {
  return state_->park_error(position);
}
bool MessageLog::live(const Position& position) const { return state_->live(position); }
void MessageLog::purge() { state_->purge(); }
void MessageLog::close_move(const Origin& origin) { state_->close_move(origin); }
bool MessageLog::holds_move(const Origin& origin) const { return state_->holds_move(origin); }
const std::vector<RecoveredPark>& MessageLog::recovered_parked() const {
  return state_->recovered_parked;
}
const std::vector<ParkedBatch>& MessageLog::recovered_batches() const {
  return state_->recovered_batches;
}
const std::vector<RecoveredOrigin>& MessageLog::recovered_origins() const {
  return state_->recovered_origins;
}
const std::vector<RecoveredDying>& MessageLog::recovered_dying() const {
  return state_->recovered_dying;
}
void MessageLog::forget_recovered() {
  std::vector<RecoveredDying>().swap(state_->recovered_dying);
  std::vector<RecoveredPark>().swap(state_->recovered_parked);
  std::vector<ParkedBatch>().swap(state_->recovered_batches);
  std::vector<RecoveredOrigin>().swap(state_->recovered_origins);
}
uint64_t MessageLog::damaged_count() const { return state_->damaged; }
uint64_t MessageLog::segment_count() const { return state_->segments.size(); }
uint64_t MessageLog::disk_bytes() const { return state_->disk_bytes(); }
uint64_t MessageLog::memory_bytes() const { return state_->memory_bytes(); }
void MessageLog::destroy() { state_->destroy(); }
void MessageLog::hand_over_all() { state_->hand_over_all(); }

}  // namespace tarry
