#include "routing/binding_index.h"

#include "tarrymq/runtime/invariant.h"

namespace tarry {

std::optional<PeerError> BindingIndex::check(std::string_view, const FieldTable&) const {
  return std::nullopt;
}

size_t DestinationSet::place_of(const Destination* to) const {
  if (places_) {
    const auto found = places_->find(to);
    return found == places_->end() ? slots_.size() : found->second;
  }
  size_t place = 0;
  while (place < slots_.size() && slots_[place].to != to) ++place;
  return place;
}

void DestinationSet::add(const Destination* to) {
  const size_t place = place_of(to);
  if (place < slots_.size()) {
    ++slots_[place].bindings;
    return;
  }
  slots_.push_back({to, 1});
  if (places_) {
    places_->emplace(to, place);
  } else if (slots_.size() > kMapAbove) {
    places_ = std::make_unique<Places>();
    for (size_t i = 0; i < slots_.size(); ++i) places_->emplace(slots_[i].to, i);
  }
}

void DestinationSet::remove(const Destination* to) {
  const size_t place = place_of(to);
  TARRY_INVARIANT(place < slots_.size());
  if (--slots_[place].bindings != 0) return;
  if (places_) {
    places_->erase(to);
    if (place + 1 != slots_.size()) (*places_)[slots_.back().to] = place;
  }
  slots_[place] = slots_.back();
  slots_.pop_back();
  if (slots_.empty()) places_.reset();
}

namespace {

class DirectIndex : public BindingIndex {
 public:
  void add(const Destination* to, std::string_view key, const FieldTable&) override {
    by_key_[std::string(key)].add(to);
  }
  void remove(const Destination* to, std::string_view key, const FieldTable&) override {
    const auto found = by_key_.find(key);
    TARRY_INVARIANT(found != by_key_.end());
    found->second.remove(to);
    if (found->second.empty()) by_key_.erase(found);
  }
  void match(std::string_view routing_key, ByteSpan, RouteMatches& out) const override {
    const auto found = by_key_.find(routing_key);
    if (found != by_key_.end()) found->second.append_to(out);
  }

 private:
  TextMap<DestinationSet> by_key_;
};

class FanoutIndex : public BindingIndex {
 public:
  void add(const Destination* to, std::string_view, const FieldTable&) override { all_.add(to); }
  void remove(const Destination* to, std::string_view, const FieldTable&) override {
    all_.remove(to);
  }
  void match(std::string_view, ByteSpan, RouteMatches& out) const override { all_.append_to(out); }

 private:
  DestinationSet all_;
};

}  // namespace

std::unique_ptr<BindingIndex> make_direct_index() { return std::make_unique<DirectIndex>(); }
std::unique_ptr<BindingIndex> make_fanout_index() { return std::make_unique<FanoutIndex>(); }

}  // namespace tarry
