#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tarrymq/queue/redrive.h"
#include "tarrymq/queue/waiting.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

struct RedriveRequest {
  std::string target;             // queue; "": the one that each died in last
  std::optional<uint64_t> limit;  // >= 1
  std::optional<double> rate;     // messages a second, above 0
  RedriveFilter filter;
  bool reset_budget = true;
  bool dry_run = false;
};
struct RedriveStarted {
  uint64_t id = 0;  // 0: a dry run
  // Of a dry run:
  uint64_t matched = 0;
  RedriveTargets missing{};  // those of them that would go to queues which do not exist
  std::string reason{};      // why nothing matches
};
struct RedriveInfo {
  uint64_t id = 0;
  std::string vhost, queue;
  RedriveRequest request;
  std::string state;  // running, completed, stopped, cancelled
  uint64_t matched = 0, moved = 0, skipped = 0, failed = 0;
  uint64_t started_ms = 0, finished_ms = 0;  // the system's wall clock; 0: not yet
  std::string reason;                        // why it ended
};

/// What operators do with retries (retry-spec 37, 38). As Management: any thread, nothing blocks,
/// each answer comes once, on any thread. Rights as for the AMQP operations that come nearest:
/// looking at, and acting on, what waits: read on the queue; parking and redriving: also write on
/// the default exchange.
class RetryOperations {
 public:
  virtual ~RetryOperations() = default;
  virtual void list_waiting(const Login& login, std::string vhost, std::string queue,
                            WaitingQuery query, Answer<WaitingPage> answer) = 0;
  virtual void act_on_waiting(const Login& login, std::string vhost, std::string queue,
                              WaitingOrder order, Answer<WaitingOutcome> answer) = 0;
  /// The answer: how many wait now, durably. All of them, unless there is an error.
  virtual void park(const Login& login, std::string vhost, std::string queue,
                    std::vector<GivenMessage> messages, Answer<uint64_t> answer) = 0;

  /// Answered once the order is durable (a dry run: once it has counted). 409: one is under way in
  /// that queue.
  virtual void start_redrive(const Login& login, std::string vhost, std::string queue,
                             RedriveRequest request, Answer<RedriveStarted> answer) = 0;
  /// Those under way and the latest that have ended, oldest first.
  virtual std::vector<RedriveInfo> redrives() = 0;
  virtual std::optional<RedriveInfo> redrive(uint64_t id) = 0;
  /// One that has ended stays as it is. 404: no such.
  virtual void cancel_redrive(const Login& login, uint64_t id, Answer<void> answer) = 0;
};

}  // namespace tarry
