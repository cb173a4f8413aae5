#include "queue/queue_actor.h"

#include <algorithm>

#include "queue/errands.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {

QueueActor::QueueActor(QueueShard& home, QueueId id, QueueIdentity identity, QueueSettings settings,
                       std::shared_ptr<QueueFigures> figures)
    : home_(home),
      shard_(home.shard()),
      store_(home.store()),
      id_(id),
      identity_(std::move(identity)),
      figures_(std::move(figures)),
      home_open_(home.impl().open),
      affine_(home.shard()),
      settings_(std::move(settings)),
      consumers_(identity_.single_active_consumer) {
  // Made on the declaring shard's thread: nothing of our own shard may be touched before start().
  adopt_settings();
  if (identity_.deduplication)
    deduplicator_ = std::make_unique<Deduplicator>(*identity_.deduplication);
  std::lock_guard lock(home.impl().actors_mutex);
  home.impl().actors.insert(this);
}

QueueActor::~QueueActor() {
  if (!home_open_->load(std::memory_order_acquire)) return;
  std::lock_guard lock(home_.impl().actors_mutex);
  home_.impl().actors.erase(this);
}

void QueueActor::start() {
  use();
  check_unused();
  schedule();  // figures, and what expired meanwhile
}

void QueueActor::close() {
  companion_.reset();
  expiries_.reset();
  held_.reset();
  cancel_timers();
  errands_.clear();
  errand_moves_.clear();
  lanes_.clear();
  gone_ = true;
}

void QueueActor::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  shard_.at_turn_end(TurnStage::queues, *this);
}

void QueueActor::refresh_time() {
  const WallTime now = shard_.now();
  if (now == time_) return;
  time_ = now;
  now_floor_ms_ = now.floor_ms();
  now_ceil_ms_ = now.ceil_ms();
}

std::string QueueActor::text_of(std::string_view rest) const {
  std::string text = "queue '";
  text.append(identity_.name).append("' in vhost '").append(identity_.vhost).append("'");
  return text.append(rest);
}

uint64_t QueueActor::ready() const {
  uint64_t sum = 0;
  for (const auto& lane : lanes_) sum += lane ? lane->ready() : 0;
  return sum;
}

uint64_t QueueActor::ready_bytes() const {
  uint64_t sum = 0;
  for (const auto& lane : lanes_) sum += lane ? lane->ready_bytes() : 0;
  return sum;
}

uint64_t QueueActor::delayed() const {
  return (companion_ ? companion_->count() : 0) + late_rejects_.size();
}

void QueueActor::adopt_settings() {
  counting_ = identity_.retry_enabled || identity_.quorum_type || settings_.delivery_limit;
  limited_ = settings_.max_length || settings_.max_length_bytes;
  rejecting_ = limited_ && settings_.overflow != Overflow::drop_head;
  queue_ttl_ms_ = settings_.message_ttl_ms.value_or(UINT64_MAX);
  figures_->consumer_timeout_ms.store(settings_.consumer_timeout_ms.value_or(0),
                                      std::memory_order_relaxed);
}

void QueueActor::apply(QueueSettings settings) {
  if (gone_) return;
  const uint64_t ttl_before = queue_ttl_ms_;
  settings_ = std::move(settings);
  adopt_settings();
  if (queue_ttl_ms_ != ttl_before) {
    check_all_that_came_back();
    retime_companion();
  }
  if (unused_timer_) unused_timer_->cancel();
  check_unused();
  schedule();
}

