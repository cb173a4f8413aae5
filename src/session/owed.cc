// Replies that wait for the disk, and what waits for them (owed_replies.h).
#include <algorithm>

#include "session/connection_impl.h"

namespace tarry {
namespace {

/// A change of the topology, or a question about it that keeps its place among them (a passive
/// declaration, a purge).
bool is_change(uint32_t method) {
  const uint16_t klass = method_id::klass(method);
  return klass == class_id::queue || klass == class_id::exchange;
}

}  // namespace

void Channel::owe_silently(Stored stored) {
  if (stored == Stored::yes && owed_.empty()) return;
  const bool first = owed_.empty();
  owed_.add_silent(stored == Stored::yes ? 0 : connection_.number_change());
  connection_.note_owed(*this, first);
}

bool ConnectionImpl::is_held(const DecodedFrame& frame) {
  if (owed_count_ == 0 || state_ != State::running || frame.type != FrameType::method) return false;
  const Channel* c = frame.channel == 0 ? nullptr : channel(frame.channel);
  if (c && !c->open()) return false;  // is thrown away
  if (frame.channel != 0 && is_change(peek_method_id(frame.payload)))
    return owed_count_ >= kOwedMax || last_change_ - asked_change_ >= kChangesInARow;
  return frame.channel == 0 || (c && c->owes());
}

uint64_t ConnectionImpl::number_change() {
  flush_later();
  return ++last_change_;
}

void ConnectionImpl::note_owed(Channel& c, bool first) {
  ++owed_count_;
  if (first) owing_.push_back(&c);
}

void ConnectionImpl::forget_owed(Channel& c, size_t count) {
  if (count == 0) return;
  owed_count_ -= count;
  std::erase(owing_, &c);
}

/// At the turn's end: one question for all that has changed since the one before.
void ConnectionImpl::ask_for_disk() {
  if (asked_change_ == last_change_) return;
  asked_change_ = last_change_;
  release_hold();
  vhost_->when_stored([home = &home_, id = id_, change = last_change_] {
    if (ConnectionImpl* connection = find(*home, id)) connection->changes_stored(change);
  });
}

void ConnectionImpl::changes_stored(uint64_t change) {
  stored_change_ = std::max(stored_change_, change);
  for (size_t i = 0; i < owing_.size();) {
    Channel& c = *owing_[i];
    owed_count_ -= c.owed_.release(stored_change_, port_.outbound());
    if (c.owes()) {
      ++i;
    } else {
      owing_.erase(owing_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  flush_later();
  std::vector<LaterFailure> failures;
  failures.swap(failures_);
  for (const LaterFailure& failure : failures) {
    Channel* c = failure.serial == 0 ? nullptr : open_channel(failure.channel, failure.serial);
    if (c || failure.serial == 0) fail(c, failure.error, failure.method);
  }
  release_hold();
}

void ConnectionImpl::fail_later(Channel* c, const PeerError& error, uint32_t method) {
  failures_.push_back({c ? c->number : uint16_t{0}, c ? c->serial : uint32_t{0}, error, method});
  update_reading();
}

void ConnectionImpl::release_hold() {
  held_by_owed_ = false;
  update_reading();
}

}  // namespace tarry
