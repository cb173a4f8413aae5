#include "tarrymq/queue/queue_shard.h"

#include <atomic>
#include <mutex>

#include "queue/queue_actor.h"
#include "queue/queue_shard_impl.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

/// Which queue-shard belongs to which shard, for QueueShard::current(). Changes at start and stop
/// only.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const Shard*, QueueShard*> by_shard;  // guarded by mutex
  std::atomic<uint64_t> version{1};
};

Registry& registry() {
  static Registry instance;
  return instance;
}

/// Ends an actor where it lives: on its shard while that works, else here. Later, as its last
/// holder may be told by itself to let go.
struct EndActor {
  std::shared_ptr<std::atomic<bool>> open;
  Shard* shard;
  void operator()(QueueActor* actor) const {
    if (!open->load(std::memory_order_acquire)) {
      delete actor;
      return;
    }
    shard->post([owned = std::unique_ptr<QueueActor>(actor)] {});
  }
};

}  // namespace

QueueShard::QueueShard(Shard& shard, Store& store)
    : impl_(std::make_unique<Impl>(*this, shard, store)) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.by_shard[&shard] = this;
  all.version.fetch_add(1, std::memory_order_acq_rel);
}

QueueShard::~QueueShard() {
  {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    all.by_shard.erase(&impl_->shard);
    all.version.fetch_add(1, std::memory_order_acq_rel);
  }
  impl_->open->store(false, std::memory_order_release);
  std::lock_guard lock(impl_->actors_mutex);
  for (QueueActor* actor : impl_->actors) actor->close();
  impl_->actors.clear();
}

QueueShard* QueueShard::current() {
  thread_local const Shard* seen_shard = nullptr;
  thread_local QueueShard* seen = nullptr;
  thread_local uint64_t seen_version = 0;
  const Shard* shard = Shard::current();
  Registry& all = registry();
  if (shard == seen_shard && seen_version == all.version.load(std::memory_order_acquire)) {
    return seen;
  }
  std::lock_guard lock(all.mutex);
  auto it = all.by_shard.find(shard);
  seen_shard = shard;
  seen = it == all.by_shard.end() ? nullptr : it->second;
  seen_version = all.version.load(std::memory_order_acquire);
  return seen;
}

bool QueueShard::publishes_held_up() const { return impl_->batches.held_up(); }
void QueueShard::tell_of_room(ConnectionId id) { impl_->batches.tell_of_room(id); }

Shard& QueueShard::shard() { return impl_->shard; }
StoreShard& QueueShard::store() { return impl_->store_shard; }

void QueueShard::set_dead_letter_sink(DeadLetterSink& sink) { impl_->dead_letters = &sink; }

void QueueShard::add_sink(ConnectionId id, DeliverySink& sink) { impl_->sinks[id] = &sink; }
void QueueShard::remove_sink(ConnectionId id) { impl_->sinks.erase(id); }

DeliverySink* QueueShard::find_sink(ConnectionId id) {
  auto it = impl_->sinks.find(id);
  return it == impl_->sinks.end() ? nullptr : it->second;
}

std::shared_ptr<QueueHandle> QueueShard::make(QueueId id, QueueIdentity identity,
                                              QueueSettings settings) {
  std::shared_ptr<QueueHandle> handle(new QueueHandle(id, std::move(identity), *this));
  handle->actor_ = std::shared_ptr<QueueActor>(
      new QueueActor(*this, id, handle->identity, std::move(settings), handle->figures_),
      EndActor{impl_->open, &impl_->shard});
  handle->actor_->attach(handle);
  return handle;
}

std::shared_ptr<QueueHandle> QueueShard::create(QueueId id, QueueIdentity identity,
                                                QueueSettings settings) {
  auto handle = make(id, std::move(identity), std::move(settings));
  handle->actor_->owe_definition();
  if (Shard::current() == &impl_->shard) {
    handle->actor_->start();
  } else {
    impl_->shard.post([weak = std::weak_ptr(handle->actor_)] {
      if (auto actor = weak.lock()) actor->start();
    });
  }
  return handle;
}

std::shared_ptr<QueueHandle> QueueShard::recover(QueueId id, QueueIdentity identity,
                                                 QueueSettings settings,
                                                 std::vector<std::pair<Origin, QueueId>>& origins) {
  auto handle = make(id, std::move(identity), std::move(settings));
  handle->actor_->recover(origins);
  handle->actor_->start();
  return handle;
}

bool QueueShard::finish_move(QueueHandle& source, const Origin& origin,
                             std::vector<QueueId> holders) {
  return source.actor_->finish_move(origin, std::move(holders));
}

void QueueShard::dead_letter_done(QueueHandle& source, uint64_t token, DeadLetterResult result) {
  source.actor_->dead_letter_done(token, result);
}

void QueueShard::flush(std::function<void()> done) {
  {
    std::lock_guard lock(impl_->actors_mutex);
    for (QueueActor* actor : impl_->actors) actor->hand_over_all();
  }
  impl_->store_shard.when_durable([done = std::move(done)] { done(); });
}

}  // namespace tarry