void QueueActor::publish(const PublishRequest& request) {
  const bool confirm = request.publish_number != 0;
  Lane* lane = nullptr;
  bool passes_on = false;
  if (!gone_) {
    refresh_time();
    if (request.origin && has_come_before(request)) [[unlikely]]
      return;
    if (rejecting_ && refuse_if_full(request, passes_on)) return;
    lane = lane_for(request.priority);
  }
  if (!lane) {
    if (confirm) add_confirm(confirms_, request, true, !gone_);
    return schedule();
  }
  if (deduplicator_ && is_duplicate(request)) [[unlikely]] {
    if (confirm) add_confirm(confirms_, request, false);
    return schedule();
  }
  RecordParts parts;
  parts.published_ms = now_ceil_ms_;                      // never expires early
  parts.ttl_ms = is_holding() ? kNoTtl : request.ttl_ms;  // counted from when its delay is over
  parts.persistent = request.persistent;
  parts.hops = request.hops;
  if (counting_) parts.counter = request.counter;
  parts.origin = request.origin;
  parts.route = request.route;
  parts.header = request.header;
  parts.body = request.body;
  if (request.has_delivery_count && counting_) [[unlikely]] {
    scratch_.clear();
    if (auto view = PropertiesView::parse(request.header)) {
      append_without_header(scratch_, request.header, *view, "x-delivery-count");
      parts.header = as_bytes(scratch_);
    }
  }
  const bool alone = lane->log->fresh_count() == 0;
  const auto position = lane->log->append(parts);
  if (!position) [[unlikely]] {
    if (deduplicator_) forget_seen(request);
    if (confirm) add_confirm(confirms_, request, true, true);
    return schedule();
  }
  if (request.origin) [[unlikely]]
    note_arrival(*lane, *position, request);
  ++counts_.published;
  ++(request.persistent ? persistent_seen_ : transient_seen_);
  if (parts.ttl_ms == kNoTtl) [[likely]] {
    lane->greatest_own_expiry = UINT64_MAX;
    if (settings_.message_ttl_ms && *settings_.message_ttl_ms == 0) expire_ttl_zero_ = true;
  } else {
    note_own_ttl(*lane, *position, request, alone);
  }
  if (confirm) {
    const bool owes_barrier = request.persistent && identity_.durable;
    add_confirm(owes_barrier ? next_durable_.confirms : confirms_, request, false);
  }
  if (passes_on) [[unlikely]] {
    (void)lane->log->take_fresh(*position, static_cast<uint32_t>(request.body.size()));
    kill(*lane, {*position, 1}, DeathReason::maxlen, 0);
  }
  schedule();
}

bool QueueActor::is_duplicate(const PublishRequest& request) {
  const auto view = PropertiesView::parse(request.header);
  return view && deduplicator_->seen_before(view->headers, now_floor_ms_);
}

void QueueActor::forget_seen(const PublishRequest& request) {
  const auto view = PropertiesView::parse(request.header);
  if (!view) return;
  if (const auto value = deduplicator_->value_of(view->headers)) deduplicator_->forget(*value);
}

void QueueActor::close_move(const Origin& origin) {
  for (auto& lane : lanes_) {
    if (!lane) continue;
    lane->log->close_move(origin);
    if (lane->open_arrivals.close(origin)) schedule();
  }
}

void QueueActor::hand_over_all() {
  for (auto& lane : lanes_) {
    if (lane) lane->log->hand_over_all();
  }
}

void QueueActor::on_turn_end() {
  scheduled_ = false;
  if (gone_) return answer_gone();
  refresh_time();
  if (!found_dying_.empty()) adopt_found_dying();
  if (is_holding()) park_delayed();
  run_late_rejects();
  run_ops();
  if (!gets_.empty()) run_gets();
  deliver();
  tend_credit();  // before the limits: what somebody is about to take is not in the way
  expire();
  enforce_limits();
  if (held_) try_held();
  pump_moves();
  if (!errands_.empty()) run_errands();
  run_late_ops();
  if (!gone_ && removing_) {
    // A consumer that came in the same turn keeps it.
    removing_ = false;
    if (consumers_.count() == 0) end_of_life();
  }
  if (gone_) return publish_figures();
  ask_barrier();
  if (!confirms_.empty()) {
    std::vector<PendingConfirm> confirms;
    confirms.swap(confirms_);
    send_confirms(confirms);
    confirms.clear();
    if (confirms_.empty()) confirms_.swap(confirms);  // its room is used again
  }
  resume_draining();
  arm_expiry_timer();
  forget_if_empty();
  publish_figures();
}

void QueueActor::forget_if_empty() {
  if (ready() + unacked_ + delayed() > 0 || dead_lettering() + errand_moves_.size() > 0) return;
  transient_seen_ = persistent_seen_ = 0;
  for (auto& lane : lanes_) {
    if (lane) lane->own_ttl_seen = false;
  }
}

namespace {

constexpr uint64_t kSizesMs = 100;

void put(std::atomic<uint64_t>& figure, uint64_t value) {
  figure.store(value, std::memory_order_relaxed);
}

}  // namespace

