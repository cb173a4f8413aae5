#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/retry/due_histogram.h"

namespace tarry {

// What an operator sees of a queue's waiting messages, and does to them (retry-spec 37). Values, as
// they cross threads. Instants are broker time in ms.

/// Entries of a page at most, and bytes of payloads in one: what goes beyond is shown without its
/// payload.
inline constexpr uint64_t kWaitingPageMax = 10'000;
inline constexpr uint64_t kWaitingPayloadBytesMax = 8 << 20;

/// `<due>-<lane>-<segment>-<ordinal>`, hexadecimal.
struct WaitingId {
  uint64_t due_ms = 0;
  uint8_t lane = 0;
  uint32_t segment = 0, ordinal = 0;
  std::string text() const;
  static std::optional<WaitingId> parse(const std::string& text);
  friend auto operator<=>(const WaitingId&, const WaitingId&) = default;
};

struct WaitingMessage {
  /// Of this wait, also over a restart: a message that has come back and waits again has another
  /// one.
  std::string id;
  uint64_t due_ms = 0;   // when it leaves: the end of its delay, or its expiry if that comes first
  bool expires = false;  // the latter
  uint64_t rejected_ms = 0;     // when the present delay began
  uint32_t delivery_count = 0;  // what its next delivery carries as x-delivery-count
  std::string exchange, routing_key;
  std::string header;       // content header payload
  std::string body;         // cut to what was asked for
  uint64_t body_bytes = 0;  // of the whole
  std::string last_error;   // of the consumer that rejected it, "" if it said none
};

struct WaitingQuery {
  uint64_t offset = 0, count = 100;         // count: to kWaitingPageMax
  std::optional<uint64_t> due_before_ms{};  // only those
  std::optional<WaitingId> id{};            // that one alone, whatever the above
  uint32_t payload_bytes = 0;               // how much of each body
};

struct WaitingPage {
  uint64_t total = 0;                    // that wait
  uint64_t matching = 0;                 // of them before due_before_ms (without an id)
  std::vector<WaitingMessage> messages;  // by due time
  std::optional<uint64_t> next_due_ms, last_due_ms;
  std::vector<DueHistogram::Row> histogram;
  std::optional<PeerError> error;  // then there is no page
};

/// All that is set must hold.
struct WaitingFilter {
  std::optional<std::string> exchange, routing_key;
  std::optional<std::string> error;              // a part of the last error text
  std::string header;                            // "": none. It must be there,
  std::optional<std::string> value;              // ... with this value as text
  std::optional<uint64_t> count_min, count_max;  // delivery_count
  std::optional<uint64_t> due_before_ms, due_after_ms;
};

enum class WaitingAct : uint8_t {
  redeliver,
  dead_letter,
  drop,
  retime,  // the queue's own: its message-ttl has changed (retry-spec 26)
  tidy,    // the queue's own: entries of messages that recovery found on their way out
};

struct WaitingOrder {
  WaitingAct act = WaitingAct::redeliver;
  std::vector<std::string> ids{};  // these; else
  std::optional<WaitingFilter>
      filter{};  // ... those that match, of what waits at the call; else all of that
};

/// Answered once what was done is durable. What a crash leaves undone before that still waits.
struct WaitingOutcome {
  uint64_t affected = 0;
  uint64_t failed = 0;  // dead_letter: no target took them; they still wait
  std::string reason;   // why
  std::optional<PeerError> error;
};

/// A message that waited elsewhere and goes on waiting here (a move from another broker's wait
/// queues).
struct GivenMessage {
  std::string exchange, routing_key, header, body;
  uint64_t delay_ms = 0;        // what is left of it
  uint32_t delivery_count = 0;  // deliveries so far
  std::string last_error;
  bool persistent = false;
  uint8_t priority = 0;
};

}  // namespace tarry
