#include "storage/definition_store.h"

#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "storage/record_codec.h"
#include "storage/rocks_stores_db.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

// Keys on disk: FORMAT_ROCKSDB.md "definitions".
constexpr char kDefinitionKind = 'd';
const std::string kFormatKey = "m/format";
const std::string kWrittenKey = "m/written";
const std::string kQueueIdKey = "m/queue-id";
const std::string kFormat = "1";
constexpr int kAttemptsAtTheEnd = 20;

std::string stored_key(std::string_view key) {
  std::string result(1, kDefinitionKind);
  result += key;
  return result;
}

std::string id_value(uint64_t id) {
  std::string value(sizeof id, '\0');
  store_be(reinterpret_cast<std::byte*>(value.data()), id);
  return value;
}

struct PendingWrite {
  DefinitionBatch batch;
  Task done;
};

/// What the store and its tasks share: a task may run after the store is gone.
class DefinitionState : public std::enable_shared_from_this<DefinitionState> {
 public:
  DefinitionState(std::string directory, Durability durability, std::function<void(Task)> run)
      : directory_(std::move(directory)), run_(std::move(run)) {
    write_options_.sync = durability == Durability::fsync;
  }

  boost::system::error_code open();
  rocksdb::Status check_all();
  void enqueue(PendingWrite pending);
  /// On the store thread: writes what is pending as one group.
  void run_group();
  void close();
  std::vector<std::pair<std::string, std::string>> read_all();
  std::optional<std::string> read(std::string_view key);
  std::optional<QueueId> next_queue_id();
  void when_queue_id(Task then);
  bool created() const { return created_; }
  std::string fingerprint();
  std::string checkpoint(const std::string& directory);

 private:
  rocksdb::Status write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch& batch);
  bool write_group();
  void schedule();
  void want_ids();
  void log_failure(const rocksdb::Status& status);
  void pause();

  const std::string directory_;
  const std::function<void(Task)> run_;
  rocksdb::WriteOptions write_options_;
  bool created_ = false;

  std::mutex mutex_;  // guards what follows, but writing_'s use by the one writer
  std::condition_variable stop_;
  bool closed_ = false;
  bool scheduled_ = false;  // a run_group task is out
  bool marked_written_ = false;
  std::deque<PendingWrite> pending_;
  std::deque<PendingWrite>
      writing_;  // changed under the mutex by the one that writes; kept when a write failed
  uint64_t next_id_ = 1;
  uint64_t ids_until_ = 1;   // first id that is not reserved
  bool ids_wanted_ = false;  // the next group reserves a block
  std::vector<Task> id_waiters_;
  std::mutex writer_;  // held while a group is written: the store thread, or close()

  std::mutex db_mutex_;                // guards the next; held while it reads or writes
  std::shared_ptr<RocksDb> db_;        // null after a failed write, until it could be opened anew
  std::atomic<uint64_t> failures_{0};  // in a row; outside of the lock too
};

boost::system::error_code DefinitionState::open() {
  auto opened = open_definitions_db(directory_);
  if (!opened) return opened.error();
  db_ = std::move(*opened);
  std::string value;
  auto get = [&](const std::string& key) { return db_->db->Get({}, key, &value); };
  auto status = get(kFormatKey);
  if (status.ok() && value != kFormat) {
    log_for("storage")->error("the definitions in {} have format {}, this program knows format {}",
                              db_->db->GetName(), value, kFormat);
    return StoreError::wrong_format;
  }
  if (status.IsNotFound()) {
    rocksdb::WriteOptions durable;
    durable.sync = true;
    status = db_->db->Put(durable, kFormatKey, kFormat);
  }
  if (status.ok()) status = get(kWrittenKey);
  created_ = status.IsNotFound();
  marked_written_ = !created_;
  if (status.ok() || status.IsNotFound()) status = get(kQueueIdKey);
  if (status.ok() && value.size() == sizeof(uint64_t)) {
    next_id_ = ids_until_ = load_be<uint64_t>(reinterpret_cast<const std::byte*>(value.data()));
  } else if (status.ok()) {
    status = rocksdb::Status::Corruption("queue id counter");
  }
  if (status.ok() || status.IsNotFound()) status = check_all();
  if (status.ok()) return {};
  log_for("storage")->error("cannot read the definitions in {}: {}", db_->db->GetName(),
                            status.ToString());
  return StoreError::damaged;
}

/// Reads everything once: what is damaged should keep the broker from starting, not be missing
/// later.
rocksdb::Status DefinitionState::check_all() {
  std::unique_ptr<rocksdb::Iterator> it(db_->db->NewIterator({}));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
  }
  return it->status();
}

void DefinitionState::enqueue(PendingWrite pending) {
  std::lock_guard lock(mutex_);
  pending_.push_back(std::move(pending));
  schedule();
}

/// Under the mutex.
void DefinitionState::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  run_([self = shared_from_this()] { self->run_group(); });
}

