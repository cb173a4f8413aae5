#include "storage/rocks_stores.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/env.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/write_buffer_manager.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "storage/definition_store.h"
#include "storage/due_store.h"
#include "storage/inspect.h"
#include "storage/rocks_stores_db.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
const std::string kDueDirectory = "/due";
rocksdb::Env* rocks_env = nullptr;  // set by tests
// Versions before 1.0 kept the due index as a family beside the definitions.
const std::string kFormerDueFamily = "due";

/// What RocksDB has to say at warning or above goes where the rest does. Not to its own file beside
/// the data: where it is built with its assertions, a line that cannot be written to a full disk
/// ends the process.
class RocksLogger final : public rocksdb::Logger {
 public:
  RocksLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    log_for("storage")->debug("RocksDB: {}", line);
  }
  size_t GetLogFileSize() const override { return 0; }
};

/// Whether the file system takes O_DIRECT; some in memory do not.
bool takes_direct_io(const std::string& directory) {
  const std::string probe = directory + "/direct-io-probe";
  const int fd = ::open(probe.c_str(), O_CREAT | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  ::unlink(probe.c_str());
  return fd >= 0;
}

// Values: design-notes 6. Background work stays below the shards, and memory is bounded whatever is
// stored.
rocksdb::DBOptions database_options(const std::string& directory) {
  rocksdb::DBOptions options;
  if (rocks_env) options.env = rocks_env;
  options.create_if_missing = true;
  options.max_background_jobs = 2;
  // Compaction below the shards. Flushes not: starved of processor time, they would keep writes and
  // memory waiting.
  options.env->LowerThreadPoolCPUPriority(rocksdb::Env::Priority::LOW, rocksdb::CpuPriority::kLow);
  options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(64 * kMiB));
  options.max_open_files = 128;
  options.max_total_wal_size = 16 * kMiB;
  options.bytes_per_sync = kMiB;
  options.use_direct_io_for_flush_and_compaction = !rocks_env && takes_direct_io(directory);
  options.info_log = std::make_shared<RocksLogger>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  // What is due is derived; the definitions are flushed by their store.
  options.avoid_flush_during_shutdown = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  return options;
}

rocksdb::ColumnFamilyOptions family_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.block_size = 16 * kKiB;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.level_compaction_dynamic_level_bytes = true;
  options.compression = rocksdb::kLZ4Compression;
  return options;
}

rocksdb::ColumnFamilyOptions definition_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  auto options = family_options(cache);
  options.write_buffer_size = 2 * kMiB;
  options.max_write_buffer_number = 2;
  return options;
}

rocksdb::ColumnFamilyOptions due_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  auto options = family_options(cache);
  options.write_buffer_size = 16 * kMiB;
  options.max_write_buffer_number = 4;
  options.level0_file_num_compaction_trigger = 4;
  options.level0_slowdown_writes_trigger = 40;
  options.level0_stop_writes_trigger = 60;
  options.target_file_size_base = 32 * kMiB;
  // No memtable_insert_with_hint_prefix_extractor: RocksDB 7.8 keeps one hint for the entries and
  // the range deletions of a prefix, which lie in two skip lists, and corrupts both.
  // RangeDeletionsAmidPutsKeepTheTableWhole shows it.
  options.table_properties_collector_factories = {
      rocksdb::NewCompactOnDeletionCollectorFactory(16384, 8192)};
  return options;
}

boost::system::error_code error_of(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return StoreError::disk_full;
  // "While open a file for lock" is another trouble than a lock that is held.
  const std::string text = status.ToString();
  if (status.IsIOError() && text.find("lock") != std::string::npos &&
      text.find("for lock") == std::string::npos) {
    return StoreError::locked;
  }
  return StoreError::damaged;
}

Result<std::shared_ptr<RocksDb>> failed(const std::string& directory,
                                        const rocksdb::Status& status) {
  log_for("storage")->error("cannot open the database in {}: {}", directory, status.ToString());
  return error_of(status);
}

