#pragma once

#include <string>
#include <string_view>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/queue/queue_settings.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// What a queue declaration says, checked.
struct CheckedQueue {
  QueueIdentity identity;
  /// By the arguments alone: policies are merged later, and the default delivery limit is not in
  /// here.
  QueueSettings settings;
};

/// Checks every argument of a declaration before anything is created. Errors: 406 that names the
/// argument, what it was and what is allowed; 540 for streams.
Result<CheckedQueue, PeerError> check_queue(const std::string& vhost, const QueueDeclare& declare);

/// What there is of a queue, for comparing with a new declaration of it.
struct ExistingQueue {
  bool durable, auto_delete;
  const FieldTable& arguments;
};
/// E-40: flags, and each argument that this broker knows, numbers by value (retry-spec 6).
/// Exclusiveness is the caller's.
Result<void, PeerError> check_queue_equivalent(const std::string& vhost,
                                               const QueueDeclare& declare,
                                               const ExistingQueue& existing);

}  // namespace tarry
