#include "tarrymq/retry/companion.h"

#include <algorithm>
#include <utility>

#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

// The barrier is asked to hurry when an entry comes due in less than this and its park event is not
// durable yet. By then it mostly is: events that nobody waits for are synced within 200 ms.
constexpr uint64_t kAskAheadMs = 10;
constexpr uint8_t kParked = 0;  // DueIndex's purpose
constexpr size_t kLookEvery = 4096;

uint64_t ask_at(uint64_t due_ms) { return due_ms > kAskAheadMs ? due_ms - kAskAheadMs : 0; }

}  // namespace

Companion::Companion(DueStore& store, Shard& shard, QueueId queue, CompanionGate gate,
                     std::function<void()> on_due)
    : shard_(shard),
      gate_(std::move(gate)),
      on_due_(std::move(on_due)),
      index_(DueIndex::create(store, shard, queue, kParked)),
      timer_([this] { wake(); }),
      self_(std::make_shared<Companion*>(this)) {
  index_->set_waker([this] {
    waits_for_page_ = false;
    arm();
  });
}

Companion::~Companion() { *self_ = nullptr; }

void Companion::park(const DueEntry& entry, Ticket ticket) {
  if (ticket <= passed_ticket_) {
    park_at_once(entry);
    return;
  }
  TARRY_INVARIANT(gated_.empty() || gated_.back().ticket <= ticket);
  gated_due_max_ = gated_.empty() ? entry.due_ms : std::max(gated_due_max_, entry.due_ms);
  unasked_due_min_ = std::min(unasked_due_min_, entry.due_ms);
  body_bytes_ += entry.body_bytes;
  gated_.push_back({entry, ticket});
  // What has become durable meanwhile belongs into the index, which bounds its memory; with a long
  // delay nobody else would look for as long as that.
  if (gated_.size() % kLookEvery == 0) {
    open_gate();
    arm();
  }
  if (!asked_ && !gated_.empty()) arm_at(ask_at(entry.due_ms));
}

void Companion::park_at_once(const DueEntry& entry) {
  body_bytes_ += entry.body_bytes;
  put(entry);
  if (!paused_ && !waits_for_page_) arm_at(entry.due_ms);
}

void Companion::park_cold(ColdEntries entries, uint64_t body_bytes) {
  body_bytes_ += body_bytes;
  const uint64_t first_ms = entries.first_due_ms;
  index_->add_cold(std::move(entries));
  if (!paused_ && !waits_for_page_) arm_at(first_ms);
}

void Companion::put(const DueEntry& entry) {
  index_->add(entry);
  histogram_.add(entry.due_ms);
}

void Companion::erase(std::span<DueFound> found) {
  index_->erase(found);
  for (const DueFound& one : found) {
    if (one.gone) continue;
    body_bytes_ -= one.entry.body_bytes;
    histogram_.remove(one.entry.due_ms);
  }
}

size_t Companion::drain(uint64_t now_ms, std::span<DueEntry> out) {
  open_gate();
  const size_t wanted = std::min(out.size(), kDrainCountMax);
  const size_t count = index_->take_due(now_ms, out.first(wanted));
  for (size_t i = 0; i < count; ++i) {
    body_bytes_ -= out[i].body_bytes;
    histogram_.remove(out[i].due_ms);
  }
  const auto next = index_->next_due_ms();
  waits_for_page_ = count < wanted && next && *next <= now_ms;
  if (!waking_) arm();
  return count;
}

void Companion::pause() { paused_ = true; }

void Companion::resume() {
  if (!std::exchange(paused_, false)) return;
  arm();
}

uint64_t Companion::gated_next_ms() const { return std::min(asked_due_min_, unasked_due_min_); }

std::optional<uint64_t> Companion::next_due_ms() const {
  auto next = index_->next_due_ms();
  if (gated_.empty()) return next;
  return next ? std::min(*next, gated_next_ms()) : gated_next_ms();
}

std::optional<uint64_t> Companion::last_due_ms() const {
  auto last = index_->last_due_ms();
  if (gated_.empty()) return last;
  return last ? std::max(*last, gated_due_max_) : gated_due_max_;
}

void Companion::clear() {
  index_->clear();
  histogram_.clear();
  gated_.clear();
  asked_due_min_ = unasked_due_min_ = UINT64_MAX;
  body_bytes_ = 0;
  waits_for_page_ = false;
  timer_.cancel();
  armed_ms_ = UINT64_MAX;
}

// -- The timer

void Companion::arm() {
  if (!paused_ && !waits_for_page_) {
    if (auto next = index_->next_due_ms()) arm_at(*next);
  }
  if (!asked_ && !gated_.empty()) arm_at(ask_at(unasked_due_min_));
}

void Companion::arm_at(uint64_t due_ms) {
  if (due_ms >= armed_ms_) return;
  armed_ms_ = due_ms;
  const uint64_t now_ms = shard_.now().floor_ms();
  // Farther than any delay is far enough: it looks again then.
  const uint64_t wait_ms =
      due_ms > now_ms ? std::min<uint64_t>(due_ms - now_ms, uint64_t{1} << 33) : 0;
  // From the millisecond's start: a tick is reached no earlier than `due_ms` is, since both clocks
  // run alike.
  const int64_t into_ms_ns = shard_.now().ns - WallTime::from_ms(now_ms).ns;
  const SteadyTime start{shard_.steady_now().ns - (wait_ms ? into_ms_ns : 0)};
  shard_.timers().schedule(timer_, start.plus_ms(static_cast<int64_t>(wait_ms)));
}

void Companion::wake() {
  armed_ms_ = UINT64_MAX;
  open_gate();
  const uint64_t now_ms = shard_.now().floor_ms();
  if (!asked_ && !gated_.empty() && ask_at(unasked_due_min_) <= now_ms) ask_gate();
  const auto next = index_->next_due_ms();
  if (next && *next <= now_ms && !paused_ && !waits_for_page_) {
    waking_ = true;
    on_due_();
    waking_ = false;
  }
  arm();
}

// -- The gate

void Companion::ask_gate() {
  asked_ = true;
  asked_due_min_ = std::exchange(unasked_due_min_, UINT64_MAX);
  gate_.when_durable([self = self_] {
    if (!*self) return;
    Companion& companion = **self;
    companion.asked_ = false;
    companion.asked_due_min_ = UINT64_MAX;
    companion.open_gate();
    companion.arm();
  });
}

void Companion::open_gate() {
  while (!gated_.empty()) {
    const Gated& first = gated_.front();
    if (first.ticket > passed_ticket_) {
      if (!gate_.passed(first.ticket)) return;
      passed_ticket_ = first.ticket;
    }
    put(first.entry);
    gated_.pop_front();
  }
  unasked_due_min_ = UINT64_MAX;
  if (!asked_) asked_due_min_ = UINT64_MAX;
}

}  // namespace tarry
