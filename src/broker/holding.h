#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "broker/registry.h"
#include "tarrymq/retry/retry_arguments.h"

namespace tarry {

struct Core;

/// An x-delayed-message exchange has a queue of its own, where messages wait for their x-delay
/// (queue/delayed.cc). It is made and removed with the exchange, in the same batch; clients can
/// neither declare nor use it.
inline constexpr std::string_view kHoldingPrefix = "amq.delayed-";
inline constexpr size_t kDelayedExchangeNameBytesMax = 255 - kHoldingPrefix.size();

inline std::string holding_name(std::string_view exchange) {
  return std::string(kHoldingPrefix).append(exchange);
}
inline bool is_holding_name(std::string_view queue) { return queue.starts_with(kHoldingPrefix); }
/// The broker's own queues, which clients may not name.
inline bool is_internal_queue_name(std::string_view queue) {
  return is_companion_name(queue) || is_holding_name(queue);
}

/// Under the lock, held exclusively; `id` is a new one. Adds its definition to `batch` if the
/// exchange is durable.
void add_holding_queue(Core& core, Vhost& vhost, Exchange& exchange, QueueId id,
                       DefinitionBatch& batch);
/// The queue was removed from the registry (its batch is handed over under the same hold of the
/// lock): ends the actor and, once that is durable, removes the files. Any thread.
void end_holding_queue(Core& core, std::shared_ptr<QueueHandle> queue);
/// At the start: the exchanges of a vhost get the queues that came back.
void link_holding_queues(Vhost& vhost);

}  // namespace tarry
