#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/login_book.h"
#include "broker/login_guard.h"
#include "broker/registry.h"
#include "broker/slow_hashes.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/task.h"
#include "tarrymq/session/connection_list.h"
#include "tarrymq/session/vhost_port.h"
#include "tarrymq/storage/definition_store.h"

namespace tarry {

class Shard;
class Redrives;
class ShardDesk;
class Store;
class VhostFace;

/// For those few who wait outside of the shards (start, stop): something that they look at may have
/// changed.
class Signal {
 public:
  /// `change` is seen by a waiter only once this call is done with the object.
  template <class Change>
  void notify_after(Change change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  void notify() {
    notify_after([] {});
  }
  /// True once `holds` does; false if the deadline came first.
  template <class Predicate>
  bool wait_until(std::chrono::steady_clock::time_point deadline, Predicate holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, holds);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// What all parts of the broker share. Lives as long as the broker.
struct Core {
  Core(BrokerOptions options, Store& store, const Clock& clock, std::vector<Shard*> shards);
  ~Core();

  const BrokerOptions options;
  Store& store;
  DefinitionStore& definitions;
  const Clock& clock;
  const std::vector<Shard*> shards;
  const SteadyTime started_at;
  std::vector<std::unique_ptr<QueueShard>> queue_shards;
  std::vector<std::unique_ptr<ShardDesk>> desks;
  Registry registry;
  const std::unique_ptr<Redrives> redrives;
  Signal signal;  // a connection closed, the last write came back
  ConnectionList connections;
  SlowHashes slow_hashes;
  LoginGuard login_guard{options.login_failures_per_minute};
  LoginBook login_book;

  std::atomic<uint64_t> connections_opened{0}, connections_closed{0}, queues_declared{0},
      queues_deleted{0};
  std::mutex listeners_mutex;  // guards what follows
  std::vector<ListenerInfo> listeners;
  NodeFacts facts;

  /// The desk of the calling shard; null on any other thread.
  ShardDesk* desk() const;
  size_t shard_index_of(QueueId id) const { return id.value % shards.size(); }

  /// Hands `batch` over, if there is something in it, and unlocks. What it says has taken effect;
  /// when_durable() tells when it is durable.
  void commit(std::unique_lock<std::shared_mutex>& lock, DefinitionBatch batch);
  /// Hands `batch` over and unlocks; `then` runs on the calling shard (or on some other thread when
  /// there is none) once it and all that was handed over before is durable. With an empty batch and
  /// nothing under way `then` runs at once.
  void commit(std::unique_lock<std::shared_mutex>& lock, DefinitionBatch batch, Task then);
  /// `then` as above, once all that was handed over before is durable.
  void when_durable(Task then);

  /// `then` as above, once there may be a queue id to give (DefinitionStore::next_queue_id).
  void when_queue_id(Task then);

  /// What was handed over has been answered. False if the deadline came first. Not on a shard.
  bool wait_for_writes(std::chrono::steady_clock::time_point deadline);

  /// The queue is gone: its name, bindings and definition. May be called more than once, on any
  /// shard.
  void forget_queue(QueueHandle& queue);

  /// 403 in RabbitMQ's words unless the user has the right. Under the registry's lock (shared is
  /// enough). `kind`: queue or exchange; a null login may do everything.
  static Result<void, PeerError> check_right(const Vhost& vhost, const Login* login, Right right,
                                             std::string_view kind, std::string_view name);

  /// 400 for a message that came over HTTP and that no session would have taken, or could hand on.
  std::optional<PeerError> too_large(std::string_view header, std::string_view body) const;

  std::shared_ptr<VhostFace> face(const std::shared_ptr<Vhost>& vhost);
  void bump_all_versions();  // under the lock, after rights changed

  /// Held while a policy change is worked into the registry and then into the queues, so that two
  /// changes reach a queue in the order in which they were made. Taken before the registry's lock.
  std::mutex policy_mutex;

 private:
  /// The way back from the store thread, which may find the disk well again only after this object
  /// has ended.
  struct WayBack {
    std::mutex mutex;
    Core* core;  // null: ended
  };
  void write(DefinitionBatch batch, Task then);
  Task back_here(Task then);
  std::atomic<uint64_t> writes_under_way_{0};
  const std::shared_ptr<WayBack> way_back_{new WayBack{{}, this}};
};

}  // namespace tarry
