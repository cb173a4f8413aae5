#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <string>

#include "tarrymq/runtime/result.h"

namespace tarry {

/// A RocksDB instance with one column family. Any thread, as RocksDB itself. Held by its store and
/// by the tasks that this has under way; closed with the last holder.
struct RocksDb {
  RocksDb() = default;
  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  rocksdb::ColumnFamilyHandle* family() const { return db->DefaultColumnFamily(); }

  std::unique_ptr<rocksdb::DB> db;
};

/// The definitions' database. Opens or creates. Errors as open_rocks_stores.
Result<std::shared_ptr<RocksDb>> open_definitions_db(const std::string& directory);
/// The due index's: what is in the directory goes, it starts empty. Errors as open_rocks_stores.
Result<std::shared_ptr<RocksDb>> open_due_db(const std::string& directory);

/// For tests: where RocksDB's files are from now on; null: on the machine's file system. Not while
/// a database is open.
void set_rocks_env(rocksdb::Env* env);

/// How many definitions there are and a checksum over them; begins with "unreadable" if they cannot
/// be read.
std::string definitions_fingerprint(rocksdb::DB& db);

}  // namespace tarry
