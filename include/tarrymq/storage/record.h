#pragma once

#include <compare>
#include <cstdint>
#include <tuple>

#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/ids.h"

namespace tarry {

/// Where a record lies in its log. (segment, ordinal) is its identity, fixed at append and never
/// used again; `offset` is where its bytes start in the segment and saves a search.
struct Position {
  uint32_t segment = 0;
  uint32_t ordinal = 0;
  uint32_t offset = 0;
  friend constexpr auto operator<=>(const Position& a, const Position& b) {
    return (uint64_t{a.segment} << 32 | a.ordinal) <=> (uint64_t{b.segment} << 32 | b.ordinal);
  }
  friend constexpr bool operator==(const Position& a, const Position& b) {
    return a.segment == b.segment && a.ordinal == b.ordinal;
  }
};

/// Records with consecutive ordinals in one segment.
struct Run {
  Position first;
  uint32_t count = 0;
};

/// Where a moved record (dead letter, redrive) came from, so that recovery can finish or forget the
/// move (design-notes 3).
struct Origin {
  QueueId queue;
  uint8_t lane = 0;
  uint32_t segment = 0;
  uint32_t ordinal = 0;
  /// Of a redrive: its record counts as published anew (hops 0) and has this one target, so that
  /// the source can go once it is found there. Dead letters have at least one hop. Not part of the
  /// identity.
  bool sole = false;
  friend bool operator==(const Origin& a, const Origin& b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const Origin& a, const Origin& b) {
    if (a.queue != b.queue) return a.queue.value <=> b.queue.value;
    return std::tie(a.lane, a.segment, a.ordinal) <=> std::tie(b.lane, b.segment, b.ordinal);
  }
};

inline constexpr uint32_t kNoTtl = UINT32_MAX;

/// A message as the log keeps it. Storage knows bytes only: `route` is the exchange and the routing
/// key as AMQP short strings, `header` the content header's payload, `body` the body.
struct RecordParts {
  uint64_t published_ms =
      0;  // broker time; append() raises it to that of the record before, if lower
  uint32_t ttl_ms = kNoTtl;  // the message's own expiration, counted from published_ms
  uint32_t counter = 0;  // deliveries before (only a compacted or migrated record starts above 0)
  bool persistent = false;         // false: dropped when the log is opened after a restart
  uint8_t hops = 0;                // dead-letter stages since a client published it, saturating
  const Origin* origin = nullptr;  // null: published by a client
  ByteSpan route, header, body;    // borrowed for the call
};

/// A record read back. The spans borrow; who hands out the view says how long they live.
struct RecordView {
  uint64_t published_ms = 0;
  uint32_t ttl_ms = kNoTtl;
  uint32_t counter = 0;
  bool persistent = false;
  uint8_t hops = 0;
  ByteSpan route, header, body;

  uint64_t expires_ms(uint64_t queue_ttl_ms) const {  // UINT64_MAX: never
    uint64_t ttl = ttl_ms == kNoTtl ? UINT64_MAX : ttl_ms;
    if (queue_ttl_ms < ttl) ttl = queue_ttl_ms;
    return ttl > UINT64_MAX - published_ms ? UINT64_MAX : published_ms + ttl;
  }
};

}  // namespace tarry
