#pragma once

#include <vector>

#include "http/api.h"

namespace tarry::http {

/// Consumers as RabbitMQ shows them, with the connection they are on (http-api H-35).
Json consumers_json(Context& context, const std::vector<ConsumerView>& consumers);

}  // namespace tarry::http
