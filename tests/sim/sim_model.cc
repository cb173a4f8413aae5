#include "sim/sim_model.h"

#include <algorithm>

namespace tarry::sim {

uint64_t QueueSpec::delay_ms(uint64_t n) const {
  double delay = static_cast<double>(retry_min);
  if (!multiplier)
    delay *= static_cast<double>(n);
  else
    for (uint64_t i = 1; i < n; ++i) delay *= static_cast<double>(*multiplier);
  if (retry_max) delay = std::min(delay, static_cast<double>(*retry_max));
  return static_cast<uint64_t>(std::min(delay, 4294967295.0));
}

// -- Publishes

void Model::published(const Publish& publish, uint64_t now_ms, bool open) {
  for (const CopyKey& key : publish.copies) {
    Copy& copy = copies_[key];
    copy.persistent = publish.persistent;
    copy.maybe_unrouted = absent_[key.queue];
    copy.certain = !open && !queues_[key.queue].reject_publish && !copy.maybe_unrouted;
    copy.ttl_ms = publish.ttl_ms;
    if (publish.ttl_ms) copy.expires_ms = now_ms + *publish.ttl_ms;
    copy.unseen_base = unseen_[key.queue];
    copy.touched = ++events_;
  }
}

void Model::confirmed(const Publish& publish) {
  for (const CopyKey& key : publish.copies) {
    auto it = copies_.find(key);
    if (it == copies_.end()) return fault(name(key) + " confirmed before it was sent");
    it->second.confirmed = true;
    if (!it->second.maybe_unrouted) it->second.certain = true;
  }
}

void Model::refused(const Publish& publish) {
  for (const CopyKey& key : publish.copies) {
    auto it = copies_.find(key);
    if (it == copies_.end()) continue;
    // Into a queue that is deleted before it is stored: nobody has it.
    if (was_deleted_[key.queue]) {
      it->second.may_vanish = true;
      continue;
    }
    if (it->second.was_delivered) fault(name(key) + " was refused and delivered");
    if (!queues_[key.queue].reject_publish) fault(name(key) + " was refused without a reason");
    copies_.erase(it);
  }
}

// -- Deliveries

bool Model::fits(const CopyKey& key, const Copy& copy, const Place& place, const Seen& seen) {
  if (place.kind != Place::Kind::ready && place.kind != Place::Kind::waiting) return false;
  bool due = place.kind == Place::Kind::ready || seen.at_ms >= place.earliest_ms;
  if (!queues_[key.queue].shows_counter()) return due;
  auto counter = static_cast<uint64_t>(seen.counter.value_or(0));
  return due && counter >= place.lowest && counter <= place.highest + unseen_since(key, copy);
}

/// Whether the broker may have sent it to its dead-letter targets, or dropped it.
bool Model::may_be_dead(const CopyKey& key, Copy& copy, uint64_t now_ms) {
  const QueueSpec& spec = queues_[key.queue];
  if (spec.max_length > 0 && !spec.reject_publish) return true;
  if (copy.expires_ms && now_ms >= *copy.expires_ms) return true;
  for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
    const Place& place = copy.places[i];
    if (place.kind == Place::Kind::dead) return true;
    bool alive = place.kind != Place::Kind::gone;
    if (alive && spec.limit && place.highest + unseen_since(key, copy) > *spec.limit) return true;
  }
  return false;
}

Model::Copy* Model::child_of_dead(const CopyKey& key, const Seen& seen) {
  const auto& parent = queues_[key.queue].parent;
  if (!parent) return nullptr;
  CopyKey from{*parent, key.number};
  auto it = copies_.find(from);
  if (it == copies_.end()) return nullptr;
  if (it->second.holder != 0)
    fault(name(key) + " is delivered while " + name(from) + " is with a consumer");
  if (!may_be_dead(from, it->second, seen.at_ms)) {
    fault(name(from) + " was dead-lettered without cause, it was " + describe(it->second));
  }
  if (!seen.has_death) fault(name(key) + " has no x-death");
  Copy& copy = copies_[key];
  ++deaths_;
  copy.persistent = it->second.persistent;
  copy.certain = true;
  copy.confirmed = it->second.confirmed;
  copy.may_vanish = it->second.may_vanish;
  copy.uncertain = it->second.uncertain;
  return &copy;
}

