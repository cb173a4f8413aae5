#include "storage/shard_store.h"

#include <algorithm>

#include "storage/log_state.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

constexpr int64_t kHandOverMs = 20;
constexpr int64_t kLazyMs = 200;

void unlist(std::vector<LogState*>& list, LogState& log) { std::erase(list, &log); }

}  // namespace

ShardStore::ShardStore(Store& store, Shard& shard)
    : store_(store),
      shard_(shard),
      alive_(std::make_shared<ShardStore*>(this)),
      age_timer_([this] { on_age_timer(); }),
      lazy_timer_([this] { on_lazy_timer(); }) {
  link_.done = [&shard, alive = alive_](std::vector<std::unique_ptr<Submission>> done) {
    shard.post([alive, done = std::move(done)]() mutable {
      if (*alive) (*alive)->take_back(std::move(done));
    });
  };
  impl().barrier->attach(link_);
}

ShardStore::~ShardStore() {
  *alive_ = nullptr;
  if (!dirty_.empty() || !calls_.empty()) submit(true);
  impl().barrier->detach(link_);
  // Reads on their way post to the shard, which may end right after this.
  impl().store_thread.wait();
  for (Chunk* chunk : orphans_) {
    chunk->barrier_refs = 0;
    free_chunk_data(*chunk);
    delete chunk;
  }
}

void ShardStore::when_durable(Task task) {
  waiters_.push_back({ticket(), std::move(task)});
  wake();
}

void ShardStore::list_dirty(LogState& log, bool owes) {
  owes_ |= owes;
  if (!log.listed_dirty) {
    log.listed_dirty = true;
    dirty_.push_back(&log);
    wake();
  } else if (log.urgent) {
    wake();
  }
}

void ShardStore::list_spillable(LogState& log) {
  if (log.listed_spillable) return;
  log.listed_spillable = true;
  spillable_.push_back(&log);
  list_lazy(log);
}

void ShardStore::list_sweep(LogState& log) {
  if (log.listed_sweep) return;
  log.listed_sweep = true;
  sweep_.push_back(&log);
  wake();
}

void ShardStore::list_lazy(LogState& log) {
  if (log.listed_lazy) return;
  log.listed_lazy = true;
  lazy_.push_back(&log);
  if (!lazy_timer_.scheduled()) {
    shard_.timers().schedule(lazy_timer_, shard_.steady_now().plus_ms(kLazyMs));
  }
}

void ShardStore::forget(LogState& log) {
  for (auto* list : {&dirty_, &spillable_, &sweep_, &lazy_}) unlist(*list, log);
}

void ShardStore::add_call(BarrierCall call, bool durable) {
  calls_.push_back(std::move(call));
  calls_durable_ |= durable;
  wake();
}

Chunk* ShardStore::new_chunk(uint32_t bytes) {
  auto* chunk = new Chunk;
  chunk->capacity = bytes;
  chunk->data = pool_.take(bytes);
  impl().tail_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (memory_short()) wake();
  return chunk;
}

void ShardStore::free_chunk_data(Chunk& chunk) {
  if (!chunk.data) return;
  TARRY_INVARIANT(chunk.barrier_refs == 0);
  pool_.give_back(chunk.data, chunk.capacity);
  impl().tail_bytes.fetch_sub(chunk.capacity, std::memory_order_relaxed);
  chunk.data = nullptr;
}

void ShardStore::drop_chunk(Chunk* chunk) {
  if (chunk->barrier_refs > 0) {
    chunk->segment = nullptr;
    orphans_.push_back(chunk);
    return;
  }
  free_chunk_data(*chunk);
  delete chunk;
}

bool ShardStore::memory_short() const {
  return store_.impl().tail_bytes.load(std::memory_order_relaxed) >
         store_.options().tail_memory_bytes / 4 * 3;
}

bool ShardStore::disk_is_behind() const {
  return store_.impl().unsynced_bytes.load(std::memory_order_relaxed) >
         store_.options().tail_memory_bytes;
}

std::optional<std::string> ShardStore::event_text(const SegmentFiles& files,
                                                  uint32_t ack_offset) const {
  for (const HandedEvents& handed : handed_events_) {
    if (handed.files != &files || ack_offset < handed.offset) continue;
    size_t at = ack_offset - handed.offset;
    if (at >= handed.events->size()) continue;
    return text_behind_length(ByteSpan(*handed.events).subspan(at));
  }
  return {};
}

void ShardStore::send(std::unique_ptr<Submission> submission) {
  for (BarrierCall& call : submission->calls) {
    if (call.kind == BarrierCall::Kind::events) {
      handed_events_.push_back({call.files.get(), call.events_offset, call.events});
    }
  }
  impl().barrier->submit(link_, std::move(submission));
}

