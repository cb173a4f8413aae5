#pragma once

#include <rocksdb/env.h>

#include <memory>

#include "tarrymq/storage/file_system.h"

namespace tarry {

/// RocksDB's files in one of our file systems, so that its writes go through the same seam as the
/// rest: a crash can be put at any of them. `files` must outlive it and every database in it.
std::unique_ptr<rocksdb::Env> make_rocks_env(FileSystem& files);

}  // namespace tarry
