#include "broker/core.h"

#include "broker/definition_codec.h"
#include "broker/desk.h"
#include "broker/holding.h"
#include "broker/redrives.h"
#include "broker/vhost_face.h"
#include "broker/wording.h"
#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry {

Core::Core(BrokerOptions o, Store& s, const Clock& c, std::vector<Shard*> all)
    : options(std::move(o)),
      store(s),
      definitions(s.definitions()),
      clock(c),
      shards(std::move(all)),
      started_at(c.steady_now()),
      redrives(std::make_unique<Redrives>(*this)) {
  for (Shard* shard : shards) {
    queue_shards.push_back(std::make_unique<QueueShard>(*shard, store));
    desks.push_back(std::make_unique<ShardDesk>(*this, *queue_shards.back()));
  }
  registry.on_holding_queue_removed = [this](std::shared_ptr<QueueHandle> queue) {
    end_holding_queue(*this, std::move(queue));
  };
}

Core::~Core() {
  wait_for_writes(std::chrono::steady_clock::now() +
                  std::chrono::milliseconds(options.stop_timeout_ms));
  {
    std::lock_guard lock(way_back_->mutex);
    way_back_->core = nullptr;
  }
  desks.clear();
  queue_shards.clear();  // from here on an actor ends where its last handle does
  registry.vhosts.clear();
}

ShardDesk* Core::desk() const {
  Shard* here = Shard::current();
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] == here) return desks[i].get();
  }
  return nullptr;
}

bool Core::wait_for_writes(std::chrono::steady_clock::time_point deadline) {
  return signal.wait_until(
      deadline, [this] { return writes_under_way_.load(std::memory_order_acquire) == 0; });
}

void Core::commit(std::unique_lock<std::shared_mutex>& lock, DefinitionBatch batch) {
  if (!batch.empty()) write(std::move(batch), {});
  lock.unlock();
}

void Core::commit(std::unique_lock<std::shared_mutex>& lock, DefinitionBatch batch, Task then) {
  // Under the lock, so that the order on disk is the order in memory; but what runs at once may
  // take the lock.
  if (!batch.empty()) {
    write(std::move(batch), std::move(then));
    lock.unlock();
    return;
  }
  lock.unlock();
  when_durable(std::move(then));
}

void Core::when_durable(Task then) {
  if (writes_under_way_.load(std::memory_order_acquire) == 0)
    then();
  else
    write({}, std::move(then));
}

void Core::when_queue_id(Task then) { definitions.when_queue_id(back_here(std::move(then))); }

void Core::write(DefinitionBatch batch, Task then) {
  definitions.write(std::move(batch), back_here(std::move(then)));
}

Task Core::back_here(Task then) {
  writes_under_way_.fetch_add(1, std::memory_order_acq_rel);
  return [way = way_back_, home = Shard::current(), then = std::move(then)]() mutable {
    std::lock_guard lock(way->mutex);
    if (!way->core) return;  // it could not wait for the disk any longer
    if (then && home)
      home->post(std::move(then));
    else if (then)
      then();
    Core& core = *way->core;
    core.signal.notify_after(
        [&core] { core.writes_under_way_.fetch_sub(1, std::memory_order_acq_rel); });
  };
}

void Core::forget_queue(QueueHandle& queue) {
  QueueId id = queue.id;
  bool stored = queue.identity.durable;
  std::unique_lock lock(registry.mutex);
  auto vhost = registry.find_vhost(queue.identity.vhost);
  auto entry = vhost ? vhost->find_queue(queue.identity.name) : nullptr;
  if (!entry || entry->handle.get() != &queue) return;
  DefinitionBatch batch;
  registry.remove_queue(*vhost, entry, batch);
  queues_deleted.fetch_add(1, std::memory_order_relaxed);
  // Who tells us is the queue itself: it must not end within the call.
  queue.shard().post([keep = entry->handle] {});
  // A queue that is not durable removes its own files, later in this turn or in the next.
  if (!stored) queue.shard().post([this, id] { store.remove_queue_directory(id); });
  commit(lock, std::move(batch), [this, id, stored] {
    if (!stored) return;
    store.remove_queue_directory(id);
    // After the directory: the store thread works in order.
    store.on_store_thread([all = &definitions, id] {
      all->write({{}, {definition::tombstone_key(id)}}, [] {});
    });
  });
}

Result<void, PeerError> Core::check_right(const Vhost& vhost, const Login* login, Right right,
                                          std::string_view kind, std::string_view name) {
  if (!login) return {};
  // RabbitMQ's name for the default exchange in permissions.
  std::string_view matched =
      kind == "exchange" && name.empty() ? std::string_view("amq.default") : name;
  auto it = vhost.rights.find(login->user);
  const char* word = right == Right::configure ? "configure"
                     : right == Right::write   ? "write"
                                               : "read";
  if (it != vhost.rights.end()) {
    const Rights& rights = it->second;
    const Pattern& pattern = right == Right::configure ? rights.configure
                             : right == Right::write   ? rights.write
                                                       : rights.read;
    if (pattern.matches(matched)) return {};
  }
  return PeerError::access_refused(std::string(word) + " access to " +
                                   named(kind, matched, vhost.name) + " refused for user '" +
                                   login->user + "'");
}

std::optional<PeerError> Core::too_large(std::string_view header, std::string_view body) const {
  if (body.size() > options.max_message_bytes) {
    count_limit_hit(Limit::message_bytes);
    return bad_request("message size " + std::to_string(body.size()) +
                       " is larger than configured max size " +
                       std::to_string(options.max_message_bytes));
  }
  // A frame cannot be split: a larger one would end the connection of whoever consumes it.
  if (header.size() + kFrameOverheadBytes > options.frame_max) {
    return bad_request("properties of " + std::to_string(header.size()) +
                       " bytes do not fit into a frame (frame_max is " +
                       std::to_string(options.frame_max) + ")");
  }
  return std::nullopt;
}

std::shared_ptr<VhostFace> Core::face(const std::shared_ptr<Vhost>& vhost) {
  return std::make_shared<VhostFace>(*this, vhost);
}

void Core::bump_all_versions() {
  for (auto& [name, vhost] : registry.vhosts) ++vhost->version;
}

}  // namespace tarry
