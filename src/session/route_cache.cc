#include "session/route_cache.h"

namespace tarry {

uint64_t RouteCache::hash(ByteSpan route) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15ull;
  uint64_t h = route.size() * kMix;
  const std::byte* p = route.data();
  size_t left = route.size();
  for (; left >= 8; p += 8, left -= 8) h = (h ^ load_le<uint64_t>(p)) * kMix;
  uint64_t rest = 0;
  if (left > 0) std::memcpy(&rest, p, left);
  h = (h ^ rest) * kMix;
  return h ^ (h >> 32);
}

void RouteCache::put(ByteSpan route, uint64_t version, const RouteTargets& targets,
                     std::shared_ptr<ExchangeFigures> figures) {
  if (version != version_) clear(version);
  if (entries_.empty()) {
    entries_.resize(kEntries);
    counted_.reserve(kEntries);
  }
  Entry& entry = entries_[hash(route) & (kEntries - 1)];
  if (entry.uses > 0) flush_counts();
  entry.route.assign(as_text(route));
  entry.targets = targets;
  entry.figures = std::move(figures);
  entry.used = true;
  last_ = &entry;
  count_use(entry);
}

void RouteCache::flush_counts() {
  for (Entry* entry : counted_) {
    if (entry->figures) entry->figures->add(entry->uses, entry->uses * entry->targets.size());
    entry->uses = 0;
  }
  counted_.clear();
}

void RouteCache::clear(uint64_t version) {
  flush_counts();
  for (Entry& entry : entries_) {
    entry.used = false;
    entry.targets.clear();
    entry.figures.reset();
  }
  last_ = nullptr;
  version_ = version;
}

}  // namespace tarry
