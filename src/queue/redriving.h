#pragma once

#include <map>
#include <string>
#include <vector>

#include "queue/errands.h"
#include "tarrymq/runtime/timer_wheel.h"

namespace tarry {

/// Moves dead letters back (retry-spec 38): first it finds them, in the order of the log, then,
/// once its plan is durable, moves them at the rate that was asked for. A message is in this queue
/// until its target has stored it, with its origin: the machinery of dead letters, with one target.
class Redriving final : public QueueErrand {
 public:
  Redriving(QueueActor& queue, RedriveOrder order, std::shared_ptr<RedriveProgress> progress,
            RedriveEvents events);
  bool step() override;
  void queue_gone() override;
  void move_done(uint64_t token, DeadLetterResult result) override;

  uint64_t id() const { return order_.id; }
  void go();
  void cancel();

 private:
  enum class State : uint8_t { find, planned, first_barrier, move, last_moves, last_barrier, done };
  /// Before a lane's cursor, by position; due_ms: of a return, 0: requeued at once.
  struct Early {
    Run run;
    uint64_t due_ms = 0;
  };
  struct Candidate {
    Lane* lane = nullptr;
    Fetched fetched;
    bool fresh = true;
    uint64_t due_ms = 0;
  };
  /// What is on its way.
  struct Flight {
    uint8_t lane;
    Position position;
    uint32_t counter;
    bool redelivered;
    uint32_t body_bytes;
    uint64_t due_ms;
    std::string target;
  };
  /// Where a dead letter came from, as its newest x-death tells.
  struct Death {
    std::string queue, reason, exchange, routing_key;
    int64_t delivery_count = 0;
  };

  void begin_walk();
  void open_lane(size_t number);
  Fetch next(Candidate& out);
  bool within_plan(uint8_t lane, const Position& position) const;
  bool arrivals_closed() const;
  /// None: the filter does not match, or nothing says where it should go.
  std::optional<Death> match(const Candidate& candidate) const;
  bool find_some();
  void count_target(const std::string& queue);
  std::string why_nothing() const;
  bool move_some();
  bool rate_allows();
  bool take_out(Candidate& candidate, Flight& flight);
  void send(const Candidate& candidate, const Death& death, Flight flight);
  void put_back(const Flight& flight);
  void stop(RedriveEnd how, std::string reason);

  const RedriveOrder order_;
  const std::shared_ptr<RedriveProgress> progress_;
  const RedriveEvents events_;
  const uint64_t started_ms_;  // broker time: what came in later is not meant
  const bool resumed_;
  State state_ = State::find;
  RedrivePlan plan_;
  RedriveTargets targets_;  // of a dry run
  RedriveEnd end_ = RedriveEnd::completed;
  std::string reason_;

  // The walk: lanes from the highest on, what stands before the cursor, then what is behind it.
  size_t lanes_left_ = 0;
  Lane* lane_ = nullptr;
  std::vector<Early> early_;
  size_t early_at_ = 0;
  uint32_t early_nth_ = 0;
  Position fresh_from_;

  uint64_t moved_ = 0, launched_ = 0;  // launched: in this process
  SteadyTime rate_from_;
  Timer rate_timer_;
  std::map<uint64_t, Flight> flights_;
  uint64_t flying_bytes_ = 0;
};

}  // namespace tarry
