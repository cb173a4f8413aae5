#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "queue/remote_batch.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_shard.h"

namespace tarry {

struct QueueShard::Impl {
  Impl(QueueShard& self, Shard& s, Store& st)
      : shard(s),
        store(st),
        store_shard(st, s),
        batches(s, self, store_shard),
        log(log_for("queue")) {}

  Shard& shard;
  Store& store;
  StoreShard store_shard;
  RemoteBatches batches;
  DeadLetterSink* dead_letters = nullptr;
  std::unordered_map<ConnectionId, DeliverySink*> sinks;
  const std::shared_ptr<spdlog::logger> log;
  std::vector<std::shared_ptr<void>> ended;  // logs of queues that ended in this turn

  // Every actor that lives here, so that they can be closed before the store is. create() may run
  // on any thread.
  std::mutex actors_mutex;
  std::unordered_set<QueueActor*> actors;  // guarded by actors_mutex
  // False once this shard's queue room is closed: actors end where they are.
  const std::shared_ptr<std::atomic<bool>> open = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace tarry
