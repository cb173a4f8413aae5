#include "tarrymq/storage/store.h"

#include <cstdio>
#include <cstdlib>
#include <future>

#include "storage/rocks_check.h"
#include "storage/rocks_stores.h"
#include "storage/store_impl.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {

StoreThread::StoreThread(bool manual) {
  if (!manual) thread_ = std::thread([this] { thread_main(); });
}

void StoreThread::run(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void StoreThread::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    run_queued();
  }
}

void StoreThread::wait() {
  if (!thread_.joinable()) {
    run_queued();
    return;
  }
  std::promise<void> reached;
  // cppcheck-suppress danglingLifetime  // it has run when the wait ends
  run([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

bool StoreThread::run_queued() {
  std::vector<Task> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(queue_);
  }
  for (Task& task : tasks) task();
  return !tasks.empty();
}

void StoreThread::thread_main() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
    }
    run_queued();
  }
}

namespace {

constexpr char kTransient[] = "/transient";
constexpr char kSpare[] = "/spare";

}  // namespace

Store::Impl::Impl(StoreOptions o, FileSystem& f, bool is_manual)
    : options(std::move(o)), files(f), manual(is_manual), store_thread(is_manual) {
  pool = std::make_shared<SegmentPool>(files, options.data_dir + kSpare, segment_bytes_max,
                                       [this](Task task) { store_thread.run(std::move(task)); });
  Barrier::Options barrier_options;
  barrier_options.pool = pool;
  barrier_options.data_dir = options.data_dir;
  barrier_options.durability = options.durability;
  barrier_options.disk_free_min_bytes = options.disk_free_min_bytes;
  barrier_options.manual = manual;
  barrier = std::make_unique<Barrier>(files, barrier_options);
}

namespace {

void remove_tree(FileSystem& files, const std::string& path) {
  auto entries = files.list(path);
  if (!entries) return;
  for (const DirectoryEntry& entry : *entries) {
    std::string child = path + "/" + entry.name;
    if (entry.directory) {
      remove_tree(files, child);
    } else if (FileError error = files.unlink(child)) {
      log_for("storage")->warn("could not unlink {}: {}", child, error.message());
    }
  }
  if (FileError error = files.remove_directory(path)) {
    log_for("storage")->warn("could not remove {}: {}; the next start tries again", path,
                             error.message());
  }
}

FileError make_directory(FileSystem& files, const std::string& path) {
  FileError error = files.make_directory(path);
  if (error == boost::system::errc::file_exists) return {};
  if (error) return error;
  size_t slash = path.rfind('/');
  return files.sync_directory(slash == std::string::npos ? "."
                              : slash == 0               ? "/"
                                                         : path.substr(0, slash));
}

/// `why`: what of it cannot be had, where that is not the directory itself.
Result<std::unique_ptr<FileLock>> take_directory(const StoreOptions& options, FileSystem& files,
                                                 std::string* why) {
  const auto failed = [&](const char* name, FileError error) {
    if (why) *why = options.data_dir + name + ": " + error.message();
    return error;
  };
  // Missing folders above it are made too; only the last ones are synced one by one.
  for (size_t slash = options.data_dir.find('/', 1); slash != std::string::npos;
       slash = options.data_dir.find('/', slash + 1)) {
    if (FileError error = make_directory(files, options.data_dir.substr(0, slash))) return error;
  }
  if (FileError error = make_directory(files, options.data_dir)) return error;
  auto lock = files.lock(options.data_dir + "/lock");
  if (!lock && lock.error() == boost::system::errc::resource_unavailable_try_again) {
    return make_error_code(StoreError::locked);
  }
  if (!lock) return failed("/lock", lock.error());
  if (FileError error = make_directory(files, options.data_dir + "/queues"))
    return failed("/queues", error);
  // What a crashed process left in the kernel alone is made durable before anything is built on it.
  auto probe = files.open(options.data_dir + "/lock", FileSystem::Open::write);
  if (!probe) return probe.error();
  if (FileError error = (*probe)->sync_file_system()) return error;
  return lock;
}

}  // namespace

Store::Store() = default;

Result<std::unique_ptr<Store>> open_manual_store(StoreOptions options, FileSystem& files) {
  auto lock = take_directory(options, files, nullptr);
  if (!lock) return lock.error();
  return Store::open_parts(std::move(options), files, std::move(*lock), true, nullptr);
}

Result<std::unique_ptr<Store>> Store::open(StoreOptions options, FileSystem& files,
                                           std::string* why) {
  auto lock = take_directory(options, files, why);
  if (!lock) return lock.error();
  return open_parts(std::move(options), files, std::move(*lock), false, why);
}

