#pragma once

#include <utility>

#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// A good answer that holds an integer or a boolean, from which Result cannot be made without
/// saying so: an error could be made of one, too.
template <class T>
Result<T, PeerError> success(T value) {
  return Result<T, PeerError>(boost::system::in_place_value, std::move(value));
}

}  // namespace tarry
