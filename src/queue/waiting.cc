// The list of what waits, and messages that come to wait here from elsewhere (retry-spec 37).
#include "queue/waiting.h"

#include <algorithm>

#include "queue/dead_letter.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/retry/policy.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

// Of one turn.
constexpr size_t kListedPerTurn = 256;
constexpr uint64_t kListedBytesPerTurn = 1 << 20;
constexpr size_t kHistogramRows = 60;
constexpr size_t kPickedFrom = 256;  // most have a millisecond of their own

}  // namespace

void QueueActor::list_waiting(WaitingQuery query, std::function<void(WaitingPage)> done) {
  if (gone_) {
    WaitingPage page;
    page.error = gone_error();
    return done(std::move(page));
  }
  query.count = std::min(query.count, kWaitingPageMax);
  start_errand(std::make_shared<WaitingListing>(*this, query, std::move(done)));
}

bool WaitingListing::step() {
  QueueActor& q = queue_;
  for (;;) {
    switch (state_) {
      case State::start:
        state_ = State::barrier;
        durable_ = !q.companion_ || q.companion_->gated_count() == 0;
        // What was rejected a moment ago is to be seen, too.
        if (!durable_) wait_for_barrier();
        break;
      case State::barrier:
        if (!durable_) return false;
        state_ = State::place;
        if (!q.companion_) break;
        q.companion_->look_at_gate();
        if (!query_.due_before_ms) break;
        state_ = State::count;
        break;
      case State::count: {
        // Those of the bucket that the bound falls into are looked at.
        const auto below = q.companion_->histogram().below(*query_.due_before_ms);
        page_.matching = below.before;
        after_scan_ = State::place;
        scan({below.start_ms, 0}, 0, below.count);
        break;
      }
      case State::scanning:
        return false;
      case State::place: {
        for (const DueFound& found : found_)
          page_.matching += found.entry.due_ms < *query_.due_before_ms ? 1 : 0;
        found_.clear();
        const uint64_t total = q.companion_ ? q.companion_->histogram().count() : 0;
        page_.total = total;
        page_.matching = query_.due_before_ms ? std::min(page_.matching, total) : total;
        if (query_.id && total > 0) {
          after_scan_ = State::pick;
          scan({query_.id->due_ms, 0}, 0, kPickedFrom);
          break;
        }
        after_scan_ = state_ = State::read;
        if (query_.id || query_.offset >= page_.matching || query_.count == 0) break;
        const auto place = q.companion_->histogram().find(query_.offset);
        scan({place.due_ms, 0}, place.skip, std::min(query_.count, page_.matching - query_.offset));
        break;
      }
      case State::pick:
        pick();
        break;
      case State::read:
        if (!read_some()) return false;
        finish();
        return true;
      case State::done:
        return true;
    }
  }
}

void WaitingListing::scan(DueKey from, uint64_t skip, uint64_t count) {
  state_ = State::scanning;
  queue_.companion_->scan(from, skip, count, [this](std::vector<DueFound> found, bool whole) {
    found_ = std::move(found);
    whole_ = whole_ && whole;
    state_ = after_scan_;
    again();
  });
}

/// Of those that are due in that millisecond the one that is asked for.
void WaitingListing::pick() {
  const auto is_it = [&](const DueFound& found) {
    const DueEntry& entry = found.entry;
    return WaitingId{entry.due_ms, entry.lane, entry.position.segment, entry.position.ordinal} ==
           *query_.id;
  };
  const auto it = std::find_if(found_.begin(), found_.end(), is_it);
  if (it != found_.end()) {
    found_ = {*it};
    state_ = State::read;
  } else if (found_.size() == kPickedFrom && found_.back().entry.due_ms == query_.id->due_ms) {
    DueKey next = found_.back().key();
    ++next.sequence;
    scan(next, 0, kPickedFrom);
  } else {
    found_.clear();
    state_ = State::read;
  }
}

bool WaitingListing::read_some() {
  uint64_t bytes = 0;
  for (size_t n = 0; next_ < found_.size(); ++n) {
    if (n == kListedPerTurn || bytes >= kListedBytesPerTurn) {
      again();
      return false;
    }
    const DueFound& found = found_[next_];
    Lane* lane = queue_.find_lane(found.entry.lane);
    Fetched fetched;
    const Fetch fetch = lane ? lane->log->read(found.entry.position, fetched) : Fetch::none;
    if (fetch == Fetch::pending) return false;
    if (fetch == Fetch::ok) {
      bytes += fetched.record.body.size() + fetched.record.header.size();
      show(found, fetched, *lane);
    }
    ++next_;
  }
  return true;
}

