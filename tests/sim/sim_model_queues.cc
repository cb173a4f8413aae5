#include "sim/sim_model.h"

// What becomes of the messages of a queue that is purged or deleted, and what operators do to them.

#include <algorithm>

namespace tarry::sim {

void Model::purge_sent(size_t queue) {
  auto& list = purged_[queue];
  list.clear();
  purging_.insert(queue);
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    Copy& copy = it->second;
    if (copy.holder != 0) continue;
    // What was quiet before is sure to be hit; the rest may be.
    bool quiet = copy.touched <= checkpoint_event_ && !copy.uncertain && !copy.expires_ms &&
                 !copy.places.back().maybe_dead;
    if (quiet) list.emplace_back(it->first, copy.touched);
    may_vanish(it->first, copy);
  }
  // On the way here from a queue that it died in; what is redriven may come from further away.
  auto parent = queues_[queue].parent;
  for (bool further = is_redriven(queue); parent; further = false) {
    for (auto it = copies_.lower_bound({*parent, 0});
         it != copies_.end() && it->first.queue == *parent; ++it) {
      it->second.may_vanish = true;
    }
    parent = further ? queues_[*parent].parent : std::nullopt;
  }
}

/// If a crash has brought it back here, it is not where it had died to.
void Model::may_vanish(const CopyKey& key, Copy& copy) {
  copy.may_vanish = true;
  for (size_t child : children(key.queue)) {
    auto dead = copies_.find({child, key.number});
    if (dead != copies_.end() && dead->second.uncertain) may_vanish(dead->first, dead->second);
  }
}

std::vector<size_t> Model::children(size_t queue) const {
  std::vector<size_t> all = queues_[queue].dead_letters_to;
  if (const auto& to = queues_[queue].redriven_to) all.push_back(*to);
  return all;
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
    may_vanish(it->first, it->second);
  }
}

void Model::take_purged() {
  while (!purging_.empty()) end_purge(*purging_.begin());
  for (const auto& [key, touched] : purged_for_good_) {
    Copy& copy = copies_[key];
    if (copy.touched != touched || copy.places.back().kind == Place::Kind::dead) continue;
    if (queues_[key.queue].max_length > 0) continue;
    copy.places = {Place{Place::Kind::gone}};
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
    copy.places = {Place{may_have_died ? Place::Kind::dead : Place::Kind::gone}};
    copy.uncertain = false;
  }
}

void Model::acted_on(const CopyKey& key, Copy& copy, Act act) {
  if (copy.holder != 0) return;
  const bool by_close = queues_[key.queue].waits(Return::closed);
  for (Place& place : copy.places) {
    // So may what was given back unseen, and what is due and was not taken yet.
    const bool due = place.kind == Place::Kind::ready &&
                     (by_close || place.highest + unseen_since(key, copy) > 0);
    if (place.kind != Place::Kind::waiting && !due) continue;
    if (act == Act::redeliver) place.earliest_ms = 0;
    if (act == Act::dead_letter) place.maybe_dead = true;
    if (act == Act::drop) may_vanish(key, copy);
  }
}

void Model::act_sent(size_t queue, Act act) {
  acting_[queue] = act;
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    acted_on(it->first, it->second, act);
  }
}

void Model::act_done(size_t queue) {
  auto acting = acting_.find(queue);
  if (acting == acting_.end()) return;
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    acted_on(it->first, it->second, acting->second);
  }
  acting_.erase(acting);
}

void Model::redrive_sent(size_t queue) {
  redriving_.insert(queue);
  ever_redriven_.insert(queue);
  for (auto it = copies_.lower_bound({queue, 0}); it != copies_.end() && it->first.queue == queue;
       ++it) {
    if (it->second.holder != 0) continue;
    for (Place& place : it->second.places) place.maybe_dead = true;
  }
}

void Model::redrive_ended(size_t queue) { redriving_.erase(queue); }

void Model::declared(size_t queue) { absent_[queue] = false; }

}  // namespace tarry::sim
