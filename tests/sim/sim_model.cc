#include "sim/sim_model.h"

#include <algorithm>

namespace tarry::sim {

uint64_t QueueSpec::delay_ms(uint64_t n) const {
  double delay = static_cast<double>(retry_min);
  if (!multiplier)
    delay *= static_cast<double>(n);
  else
    for (uint64_t i = 1; i < n; ++i) delay *= static_cast<double>(*multiplier);
  return capped(delay);
}

uint64_t QueueSpec::capped(double delay) const {
  if (retry_max) delay = std::min(delay, static_cast<double>(*retry_max));
  return static_cast<uint64_t>(std::min(delay, 4294967295.0));
}

uint64_t QueueSpec::shortest_ms(uint64_t n) const {
  const uint64_t delay = delay_ms(n);
  return jitter_percent == 0 ? delay : std::max<uint64_t>(1, delay - delay * jitter_percent / 100);
}

uint64_t QueueSpec::longest_ms(uint64_t n) const {
  const auto delay = static_cast<double>(delay_ms(n));
  return capped(delay + delay * static_cast<double>(jitter_percent) / 100);
}

bool QueueSpec::waits(Return how) const {
  if (retry_min == 0) return false;
  if (how == Return::word) return true;  // whatever the type lists
  switch (retry_type) {
    case RetryOn::rejections:
      return how == Return::reject || how == Return::nack;
    case RetryOn::failed:
      return how == Return::reject || how == Return::closed;
    case RetryOn::returned:
      return how == Return::nack;
    case RetryOn::all:
      return how != Return::recovered;
  }
  return false;
}

// -- Publishes

void Model::published(const Publish& publish, uint64_t now_ms, bool open) {
  for (const CopyKey& key : publish.copies) {
    const Binding is = publish.fanned_out ? bindings_[key.queue] : Binding::bound;
    if (is == Binding::unbound) continue;
    Copy& copy = copies_[key];
    copy.persistent = publish.persistent;
    copy.maybe_unrouted = absent_[key.queue] || is == Binding::changing;
    copy.certain = !open && !trouble_ && !queues_[key.queue].reject_publish && !copy.maybe_unrouted;
    copy.came_from_ms = now_ms;
    copy.ttl_ms = publish.ttl_ms;
    if (publish.ttl_ms) copy.expires_ms = now_ms + *publish.ttl_ms;
    copy.unseen_base = unseen_[key.queue];
    copy.touched = ++events_;
  }
}

void Model::confirmed(const Publish& publish) {
  for (const CopyKey& key : publish.copies) {
    auto it = copies_.find(key);
    if (it == copies_.end() && publish.fanned_out) continue;  // its queue was not bound
    if (it == copies_.end()) return fault(name(key) + " confirmed before it was sent");
    it->second.confirmed = true;
    if (!it->second.maybe_unrouted) it->second.certain = true;
  }
}

void Model::refused(const Publish& publish) {
  for (const CopyKey& key : publish.copies) {
    auto it = copies_.find(key);
    if (it == copies_.end()) continue;
    if (trouble_) {  // another queue of the same publish may have it
      it->second.may_vanish = true;
      it->second.certain = false;
      continue;
    }
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

/// Where no counter is shown a delivery waits for no barrier: a crash may take back an error that
/// was seen.
bool Model::may_forget_errors(const CopyKey& key, const Copy& copy) const {
  return copy.crashed_since && (copy.seen_in_trouble || !queues_[key.queue].shows_counter());
}

bool Model::fits(const CopyKey& key, const Copy& copy, const Place& place, const Seen& seen) {
  if (place.kind != Place::Kind::ready && place.kind != Place::Kind::waiting) return false;
  bool due = place.kind == Place::Kind::ready || seen.at_ms >= place.earliest_ms;
  due = due && (seen.error == place.error || may_forget_errors(key, copy));
  if (!queues_[key.queue].shows_counter()) return due;
  auto counter = static_cast<uint64_t>(seen.counter.value_or(0));
  return due && counter >= place.lowest && counter <= place.highest + unseen_since(key, copy);
}

/// Whether the broker may have sent it to its dead-letter targets, or dropped it.
bool Model::may_be_dead(const CopyKey& key, Copy& copy, uint64_t now_ms) {
  const QueueSpec& spec = queues_[key.queue];
  if (spec.max_length > 0 && !spec.reject_publish) return true;
  if (copy.expires_ms && now_ms >= *copy.expires_ms) return true;
  // A close may have rejected it on its way to a consumer.
  if (spec.max_age_ms && spec.waits(Return::closed) && unseen_since(key, copy) > 0) return true;
  for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
    const Place& place = copy.places[i];
    if (place.kind == Place::Kind::dead) return true;
    bool alive = place.kind != Place::Kind::gone;
    if (alive && place.maybe_dead) return true;
    if (alive && spec.limit && place.highest + unseen_since(key, copy) > *spec.limit) return true;
  }
  return false;
}

/// What the broker gives as its reason must have been possible.
bool Model::may_have_died_of(const CopyKey& key, const Copy& copy, const Seen& seen) {
  const QueueSpec& spec = queues_[key.queue];
  const std::string& reason = seen.death_reason;
  if (reason == "expired") return copy.expires_ms && seen.at_ms >= *copy.expires_ms;
  if (reason == "maxlen") return spec.max_length > 0;
  if (reason == "delivery_limit") return spec.limit.has_value();
  if (reason == "max_age")
    return spec.max_age_ms && seen.at_ms > copy.came_from_ms + *spec.max_age_ms;
  return reason == "rejected";  // also by an operator, and where a crash has taken the reason
}

Model::Copy* Model::child_of_dead(const CopyKey& key, const Seen& seen) {
  const auto& parent = queues_[key.queue].parent;
  if (!parent) return nullptr;
  CopyKey from{*parent, key.number};
  auto it = copies_.find(from);
  // What was redriven may have gone on before anybody saw it there.
  if (it == copies_.end() && ever_redriven_.contains(*parent) && child_of_dead(from, seen)) {
    it = copies_.find(from);
    it->second.places.back().maybe_dead = true;
  }
  if (it == copies_.end()) return nullptr;
  if (it->second.holder != 0)
    fault(name(key) + " is delivered while " + name(from) + " is with a consumer");
  if (!may_be_dead(from, it->second, seen.at_ms)) {
    fault(name(from) + " was dead-lettered without cause, it was " + describe(it->second));
  }
  // What a consumer said of a dead letter does not go along when that is redriven.
  if (!is_redriven(key.queue)) check_death(key, from, it->second, seen);
  Copy& copy = copies_[key];
  copy.places.back().error = seen.error;
  ++deaths_;
  copy.came_from_ms = it->second.came_from_ms;
  copy.persistent = it->second.persistent;
  copy.certain = true;
  // Of what is in no file yet nobody has said that it is durable.
  copy.confirmed = it->second.confirmed && !queues_[from.queue].transient;
  copy.may_vanish = it->second.may_vanish;
  copy.uncertain = it->second.uncertain;
  return &copy;
}

void Model::check_death(const CopyKey& key, const CopyKey& from, const Copy& copy,
                        const Seen& seen) {
  if (seen.death_queue != queues_[from.queue].name) {
    fault(name(key) + " has '" + seen.death_queue + "' as its newest x-death");
  } else if (!may_have_died_of(from, copy, seen)) {
    fault(name(from) + " died of '" + seen.death_reason + "', it was " + describe(copy));
  }
  if (!error_fits(copy, seen.error) && !may_forget_errors(from, copy)) {
    fault(name(key) + " has the last error '" + seen.error + "', " + name(from) + " was " +
          describe(copy));
  }
}

/// Of one of the places in which it may have died.
bool Model::error_fits(const Copy& copy, const std::string& error) const {
  for (size_t i = copy.uncertain ? 0 : copy.places.size() - 1; i < copy.places.size(); ++i) {
    if (copy.places[i].error == error) return true;
  }
  return false;
}

/// It is here, so it can't be where it would have died to. What a crash has taken from there is
/// forgotten.
void Model::check_not_with_children(const CopyKey& key) {
  for (size_t child : children(key.queue)) {
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
  // A start takes what was on its way to a consumer for delivered.
  bool first = !copy.was_delivered && !copy.restarted_since && !copy.crashed_since &&
               unseen_since(key, copy) == 0;
  if (first && !spec.parent && seen.redelivered)
    fault(name(key) + " delivered first with the flag redelivered");
  if (draining_ && copy.expired_by_ms && seen.at_ms > *copy.expired_by_ms) {
    fault(name(key) + " is served at " + std::to_string(seen.at_ms) + ", but expired by " +
          std::to_string(*copy.expired_by_ms));
  }
  check_not_with_children(key);
  check_not_with_parent(key, seen.at_ms);
  copy.places = {Place{Place::Kind::ready, counter, counter}};
  copy.places.back().error = seen.error;
  copy.came_by_ms = std::min(copy.came_by_ms, seen.at_ms);
  copy.uncertain = false;
  copy.was_delivered = true;
  copy.boot = boot_;
  copy.crashed_since = copy.restarted_since = false;
  copy.seen_in_trouble = trouble_;
  copy.unseen_base = unseen_[key.queue];
  copy.holder = holder;
  copy.held_counter = counter;
  copy.touched = ++events_;
  if (!seen.no_ack) return;
  copy.holder = 0;
  go(key, copy, {Place::Kind::gone});
}

/// What a return makes of it (retry-spec 2, 3, 34 and 39).
Model::Place Model::after_return(const CopyKey& key, const Copy& copy, const Settlement& how,
                                 uint64_t now_ms) const {
  const QueueSpec& spec = queues_[key.queue];
  const uint32_t counter = copy.held_counter + 1;
  if (spec.limit && counter > *spec.limit) return {Place::Kind::dead};
  if (!spec.waits(how.how)) return {Place::Kind::ready, counter, counter};
  // Both instants are rounded, each its own way.
  if (spec.max_age_ms && now_ms > copy.came_by_ms &&
      now_ms - copy.came_by_ms > *spec.max_age_ms + 2) {
    return {Place::Kind::dead};
  }
  Place place{Place::Kind::waiting, counter, counter};
  place.earliest_ms = place.latest_ms = now_ms;
  if (how.delay_ms) {
    place.earliest_ms += spec.capped(static_cast<double>(*how.delay_ms));
    place.latest_ms = place.earliest_ms;
  } else {
    place.earliest_ms += spec.shortest_ms(counter);
    place.latest_ms += spec.longest_ms(counter);
  }
  place.longest_ms = place.latest_ms - now_ms;
  place.maybe_dead = spec.max_age_ms.has_value();  // its queue may look at it later
  return place;
}

uint64_t Model::settled(const CopyKey& key, const Settlement& settlement, uint64_t now_ms,
                        bool open) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return 0;
  Copy& copy = it->second;
  copy.holder = 0;
  Place place{Place::Kind::gone};
  if (settlement.verdict == Verdict::reject) place = {Place::Kind::dead};
  if (settlement.verdict == Verdict::requeue) place = after_return(key, copy, settlement, now_ms);
  if (place.kind == Place::Kind::waiting) ++retries_;
  // Without a delay (also where the disk takes none) its error and its counter are two events, and
  // a crash may keep the first alone.
  const bool at_once = place.kind == Place::Kind::ready || trouble_;
  if (at_once && !settlement.error.empty()) {
    copy.places.push_back(copy.places.back());
    copy.places.back().error = settlement.error;
  }
  place.error = settlement.error;
  place.final = settlement.word;
  go(key, copy, place);
  // Before the transaction is through it may already be there, or still be as it was.
  if (open) copy.uncertain = true;
  return copy.touched;
}

void Model::word_confirmed(const CopyKey& key, uint64_t touched) {
  auto it = copies_.find(key);
  // Else it was delivered again since.
  if (it != copies_.end() && it->second.touched == touched)
    it->second.places = {it->second.places.back()};
}

void Model::settlement_durable(const CopyKey& key) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  Copy& copy = it->second;
  // Dead: the source stays until its targets have it, which nobody has said. Otherwise: it was
  // delivered again since.
  if (copy.places.back().kind == Place::Kind::dead && !copy.places.back().final) {
    copy.uncertain = copy.crashed_since;
    return;
  }
  if (!copy.uncertain) return;
  copy.uncertain = copy.crashed_since;
  copy.places = {copy.places.back()};
}

void Model::settlement_unknown(const CopyKey& key, uint64_t now_ms) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  Copy& copy = it->second;
  if (copy.holder != 0) return;  // delivered again meanwhile
  Place place = after_return(key, copy, {Verdict::requeue, Return::closed}, now_ms);
  // As it was before the commit.
  if (copy.places.size() > 1) place.error = copy.places[copy.places.size() - 2].error;
  place.maybe_dead = place.maybe_dead || redriving_.contains(key.queue);
  copy.places.push_back(place);
  copy.uncertain = true;
}

