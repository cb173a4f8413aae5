#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tarrymq/runtime/ids.h"
#include "tarrymq/storage/record.h"

namespace tarry {

class DueStore;
class Shard;

/// Something that comes due. Ordered by due_ms, then by the order of add().
struct DueEntry {
  uint64_t due_ms = 0;  // broker time
  Position position;
  uint32_t counter = 0;
  uint32_t delay_ms = 0;
  uint32_t body_bytes = 0;
  uint8_t lane = 0;
  uint8_t kind = 0;     // the owner's own word (below 64), e.g. "expires while parked"
  bool stored = false;  // the owner can read it again from where its record lies (ColdKeeper)
};

/// The order of an index: by due time, then by order of add.
struct DueKey {
  uint64_t due_ms = 0;
  uint64_t sequence = 0;
  friend constexpr auto operator<=>(const DueKey&, const DueKey&) = default;
};
inline constexpr DueKey kDueKeyMax{UINT64_MAX, UINT64_MAX};

/// An entry that a scan has seen, and left where it is.
struct DueFound {
  DueEntry entry;
  uint64_t sequence = 0;  // in the order of add()
  bool gone = false;      // erase(): it was taken meanwhile
  DueKey key() const { return {entry.due_ms, sequence}; }
};

/// Some of the entries behind a ColdEntries.
struct ColdRead {
  struct One {
    DueEntry entry;
    uint32_t rank = 0;
  };
  bool good = true;                   // false: not now
  std::vector<One> entries;           // the earliest, in order of due time and rank
  uint64_t left = 0;                  // how many are still to be read,
  uint64_t next_due_ms = UINT64_MAX;  // and when the first of those is due
};

/// Reads the `at_most` earliest of what is left of some; each entry once. `done` is called on this
/// shard, later.
using ColdReader = std::function<void(size_t at_most, std::function<void(ColdRead)> done)>;
/// Asked when memory gets short whether the entries of these records (all of one segment, each
/// `stored`) may become cold. Null: no. Else they are no longer in memory, and are read by this
/// together with what was made cold of that segment before; their ranks are the ordinals.
using ColdKeeper =
    std::function<ColdReader(uint8_t lane, uint32_t segment, std::span<const DueEntry> entries)>;

/// Entries that are known by their number until they come due, since they can be read from where
/// they are stored (what recovery finds in the ack logs).
struct ColdEntries {
  uint64_t count = 0;
  uint64_t first_due_ms = 0, last_due_ms = 0;
  uint32_t ranks =
      0;  // each entry has its own rank below it, by which those of one time are in order
  ColdReader read;
};

/// Entries ordered by due time, for one queue and purpose (parked messages, expiries,
/// x-delayed-message). Holds up to DueStore's budget in memory: a FIFO per distinct delay (entries
/// of one delay come in due order) and a heap for the rest; above half of the budget the latest due
/// are written to RocksDB in batches and read back by pages shortly before it comes due. So taking
/// costs O(entries due), and 10 million waiting entries cost no memory. It is derived: the ack logs
/// are the truth, the owner adds everything again at start, and the RocksDB part starts empty. An
/// entry may be stale (its record gone or parked anew): the owner checks when it takes one. Own
/// shard only.
class DueIndex {
 public:
  static std::unique_ptr<DueIndex> create(DueStore& store, Shard& shard, QueueId queue,
                                          uint8_t purpose);
  virtual ~DueIndex() = default;

  virtual void add(const DueEntry& entry) = 0;
  /// Adds many without reading them yet.
  virtual void add_cold(ColdEntries entries) = 0;
  virtual void set_cold_keeper(ColdKeeper keeper) = 0;
  virtual uint64_t size() const = 0;
  /// The earliest due time of all entries; none if empty.
  virtual std::optional<uint64_t> next_due_ms() const = 0;
  virtual std::optional<uint64_t> last_due_ms() const = 0;
  /// Removes up to out.size() entries with due_ms <= now_ms, in due order; returns how many. Fewer
  /// than are due when a page has still to be read: then the waker is called once it is there.
  virtual size_t take_due(uint64_t now_ms, std::span<DueEntry> out) = 0;
  virtual void set_waker(std::function<void()> waker) = 0;
  /// Drops all entries.
  virtual void clear() = 0;

  // -- Looking and taking out, for operators (retry-spec 37)

  /// The sequence of the entry that was added last; later ones have greater ones.
  virtual uint64_t last_sequence() const = 0;
  /// Reads, and takes nothing: passes over `skip` entries at or behind `from`, then gives up to
  /// `count`, in order. Costs a look at what is in memory outside of the lanes, and the skipped
  /// ones on disk. `done` is called on this shard: at once if nothing is on disk, else later; never
  /// once the index has ended. `whole` is false if the disk could not be read: some may be missing.
  using Scanned = std::function<void(std::vector<DueFound> found, bool whole)>;
  virtual void scan(DueKey from, size_t skip, size_t count, Scanned done) = 0;
  /// Takes out entries that the latest scan() found, each once, wherever they lie by now; sets
  /// `gone` on those that take_due() or clear() took meanwhile.
  virtual void erase(std::span<DueFound> found) = 0;
};

/// The RocksDB column family behind all due indexes of the process (keys: FORMAT.md "due index"),
/// its budget and its background writer on the store thread. Emptied when opened.
class DueStore {
 public:
  virtual ~DueStore() = default;
  /// How many entries all indexes together hold in memory before they write (default 512 Ki).
  virtual void set_memory_budget(size_t entries) = 0;
};

}  // namespace tarry