/// It is here, so it can't be where it would have died to. What a crash has taken from there is
/// forgotten.
void Model::check_not_with_children(const CopyKey& key) {
  for (size_t child : queues_[key.queue].dead_letters_to) {
    auto dead = copies_.find({child, key.number});
    if (dead == copies_.end()) continue;
    if (dead->second.boot == boot_ || dead->second.durably_gone()) {
      fault(name(key) + " delivered, though it was in " + queues_[child].name + " already");
    }
    check_not_with_children(dead->first);
    copies_.erase(dead);
  }
}

void Model::check_not_with_parent(const CopyKey& key, uint64_t now_ms) {
  const auto& parent = queues_[key.queue].parent;
  if (!parent) return;
  CopyKey from{*parent, key.number};
  auto it = copies_.find(from);
  if (it == copies_.end() || it->second.boot != boot_) return;
  if (it->second.holder != 0 || !may_be_dead(from, it->second, now_ms)) {
    fault(name(key) + " delivered, but " + name(from) + " is " + describe(it->second));
  }
}

void Model::delivered(const CopyKey& key, const Seen& seen, uint64_t holder) {
  ++deliveries_;
  auto it = copies_.find(key);
  Copy* found = it == copies_.end() ? child_of_dead(key, seen) : &it->second;
  if (!found) return fault(name(key) + " was delivered, but can't be there");
  Copy& copy = *found;
  const QueueSpec& spec = queues_[key.queue];
  // Where the broker shows none, it is what a client has written there (retry-spec 15).
  auto counter = spec.shows_counter() ? static_cast<uint32_t>(seen.counter.value_or(0)) : 0;
  if (copy.holder != 0) fault(name(key) + " is with two consumers");
  if (spec.limit && spec.shows_counter() && counter > *spec.limit) {
    fault(name(key) + " delivered over the limit, counter " + std::to_string(counter));
  }
  bool fit = false;
  for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
    fit = fit || fits(key, copy, copy.places[i], seen);
  }
  if (!fit) {
    fault(name(key) + " delivered with counter " + std::to_string(counter) + " at " +
          std::to_string(seen.at_ms) + ", but was " + describe(copy));
  }
  if (copy.was_delivered && !copy.crashed_since && !seen.redelivered)
    fault(name(key) + " redelivered without the flag");
  bool first = !copy.was_delivered && !copy.crashed_since && unseen_since(key, copy) == 0;
  if (first && !spec.parent && seen.redelivered)
    fault(name(key) + " delivered first with the flag redelivered");
  if (draining_ && copy.expired_by_ms && seen.at_ms > *copy.expired_by_ms) {
    fault(name(key) + " is served at " + std::to_string(seen.at_ms) + ", but expired by " +
          std::to_string(*copy.expired_by_ms));
  }
  check_not_with_children(key);
  check_not_with_parent(key, seen.at_ms);
  copy.places = {Place{Place::Kind::ready, counter, counter, 0}};
  copy.uncertain = false;
  copy.was_delivered = true;
  copy.boot = boot_;
  copy.crashed_since = false;
  copy.unseen_base = unseen_[key.queue];
  copy.holder = holder;
  copy.held_counter = counter;
  copy.touched = ++events_;
  if (!seen.no_ack) return;
  copy.holder = 0;
  go(copy, {Place::Kind::gone, 0, 0, 0});
}