void Model::maybe_not_taken(const CopyKey& key) {
  auto it = copies_.find(key);
  if (it == copies_.end() || it->second.places.back().kind != Place::Kind::gone) return;
  it->second.uncertain = it->second.crashed_since = true;
  if (!redriving_.contains(key.queue)) return;
  for (Place& place : it->second.places) place.maybe_dead = true;
}

void Model::returned(const CopyKey& key, Return how, uint64_t now_ms) {
  auto it = copies_.find(key);
  if (it == copies_.end()) return;
  it->second.holder = 0;
  go(key, it->second, after_return(key, it->second, {Verdict::requeue, how}, now_ms));
}

// -- The world

/// Queues that are not durable are gone, and what they held is nowhere, unless it had died before.
void Model::lose_transient() {
  for (auto& [key, copy] : copies_) {
    if (!queues_[key.queue].transient) continue;
    const bool maybe_dead = may_be_dead(key, copy, UINT64_MAX);
    for (Place& place : copy.places)
      place.kind = maybe_dead ? Place::Kind::dead : Place::Kind::gone;
    copy.may_vanish = true;
  }
}

void Model::disk_trouble(bool on) {
  trouble_ending_ = !on;
  if (!on) return;
  trouble_ = ever_trouble_ = true;
  for (auto& [key, copy] : copies_) {
    // What its queue has not looked at yet.
    if (copy.touched <= checkpoint_event_) continue;
    if (!copy.confirmed) copy.certain = false;
    for (Place& place : copy.places) place.earliest_ms = 0;
  }
}

