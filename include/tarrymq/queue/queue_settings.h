#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tarrymq/amqp/deduplication.h"
#include "tarrymq/retry/policy.h"

namespace tarry {

enum class Overflow : uint8_t { drop_head, reject_publish, reject_publish_dlx };

/// What a queue is for good: fixed at declaration.
struct QueueIdentity {
  std::string vhost;
  std::string name;
  bool durable = true;
  bool exclusive = false;
  bool auto_delete = false;
  uint16_t max_priority = 0;  // 0: no priorities; else lanes 0..max_priority (<= 255)
  bool single_active_consumer = false;
  bool retry_enabled = false;  // it has a companion amq.retry-<name>
  bool quorum_type =
      false;  // declared x-queue-type quorum: carries x-delivery-count (retry-spec 14)
  std::optional<Deduplication> deduplication{};
  /// Not empty: the holding queue of that x-delayed-message exchange. What is published into it
  /// waits for its x-delay and is then sent through the exchange; nobody consumes from it.
  std::string holds_for{};
};

/// What may change while it lives: arguments merged with policies and the retry override, by the
/// broker.
struct QueueSettings {
  std::optional<uint64_t> message_ttl_ms;
  std::optional<uint64_t> expires_ms;        // >= 1
  std::optional<uint64_t> max_length;        // ready messages
  std::optional<uint64_t> max_length_bytes;  // their bodies
  Overflow overflow = Overflow::drop_head;
  std::optional<std::string> dead_letter_exchange;  // "" is the default exchange
  std::optional<std::string> dead_letter_routing_key;
  bool dead_letter_at_least_once =
      false;  // what no target takes is held, not dropped (retry-spec 41)
  std::optional<uint64_t> delivery_limit;  // effective one; none: no limit
  std::optional<uint64_t> consumer_timeout_ms;
  RetrySettings retry;  // only meaningful when retry_enabled
};

}  // namespace tarry