void WaitingListing::show(const DueFound& found, const Fetched& fetched, Lane& lane) {
  const DueEntry& entry = found.entry;
  const RecordView& record = fetched.record;
  WaitingMessage message;
  message.id =
      WaitingId{entry.due_ms, entry.lane, entry.position.segment, entry.position.ordinal}.text();
  message.due_ms = entry.due_ms;
  message.expires = entry.kind == QueueActor::kExpiresParked;
  // When it expires before it is due, its due time is on disk only: the delay has begun after it
  // came in.
  message.rejected_ms = message.expires
                            ? record.published_ms
                            : entry.due_ms - std::min<uint64_t>(entry.due_ms, entry.delay_ms);
  message.delivery_count = entry.counter;
  const RouteNames names = route_names(record.route);
  message.exchange = names.exchange;
  message.routing_key = names.routing_key;
  message.header = as_text(record.header);
  message.body_bytes = record.body.size();
  const uint64_t shown = std::min<uint64_t>(query_.payload_bytes, record.body.size());
  if (payload_bytes_ + shown <= kWaitingPayloadBytesMax) {
    payload_bytes_ += shown;
    message.body = as_text(record.body.first(shown));
  }
  message.last_error = lane.log->park_error(entry.position);
  page_.messages.push_back(std::move(message));
}

void WaitingListing::finish() {
  state_ = State::done;
  if (!whole_)
    page_.error = PeerError::soft(506, "some of what waits could not be read from disk; try again");
  if (queue_.companion_) {
    page_.next_due_ms = queue_.companion_->next_due_ms();
    page_.last_due_ms = queue_.companion_->last_due_ms();
    page_.histogram = queue_.companion_->histogram().rows(kHistogramRows);
  }
  done_(std::move(page_));
}

void WaitingListing::queue_gone() {
  page_ = {};
  page_.error = queue_.gone_error();
  done_(std::move(page_));
}

// -- From elsewhere

void QueueActor::park_given(std::span<const GivenMessage> messages,
                            std::function<void(WaitingOutcome)> done) {
  WaitingOutcome outcome;
  if (gone_) {
    outcome.error = gone_error();
  } else if (!identity_.retry_enabled) {
    outcome.error = PeerError::precondition_failed(
        text_of(" has no retries: nothing can wait there (x-delayed-retry-min is missing in its "
                "declaration)"));
  } else if (identity_.durable && store_.store().refuses_appends()) {
    outcome.error = PeerError::soft(506, text_of(": there is no room on the disk, or it fails"));
  }
  if (outcome.error) return done(std::move(outcome));
  refresh_time();
  for (const GivenMessage& message : messages) {
    Lane* lane = lane_for(message.priority);
    std::string route, header;
    for (const std::string* part : {&message.exchange, &message.routing_key}) {
      route.push_back(static_cast<char>(part->size()));
      route += *part;
    }
    if (auto view = PropertiesView::parse(as_bytes(message.header))) {
      append_without_header(header, as_bytes(message.header), *view, "x-delivery-count");
    }
    RecordParts parts;
    parts.published_ms = now_ceil_ms_;
    parts.counter = message.delivery_count;
    parts.persistent = message.persistent;
    parts.route = as_bytes(route);
    parts.header = as_bytes(header);
    parts.body = as_bytes(message.body);
    const auto position =
        lane ? lane->log->append(parts) : Result<Position>(make_error_code(StoreError::not_found));
    if (!position) {
      outcome.error =
          PeerError::soft(506, text_of(": cannot store more: ") + position.error().message());
      break;  // those before it wait
    }
    ++counts_.published;
    ++(message.persistent ? persistent_seen_ : transient_seen_);
    const auto body_bytes = static_cast<uint32_t>(message.body.size());
    (void)lane->log->take_fresh(*position, body_bytes);  // it was appended just now
    DueEntry entry;
    entry.due_ms = due_after(now_ceil_ms_, std::min(message.delay_ms, kDelayMsMax));
    entry.position = *position;
    entry.counter = message.delivery_count;
    entry.delay_ms = static_cast<uint32_t>(std::min(message.delay_ms, kDelayMsMax));
    entry.body_bytes = body_bytes;
    entry.lane = lane->number;
    entry.kind = kDue;
    lane->log->park(
        *position, {entry.due_ms, now_ceil_ms_, entry.counter, entry.delay_ms, message.last_error});
    if (queue_ttl_ms_ != UINT64_MAX) end_by_expiry(entry, due_after(now_ceil_ms_, queue_ttl_ms_));
    add_parked(entry);
    ++outcome.affected;
  }
  schedule();
  if (!identity_.durable) return done(std::move(outcome));
  store_.when_durable([outcome = std::move(outcome), done = std::move(done)]() mutable {
    done(std::move(outcome));
  });
}

}  // namespace tarry
