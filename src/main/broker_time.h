#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tarrymq/runtime/clock.h"

namespace tarry {

/// A clock that nobody sets: time since the machine's start, sleep included, and which start that
/// was.
struct BootTime {
  std::string id;  // empty: not known
  int64_t ns = 0;
};
BootTime boot_time_now();

/// What is kept of broker time from one run to the next (retry-spec 29).
struct StoredTime {
  int64_t offset_ns = 0;  // broker time minus the system's wall clock
  int64_t broker_ns = 0;  // broker time when it was written: the next run starts no earlier
  BootTime boot = {};     // at the same instant
};

/// Broker time minus the wall clock for a run that begins now. Within one start of the machine it
/// follows from the time since then, whatever was done to the wall clock meanwhile, unwritten steps
/// and those while no broker ran included. After a start of the machine the wall clock is all there
/// is: a step that was not written, or made while no broker ran, counts as time that passed.
int64_t offset_at_start(const StoredTime& stored, const BootTime& boot_now, WallTime system_now);

/// `<data_dir>/clock`, one line of text: "tarrymq-clock 3 <offset_ns> <broker_ns> <boot_ns> <boot
/// id, or -> <checksum>\n", decimal, the checksum (FNV-1a of what is before it) 8 hex digits;
/// version 2 has no boot, version 1 no checksum either. Replaced as a whole (new file, synced,
/// renamed, directory synced). It is about this machine's clock, so it is not part of the
/// definitions. Main thread only; may block.
class BrokerTimeFile {
 public:
  explicit BrokerTimeFile(std::string data_dir) : directory_(std::move(data_dir)) {}
  /// Nothing if there is no such file or it can't be read; the latter is logged.
  std::optional<StoredTime> read() const;
  /// Writes when the offset moved by more than a tenth of a second since the last write (the wall
  /// clock was stepped), when the last write is half a minute old, or when `now_at_any_rate`. A
  /// failure is logged and tried again next time.
  void keep(const SystemClock& clock, bool now_at_any_rate = false);

 private:
  bool write(const StoredTime& time) const;
  std::string directory_;
  std::optional<StoredTime> last_;
};

}  // namespace tarry