/// Hands over everything that is dirty on this shard; closes the epoch.
void ShardStore::submit(bool sync) {
  auto submission = std::make_unique<Submission>();
  submission->epoch = epoch_;
  submission->sync = sync;
  submission->durable = calls_durable_ || owes_ || sync;
  std::vector<LogState*> logs;
  logs.swap(dirty_);
  for (LogState* log : logs) {
    log->listed_dirty = false;
    submission->durable |= log->hand_over(*submission);
  }
  std::move(calls_.begin(), calls_.end(), std::back_inserter(submission->calls));
  calls_.clear();
  calls_durable_ = false;
  ++epoch_;
  owes_ = false;
  if (sync) {
    sync_outstanding_ = true;
    submitted_sync_ = submission->epoch;
  }
  send(std::move(submission));
}

void ShardStore::submit_some(LogState& log) {
  auto submission = std::make_unique<Submission>();
  submission->durable = log.hand_over(*submission);
  if (!submission->calls.empty()) send(std::move(submission));
}

void ShardStore::hand_over_now(LogState& log) { submit_some(log); }

void ShardStore::send_calls() {
  if (calls_.empty()) return;
  auto submission = std::make_unique<Submission>();
  submission->durable = calls_durable_;
  submission->calls.swap(calls_);
  calls_durable_ = false;
  send(std::move(submission));
}

void ShardStore::take_back(std::vector<std::unique_ptr<Submission>> done) {
  for (auto& submission : done) {
    for (BarrierCall& call : submission->calls) {
      if (call.kind == BarrierCall::Kind::events) {
        std::erase_if(handed_events_,
                      [&](const HandedEvents& h) { return h.events == call.events; });
      }
      Chunk* chunk = call.chunk;
      if (!chunk) continue;
      --chunk->barrier_refs;
      impl().unsynced_bytes.fetch_sub(call.bytes.size(), std::memory_order_relaxed);
      if (chunk->segment) {
        uint32_t end = call.offset + static_cast<uint32_t>(call.bytes.size());
        chunk->published = end - chunk->start;
        uint32_t& published = chunk->segment->published_offset;
        published = std::max(published, call.final_end);
        list_sweep(*chunk->segment->log);
      } else if (chunk->barrier_refs == 0) {
        std::erase(orphans_, chunk);
        drop_chunk(chunk);
      }
    }
    passed_ = std::max(passed_, submission->epoch);
  }
  if (sync_outstanding_ && passed_ >= submitted_sync_) sync_outstanding_ = false;
  run_waiters();
  if (!waiters_.empty()) wake();
}

void ShardStore::run_waiters() {
  while (!waiters_.empty() && passed(waiters_.front().ticket)) {
    Task task = std::move(waiters_.front().task);
    waiters_.pop_front();
    task();
  }
}

void ShardStore::sweep_logs() {
  std::vector<LogState*> logs;
  logs.swap(sweep_);
  for (LogState* log : logs) {
    log->listed_sweep = false;
    log->sweep();
  }
}

/// Writes out what may stay in memory only while there is plenty of it.
void ShardStore::relieve_memory() {
  std::vector<LogState*> logs;
  logs.swap(spillable_);
  for (LogState* log : logs) {
    log->listed_spillable = false;
    submit_some(*log);
  }
}

void ShardStore::on_turn_end() {
  run_waiters();
  // First, since the removal of a segment stands for the events about it that are not written any
  // more.
  sweep_logs();
  for (LogState* log : std::vector<LogState*>(dirty_)) {
    if (log->urgent) submit_some(*log);
  }
  if (!spillable_.empty() && memory_short()) relieve_memory();
  bool waited_for = !waiters_.empty() && !sync_outstanding_;
  if (waited_for || (age_due_ && (!dirty_.empty() || !calls_.empty()))) submit(waited_for);
  age_due_ = false;
  arm_timers();
}

void ShardStore::arm_timers() {
  if ((!dirty_.empty() || !calls_.empty()) && !age_timer_.scheduled()) {
    shard_.timers().schedule(age_timer_, shard_.steady_now().plus_ms(kHandOverMs));
  }
}

void ShardStore::on_age_timer() {
  age_due_ = true;  // done at this turn's end, when nothing is lent out
  wake();
}

void ShardStore::on_lazy_timer() {
  std::vector<LogState*> logs;
  logs.swap(lazy_);
  for (LogState* log : logs) {
    log->listed_lazy = false;
    if (log->lazy_tick()) list_lazy(*log);
  }
  if (lazy_.empty()) pool_.trim();
}

StoreShard::StoreShard(Store& store, Shard& shard)
    : state_(std::make_unique<State>(store, shard)) {}
StoreShard::~StoreShard() = default;
Shard& StoreShard::shard() { return state_->shard(); }
Store& StoreShard::store() { return state_->store(); }
Ticket StoreShard::ticket() const { return state_->ticket(); }
bool StoreShard::passed(Ticket ticket) const { return state_->passed(ticket); }
void StoreShard::when_durable(Task task) { state_->when_durable(std::move(task)); }
bool StoreShard::disk_is_behind() const { return state_->disk_is_behind(); }

}  // namespace tarry