void QueueActor::publish_figures() {
  QueueFigures& f = *figures_;
  put(f.ready, ready());
  put(f.ready_bytes, ready_bytes());
  put(f.unacked, unacked_);
  put(f.unacked_bytes, unacked_bytes_);
  const uint64_t all = ready() + unacked_ + delayed(), seen = persistent_seen_ + transient_seen_;
  put(f.persistent, transient_seen_ == 0 ? all : all * persistent_seen_ / seen);
  put(f.delayed, delayed());
  put(f.delayed_bytes, companion_ ? companion_->body_bytes() : 0);
  const uint64_t next_due_ms = companion_ ? companion_->next_due_ms().value_or(0) : 0;
  put(f.next_due_ms, next_due_ms);
  put(f.owed_since_ms,
      next_due_ms == 0 || returns_full_ ? 0 : std::max(next_due_ms, room_since_ms_));
  put(f.last_due_ms, companion_ ? companion_->last_due_ms().value_or(0) : 0);
  put(f.consumers, consumers_.count());
  if (const uint64_t steps = steps_taken(); steps != steps_published_) {
    steps_published_ = steps;
    f.active_at_ns.store(time_.ns, std::memory_order_relaxed);
  }
  publish_consumer_use();
  put(f.published, counts_.published);
  put(f.delivered, counts_.delivered);
  put(f.delivered_no_ack, counts_.delivered_no_ack);
  put(f.got, counts_.got);
  put(f.got_no_ack, counts_.got_no_ack);
  put(f.acked, counts_.acked);
  put(f.redelivered, counts_.redelivered);
  put(f.rejected, counts_.rejected);
  put(f.confirmed, counts_.confirmed);
  put(f.retries_scheduled, counts_.retries_scheduled);
  put(f.retries_redelivered, counts_.retries_redelivered);
  put(f.retries_postponed, counts_.retries_postponed);
  put(f.dead_lettering, dead_lettering());
  if (counts_.lag_sum_ms != f.retry_lag_sum_ms.load(std::memory_order_relaxed) ||
      counts_.retries_redelivered != retries_published_) {
    retries_published_ = counts_.retries_redelivered;
    put(f.retry_lag_sum_ms, counts_.lag_sum_ms);
    for (size_t i = 0; i <= kRetryLagBoundsMs.size(); ++i) put(f.retry_lag[i], counts_.lag[i]);
  }
  for (size_t i = 0; i < 6; ++i) {
    put(f.dead_lettered[i], counts_.dead_lettered[i]);
    put(f.dropped[i], counts_.dropped[i]);
  }
  if (now_floor_ms_ >= sizes_published_ms_ + kSizesMs) publish_sizes();
}

/// Differs after whatever a client, an operator or time does to the queue; the same after a turn in
/// which it was only woken.
uint64_t QueueActor::steps_taken() const {
  const Counts& c = counts_;
  const uint64_t counted = c.published + c.delivered + c.delivered_no_ack + c.got + c.got_no_ack +
                           c.acked + c.rejected + c.retries_redelivered;
  return 1 + counted + ((ready() + delayed()) << 24) + (consumers_.count() << 48);
}

void QueueActor::publish_consumer_use() {
  const bool some = consumers_.count() > 0, able = consumers_.next() != nullptr;
  if (some == had_consumers_ && able == use_.able) return;
  use_ = had_consumers_ ? use_.changed_to(able, time_.ns) : ConsumerUse::begun(able, time_.ns);
  had_consumers_ = some;
  figures_->consumers_able.store(use_.able, std::memory_order_relaxed);
  figures_->consumers_able_since_ns.store(use_.since_ns, std::memory_order_relaxed);
  figures_->consumers_able_share.store(use_.share, std::memory_order_relaxed);
}

/// Costs a look at every segment. The logs call for it, too, when they have written or removed
/// something since.
void QueueActor::publish_sizes() {
  sizes_published_ms_ = now_floor_ms_;
  uint64_t disk = 0, memory = 0, segments = 0;
  for (const auto& lane : lanes_) {
    if (!lane) continue;
    disk += lane->log->disk_bytes();
    memory += lane->log->memory_bytes();
    segments += lane->log->segment_count();
  }
  put(figures_->disk_bytes, disk);
  put(figures_->memory_bytes, memory);
  put(figures_->segments, segments);
}

}  // namespace tarry
