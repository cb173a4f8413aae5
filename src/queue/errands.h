#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "queue/queue_actor.h"

namespace tarry {

/// Tokens of moves that belong to errands.
inline constexpr uint64_t kErrandToken = uint64_t{1} << 63;

/// Something that an operator wants done with many messages: it works in bounded steps at the ends
/// of turns, so that consumers don't feel it. Shard-owned, by its queue.
class QueueErrand : public std::enable_shared_from_this<QueueErrand> {
 public:
  explicit QueueErrand(QueueActor& queue) : queue_(queue) {}
  virtual ~QueueErrand() = default;
  QueueErrand(const QueueErrand&) = delete;
  QueueErrand& operator=(const QueueErrand&) = delete;

  /// Goes on; true once it has ended and answered. Called at the end of each turn in which the
  /// queue does something; who wants another turn without that calls again().
  virtual bool step() = 0;
  /// The queue has ended: answer so.
  virtual void queue_gone() = 0;
  virtual void move_done(uint64_t, DeadLetterResult) {}

 protected:
  void again() { queue_.schedule(); }
  /// step() is called again once all until now is durable; durable_ says so then.
  void wait_for_barrier();
  /// A token under which move_done() is called.
  uint64_t new_move(uint8_t lane, const Position& position);
  /// The source of a move can go: its copy is stored.
  void drop_source(uint64_t token, uint8_t lane, const Position& position);

  QueueActor& queue_;
  bool durable_ = false;
};

/// Whether a header payload has `name` among its headers, with `value` as text if one is asked for:
/// integers and booleans as one would write them.
bool header_matches(ByteSpan header, const std::string& name,
                    const std::optional<std::string>& value);

/// Why a letter was not stored, in words.
const char* dead_letter_failure(DeadLetterResult result);

}  // namespace tarry