Model::Place Model::after_return(const CopyKey& key, uint32_t counter) const {
  const QueueSpec& spec = queues_[key.queue];
  if (spec.limit && counter + 1 > *spec.limit) return {Place::Kind::dead, 0, 0, 0};
  return {Place::Kind::ready, counter + 1, counter + 1, 0};
}

void Model::settled(const CopyKey& key, Verdict verdict, uint64_t now_ms, bool open) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  Copy& copy = it->second;
  copy.holder = 0;
  const QueueSpec& spec = queues_[key.queue];
  if (verdict == Verdict::ack) {
    go(copy, {Place::Kind::gone, 0, 0, 0});
  } else if (verdict == Verdict::reject) {
    go(copy, {Place::Kind::dead, 0, 0, 0});
  } else {
    Place place = after_return(key, copy.held_counter);
    if (place.kind == Place::Kind::ready && spec.retry_min > 0) {
      ++retries_;
      place.kind = Place::Kind::waiting;
      place.earliest_ms = now_ms + spec.delay_ms(copy.held_counter + 1);
    }
    go(copy, place);
  }
  // Before the transaction is through it may already be there, or still be as it was.
  if (open) copy.uncertain = true;
}

void Model::settlement_durable(const CopyKey& key) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  Copy& copy = it->second;
  // Dead: the source stays until its targets have it, which nobody has said. Otherwise: it was
  // delivered again since.
  if (copy.places.back().kind == Place::Kind::dead) {
    copy.uncertain = copy.crashed_since;
    return;
  }
  if (!copy.uncertain) return;
  copy.uncertain = copy.crashed_since;
  copy.places = {copy.places.back()};
}

void Model::settlement_unknown(const CopyKey& key) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  Copy& copy = it->second;
  if (copy.holder != 0) return;  // delivered again meanwhile
  copy.places.push_back(after_return(key, copy.held_counter));
  copy.uncertain = true;
}

void Model::maybe_not_taken(const CopyKey& key) {
  auto it = copies_.find(key);
  if (it == copies_.end() || it->second.places.back().kind != Place::Kind::gone) return;
  it->second.uncertain = it->second.crashed_since = true;
}

void Model::returned(const CopyKey& key) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  it->second.holder = 0;
  go(it->second, after_return(key, it->second.held_counter));
}

// -- Queues

void Model::purge_sent(size_t queue) {
  auto& list = purged_[queue];
  list.clear();
  purging_.insert(queue);
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    Copy& copy = it->second;
    if (copy.holder != 0) continue;
    // What was quiet before is sure to be hit; the rest may be.
    bool quiet = copy.touched <= checkpoint_event_ && !copy.uncertain && !copy.expires_ms;
    if (quiet) list.emplace_back(it->first, copy.touched);
    copy.may_vanish = true;
  }
  // On the way here from a queue that it died in.
  if (const auto& parent = queues_[queue].parent) {
    for (auto it = copies_.lower_bound({*parent, 0});
         it != copies_.end() && it->first.queue == *parent; ++it) {
      it->second.may_vanish = true;
    }
  }
}

/// Some may have been on the way to a consumer by then: what nobody has seen when all is quiet is
/// gone for good.
void Model::purge_done(size_t queue) {
  end_purge(queue);
  auto& list = purged_[queue];
  purged_for_good_.insert(purged_for_good_.end(), list.begin(), list.end());
  list.clear();
}

/// Until its answer it may take what comes meanwhile.
void Model::end_purge(size_t queue) {
  if (purging_.erase(queue) == 0) return;
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    it->second.may_vanish = true;
  }
}

void Model::take_purged() {
  while (!purging_.empty()) end_purge(*purging_.begin());
  for (const auto& [key, touched] : purged_for_good_) {
    Copy& copy = copies_[key];
    if (copy.touched != touched || copy.places.back().kind == Place::Kind::dead) continue;
    if (queues_[key.queue].max_length > 0) continue;
    copy.places = {Place{Place::Kind::gone, 0, 0, 0}};
    copy.uncertain = false;
  }
  purged_for_good_.clear();
}

