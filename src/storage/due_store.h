#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/due_index.h"

namespace tarry {

struct RocksDb;

/// Entries in a page read, and at most in one write.
inline constexpr size_t kDuePageCount = 4096;

/// A DueEntry as it lies in memory. The sequence has 48 bits: more adds than an index sees.
struct DueItem {
  uint64_t due_ms;
  uint32_t segment, ordinal, offset, counter, delay_ms, body_bytes;
  uint32_t sequence_low;
  uint16_t sequence_high;
  uint8_t lane, kind;

  static DueItem pack(const DueEntry& entry, uint64_t sequence);
  DueEntry unpack() const;
  DueKey key() const { return {due_ms, uint64_t{sequence_high} << 32 | sequence_low}; }

  // Erased, but still in its place in memory: nobody is given it any more.
  static constexpr uint8_t kStored = 0x40, kDead = 0x80;
  bool dead() const { return (kind & kDead) != 0; }
  bool stored() const { return (kind & kStored) != 0; }
  void kill() { kind |= kDead; }
};
static_assert(sizeof(DueItem) == 40, "millions of these wait in memory");

struct DuePage {
  std::vector<DueItem> items;           // in order
  std::optional<uint64_t> next_due_ms;  // of the first entry behind them; none: there is none
};

/// Where due indexes put what they do not hold in memory. A generation is the part of one index
/// between two times that it was empty there; numbers are never used twice in a process, so what is
/// left of an old one harms nobody. Any thread may put; read and erase are called on the store
/// thread. False: nothing was done (logged here).
class DueTable {
 public:
  virtual ~DueTable() = default;
  /// `may_wait`: blocks while flushes lag behind; else refuses then.
  virtual bool put(uint64_t generation, std::span<const DueItem> items, bool may_wait) = 0;
  /// Up to `count_max` entries from `from` on, none later than `until_due_ms`.
  virtual bool read(uint64_t generation, DueKey from, uint64_t until_due_ms, size_t count_max,
                    DuePage& page) = 0;
  /// Removes all before `before`; kDueKeyMax: the whole generation.
  virtual bool erase(uint64_t generation, DueKey before) = 0;
  /// Removes these; those that are not there are none.
  virtual bool erase_keys(uint64_t generation, std::span<const DueKey> keys) = 0;
};

std::unique_ptr<DueTable> make_rocks_due_table(std::shared_ptr<RocksDb> db);

/// What all due indexes of the process share. Thread-safe; kept by the tasks under way.
class DueStoreCore : public std::enable_shared_from_this<DueStoreCore> {
 public:
  DueStoreCore(std::unique_ptr<DueTable> table, std::function<void(Task)> run_on_store_thread);

  DueTable& table() { return *table_; }
  void run(Task task) { run_on_store_thread_(std::move(task)); }
  uint64_t new_generation() { return next_generation_.fetch_add(1, std::memory_order_relaxed); }
  /// Removes on the store thread, again later if it fails.
  void erase_later(uint64_t generation, DueKey before);

  void set_budget(size_t entries) { budget_.store(entries, std::memory_order_relaxed); }
  size_t budget() const { return budget_.load(std::memory_order_relaxed); }
  /// Entries in memory, those on their way to the table included. Indexes report in batches.
  void count(int64_t change) { in_memory_.fetch_add(change, std::memory_order_relaxed); }
  int64_t in_memory() const { return in_memory_.load(std::memory_order_relaxed); }

 private:
  struct Garbage {
    uint64_t generation;
    DueKey before;
  };
  void erase(const Garbage& latest);

  const std::unique_ptr<DueTable> table_;
  const std::function<void(Task)> run_on_store_thread_;
  std::atomic<uint64_t> next_generation_{1};
  std::atomic<size_t> budget_{512 * 1024};
  std::atomic<int64_t> in_memory_{0};
  std::vector<Garbage> garbage_;  // not erased yet; store thread only
};

class DueStoreImpl final : public DueStore {
 public:
  explicit DueStoreImpl(std::shared_ptr<DueStoreCore> core) : core_(std::move(core)) {}
  void set_memory_budget(size_t entries) override { core_->set_budget(entries); }
  const std::shared_ptr<DueStoreCore>& core() const { return core_; }

 private:
  const std::shared_ptr<DueStoreCore> core_;
};

std::unique_ptr<DueStore> make_due_store(std::unique_ptr<DueTable> table,
                                         std::function<void(Task)> run_on_store_thread);

}  // namespace tarry
