#include "queue/lane.h"

#include <algorithm>

#include "tarrymq/runtime/invariant.h"

namespace tarry {

void RequeuedRuns::add(const Entry& entry) {
  TARRY_INVARIANT(entry.run.count > 0);
  by_position_.insert_or_assign(position_key(entry.run.first), entry);
  count_ += entry.run.count;
  body_bytes_ += entry.body_bytes;
}

uint64_t RequeuedRuns::take_front(std::optional<uint64_t> body_bytes) {
  auto it = by_position_.begin();
  Entry entry = it->second;
  uint64_t bytes =
      entry.run.count == 1
          ? entry.body_bytes
          : std::min(entry.body_bytes, body_bytes.value_or(entry.body_bytes / entry.run.count));
  --count_;
  body_bytes_ -= bytes;
  if (entry.run.count == 1) {
    by_position_.erase(it);
    return bytes;
  }
  // The key grows by one and stays below the next run's, so the node can be used again.
  auto node = by_position_.extract(it);
  Entry& rest = node.mapped();
  rest.body_bytes -= bytes;
  rest.run = {nth_of(entry.run, 1), entry.run.count - 1};
  node.key() = position_key(rest.run.first);
  by_position_.insert(by_position_.begin(), std::move(node));
  return bytes;
}

std::optional<RequeuedRuns::Entry> RequeuedRuns::take(const Position& position) {
  auto it = by_position_.upper_bound(position_key(position));
  if (it == by_position_.begin()) return std::nullopt;
  --it;
  const Entry whole = it->second;
  if (whole.run.first.segment != position.segment) return std::nullopt;
  const uint32_t index = position.ordinal - whole.run.first.ordinal;
  if (index >= whole.run.count) return std::nullopt;
  count_ -= whole.run.count;
  body_bytes_ -= whole.body_bytes;
  by_position_.erase(it);

  const uint64_t each = whole.body_bytes / whole.run.count;
  Entry one = whole;
  one.run = {nth_of(whole.run, index), 1};
  one.body_bytes = whole.run.count == 1 ? whole.body_bytes : each;
  uint64_t left = whole.body_bytes - one.body_bytes;
  if (index > 0) {
    Entry before = whole;
    before.run.count = index;
    before.body_bytes = std::min(left, each * index);
    left -= before.body_bytes;
    add(before);
  }
  if (index + 1 < whole.run.count) {
    Entry behind = whole;
    behind.run = {nth_of(whole.run, index + 1), whole.run.count - index - 1};
    behind.body_bytes = left;
    add(behind);
  }
  return one;
}

void RequeuedRuns::clear() {
  by_position_.clear();
  count_ = body_bytes_ = 0;
}

void DueReturns::add(uint64_t due_ms, const Entry& entry) {
  by_due_.insert_or_assign({due_ms, position_key(entry.position)}, entry);
  body_bytes_ += entry.body_bytes;
}

void DueReturns::take_front() {
  body_bytes_ -= front().body_bytes;
  by_due_.erase(by_due_.begin());
}

std::optional<DueReturns::Entry> DueReturns::take(uint64_t due_ms, const Position& position) {
  auto it = by_due_.find({due_ms, position_key(position)});
  if (it == by_due_.end()) return std::nullopt;
  Entry entry = it->second;
  body_bytes_ -= entry.body_bytes;
  by_due_.erase(it);
  return entry;
}

void DueReturns::clear() {
  by_due_.clear();
  body_bytes_ = 0;
}

}  // namespace tarry