void DefinitionState::run_group() {
  if (write_group()) return;
  pause();
  std::lock_guard lock(mutex_);
  if (!closed_) schedule();
}

bool DefinitionState::write_group() {
  std::lock_guard writer(writer_);
  rocksdb::WriteBatch batch;
  bool mark = false;
  uint64_t ids_until = 0;
  {
    std::lock_guard lock(mutex_);
    scheduled_ = false;
    if (ids_wanted_) ids_until = ids_until_ + queue_id_block;
    for (auto& one : pending_) writing_.push_back(std::move(one));
    pending_.clear();
    for (const auto& one : writing_) mark = mark || !one.batch.empty();
    mark = mark && !marked_written_;
  }
  for (const auto& one : writing_) {
    for (const auto& key : one.batch.erases) (void)batch.Delete(stored_key(key));
    for (const auto& [key, value] : one.batch.puts) {
      (void)batch.Put(stored_key(key), value);  // memory only: cannot fail
    }
  }
  if (mark) (void)batch.Put(kWrittenKey, "");
  auto options = write_options_;
  if (ids_until > 0) {
    (void)batch.Put(kQueueIdKey, id_value(ids_until));
    // At every durability level: an id given twice after a power cut would mix two queues' files.
    options.sync = true;
  }
  if (batch.Count() > 0) {
    auto status = write(options, batch);
    if (!status.ok()) {
      log_failure(status);
      return false;
    }
  }
  std::deque<PendingWrite> written;
  std::vector<Task> have_ids;
  {
    std::lock_guard lock(mutex_);
    marked_written_ = marked_written_ || mark;
    written.swap(writing_);
    if (ids_until > 0) {
      ids_until_ = ids_until;
      ids_wanted_ = false;
      have_ids.swap(id_waiters_);
    }
  }
  for (auto& one : written) {
    if (one.done) one.done();
  }
  for (auto& then : have_ids) then();
  return true;
}

/// After a failed write nothing is known about the log's end, and RocksDB goes on with that file or
/// gives up for good (and aborts the process where it is built with its assertions): it is closed,
/// and opened anew, which begins a new log. What was written before is replayed; the batch that
/// failed may be there too, which does no harm, as it comes again.
rocksdb::Status DefinitionState::write(const rocksdb::WriteOptions& options,
                                       rocksdb::WriteBatch& batch) {
  std::lock_guard lock(db_mutex_);
  if (!db_) {
    auto opened = open_definitions_db(directory_);
    if (!opened)
      return rocksdb::Status::IOError("cannot be opened again", opened.error().message());
    db_ = std::move(*opened);
  }
  auto status = db_->db->Write(options, &batch);
  if (!status.ok()) {
    db_.reset();
  } else if (failures_ > 0) {
    failures_ = 0;
    log_for("storage")->warn("definitions are written again");
  }
  return status;
}

void DefinitionState::log_failure(const rocksdb::Status& status) {
  constexpr uint64_t kSayAgain = 200;  // attempts: some ten seconds
  if (failures_++ % kSayAgain != 0) return;
  log_for("storage")->error("writing definitions failed and is tried again: {}", status.ToString());
}

std::string DefinitionState::fingerprint() {
  std::lock_guard lock(db_mutex_);
  std::lock_guard pending_lock(mutex_);
  return db_ && pending_.empty() && writing_.empty() ? definitions_fingerprint(*db_->db) : "";
}

std::string DefinitionState::checkpoint(const std::string& directory) {
  std::lock_guard lock(db_mutex_);
  if (!db_) return "the definitions cannot be written at the moment";
  rocksdb::Checkpoint* made = nullptr;
  auto status = rocksdb::Checkpoint::Create(db_->db.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  // The log goes along as it is: no flush, for which everybody would wait.
  if (status.ok()) status = checkpoint->CreateCheckpoint(directory, UINT64_MAX);
  return status.ok() ? "" : "the definitions: " + status.ToString();
}

void DefinitionState::pause() {
  std::unique_lock lock(mutex_);
  stop_.wait_for(lock, definition_retry_pause, [this] { return closed_; });
}

void DefinitionState::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  stop_.notify_all();
  for (int attempt = 0; attempt < kAttemptsAtTheEnd; ++attempt) {
    if (write_group()) {
      // Out of the log, the tail of which no checksum protects: a start could not tell damage from
      // a crash.
      std::lock_guard lock(db_mutex_);
      const auto status = db_ ? db_->db->Flush({}) : rocksdb::Status();
      if (!status.ok()) log_failure(status);
      return;
    }
    std::unique_lock lock(mutex_);
    stop_.wait_for(lock, definition_retry_pause, [] { return false; });
  }
  std::lock_guard lock(mutex_);
  log_for("storage")->critical("{} changes of definitions could not be written and are lost",
                               writing_.size());
}

