#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tarrymq/broker/retry_operations.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/runtime/task.h"

namespace tarry {

struct Core;

/// The redrives of the broker (retry-spec 38): each order is a definition, durable before anything
/// moves, with its plan once the queue has made it, and with its result at the end. After a restart
/// those that had not ended go on. Any thread; `mutex_` is never held while a queue or the registry
/// is called.
class Redrives {
 public:
  explicit Redrives(Core& core) : core_(core) {}

  /// At start: one that was stored. The error says what is wrong with it.
  Result<void, std::string> restore(const std::string& id, const FieldTable& table);
  /// At start, once all queues are back.
  void resume();

  void start(std::shared_ptr<QueueHandle> queue, RedriveRequest request,
             Answer<RedriveStarted> answer);
  std::vector<RedriveInfo> list() const;
  std::optional<RedriveInfo> find(uint64_t id) const;
  void cancel(uint64_t id);

 private:
  struct Entry {
    RedriveInfo info;
    QueueId queue;
    std::optional<RedrivePlan> plan;
    std::weak_ptr<QueueHandle> handle;
    std::shared_ptr<RedriveProgress> progress = std::make_shared<RedriveProgress>();
  };

  static RedriveInfo shown(const Entry& entry);
  void store(const Entry& entry, Task then);
  void run(uint64_t id, std::shared_ptr<QueueHandle> queue);
  void planned(uint64_t id, RedrivePlan plan);
  void ended(uint64_t id, const std::string& state, std::string reason);
  void forget_old();
  void count(std::shared_ptr<QueueHandle> queue, RedriveRequest request,
             Answer<RedriveStarted> answer);

  Core& core_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;  // guarded, by id
  uint64_t last_id_ = 0;               // guarded
};

}  // namespace tarry