void Model::crashed() {
  for (auto& [key, copy] : copies_) {
    // Requeued at once it did not wait for its barrier (retry-spec 28).
    if (!copy.seen_in_trouble) continue;
    for (Place& place : copy.places) place.lowest = 0;
  }
  trouble_ = false;
  while (!acting_.empty()) act_done(acting_.begin()->first);
  lose_transient();
  for (auto it = copies_.begin(); it != copies_.end(); ++it) {
    Copy& copy = it->second;
    if (!copy.persistent || !copy.confirmed) copy.may_vanish = true;
    copy.holder = 0;
    if (queues_[it->first.queue].transient) continue;
    copy.uncertain = true;
    copy.crashed_since = true;
    // It may come from there once more.
    if (queues_[it->first.queue].parent) copy.came_by_ms = UINT64_MAX;
  }
  ++boot_;
  // A delivery that was out may have been counted.
  for (size_t i = 0; i < queues_.size(); ++i) ++unseen_[i];
  for (auto& [queue, list] : purged_) list.clear();
  while (!purging_.empty()) end_purge(*purging_.begin());
  purged_for_good_.clear();
}

void Model::checkpoint(uint64_t now_ms) {
  if (trouble_ending_) trouble_ = false;
  take_purged();
  for (auto& [key, copy] : copies_) {
    if (copy.ttl_ms && !copy.expired_by_ms) copy.expired_by_ms = now_ms + *copy.ttl_ms;
    copy.seen_in_trouble = copy.seen_in_trouble && copy.uncertain;
    // Its queue may have come to it long after the client was through with it.
    for (Place& place : copy.places) {
      if (place.longest_ms > 0 && copy.touched > checkpoint_event_)
        place.latest_ms = now_ms + place.longest_ms;
    }
    // After a crash nobody has said which of the places it was.
    if (!copy.uncertain) copy.places = {copy.places.back()};
    if (copy.certain) copy.confirmed = true;
  }
  checkpoint_event_ = events_;
}

void Model::restarted() {
  lose_transient();
  ++boot_;
  for (auto& [key, copy] : copies_) {
    if (!copy.persistent) copy.may_vanish = true;
    copy.holder = 0;
    copy.restarted_since = true;
  }
}

}  // namespace tarry::sim
