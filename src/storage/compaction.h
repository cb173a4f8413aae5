#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/segment_files.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

class LogState;

/// Gives back the disk space of a sealed segment's gone records (log_compact.cc). Made by the
/// shard, run once by the store's thread, back at the shard then; `log` is the shard's (null: the
/// log is gone).
class Compaction {
 public:
  explicit Compaction(FileSystem& files_of_store) : store_files(files_of_store) {}
  /// Bytes given back; 0 if it was not worth it. Store's thread.
  Result<uint64_t> punch();

  FileSystem& store_files;
  LogState* log = nullptr;
  std::shared_ptr<SegmentFiles> files;
  uint32_t segment = 0;
  uint32_t end = 0;   // where the records end
  Ticket ticket = 0;  // with it, what says "gone" is durable
  bool running = false;
  bool sync_acks = false;
  std::string path, ack_path;
  std::vector<OrdinalRun> gone;  // ascending
};

}  // namespace tarry
