#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tarrymq/runtime/ids.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/task.h"

namespace tarry {

/// Keys and values to put or erase together, or not at all.
struct DefinitionBatch {
  std::vector<std::pair<std::string, std::string>> puts;
  std::vector<std::string> erases;
  bool empty() const { return puts.empty() && erases.empty(); }
};

/// The durable definitions: vhosts, users, permissions, exchanges, queues, bindings, policies,
/// parameters, as opaque keys ("kind\0vhost\0name...") and values. RocksDB with its log synced. Any
/// thread.
class DefinitionStore {
 public:
  virtual ~DefinitionStore() = default;
  /// Writes are group-committed in order of the calls; `done` runs on the store thread once this
  /// one and all before it are durable at the configured level. After a failed write: logged,
  /// retried until it works, order kept.
  virtual void write(DefinitionBatch batch, Task done) = 0;
  /// write() and wait. Not from a shard.
  virtual void write_and_wait(DefinitionBatch batch) = 0;
  /// Everything, in key order. For the start; blocks.
  virtual std::vector<std::pair<std::string, std::string>> read_all() = 0;
  virtual std::optional<std::string> read(std::string_view key) = 0;
  /// A queue id never given before, also over a crash. Ids are reserved durably in blocks and ahead
  /// of need; none while all that are reserved are given away (a burst of declarations, or a disk
  /// that takes nothing). Never waits.
  virtual std::optional<QueueId> next_queue_id() = 0;
  /// `then` runs on the store thread once more ids are reserved; somebody else may be first to take
  /// them.
  virtual void when_queue_id(Task then) = 0;
  /// True if the store was new (no definitions were ever written).
  virtual bool created() const = 0;
};

}  // namespace tarry
