#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "storage/rocks_stores.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/storage/definition_store.h"
#include "tarrymq/storage/store.h"

namespace tarry {

/// How many queue ids one durable write reserves; the next are reserved when half of them are left,
/// so that on a full disk there are some for queues that need no disk. A restart skips at most this
/// many. Tests shorten it.
inline uint64_t queue_id_block = 10'000;

/// After a failed write; tests shorten it. Not while a store is open.
inline std::chrono::milliseconds definition_retry_pause{50};

/// The definitions in the given database; sets `others.fingerprint` and `.checkpoint`.
/// Errors: StoreError::wrong_format, or what reading it said.
Result<std::unique_ptr<DefinitionStore>> open_definition_store(
    const std::string& directory, Durability durability,
    std::function<void(Task)> run_on_store_thread, RocksStores& others);

}  // namespace tarry
