#pragma once

#include "http/message.h"

namespace tarry::http {

/// The types that a client may declare, as RabbitMQ lists them.
inline Json exchange_types_json() {
  Json out = Json::array();
  for (const auto& [name, description] :
       {std::pair{"direct", "AMQP direct exchange, as per the AMQP specification"},
        std::pair{"fanout", "AMQP fanout exchange, as per the AMQP specification"},
        std::pair{"headers", "AMQP headers exchange, as per the AMQP specification"},
        std::pair{"topic", "AMQP topic exchange, as per the AMQP specification"},
        std::pair{"x-consistent-hash", "One destination by hash; binding keys are weights"},
        std::pair{"x-delayed-message", "Routes once the x-delay of a message is over"},
        std::pair{"x-local-random", "One destination at random; binding keys are empty"},
        std::pair{"x-modulus-hash", "One destination, by the hash of the routing key"},
        std::pair{"x-random", "One destination at random"}}) {
    out.push_back(Json{{"name", name}, {"description", description}, {"enabled", true}});
  }
  return out;
}

}  // namespace tarry::http
