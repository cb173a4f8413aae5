#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tarrymq/runtime/clock.h"

namespace tarry::http {

struct HistoryThing;

/// What a reader wants of the past: one sample every `incr_s` over the last `age_s` seconds. None:
/// the rate alone.
struct HistoryRange {
  uint32_t age_s = 0, incr_s = 0;
  bool wanted() const { return age_s > 0 && incr_s > 0; }
};

/// How long a thing's past is kept: every round for ten minutes, then thinner.
enum class Keep : uint8_t {
  minutes,  // ten minutes (connections, channels)
  hour,     // and a sample a minute for an hour (queues, exchanges)
  day,      // and every ten minutes for a day (the broker, vhosts, the node)
};

/// The past of counters and gauges: what a round of sampling (every few seconds) found, and what
/// came of it. Only changes are kept, so that ten thousand idle queues cost little. Times are whole
/// rounds, so that samples line up. Server's thread.
class HistoryBook {
 public:
  static constexpr int64_t kRoundMs = 5'000;
  using Values = std::span<const int64_t>;
  struct Round {
    int64_t label_ms = 0;  // the mark that its samples stand at
    int64_t began_ms = 0;  // when it was, which rates are reckoned from
  };
  struct Sample {
    int64_t age_ms;  // before the look
    int64_t value;
  };

  /// One thing at one look: rates from the last round that is at least a second old to the values
  /// given, and samples. Valid until the next call of the book; the values given are kept.
  class View {
   public:
    /// Per second; 0 for a thing that is new. Negative for a gauge that shrinks.
    double rate(size_t i) const;
    /// Newest first: at the last round, then every `incr_s` back; what is older than the thing is
    /// its first value.
    std::vector<Sample> samples(size_t i, HistoryRange range) const;

   private:
    friend class HistoryBook;
    const HistoryBook* book_ = nullptr;
    const HistoryThing* thing_ = nullptr;
    std::vector<int64_t> now_values_;
    int64_t now_ms_ = 0;
    Round base_;
  };

  HistoryBook();
  ~HistoryBook();

  /// A round: begin, record what there is, end. What was not recorded in it is forgotten.
  void begin_round(SteadyTime now);
  /// `values`: as many each time, in one order.
  void record(const std::string& thing, Values values, Keep keep);
  void end_round();

  View look(const std::string& thing, Values values, SteadyTime now);
  size_t size() const { return things_.size(); }
  size_t kept_changes() const { return changes_; }

 private:
  HistoryThing& find_or_add(const std::string& name, Values values, int64_t at_ms);
  void thin();
  Round base_for(const HistoryThing& thing, int64_t now_ms) const;

  std::unordered_map<std::string, std::unique_ptr<HistoryThing>> things_;
  std::deque<Round> rounds_;             // the last two
  int64_t round_ms_ = 0, began_ms_ = 0;  // of the round that is on, as in Round
  uint64_t round_number_ = 0;
  size_t changes_ = 0;
};

}  // namespace tarry::http
