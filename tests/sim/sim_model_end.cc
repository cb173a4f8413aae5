#include <algorithm>

#include "sim/sim_model.h"

// What must be true at the end of a simulation, when all was drained.

namespace tarry::sim {
namespace {

constexpr uint64_t kBetweenTriesMs = 10'000;  // of a dead letter that is held, at most

}  // namespace

uint64_t Model::last_due_ms() const {
  uint64_t last = 0;
  for (const auto& [key, copy] : copies_) {
    for (const Place& place : copy.places) last = std::max(last, place.latest_ms);
  }
  return last;
}

void Model::check_children(const CopyKey& key) {
  const Copy& copy = copies_.at(key);
  // Where it may have died, that was its end.
  const bool redriven = std::none_of(copy.places.begin(), copy.places.end(),
                                     [](const Place& p) { return p.kind == Place::Kind::dead; });
  for (size_t child : redriven ? children(key.queue) : queues_[key.queue].dead_letters_to) {
    if (copies_.contains({child, key.number}) || absent_[child]) continue;
    fault(name(key) + " died, and did not come to " + queues_[child].name + "; it was " +
          describe(copy));
  }
}

uint64_t Model::longest_postponement_ms() const {
  uint64_t longest = ever_trouble_ ? kBetweenTriesMs : 0;
  for (const QueueSpec& spec : queues_) {
    if (spec.at_least_once) longest = std::max(longest, kBetweenTriesMs);
    if (!spec.reject_publish || spec.retry_min == 0) continue;
    longest = std::max(longest, spec.capped(kOwnDelayMaxMs));
    for (uint64_t n = 1; n <= spec.limit.value_or(1); ++n)
      longest = std::max(longest, spec.longest_ms(n));
  }
  return longest;
}

uint64_t Model::longest_unseen_wait_ms() const {
  uint64_t longest = 0;
  for (const QueueSpec& spec : queues_) {
    if (!spec.waits(Return::closed)) continue;
    for (uint64_t n = 1; n <= spec.limit.value_or(1); ++n)
      longest = std::max(longest, spec.longest_ms(n));
  }
  return longest;
}

bool Model::may_be_postponed(const CopyKey& key) const {
  const QueueSpec& spec = queues_[key.queue];
  return spec.reject_publish || spec.at_least_once || ever_trouble_;
}

void Model::check_end(uint64_t now_ms, bool postponed_too) {
  for (auto it = copies_.begin(); it != copies_.end(); ++it) {
    const CopyKey key = it->first;
    Copy& copy = it->second;
    if (copy.holder != 0) fault(name(key) + " is still with a consumer");
    if (!postponed_too && may_be_postponed(key)) continue;
    if (copy.may_vanish || !copy.certain) continue;
    bool gone = false;
    for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
      gone = gone || copy.places[i].kind == Place::Kind::gone;
    }
    if (gone) continue;
    if (may_be_dead(key, copy, now_ms))
      check_children(key);
    else
      fault(name(key) + " is lost, it was " + describe(copy));
  }
}

std::string Model::describe(const Copy& copy) const {
  static const char* const kNames[] = {"ready", "waiting", "gone", "dead"};
  std::string text;
  for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
    const Place& place = copy.places[i];
    if (!text.empty()) text += " or ";
    text += kNames[static_cast<size_t>(place.kind)];
    if (place.kind == Place::Kind::ready || place.kind == Place::Kind::waiting) {
      text +=
          " with counter " + std::to_string(place.lowest) + ".." + std::to_string(place.highest);
    }
    if (!place.error.empty()) text += " with error " + place.error;
    if (place.kind == Place::Kind::waiting) text += " until " + std::to_string(place.earliest_ms);
  }
  if (copy.holder != 0) text += ", held";
  if (copy.crashed_since) text += ", after a crash";
  return text;
}

}  // namespace tarry::sim
