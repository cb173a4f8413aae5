#include "storage/barrier.h"

#include <algorithm>
#include <utility>

#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLazySync{120};  // with the shard's 20 ms and a round: within 200 ms
constexpr milliseconds kRetryPause{100};
constexpr milliseconds kSpaceCheck{1000};
constexpr uint64_t kChecksATrim = 10;
constexpr uint64_t kSyncedForPoolMax = 1u << 20;
constexpr milliseconds kDetachPatience{5000};
constexpr size_t kOpenFilesMax = 512;
constexpr size_t kSyncFilesMax = 32;  // above: one syncfs

bool missing(const FileError& error) {
  return error == boost::system::errc::no_such_file_or_directory;
}
bool no_room(const FileError& error) {
  return error == boost::system::errc::no_space_on_device || error.value() == EDQUOT ||
         error == boost::system::errc::too_many_files_open;
}

}  // namespace

Barrier::Barrier(FileSystem& files, Options options)
    : files_(files),
      options_(std::move(options)),
      open_files_(std::make_shared<OpenFiles>(kOpenFilesMax)) {
  check_free_space();  // known at the start; from here on it is the thread's to look
  if (!options_.manual) thread_ = std::thread([this] { thread_main(); });
}

Barrier::~Barrier() { (void)finish(); }

bool Barrier::finish() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    run_round(true);
  }
  return !lost_;
}

void Barrier::attach(BarrierLink& link) {
  std::lock_guard lock(mutex_);
  links_.push_back(&link);
}

void Barrier::submit(BarrierLink& link, std::unique_ptr<Submission> submission) {
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back({&link, std::move(submission), {}});
  }
  wake_.notify_one();
}

bool Barrier::run(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    inbox_.push_back({nullptr, nullptr, std::move(task)});
  }
  wake_.notify_one();
  return true;
}

void Barrier::detach(BarrierLink& link) {
  if (options_.manual) {
    run_round(true);
  } else {
    auto flush = std::make_unique<Submission>();
    flush->sync = flush->durable = true;
    submit(link, std::move(flush));
  }
  std::unique_lock lock(mutex_);
  auto idle = [&] {
    if (in_round_) return false;
    for (auto& item : inbox_) {
      if (item.link == &link) return false;
    }
    return link.outstanding.empty();
  };
  if (!options_.manual && !round_over_.wait_for(lock, kDetachPatience, idle)) {
    log_for("storage")->error(
        "stopping while the disk fails ({}): what was not confirmed may be lost", failure_);
  }
  round_over_.wait(lock, [&] { return !in_round_; });
  std::erase_if(inbox_, [&](const Incoming& item) { return item.link == &link; });
  std::erase(links_, &link);
  lost_ |= !link.outstanding.empty() || link.failing;
  for (auto* list : {&link.unwritten, &link.unsynced}) {
    for (auto& files : *list) files->drop();
  }
  link.outstanding.clear();
}

