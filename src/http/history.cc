#include "http/history.h"

#include <algorithm>

namespace tarry::http {

struct HistoryChange {
  int64_t at_ms;
  int64_t value;
};
using HistorySeries = std::vector<HistoryChange>;  // by time; empty: has been `last` all along

struct HistoryThing {
  int64_t first_ms = 0;
  uint64_t seen_in_round = 0;
  Keep keep = Keep::minutes;
  std::vector<int64_t> last;          // as of the last round, or of the first look
  std::vector<HistorySeries> series;  // none while nothing has ever changed
};

namespace {

constexpr int64_t kFineMs = 605'000;
constexpr int64_t kFineWhenManyMs = 120'000;
constexpr size_t kManyChanges =
    3'000'000;  // 48 MB: from there on every round is kept for two minutes only
constexpr uint64_t kThinEvery = 12;     // rounds
constexpr int64_t kRateBaseMs = 1'000;  // a rate is over this long at least

int64_t kept_ms(Keep keep) {
  switch (keep) {
    case Keep::minutes:
      return kFineMs;
    case Keep::hour:
      return 3'660'000;
    case Keep::day:
      return 86'400'000;
  }
  return kFineMs;
}

/// How far apart samples of that age need to be.
int64_t bucket_ms(int64_t age_ms, int64_t fine_ms) {
  if (age_ms <= fine_ms) return 1;
  return age_ms <= 3'660'000 ? 60'000 : 600'000;
}

int64_t value_at(const HistorySeries& series, int64_t last, int64_t at_ms) {
  if (series.empty()) return last;
  auto after =
      std::upper_bound(series.begin(), series.end(), at_ms,
                       [](int64_t at, const HistoryChange& change) { return at < change.at_ms; });
  return after == series.begin() ? series.front().value : std::prev(after)->value;
}

}  // namespace

HistoryBook::HistoryBook() = default;
HistoryBook::~HistoryBook() = default;

HistoryThing& HistoryBook::find_or_add(const std::string& name, Values values, int64_t at_ms) {
  auto& slot = things_[name];
  if (!slot || slot->last.size() != values.size()) {
    slot = std::make_unique<HistoryThing>();
    slot->first_ms = at_ms;
    slot->last.assign(values.begin(), values.end());
    slot->seen_in_round = round_number_ + 1;  // the next round may forget it
  }
  return *slot;
}

void HistoryBook::begin_round(SteadyTime now) {
  // The nearest whole round: a timer that is a little late moves no sample.
  began_ms_ = now.ns / 1'000'000;
  round_ms_ = std::max((began_ms_ + kRoundMs / 2) / kRoundMs * kRoundMs, round_ms_);
  ++round_number_;
}

void HistoryBook::record(const std::string& name, Values values, Keep keep) {
  HistoryThing& thing = find_or_add(name, values, round_ms_);
  thing.keep = keep;
  thing.seen_in_round = round_number_;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == thing.last[i]) continue;
    if (thing.series.empty()) thing.series.resize(values.size());
    HistorySeries& series = thing.series[i];
    if (series.empty()) {
      series.push_back({std::min(thing.first_ms, round_ms_ - 1), thing.last[i]});
      ++changes_;
    }
    if (series.back().at_ms == round_ms_) {
      series.back().value = values[i];  // a round repeated
    } else {
      series.push_back({round_ms_, values[i]});
      ++changes_;
    }
    thing.last[i] = values[i];
  }
}

void HistoryBook::end_round() {
  if (rounds_.empty() || rounds_.back().label_ms != round_ms_)
    rounds_.push_back({round_ms_, began_ms_});
  rounds_.back().began_ms = began_ms_;
  if (rounds_.size() > 2) rounds_.pop_front();
  std::erase_if(things_,
                [this](const auto& entry) { return entry.second->seen_in_round < round_number_; });
  if (round_number_ % kThinEvery == 0) thin();
}

void HistoryBook::thin() {
  const int64_t fine = changes_ > kManyChanges ? kFineWhenManyMs : kFineMs;
  changes_ = 0;
  for (auto& [name, thing] : things_) {
    const int64_t oldest = round_ms_ - kept_ms(thing->keep);
    for (HistorySeries& series : thing->series) {
      size_t kept = 0;
      for (size_t i = 0; i < series.size(); ++i) {
        const bool has_next = i + 1 < series.size();
        if (has_next) {
          const HistoryChange& next = series[i + 1];
          if (next.at_ms <= oldest)
            continue;  // of what is too old, the last one is where the rest begins
          const int64_t bucket = bucket_ms(round_ms_ - series[i].at_ms, fine);
          if (kept > 0 && series[i].at_ms / bucket == next.at_ms / bucket) continue;
        }
        series[kept++] = series[i];
      }
      series.resize(kept);
      if (series.size() == 1 && series[0].at_ms <= oldest) HistorySeries().swap(series);
      changes_ += series.size();
    }
  }
}

HistoryBook::Round HistoryBook::base_for(const HistoryThing& thing, int64_t now_ms) const {
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
    if (round->began_ms <= now_ms - kRateBaseMs && round->label_ms >= thing.first_ms) return *round;
  }
  return {thing.first_ms, thing.first_ms};
}

HistoryBook::View HistoryBook::look(const std::string& name, Values values, SteadyTime now) {
  const int64_t now_ms = now.ns / 1'000'000;
  const HistoryThing& thing = find_or_add(name, values, now_ms);
  View view;
  view.book_ = this;
  view.thing_ = &thing;
  view.now_values_.assign(values.begin(), values.end());
  view.now_ms_ = now_ms;
  view.base_ = base_for(thing, now_ms);
  return view;
}

double HistoryBook::View::rate(size_t i) const {
  const int64_t passed = now_ms_ - base_.began_ms;
  if (passed < kRateBaseMs) return 0;
  const HistorySeries* series = thing_->series.empty() ? nullptr : &thing_->series[i];
  const int64_t then =
      series ? value_at(*series, thing_->last[i], base_.label_ms) : thing_->last[i];
  return static_cast<double>(now_values_[i] - then) * 1000 / static_cast<double>(passed);
}

std::vector<HistoryBook::Sample> HistoryBook::View::samples(size_t i, HistoryRange range) const {
  std::vector<Sample> out;
  if (!range.wanted()) return out;
  static const HistorySeries kNone;
  const HistorySeries& series = thing_->series.empty() ? kNone : thing_->series[i];
  const int64_t newest = book_->rounds_.empty() ? now_ms_ : book_->rounds_.back().label_ms;
  for (int64_t back = 0; back <= int64_t{range.age_s} * 1000;
       back += int64_t{range.incr_s} * 1000) {
    const int64_t at = newest - back;
    out.push_back({now_ms_ - at, value_at(series, thing_->last[i], at)});
  }
  return out;
}

}  // namespace tarry::http