std::vector<std::pair<std::string, std::string>> DefinitionState::read_all() {
  std::vector<std::pair<std::string, std::string>> all;
  std::lock_guard lock(db_mutex_);
  if (!db_) return all;  // it is for the start, when nothing was written yet
  std::unique_ptr<rocksdb::Iterator> it(db_->db->NewIterator({}));
  for (it->Seek(std::string(1, kDefinitionKind)); it->Valid(); it->Next()) {
    const auto key = it->key().ToStringView();
    if (key.front() != kDefinitionKind) break;
    all.emplace_back(key.substr(1), it->value().ToStringView());
  }
  if (!it->status().ok()) {
    log_for("storage")->critical("the definitions in {} are damaged: {}", db_->db->GetName(),
                                 it->status().ToString());
  }
  return all;
}

std::optional<std::string> DefinitionState::read(std::string_view key) {
  {
    // What was written but is not durable yet, latest first.
    std::lock_guard lock(mutex_);
    for (auto* list : {&pending_, &writing_}) {
      for (auto one = list->rbegin(); one != list->rend(); ++one) {
        const auto& puts = one->batch.puts;
        for (auto put = puts.rbegin(); put != puts.rend(); ++put) {
          if (put->first == key) return put->second;
        }
        for (const auto& erased : one->batch.erases) {
          if (erased == key) return std::nullopt;
        }
      }
    }
  }
  std::string value;
  std::lock_guard lock(db_mutex_);
  const auto status =
      db_ ? db_->db->Get({}, stored_key(key), &value) : rocksdb::Status::IOError("a write failed");
  if (status.ok()) return value;
  if (!status.IsNotFound())
    log_for("storage")->error("reading a definition: {}", status.ToString());
  return std::nullopt;
}

/// Under the mutex.
void DefinitionState::want_ids() {
  if (ids_wanted_) return;
  ids_wanted_ = true;
  schedule();
}

std::optional<QueueId> DefinitionState::next_queue_id() {
  std::lock_guard lock(mutex_);
  if (ids_until_ - next_id_ <= queue_id_block / 2) want_ids();
  if (next_id_ == ids_until_) return std::nullopt;
  return QueueId(next_id_++);
}

void DefinitionState::when_queue_id(Task then) {
  std::lock_guard lock(mutex_);
  if (next_id_ < ids_until_) {  // they have come meanwhile
    run_(std::move(then));
    return;
  }
  id_waiters_.push_back(std::move(then));
  want_ids();
}

class RocksDefinitionStore final : public DefinitionStore {
 public:
  explicit RocksDefinitionStore(std::shared_ptr<DefinitionState> state)
      : state_(std::move(state)) {}
  ~RocksDefinitionStore() override { state_->close(); }

  void write(DefinitionBatch batch, Task done) override {
    state_->enqueue({std::move(batch), std::move(done)});
  }

  void write_and_wait(DefinitionBatch batch) override {
    struct Signal {
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
    };
    auto signal = std::make_shared<Signal>();
    write(std::move(batch), [signal] {
      std::lock_guard lock(signal->mutex);
      signal->done = true;
      signal->changed.notify_all();
    });
    std::unique_lock lock(signal->mutex);
    signal->changed.wait(lock, [&] { return signal->done; });
  }

  std::vector<std::pair<std::string, std::string>> read_all() override {
    return state_->read_all();
  }
  std::optional<std::string> read(std::string_view key) override { return state_->read(key); }
  std::optional<QueueId> next_queue_id() override { return state_->next_queue_id(); }
  void when_queue_id(Task then) override { state_->when_queue_id(std::move(then)); }
  bool created() const override { return state_->created(); }

 private:
  const std::shared_ptr<DefinitionState> state_;
};

}  // namespace

std::string definitions_fingerprint(rocksdb::DB& db) {
  uint64_t count = 0;
  uint32_t sum = 0;
  const auto add = [&sum](const rocksdb::Slice& bytes) {
    std::byte length[4];
    store_le<uint32_t>(length, static_cast<uint32_t>(bytes.size()));
    sum = checksum(length, sizeof length, sum);
    sum = checksum(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), sum);
  };
  std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++count) {
    add(it->key());
    add(it->value());
  }
  if (!it->status().ok()) return "unreadable: " + it->status().ToString();
  return std::to_string(count) + "-" + std::to_string(sum);
}

Result<std::unique_ptr<DefinitionStore>> open_definition_store(
    const std::string& directory, Durability durability,
    std::function<void(Task)> run_on_store_thread, RocksStores& others) {
  auto state =
      std::make_shared<DefinitionState>(directory, durability, std::move(run_on_store_thread));
  if (auto error = state->open()) return error;
  others.fingerprint = [state] { return state->fingerprint(); };
  others.checkpoint = [state](const std::string& to) { return state->checkpoint(to); };
  return std::unique_ptr<DefinitionStore>(std::make_unique<RocksDefinitionStore>(std::move(state)));
}

}  // namespace tarry
