#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/definition_store.h"
#include "tarrymq/storage/due_index.h"
#include "tarrymq/storage/store.h"

namespace tarry {

/// What the process keeps in RocksDB: the definitions in `directory`, the due index in `due` below
/// it (FORMAT_ROCKSDB.md). Two instances, since a write-ahead log that failed can only be left by
/// opening anew.
struct RocksStores {
  std::unique_ptr<DefinitionStore> definitions;
  std::unique_ptr<DueStore> due;
  /// All definitions in a few bytes, to be compared at the next start. "": they could not be
  /// written or read. Also when the stores are gone.
  std::function<std::string()> fingerprint;
  /// Makes the definitions as written until now a database in a directory that must not exist yet;
  /// with hard links where the file system has them. On the store thread, or while it waits. "", or
  /// what went wrong.
  std::function<std::string(const std::string& directory)> checkpoint;
};

/// That of a database that nobody has open, read without changing it; else what kept it from being
/// read.
std::string fingerprint_on_disk(const std::string& directory);

/// The name of the folder below the data directory.
inline constexpr const char* kRocksDirectoryName = "definitions-and-index";

/// Opens or creates. `run_on_store_thread`: runs a task later on the one store thread, in the order
/// of the calls; any thread may call it; tasks may block. The due index starts empty (its column
/// family is dropped and made anew). To end: destroy both after the shards have stopped; the
/// definitions are then written by the destructor if their task has not run. Tasks that run later,
/// or never, do no harm. Errors: StoreError::wrong_format, disk_full, locked, or damaged with the
/// details in the log.
Result<RocksStores> open_rocks_stores(const std::string& directory, Durability durability,
                                      std::function<void(Task)> run_on_store_thread);

}  // namespace tarry