void Barrier::on_disk_alarm(std::function<void(bool, const std::string&)> listener) {
  std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

bool Barrier::wait_for_work() {
  std::unique_lock lock(mutex_);
  bool lazy = std::any_of(links_.begin(), links_.end(),
                          [](const BarrierLink* l) { return l->anything_unsynced || l->failing; });
  milliseconds wait = lazy ? milliseconds(50) : kSpaceCheck;
  wake_.wait_for(lock, wait, [&] { return stopping_ || !inbox_.empty(); });
  return !stopping_;
}

void Barrier::thread_main() {
  while (wait_for_work()) {
    auto now = steady_clock::now();
    if (now >= next_space_check_) {
      next_space_check_ = now + kSpaceCheck;
      check_free_space();
      open_files_->sweep();
      if (++space_checks_ % kChecksATrim == 0) options_.pool->trim_idle();
    }
    run_round(false);
  }
  run_round(true);
}

void Barrier::check_free_space() {
  auto free = files_.free_bytes(options_.data_dir);
  // What is kept for later must not be what is missing.
  const bool scarce = any_failing_ || (free && *free < options_.disk_free_min_bytes +
                                                           options_.pool->bytes_kept_max());
  options_.pool->set_off(scarce);
  if (scarce) free = files_.free_bytes(options_.data_dir);
  if (free) free_bytes_ = *free;
  low_space_ = free && *free < options_.disk_free_min_bytes;
  no_space_ = free && *free < (options_.disk_free_min_bytes + 1) / 2;
  update_alarm();
}

void Barrier::update_alarm() {
  bool on = low_space_ || any_failing_;
  std::string why = "there is room again";
  if (any_failing_) {
    why = failure_;
  } else if (on) {
    why = std::to_string(free_bytes_) + " bytes are free on the disk of " + options_.data_dir +
          ", disk_free_min_bytes is " + std::to_string(options_.disk_free_min_bytes);
  }
  // Publishers stop at the first mark. What was under way then, dead letters and retries go on
  // below it: to refuse those while there is room would lose them.
  bool refuses = no_space_ || any_failing_;
  if (refuses_.exchange(refuses) != refuses && refuses) {
    log_for("storage")->error("appends are refused until there is room: {}", why);
  }
  if (alarm_.exchange(on) == on) return;
  if (on) {
    log_for("storage")->error("disk alarm: {}", why);
  } else {
    log_for("storage")->warn("disk alarm is over: {}", why);
  }
  std::function<void(bool, const std::string&)> listener;
  {
    std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (listener) listener(on, why);
}

void Barrier::apply(BarrierLink& link, Submission& submission) {
  for (BarrierCall& call : submission.calls) {
    SegmentFiles& files = *call.files;
    switch (call.kind) {
      case BarrierCall::Kind::records:
        call.final_end = files.add_records(call.offset, call.bytes, call.elided);
        break;
      case BarrierCall::Kind::dead:
        files.add_dead(call.offset, call.dead_bytes, call.ordinals);
        break;
      case BarrierCall::Kind::events:
        files.add_events(*call.events);
        break;
      case BarrierCall::Kind::seal:
        files.seal(call.offset);
        break;
      case BarrierCall::Kind::remove:
        remove(link, call.files, call.recycle);
        break;
    }
    bool unwritten = files.records().unwritten() || files.acks().unwritten();
    if (unwritten && !files.listed_unwritten) {
      files.listed_unwritten = true;
      link.unwritten.push_back(call.files);
    }
  }
  link.sync_wanted |= submission.sync;
}

/// The ack log gets another name, so that a start knows that the segment did not vanish by itself.
/// Then the segment's file goes; the ack log, without which everything in it would be back, only
/// when that is durable (design-notes 3, "segment empty").
///
/// Who settled the last of it waits until the directory says so durably: by the ack log's name, or,
/// where there is no ack log, by the removal alone, which is tried until it succeeds.
void Barrier::remove(BarrierLink& link, const std::shared_ptr<SegmentFiles>& files,
                     bool may_recycle) {
  // To make a file ready for its next life is to sync it: not what is gone before it was written.
  may_recycle = may_recycle && files->records().unsynced_bytes() <= kSyncedForPoolMax;
  files->drop();
  if (!files->records().on_disk() && !files->acks().on_disk()) return;
  const bool has_acks = files->acks().on_disk();
  FileError error = has_acks ? files->acks().retire() : FileError{};
  const bool marked = has_acks && !error;
  if (!error && may_recycle) files->in_pool = files->records().give_to_pool();
  if (!error) error = files->records().unlink_all();
  if (!marked && error) {
    failed(link, files->directory(), "unlink a segment in", error);
    link.removed.push_back(files);  // run_round() tries again; nothing is synced before
    return;
  }
  if (error) {
    log_for("storage")->warn("could not unlink a segment in {}: {}; the next start tries again",
                             files->directory(), error.message());
  } else {
    link.removed.push_back(files);
  }
  link.directories.insert(files->directory());
  if (!link.anything_unsynced) link.unsynced_since = steady_clock::now();
  link.anything_unsynced = true;
}

void Barrier::give_up(const std::string& directory) {
  std::vector<BarrierLink*> links;
  {
    std::lock_guard lock(mutex_);
    links = links_;
  }
  for (BarrierLink* link : links) {
    for (auto* list : {&link->unwritten, &link->unsynced}) {
      for (auto& files : *list) {
        if (files->directory().starts_with(directory + "/")) files->drop();
      }
    }
  }
}

FileError Barrier::make_directories(BarrierLink& link, const std::string& directory) {
  if (link.created_in.contains(directory)) return {};
  for (size_t slash = options_.data_dir.size(); slash != std::string::npos;) {
    slash = directory.find('/', slash + 1);
    std::string path = directory.substr(0, slash);
    FileError error = files_.make_directory(path);
    if (error && error != boost::system::errc::file_exists) return error;
    if (!error) link.directories.insert(path.substr(0, path.rfind('/')));
  }
  constexpr size_t kRemembered = 10'000;
  if (link.created_in.size() > kRemembered) link.created_in.clear();
  link.created_in.insert(directory);
  return {};
}

FileError Barrier::write_stream(BarrierLink& link, SegmentFiles& files, LogStream& stream) {
  bool created = false;
  FileError error = stream.write(created);
  if (missing(error)) {
    link.created_in.erase(files.directory());
    if ((error = make_directories(link, files.directory()))) return error;
    error = stream.write(created);
  }
  if (created) link.directories.insert(files.directory());
  return error;
}

void Barrier::write_link(BarrierLink& link) {
  std::vector<std::shared_ptr<SegmentFiles>> still;
  for (auto& files : link.unwritten) {
    bool good = true;
    for (LogStream* stream : {&files->records(), &files->acks()}) {
      if (!stream->unwritten()) continue;
      FileError error = write_stream(link, *files, *stream);
      if (!error) continue;
      good = false;
      failed(link, files->directory(), "write to", error);
      if (!no_room(error)) stream->start_new_part();
    }
    bool must_sync = files->durable && options_.durability == Durability::fsync;
    bool unsynced = files->records().unsynced() || files->acks().unsynced();
    if (must_sync && unsynced && !files->listed_unsynced) {
      files->listed_unsynced = true;
      link.unsynced.push_back(files);
    }
    if (must_sync && unsynced && !link.anything_unsynced) {
      link.anything_unsynced = true;
      link.unsynced_since = steady_clock::now();
    }
    if (!must_sync) {
      files->records().clear_durable();
      files->acks().clear_durable();
    }
    files->listed_unwritten = !good;
    if (!good) still.push_back(files);
  }
  link.unwritten.swap(still);
}

void Barrier::failed(BarrierLink& link, const std::string& path, const char* what,
                     const FileError& error) {
  constexpr uint64_t kSayAgain = 100;  // attempts: some ten seconds
  if (!link.failing && link.failures++ % kSayAgain == 0) {
    log_for("storage")->error("could not {} {}: {}; kept in memory, tried again", what, path,
                              error.message());
  }
  link.failing = true;
  failure_ = error.message();
}

bool Barrier::sync_due(const BarrierLink& link, bool lazily_too) const {
  if (link.failing) return false;
  if (link.sync_wanted) return true;
  if (!link.anything_unsynced) return false;
  if (options_.manual) return lazily_too;  // a test says when; real time would make its runs differ
  return lazily_too || steady_clock::now() - link.unsynced_since >= kLazySync;
}

bool Barrier::sync_streams(const std::vector<BarrierLink*>& links, size_t count) {
  if (count <= kSyncFilesMax) return false;
  for (BarrierLink* link : links) {
    for (auto& files : link->unsynced) {
      for (LogStream* stream : {&files->records(), &files->acks()}) {
        if (!stream->unsynced()) continue;  // given up meanwhile: its file may be gone
        FileError error = stream->sync_file_system();
        if (!error) return true;
        failed(*link, files->directory(), "sync the file system of", error);
        return false;
      }
    }
  }
  return false;
}

void Barrier::sync_links(const std::vector<BarrierLink*>& links) {
  size_t count = 0;
  for (BarrierLink* link : links) count += link->unsynced.size();
  bool all_synced = sync_streams(links, count);
  for (BarrierLink* link : links) {
    std::vector<std::shared_ptr<SegmentFiles>> still;
    for (auto& files : link->unsynced) {
      bool good = true;
      for (LogStream* stream : {&files->records(), &files->acks()}) {
        if (!stream->unsynced()) continue;
        // Where syncfs failed, nothing is known about any file: each goes on in a new one.
        FileError error;
        if (count > kSyncFilesMax && !all_synced) {
          error = make_error_code(boost::system::errc::io_error);
        } else if (!all_synced) {
          error = stream->sync();
        }
        if (!error) {
          stream->clear_durable();
          continue;
        }
        good = false;
        failed(*link, files->directory(), "sync", error);
        stream->start_new_part();
      }
      files->listed_unsynced = false;
      if (!good && !files->listed_unwritten) {
        files->listed_unwritten = true;
        link->unwritten.push_back(files);
      }
    }
    link->unsynced.swap(still);
    sync_names(*link);
  }
}

void Barrier::sync_names(BarrierLink& link) {
  for (auto it = link.directories.begin(); it != link.directories.end();) {
    FileError error = files_.sync_directory(*it);
    if (error && !missing(error)) {
      failed(link, *it, "sync directory", error);
      return;
    }
    it = link.directories.erase(it);
  }
  for (auto& files : link.removed) {
    if (FileError error = files->acks().unlink_all()) {
      log_for("storage")->warn("could not unlink an ack log in {}: {}", files->directory(),
                               error.message());
    }
    if (files->in_pool) options_.pool->prepare(*files->in_pool);
    files->in_pool.reset();
  }
  link.removed.clear();
}

void Barrier::publish(BarrierLink& link, bool synced) {
  std::vector<std::unique_ptr<Submission>> done;
  while (!link.failing && !link.outstanding.empty()) {
    bool owes_sync = link.outstanding.front()->durable && options_.durability == Durability::fsync;
    if (owes_sync && !synced) break;
    done.push_back(std::move(link.outstanding.front()));
    link.outstanding.pop_front();
  }
  if (!done.empty()) link.done(std::move(done));
}

bool Barrier::run_round(bool lazily_too) {
  std::vector<Incoming> batch;
  std::vector<BarrierLink*> links;
  {
    std::lock_guard lock(mutex_);
    batch.swap(inbox_);
    links = links_;
    in_round_ = true;
  }
  bool any = !batch.empty();
  for (Incoming& item : batch) {
    if (item.link) {
      apply(*item.link, *item.submission);
      item.link->outstanding.push_back(std::move(item.submission));
    } else {
      item.task();
    }
  }
  bool may_retry = options_.manual || lazily_too || steady_clock::now() >= next_retry_;
  std::vector<BarrierLink*> syncing;
  for (BarrierLink* link : links) {
    if (link->failing && !may_retry) continue;
    if (std::exchange(link->failing, false)) {
      // Those that could not be removed are among them; of the others nothing is there any more.
      for (auto& files : std::exchange(link->removed, {})) remove(*link, files, false);
    }
    write_link(*link);
    if (sync_due(*link, lazily_too)) syncing.push_back(link);
  }
  if (may_retry) next_retry_ = steady_clock::now() + kRetryPause;
  if (options_.durability == Durability::fsync) {
    sync_links(syncing);
  } else {
    for (BarrierLink* link : syncing) sync_names(*link);
  }
  any_failing_ = std::any_of(links.begin(), links.end(),
                             [](const BarrierLink* link) { return link->failing; });
  // Before anybody hears that his message is stored: his next one is not to be refused.
  if (alarm_.load() || any_failing_) update_alarm();
  for (BarrierLink* link : links) {
    bool synced =
        std::find(syncing.begin(), syncing.end(), link) != syncing.end() && !link->failing;
    if (synced) link->sync_wanted = link->anything_unsynced = false;
    if (!link->failing) link->failures = 0;
    any |= synced;
    publish(*link, synced);
  }
  {
    std::lock_guard lock(mutex_);
    in_round_ = false;
  }
  round_over_.notify_all();
  return any;
}

}  // namespace tarry