namespace {

/// What only a look at the rest of the directory shows. Empty: nothing.
std::string wrong_with_definitions(Store::Impl& impl) {
  if (&impl.files != &posix_file_system()) return {};  // what looks reads the machine's own disk
  const std::string& data_dir = impl.options.data_dir;
  const std::string directory = data_dir + "/" + kRocksDirectoryName;
  const auto listed = impl.files.list(directory);
  if (!listed && listed.error() != boost::system::errc::no_such_file_or_directory)
    return directory + " cannot be read: " + listed.error().message();
  if (!holds_a_database(directory)) {
    auto queues = impl.files.list(data_dir + "/queues");
    const bool used = (queues && !queues->empty()) ||
                      impl.files.open(data_dir + "/clock", FileSystem::Open::read);
    if (!used) return {};
    return directory +
           " holds no definitions, though this data directory was in use: refusing to start as an "
           "empty "
           "broker over data";
  }
  if (std::string found = find_silent_damage(directory); !found.empty())
    return "the definitions are damaged: " + found;
  const std::string& before = impl.inventory.definitions();
  if (before.empty()) return {};
  const std::string now = fingerprint_on_disk(directory);
  if (now == before) return {};
  return "the definitions in " + directory + " are not what they were at the last stop (" + before +
         "): " + now;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open_parts(StoreOptions options, FileSystem& files,
                                                 std::unique_ptr<FileLock> lock, bool manual,
                                                 std::string* why) {
  std::unique_ptr<Store> store(new Store);
  // Nothing in it outlives a process. Before the barrier looks at what is free.
  remove_tree(files, options.data_dir + kTransient);
  remove_tree(files, options.data_dir + kSpare);
  remove_tree(files, options.data_dir + "/" + kBackupLinksName);
  store->impl_ = std::make_unique<Impl>(std::move(options), files, manual);
  Impl& impl = *store->impl_;
  impl.lock = std::move(lock);
  impl.inventory = Inventory::read(files, impl.options.data_dir);
  if (manual) {
    if (FileError error = Inventory::remove(files, impl.options.data_dir)) return error;
    return store;
  }
  if (std::string wrong = wrong_with_definitions(impl); !wrong.empty()) {
    if (why)
      *why = std::move(wrong);
    else
      log_for("storage")->error("{}", wrong);
    return make_error_code(StoreError::damaged);
  }
  auto rocks =
      open_rocks_stores(impl.options.data_dir + "/" + kRocksDirectoryName, impl.options.durability,
                        [&impl](Task task) { impl.store_thread.run(std::move(task)); });
  if (!rocks) {
    if (why && rocks.error() == make_error_code(StoreError::wrong_format)) {
      *why =
          "its definitions are of the format of another version of TarryMQ (the log says which); "
          "start that one";
    }
    return rocks.error();
  }
  if (FileError error = Inventory::remove(files, impl.options.data_dir)) return error;
  impl.definitions = std::move(rocks->definitions);
  impl.due = std::move(rocks->due);
  impl.fingerprint = std::move(rocks->fingerprint);
  impl.checkpoint = std::move(rocks->checkpoint);
  return store;
}

Store::~Store() {
  if (!impl_) return;
  bool clean = impl_->barrier->finish();
  impl_->barrier.reset();
  impl_->store_thread.stop();
  impl_->pool->set_off(true);
  // The inventory says where each file ends; else a start looks for it.
  if (FileError error = clean ? impl_->pool->trim_all() : FileError{}) {
    log_for("storage")->warn("could not cut a segment at its end: {}", error.message());
    clean = false;
  }
  impl_->definitions.reset();  // writes what is left
  const std::string definitions = impl_->fingerprint ? impl_->fingerprint() : "";
  impl_->due.reset();
  if (!clean) return;
  if (FileError error = Inventory::write(impl_->files, impl_->options.data_dir, definitions)) {
    log_for("storage")->warn("could not write the inventory: {}; the next start does without",
                             error.message());
  }
}

const StoreOptions& Store::options() const { return impl_->options; }
FileSystem& Store::files() { return impl_->files; }
DefinitionStore& Store::definitions() { return *impl_->definitions; }
DueStore& Store::due() { return *impl_->due; }

namespace {

std::string hex_name(QueueId id) {
  char name[20];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(id.value));
  return name;
}

}  // namespace

std::string Store::queue_directory(QueueId id) const {
  return impl_->options.data_dir + "/queues/" + hex_name(id);
}

std::string Store::transient_directory(QueueId id) const {
  return impl_->options.data_dir + kTransient + "/" + hex_name(id);
}

std::vector<std::string> Store::unopened_logs() {
  std::lock_guard lock(impl_->unopened_mutex);
  return impl_->unopened;
}

std::vector<QueueId> Store::queue_directories() {
  std::vector<QueueId> ids;
  auto entries = impl_->files.list(impl_->options.data_dir + "/queues");
  if (!entries) return ids;
  for (const DirectoryEntry& entry : *entries) {
    char* end = nullptr;
    uint64_t id = std::strtoull(entry.name.c_str(), &end, 16);
    if (entry.directory && entry.name.size() == 16 && end && !*end) ids.push_back(QueueId{id});
  }
  return ids;
}

void Store::remove_queue_directory(QueueId id) {
  // First through the barrier: what was handed over before may still be on its way to these files,
  // and a write that finds its directory gone would pass for a disk that fails. Refused at the end
  // of the process: the tombstone makes the next start do it.
  (void)impl_->barrier->run(
      [impl = impl_.get(), path = queue_directory(id), transient = transient_directory(id)] {
        impl->barrier->give_up(path);
        impl->barrier->give_up(transient);
        impl->pool->forget_below(path);
        impl->pool->forget_below(transient);
        impl->store_thread.run([impl, path, transient] {
          remove_tree(impl->files, path);
          remove_tree(impl->files, transient);
        });
      });
}

void Store::on_store_thread(Task work) { impl_->store_thread.run(std::move(work)); }
bool Store::disk_alarm() const { return impl_->barrier->disk_alarm(); }
bool Store::refuses_appends() const { return impl_->barrier->refuses_appends(); }
void Store::on_disk_alarm(std::function<void(bool, const std::string&)> listener) {
  impl_->barrier->on_disk_alarm(std::move(listener));
}

}  // namespace tarry