void Model::delete_sent(size_t queue) {
  absent_[queue] = was_deleted_[queue] = true;
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    it->second.may_vanish = true;
  }
}

void Model::delete_done(size_t queue) {
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    Copy& copy = it->second;
    bool may_have_died = std::any_of(copy.places.begin(), copy.places.end(),
                                     [](const Place& p) { return p.kind == Place::Kind::dead; });
    copy.holder = 0;
    copy.places = {Place{may_have_died ? Place::Kind::dead : Place::Kind::gone, 0, 0, 0}};
    copy.uncertain = false;
  }
}

void Model::declared(size_t queue) { absent_[queue] = false; }

// -- The world

void Model::crashed() {
  for (auto it = copies_.begin(); it != copies_.end(); ++it) {
    Copy& copy = it->second;
    if (!copy.persistent || !copy.confirmed) copy.may_vanish = true;
    copy.holder = 0;
    copy.uncertain = true;
    copy.crashed_since = true;
  }
  ++boot_;
  // A delivery that was out may have been counted.
  for (size_t i = 0; i < queues_.size(); ++i) ++unseen_[i];
  for (auto& [queue, list] : purged_) list.clear();
  while (!purging_.empty()) end_purge(*purging_.begin());
  purged_for_good_.clear();
}

void Model::checkpoint(uint64_t now_ms) {
  take_purged();
  for (auto& [key, copy] : copies_) {
    if (copy.ttl_ms && !copy.expired_by_ms) copy.expired_by_ms = now_ms + *copy.ttl_ms;
    // After a crash nobody has said which of the places it was.
    if (!copy.uncertain) copy.places = {copy.places.back()};
    if (copy.certain) copy.confirmed = true;
  }
  checkpoint_event_ = events_;
}

void Model::restarted() {
  ++boot_;
  for (auto& [key, copy] : copies_) {
    if (!copy.persistent) copy.may_vanish = true;
    copy.holder = 0;
  }
}

uint64_t Model::last_due_ms() const {
  uint64_t last = 0;
  for (const auto& [key, copy] : copies_) {
    for (const Place& place : copy.places) last = std::max(last, place.earliest_ms);
  }
  return last;
}

void Model::check_children(const CopyKey& key, bool must) {
  for (size_t child : queues_[key.queue].dead_letters_to) {
    if (must && !copies_.contains({child, key.number}) && !absent_[child]) {
      fault(name(key) + " died, and did not come to " + queues_[child].name + "; it was " +
            describe(copies_.at(key)));
    }
  }
}

uint64_t Model::longest_postponement_ms() const {
  uint64_t longest = 0;
  for (const QueueSpec& spec : queues_) {
    if (!spec.reject_publish || spec.retry_min == 0) continue;
    for (uint64_t n = 1; n <= spec.limit.value_or(1); ++n)
      longest = std::max(longest, spec.delay_ms(n));
  }
  return longest;
}

void Model::check_end(uint64_t now_ms, bool postponed_too) {
  for (auto it = copies_.begin(); it != copies_.end(); ++it) {
    const CopyKey key = it->first;
    Copy& copy = it->second;
    if (copy.holder != 0) fault(name(key) + " is still with a consumer");
    if (!postponed_too && queues_[key.queue].reject_publish) continue;
    if (copy.may_vanish || !copy.certain) continue;
    bool gone = false;
    for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
      gone = gone || copy.places[i].kind == Place::Kind::gone;
    }
    if (gone) continue;
    if (may_be_dead(key, copy, now_ms))
      check_children(key, true);
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
    if (place.kind == Place::Kind::waiting) text += " until " + std::to_string(place.earliest_ms);
  }
  if (copy.holder != 0) text += ", held";
  if (copy.crashed_since) text += ", after a crash";
  return text;
}

}  // namespace tarry::sim
