#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/runtime/result.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// Arguments of a queue that are about another broker's placement and storage: kept, shown, and
/// without effect here. What RabbitMQ would refuse is refused all the same, with its words, since a
/// setting that does nothing must not look like one that does. Not part of check_queue(): what is
/// stored already, and what a dump holds, must not be lost for one of these.

/// What is wrong with this argument on a queue of that type (classic, quorum), to be put behind
/// "invalid arg '...' for queue '...' in vhost '...'"; none: nothing, or it is none of these.
std::optional<std::string> foreign_complaint(std::string_view argument, const FieldValue& value,
                                             std::string_view queue_type);

/// "classic" if there is no x-queue-type.
std::string_view queue_type_of(const FieldTable& arguments);

/// 406 for the first of `declare.arguments` with a complaint.
Result<void, PeerError> check_foreign_arguments(const std::string& vhost,
                                                const QueueDeclare& declare);

}  // namespace tarry
