#include <algorithm>
#include <utility>

#include "storage/due_index_impl.h"
#include "tarrymq/runtime/invariant.h"

// Looking at a due index without taking from it, and taking entries out wherever they lie
// (retry-spec 37).

namespace tarry {
namespace {

bool by_key(const DueItem& a, const DueItem& b) { return a.key() < b.key(); }

/// The first `most` of `items` by key, in order.
void keep_first(std::vector<DueItem>& items, size_t most) {
  if (items.size() > most) {
    std::nth_element(items.begin(), items.begin() + static_cast<ptrdiff_t>(most), items.end(),
                     by_key);
    items.resize(most);
  }
  std::sort(items.begin(), items.end(), by_key);
}

std::vector<DueFound> found_in(const std::vector<DueItem>& items, size_t skip, size_t count) {
  std::vector<DueFound> found;
  const size_t end = std::min(items.size(), skip + count);
  for (size_t i = skip; i < end; ++i)
    found.push_back({items[i].unpack(), items[i].key().sequence, false});
  return found;
}

/// In a sequence that is in order: the place of `key`, or null.
DueItem* find_in(std::deque<DueItem>& items, DueKey key) {
  auto at = std::lower_bound(items.begin(), items.end(), key,
                             [](const DueItem& item, const DueKey& k) { return item.key() < k; });
  return at != items.end() && at->key() == key && !at->dead() ? &*at : nullptr;
}

}  // namespace

/// The first `most` entries in memory at or behind `from`, in order.
std::vector<DueItem> DueIndexImpl::held_from(DueKey from, size_t most) {
  std::vector<DueItem> held;
  const auto add_from = [&](const std::deque<DueItem>& items) {
    auto at = std::lower_bound(items.begin(), items.end(), from,
                               [](const DueItem& item, const DueKey& k) { return item.key() < k; });
    for (size_t n = 0; n < most && at != items.end(); ++at) {
      if (at->dead()) continue;
      held.push_back(*at);
      ++n;
    }
  };
  for (const Lane& lane : lanes_) add_from(lane.fifo);
  add_from(page_);
  // Of the heap the first `most` by a heap of their own, greatest on top, so that no more are
  // copied.
  std::vector<DueItem> first;
  for (const DueItem& item : heap_.items()) {
    if (item.dead() || item.key() < from) continue;
    if (first.size() == most) {
      if (most == 0 || first.front().key() < item.key()) continue;
      std::pop_heap(first.begin(), first.end(), by_key);
      first.pop_back();
    }
    first.push_back(item);
    std::push_heap(first.begin(), first.end(), by_key);
  }
  held.insert(held.end(), first.begin(), first.end());
  keep_first(held, most);
  return held;
}

void DueIndexImpl::scan(DueKey from, size_t skip, size_t count, Scanned done) {
  if (cold_.empty()) return scan_held(from, skip, count, std::move(done));
  scan_with_cold(from, skip, count, std::move(done));
}

void DueIndexImpl::scan_held(DueKey from, size_t skip, size_t count, Scanned done) {
  scan_taken_ = {};
  const size_t most = skip + count;
  std::vector<DueItem> held = held_from(from, most);
  if (table_count_ == 0) return done(found_in(held, skip, count), true);
  // What is before the cursor was read already. What moves between memory and table from now on is
  // seen at least once: puts that were given before are there, and nothing is erased before a page
  // has been read. Twice is once by key.
  core_->run([core = core_, self = self_, shard = &shard_, generation = generation_,
              from = std::max(from, cursor_), most, skip, count, held = std::move(held),
              done = std::move(done)]() mutable {
    DuePage page;
    const bool good = core->table().read(generation, from, UINT64_MAX, most, page);
    held.insert(held.end(), page.items.begin(), page.items.end());
    shard->post([self, skip, count, most, good, held = std::move(held),
                 done = std::move(done)]() mutable {
      if (!*self) return;
      const auto& erasing = (*self)->erasing_;
      std::erase_if(held,
                    [&](const DueItem& item) { return erasing.contains(item.key().sequence); });
      std::sort(held.begin(), held.end(), by_key);
      held.erase(std::unique(held.begin(), held.end(),
                             [](const DueItem& a, const DueItem& b) { return a.key() == b.key(); }),
                 held.end());
      if (held.size() > most) held.resize(most);
      done(found_in(held, skip, count), good);
    });
  });
}

/// In the lanes and the page, which are in order.
bool DueIndexImpl::erase_in_order(const DueFound& found) {
  DueItem* item = find_in(page_, found.key());
  for (size_t i = 0; i < lanes_.size() && !item; ++i) {
    if (lanes_[i].delay_ms == found.entry.delay_ms) item = find_in(lanes_[i].fifo, found.key());
  }
  if (!item) return false;
  item->kill();
  return true;
}

/// Takes those that are there out of `wanted`.
void DueIndexImpl::erase_in_heap(std::vector<DueFound*>& wanted) {
  if (wanted.empty() || heap_.empty()) return;
  std::sort(wanted.begin(), wanted.end(),
            [](const DueFound* a, const DueFound* b) { return a->key() < b->key(); });
  const DueKey first = wanted.front()->key(), last = wanted.back()->key();
  std::vector<bool> seen(wanted.size());
  for (DueItem& item : heap_.items()) {
    const DueKey key = item.key();
    if (key < first || last < key || item.dead()) continue;
    auto at = std::lower_bound(wanted.begin(), wanted.end(), key,
                               [](const DueFound* f, const DueKey& k) { return f->key() < k; });
    if (at == wanted.end() || (*at)->key() != key) continue;
    item.kill();
    seen[static_cast<size_t>(at - wanted.begin())] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!seen[i]) wanted[kept++] = wanted[i];
  }
  wanted.resize(kept);
}

