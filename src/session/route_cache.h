#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/routing/exchange.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

using RouteTargets = std::vector<std::shared_ptr<QueueHandle>>;

/// Resolved routes of one channel, by the raw bytes of exchange and routing key. All of it is
/// forgotten when the vhost's topology version changes. Direct-mapped: a collision only costs the
/// old entry.
class RouteCache {
 public:
  ~RouteCache() { flush_counts(); }

  /// Null if it is not there. Valid until the next put(). Counts a use.
  const RouteTargets* find(ByteSpan route, uint64_t version) {
    if (version != version_) {
      clear(version);
      return nullptr;
    }
    if (last_ && matches(*last_, route)) return count_use(*last_);
    if (entries_.empty()) return nullptr;
    Entry& entry = entries_[hash(route) & (kEntries - 1)];
    if (!entry.used || !matches(entry, route)) return nullptr;
    last_ = &entry;
    return count_use(entry);
  }
  /// `version`: as read before the route was asked for. Its first use is counted with it.
  void put(ByteSpan route, uint64_t version, const RouteTargets& targets,
           std::shared_ptr<ExchangeFigures> figures);
  void clear(uint64_t version);
  /// So many more uses of what find() found last.
  void count_again(uint64_t uses) { last_->uses += uses; }
  uint64_t version() const { return version_; }
  /// Adds the uses since the last call to the exchanges' figures. At the end of a turn.
  void flush_counts();

 private:
  static constexpr size_t kEntries = 64;
  struct Entry {
    std::string route;
    RouteTargets targets;
    std::shared_ptr<ExchangeFigures> figures;
    uint64_t uses = 0;  // not yet added to the figures
    bool used = false;
  };
  const RouteTargets* count_use(Entry& entry) {
    if (entry.uses++ == 0) counted_.push_back(&entry);
    return &entry.targets;
  }

  static bool matches(const Entry& entry, ByteSpan route) {
    return entry.route.size() == route.size() &&
           std::memcmp(entry.route.data(), route.data(), route.size()) == 0;
  }
  static uint64_t hash(ByteSpan route);

  std::vector<Entry> entries_;   // none before the first put
  std::vector<Entry*> counted_;  // with uses above 0
  Entry* last_ = nullptr;
  uint64_t version_ = 0;
};

}  // namespace tarry