rocksdb::Status drop_former_due_family(const rocksdb::DBOptions& options,
                                       const std::string& directory) {
  std::vector<std::string> names;
  const auto listed = rocksdb::DB::ListColumnFamilies(options, directory, &names);
  if (!listed.ok() || std::find(names.begin(), names.end(), kFormerDueFamily) == names.end())
    return {};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  auto status = rocksdb::DB::Open(options, directory,
                                  {{rocksdb::kDefaultColumnFamilyName, {}}, {kFormerDueFamily, {}}},
                                  &handles, &opened);
  if (!status.ok()) return status;
  std::unique_ptr<rocksdb::DB> db(opened);
  status = db->DropColumnFamily(handles[1]);
  for (auto* handle : handles)
    (void)db->DestroyColumnFamilyHandle(handle);  // only frees the handle
  return status;
}

Result<std::shared_ptr<RocksDb>> open_database(const rocksdb::Options& options,
                                               const std::string& directory) {
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::Open(options, directory, &opened);
  if (!status.ok()) return failed(directory, status);
  auto result = std::make_shared<RocksDb>();
  result->db.reset(opened);
  return result;
}

}  // namespace

void set_rocks_env(rocksdb::Env* env) { rocks_env = env; }

RocksDb::~RocksDb() {
  if (!db) return;
  const auto status = db->Close();
  if (!status.ok()) log_for("storage")->warn("closing {}: {}", db->GetName(), status.ToString());
}

Result<std::shared_ptr<RocksDb>> open_definitions_db(const std::string& directory) {
  std::error_code ec;
  if (!rocks_env) std::filesystem::create_directories(directory, ec);
  if (ec) return failed(directory, rocksdb::Status::IOError(ec.message()));
  const auto database = database_options(directory);
  if (auto status = drop_former_due_family(database, directory); !status.ok())
    return failed(directory, status);
  auto opened =
      open_database({database, definition_options(rocksdb::NewLRUCache(8 * kMiB))}, directory);
  if (!opened) return opened;
  // RocksDB makes its files' names durable, but not its directory's.
  std::unique_ptr<rocksdb::Directory> above;
  auto status = database.env->NewDirectory(directory.substr(0, directory.rfind('/')), &above);
  if (status.ok()) status = above->Fsync();
  if (!status.ok()) return failed(directory, status);
  return opened;
}

Result<std::shared_ptr<RocksDb>> open_due_db(const std::string& directory) {
  // What a former run left is of no use: the owners add everything anew.
  std::error_code ec;
  std::filesystem::remove_all(directory, ec);
  if (!ec) std::filesystem::create_directories(directory, ec);
  if (ec) return failed(directory, rocksdb::Status::IOError(ec.message()));
  auto database = database_options(directory);
  database.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(72 * kMiB);
  return open_database({database, due_options(rocksdb::NewLRUCache(32 * kMiB))}, directory);
}

std::string fingerprint_on_disk(const std::string& directory) {
  rocksdb::Options options;
  options.info_log = std::make_shared<RocksLogger>();
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::OpenForReadOnly(options, directory, &opened);
  if (!status.ok()) return status.ToString();
  const std::unique_ptr<rocksdb::DB> db(opened);
  return definitions_fingerprint(*db);
}

std::vector<std::pair<std::string, std::string>> inspect_definitions(const std::string& data_dir,
                                                                     std::string& error) {
  std::vector<std::pair<std::string, std::string>> all;
  const std::string directory = data_dir + "/" + kRocksDirectoryName;
  rocksdb::Options options;
  options.info_log = std::make_shared<RocksLogger>();
  rocksdb::DB* opened = nullptr;
  auto status = rocksdb::DB::OpenForReadOnly(options, directory, &opened);
  if (!status.ok()) {
    error = directory + ": " + status.ToString();
    return all;
  }
  const std::unique_ptr<rocksdb::DB> db(opened);
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
  for (it->Seek("d"); it->Valid() && it->key().starts_with("d"); it->Next()) {  // FORMAT_ROCKSDB.md
    all.emplace_back(it->key().ToString().substr(1), it->value().ToString());
  }
  if (!it->status().ok()) error = directory + ": " + it->status().ToString();
  return all;
}

Result<RocksStores> open_rocks_stores(const std::string& directory, Durability durability,
                                      std::function<void(Task)> run_on_store_thread) {
  RocksStores stores;
  auto definitions = open_definition_store(directory, durability, run_on_store_thread, stores);
  if (!definitions) return definitions.error();
  auto due = open_due_db(directory + kDueDirectory);
  if (!due) return due.error();
  stores.definitions = std::move(*definitions);
  stores.due =
      make_due_store(make_rocks_due_table(std::move(*due)), std::move(run_on_store_thread));
  return stores;
}

}  // namespace tarry
