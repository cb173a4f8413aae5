#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tarry {

/// An integer that is the name of something: no arithmetic, no conversion by itself.
template <class Tag, class Integer>
struct StrongId {
  using integer = Integer;
  Integer value{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Integer v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

/// From a durable counter; never reused, also over restarts. 0 is no queue.
using QueueId = StrongId<struct QueueIdTag, uint64_t>;
/// Unique in a process. 0 names the shard's own dead-letter router (a sink like a connection).
using ConnectionId = StrongId<struct ConnectionIdTag, uint64_t>;
/// Unique in a process, given by the session at basic.consume.
using ConsumerId = StrongId<struct ConsumerIdTag, uint64_t>;
using ShardId = StrongId<struct ShardIdTag, uint16_t>;

}  // namespace tarry

template <class Tag, class Integer>
struct std::hash<tarry::StrongId<Tag, Integer>> {
  size_t operator()(tarry::StrongId<Tag, Integer> id) const noexcept {
    return std::hash<Integer>{}(id.value);
  }
};
