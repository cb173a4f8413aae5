#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "queue/errands.h"

namespace tarry {

/// A page of what waits. Its place is found by the companion's histogram, so that page 10,000 costs
/// as much as page 1.
class WaitingListing final : public QueueErrand {
 public:
  WaitingListing(QueueActor& queue, WaitingQuery query, std::function<void(WaitingPage)> done)
      : QueueErrand(queue), query_(query), done_(std::move(done)) {}
  bool step() override;
  void queue_gone() override;

 private:
  enum class State : uint8_t { start, barrier, count, place, scanning, pick, read, done };
  void scan(DueKey from, uint64_t skip, uint64_t count);
  void pick();
  bool read_some();
  void show(const DueFound& found, const Fetched& fetched, Lane& lane);
  void finish();

  const WaitingQuery query_;
  const std::function<void(WaitingPage)> done_;
  State state_ = State::start, after_scan_ = State::read;
  WaitingPage page_;
  std::vector<DueFound> found_;
  size_t next_ = 0;
  uint64_t payload_bytes_ = 0;
  bool whole_ = true;
};

/// Redelivers, dead-letters or drops some or all of what waits. It walks over what was there when
/// it was asked, in order of due time, takes its matches out of the companion in small groups, and
/// treats each group in the same turn: so at each moment a message is in the companion, in the
/// queue, or in a move that knows its origin.
class WaitingActing final : public QueueErrand {
 public:
  WaitingActing(QueueActor& queue, WaitingOrder order, std::function<void(WaitingOutcome)> done);
  bool step() override;
  void queue_gone() override;
  void move_done(uint64_t token, DeadLetterResult result) override;

 private:
  enum class State : uint8_t {
    start,
    first_barrier,
    scan,
    scanning,
    match,
    moves,
    last_barrier,
    done
  };
  bool start();
  bool scan();
  bool match_some();
  bool wanted(const DueFound& found) const;
  bool matches(const DueFound& found, const Fetched& fetched, Lane& lane) const;
  bool needs_record() const {
    return order_.act == WaitingAct::dead_letter || order_.act == WaitingAct::retime ||
           order_.filter;
  }
  void treat(std::vector<DueFound>& group, std::vector<Fetched>& records);
  void redeliver(Lane& lane, const DueFound& found);
  void dead_letter(Lane& lane, const DueFound& found, const Fetched& fetched);
  void finish();

  const WaitingOrder order_;
  const std::function<void(WaitingOutcome)> done_;
  State state_ = State::start;
  WaitingOutcome outcome_;
  std::set<WaitingId> ids_;     // that are still looked for
  uint64_t last_sequence_ = 0;  // what was added later is not meant
  DueKey from_;
  std::vector<DueFound> found_;
  size_t next_ = 0;
  bool whole_ = true;
  std::map<uint64_t, DueEntry> moving_;  // by token
  uint64_t moving_bytes_ = 0;
};

}  // namespace tarry
