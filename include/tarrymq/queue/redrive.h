#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tarrymq/storage/record.h"

namespace tarry {

// Dead letters moved back by their queue (retry-spec 38). The queue finds and moves them; the
// broker keeps the order durably, starts it again after a restart, and shows it.

struct RedriveFilter {
  std::string reason{}, queue{};       // of the newest entry of x-death; "": any
  std::string header{};                // "": none. It must be there,
  std::optional<std::string> value{};  // ... with this value as text
};

/// What a redrive has found: how many, and per lane where the last of them lies. It moves nothing
/// behind that, so that a restart goes on with the same set: the limit holds, and what dies again
/// meanwhile is not moved in a circle.
struct RedrivePlan {
  struct End {
    uint8_t lane = 0;
    Position last;
  };
  uint64_t matched = 0;
  std::vector<End> ends;
  std::string text() const;
  static std::optional<RedrivePlan> parse(const std::string& text);
};

struct RedriveOrder {
  uint64_t id = 0;
  std::string target{};  // queue; "": the one that each died in last
  std::optional<uint64_t> limit{};
  std::optional<double> rate{};  // messages a second, above 0
  RedriveFilter filter{};
  bool reset_budget = true;           // false: the counter of its last delivery goes along
  bool dry_run = false;               // find, and move nothing
  std::optional<RedrivePlan> plan{};  // found before a restart: go on
};

/// Written by the queue's shard, read anywhere.
struct RedriveProgress {
  std::atomic<uint64_t> matched{0}, moved{0}, skipped{0}, failed{0};
};

enum class RedriveEnd : uint8_t {
  completed,
  stopped,  // a target is missing or refuses: the rest is untouched
  cancelled,
};

/// Queues by name, and how many would go there.
using RedriveTargets = std::map<std::string, uint64_t>;
inline constexpr size_t kRedriveTargetsMax = 100;  // further names are left out

/// Called on the queue's shard.
struct RedriveEvents {
  /// Of a dry run, ahead of its end: where to, a target that was named included. May be empty.
  std::function<void(RedriveTargets)> counted{};
  /// Once, unless there was a plan, or the end comes first. Nothing moves before
  /// QueueHandle::go_redrive(id): the plan is made durable meanwhile.
  std::function<void(RedrivePlan)> planned;
  /// Once; all that was moved has left durably. Not if the broker stops meanwhile.
  std::function<void(RedriveEnd, std::string reason)> ended;
};

}  // namespace tarry