void DueIndexImpl::erase_in_table(std::span<DueFound* const> found) {
  if (found.empty()) return;
  TARRY_INVARIANT(found.size() <= table_count_);
  table_count_ -= found.size();
  std::vector<DueKey> keys;
  for (const DueFound* one : found) {
    keys.push_back(one->key());
    erasing_.insert(one->sequence);
  }
  core_->run([core = core_, self = self_, shard = &shard_, generation = generation_,
              keys = std::move(keys)]() mutable {
    // If it fails they are passed over as long as this generation lives.
    if (!core->table().erase_keys(generation, keys)) return;
    shard->post([self, generation, keys = std::move(keys)] {
      if (!*self || (*self)->generation_ != generation) return;
      for (const DueKey& key : keys) (*self)->erasing_.erase(key.sequence);
    });
  });
  if (table_count_ > 0) return;
  end_generation();
  if (wake_wanted_) arm(now_ms());  // not from here: this is the owner's call
}

void DueIndexImpl::erase(std::span<DueFound> found) {
  std::vector<DueFound*> elsewhere;
  size_t erased = 0;
  for (DueFound& one : found) {
    // Entries are taken in order of their keys, so all of the scan up to the latest that was taken
    // are gone.
    if (one.key() <= scan_taken_) {
      one.gone = true;
      continue;
    }
    ++erased;
    if (!erase_in_order(one)) elsewhere.push_back(&one);
  }
  erase_in_heap(elsewhere);
  erase_in_table(elsewhere);
  size_ -= erased;
  for (size_t source = 0; source < lanes_.size() + 2; ++source) drop_dead(source);
}

void DueIndexImpl::drop_dead(size_t source) {
  while (!nothing_in(source) && head(source).dead()) {
    count_change(-1);
    if (source < lanes_.size())
      lanes_[source].fifo.pop_front();
    else if (source == lanes_.size())
      heap_.pop();
    else
      page_.pop_front();
  }
}

}  // namespace tarry
