#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "storage/due_index_heap.h"
#include "storage/due_store.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/due_index.h"

namespace tarry {

/// Entries lie in one of five places: lanes (a FIFO per distinct delay, so in order by itself), the
/// heap (the rest), the table on disk, the page (read back from it), and where cold ones are
/// stored. Invariants:
/// - No cold entry is due before `cold_min_ms_`, so what is in memory may be taken if it is due
/// before that. What is read of them goes to memory like what is added.
/// - Every entry in the table, or on its way there, is at or behind `cursor_`; every entry of the
/// page is before it.
/// - Nothing in the table is due before `table_min_ms_`. So an entry in memory may be taken if it
/// is due before that,
///   or if it is before `cursor_`: then nothing on disk can come first.
/// - What is put into the table is due later than `read_until_ms_`, so it never falls into what was
/// read already;
///   while a page is being read, later than what that read may return.
/// - What is erased in memory stays in its place, dead, until it would be taken; the first of each
/// place is alive. Tasks for the store thread run in order, so a read sees every put that was given
/// before it.
class DueIndexImpl final : public DueIndex {
 public:
  DueIndexImpl(std::shared_ptr<DueStoreCore> core, Shard& shard);
  ~DueIndexImpl() override;

  void add(const DueEntry& entry) override;
  void add_cold(ColdEntries entries) override;
  void set_cold_keeper(ColdKeeper keeper) override { keeper_ = std::move(keeper); }
  uint64_t size() const override { return size_; }
  std::optional<uint64_t> next_due_ms() const override;
  std::optional<uint64_t> last_due_ms() const override;
  size_t take_due(uint64_t now_ms, std::span<DueEntry> out) override;
  void set_waker(std::function<void()> waker) override { waker_ = std::move(waker); }
  void clear() override;
  uint64_t last_sequence() const override { return sequence_; }
  void scan(DueKey from, size_t skip, size_t count, Scanned done) override;
  void erase(std::span<DueFound> found) override;

 private:
  struct Lane {
    uint32_t delay_ms;
    std::deque<DueItem> fifo;
  };
  struct Cold {
    ColdEntries entries;         // first_due_ms and count: of what is left
    uint64_t id = 0;             // never used twice
    uint64_t sequence_base = 0;  // its entries' sequences are above it
    bool kept = false;           // from memory; then the next two say where the records lie
    uint8_t lane = 0;
    uint32_t segment = 0;
  };
  struct Heads;
  /// Of the budget: more than half, all, or several times of it is in memory.
  enum class Pressure : uint8_t { rising, over, far_over };

  // Memory
  void add_to_memory(const DueItem& item);
  Lane* lane_for(uint32_t delay_ms);
  Heads find_heads() const;
  uint64_t first_held_ms() const;
  void pop(size_t source);
  void drop_dead(size_t source);
  bool nothing_in(size_t source) const;
  const DueItem& head(size_t source) const;
  bool takeable(const DueItem& item, uint64_t now_ms) const;

  // Budget
  void count_change(int64_t change);
  void check_budget();
  void spill(Pressure pressure, size_t count_min);
  void spill_items(std::vector<DueItem>& items, Pressure pressure);
  bool put_here(std::vector<DueItem>& batch, bool may_wait);
  void put_later(std::vector<DueItem> batch);
  void put_back(uint64_t generation, const std::vector<DueItem>& items);

  // Cold entries (due_index_cold.cc)
  void tend_cold(uint64_t now_ms);
  void keep_cold(std::vector<DueItem>& items);
  bool keep_group(std::span<const DueItem> group);
  void read_cold(Cold& cold);
  void cold_read(uint64_t id, ColdRead& read);
  void find_cold_min();
  void end_cold();

  // Disk
  void read_page(uint64_t now_ms);
  void page_read(uint64_t generation, bool good, DuePage& page);
  void read_or_arm() { read_or_arm(now_ms()); }
  void read_or_arm(uint64_t now_ms);
  void arm(uint64_t at_ms);
  void on_timer();
  void end_generation();
  void drop_memory();
  uint64_t now_ms() const { return shard_.now().floor_ms(); }

  // Scanning (due_index_scan.cc)
  void scan_held(DueKey from, size_t skip, size_t count, Scanned done);
  void scan_with_cold(DueKey from, size_t skip, size_t count, Scanned done);
  Cold* cold_at(DueKey from);
  std::vector<DueItem> held_from(DueKey from, size_t most);
  bool erase_in_order(const DueFound& found);
  void erase_in_heap(std::vector<DueFound*>& wanted);
  void erase_in_table(std::span<DueFound* const> found);

  const std::shared_ptr<DueStoreCore> core_;
  Shard& shard_;
  const std::shared_ptr<DueIndexImpl*>
      self_;  // what tasks under way look at; null when this is gone
  std::function<void()> waker_;

  uint64_t size_ = 0;
  uint64_t sequence_ = 0;
  uint64_t last_due_ms_ = 0;
  std::vector<Lane> lanes_;
  size_t last_lane_ = 0;
  DueHeap heap_;
  size_t heap_spill_size_ =
      0;  // below this another attempt to spill the heap is not worth its cost
  std::deque<DueItem> page_;

  int64_t uncounted_ = 0;  // change of entries in memory that the core has not been told of
  size_t steps_ = 0;       // since the budget was looked at
  uint64_t no_spill_before_ms_ = 0;

  uint64_t generation_;
  uint64_t table_count_ = 0;  // in the table or on the way there
  uint64_t table_min_ms_ = 0;
  DueKey cursor_;
  uint64_t read_until_ms_ = 0;
  uint32_t pages_to_erase_ = 0;
  bool reading_ = false;
  uint64_t reading_until_ms_ = 0;
  uint64_t put_min_ms_ = UINT64_MAX;  // earliest due among what was put while a page was being read
  bool wake_wanted_ = false;
  std::unordered_set<uint64_t>
      erasing_;        // sequences in the table that are erased there, or in a page that comes
  DueKey scan_taken_;  // the latest that was taken since the latest scan began
  Timer timer_;

  ColdKeeper keeper_;
  std::vector<Cold> cold_;
  uint64_t cold_min_ms_ = UINT64_MAX;
  uint64_t cold_id_ = 0;       // of the latest that came
  uint64_t reading_cold_ = 0;  // the id of what is being read; 0: nothing
  std::vector<std::function<void(bool good)>> after_cold_;  // scans that wait for that
  Timer cold_timer_;
};

}  // namespace tarry
