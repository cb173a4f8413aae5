#include "queue/consumers.h"

#include <algorithm>

#include "tarrymq/runtime/invariant.h"

namespace tarry {

uint32_t Consumer::capacity() const {
  if (paused || !active || travelling_bytes >= kTravellingBytesMax) return 0;
  uint32_t most = UINT32_MAX;
  if (prefetch_counts()) {
    most = request.prefetch > outstanding ? request.prefetch - outstanding : 0;
  }
  return request.channel_limited ? std::min(most, credit) : most;
}

bool Consumer::would_take() const {
  return !paused && active && (!prefetch_counts() || request.prefetch > outstanding);
}

Consumer& Consumers::add(ConsumeRequest request) {
  TARRY_INVARIANT(!by_id_.contains(request.consumer));
  auto owned = std::make_unique<Consumer>();
  Consumer& consumer = *owned;
  consumer.request = std::move(request);
  consumer.active = !single_active_ || (all_.empty() && fading_.outstanding == 0);
  if (consumer.request.channel_limited) ++channel_limited_count_;
  by_id_[consumer.id()] = &consumer;
  all_.push_back(std::move(owned));
  refresh(consumer);
  return consumer;
}

Consumer* Consumers::find(ConsumerId id) {
  auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

void Consumers::remove(ConsumerId id) {
  auto it = by_id_.find(id);
  if (it == by_id_.end()) return;
  Consumer* consumer = it->second;
  unlist(*consumer);
  if (consumer->request.channel_limited) --channel_limited_count_;
  const bool was_active = consumer->active;
  const uint32_t outstanding = consumer->outstanding;
  by_id_.erase(it);
  std::erase_if(all_, [&](const auto& c) { return c.get() == consumer; });
  if (!single_active_ || !was_active) return;
  if (outstanding > 0) {
    fading_ = {id, outstanding};
  } else {
    choose_active();
  }
}

void Consumers::settled_after_leaving(ConsumerId id, uint32_t count) {
  if (fading_.outstanding == 0 || fading_.id != id) return;
  fading_.outstanding -= std::min(fading_.outstanding, count);
  if (fading_.outstanding == 0) choose_active();
}

void Consumers::choose_active() {
  Consumer* best = nullptr;
  for (const auto& candidate : all_) {
    if (!best || candidate->request.priority > best->request.priority) best = candidate.get();
  }
  if (!best) return;
  best->active = true;
  refresh(*best);
}

Consumer* Consumers::next() { return rings_.empty() ? nullptr : rings_.begin()->second; }

void Consumers::rotate(Consumer& consumer) {
  auto it = rings_.find(consumer.request.priority);
  if (it != rings_.end() && it->second == &consumer) it->second = consumer.next_;
}

void Consumers::refresh(Consumer& consumer) {
  if (consumer.capacity() > 0) {
    enlist(consumer);
  } else {
    unlist(consumer);
  }
}

void Consumers::set_channel_limited(Consumer& consumer, bool limited) {
  if (consumer.request.channel_limited == limited) return;
  consumer.request.channel_limited = limited;
  consumer.credit = 0;
  consumer.credit_wanted = false;
  limited ? ++channel_limited_count_ : --channel_limited_count_;
  refresh(consumer);
}

void Consumers::enlist(Consumer& consumer) {
  if (consumer.listed_) return;
  consumer.listed_ = true;
  auto [it, first] = rings_.try_emplace(consumer.request.priority, &consumer);
  if (first) {
    consumer.next_ = consumer.previous_ = &consumer;
    return;
  }
  Consumer* front = it->second;  // behind the last, which is before the front
  consumer.next_ = front;
  consumer.previous_ = front->previous_;
  front->previous_->next_ = &consumer;
  front->previous_ = &consumer;
}

void Consumers::unlist(Consumer& consumer) {
  if (!consumer.listed_) return;
  consumer.listed_ = false;
  auto it = rings_.find(consumer.request.priority);
  if (consumer.next_ == &consumer) {
    rings_.erase(it);
  } else {
    if (it->second == &consumer) it->second = consumer.next_;
    consumer.previous_->next_ = consumer.next_;
    consumer.next_->previous_ = consumer.previous_;
  }
  consumer.next_ = consumer.previous_ = nullptr;
}

}  // namespace tarry
