#include "routing/hash_index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "routing/binding_index.h"
#include "tarrymq/amqp/table_view.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {

namespace {

constexpr uint64_t kWeightMax = 1'000'000'000;

/// FNV-1a, then a finalizer that spreads what is alike. The same on every machine and after every
/// restart.
uint64_t stable_hash(std::string_view text, uint64_t seed) {
  uint64_t h = 0xcbf29ce484222325ull ^ seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

uint64_t weight_of(std::string_view key) {
  uint64_t weight = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), weight);
  return error == std::errc{} && end == key.data() + key.size() && weight <= kWeightMax ? weight
                                                                                        : 0;
}

/// Each destination draws a lot from the text and its own name; the best one by weight wins
/// (weighted rendezvous hashing). A destination gets its share by weight, and one that comes or
/// goes moves only what it wins or had. Several bindings of one destination add up.
/// O(destinations).
class ConsistentHashIndex : public BindingIndex {
 public:
  std::optional<PeerError> check(std::string_view key, const FieldTable&) const override {
    if (weight_of(key) > 0) return std::nullopt;
    return PeerError::precondition_failed(
        "invalid binding key '" + std::string(key) +
        "' of an x-consistent-hash exchange: it is the weight, an integer from 1 to " +
        std::to_string(kWeightMax));
  }

  void add(const Destination* to, std::string_view key, const FieldTable&) override {
    for (Share& share : shares_) {
      if (share.to == to) {
        share.weight += weight_of(key);
        return;
      }
    }
    shares_.push_back({to, stable_hash(to->name, to->is_queue() ? 1 : 2), weight_of(key)});
  }

  void remove(const Destination* to, std::string_view key, const FieldTable&) override {
    for (Share& share : shares_) {
      if (share.to != to) continue;
      share.weight -= weight_of(key);
      if (share.weight > 0) return;
      share = shares_.back();
      shares_.pop_back();
      return;
    }
    TARRY_INVARIANT(false && "no such share");
  }

  void match(std::string_view text, ByteSpan, RouteMatches& out) const override {
    const Share* winner = nullptr;
    double best = 0;
    for (const Share& share : shares_) {
      const uint64_t drawn = stable_hash(text, share.seed) >> 11;  // 53 bits
      const double lot = -std::log((static_cast<double>(drawn) + 0.5) * 0x1p-53) /
                         static_cast<double>(share.weight);
      if (winner != nullptr && lot > best) continue;
      if (winner != nullptr && lot == best && share.to->name > winner->to->name) continue;
      winner = &share;
      best = lot;
    }
    if (winner != nullptr) append_destination(*winner->to, out);
  }

 private:
  struct Share {
    const Destination* to;
    uint64_t seed;
    uint64_t weight;
  };
  std::vector<Share> shares_;
};

/// The destinations in the order of their names, so that a restart changes nothing.
class ModulusHashIndex : public BindingIndex {
 public:
  void add(const Destination* to, std::string_view, const FieldTable&) override {
    for (Place& place : places_) {
      if (place.to == to) {
        ++place.bindings;
        return;
      }
    }
    places_.push_back({to, 1});
    std::ranges::sort(places_, {}, [](const Place& place) {
      return std::pair(place.to->name, place.to->is_queue());
    });
  }
  void remove(const Destination* to, std::string_view, const FieldTable&) override {
    const auto place = std::ranges::find(places_, to, &Place::to);
    TARRY_INVARIANT(place != places_.end());
    if (--place->bindings == 0) places_.erase(place);
  }
  void match(std::string_view routing_key, ByteSpan, RouteMatches& out) const override {
    if (places_.empty()) return;
    append_destination(*places_[stable_hash(routing_key, 0) % places_.size()].to, out);
  }

 private:
  struct Place {
    const Destination* to;
    size_t bindings;
  };
  std::vector<Place> places_;
};

class RandomIndex : public BindingIndex {
 public:
  explicit RandomIndex(bool keys_are_empty) : keys_are_empty_(keys_are_empty) {}
  std::optional<PeerError> check(std::string_view key, const FieldTable&) const override {
    if (!keys_are_empty_ || key.empty()) return std::nullopt;
    return PeerError::precondition_failed(
        "invalid binding key '" + std::string(key) +
        "' of an x-local-random exchange: only the empty one is allowed");
  }
  void add(const Destination* to, std::string_view, const FieldTable&) override { all_.add(to); }
  void remove(const Destination* to, std::string_view, const FieldTable&) override {
    all_.remove(to);
  }
  void match(std::string_view, ByteSpan, RouteMatches& out) const override {
    if (all_.empty()) return;
    thread_local std::minstd_rand random{std::random_device{}()};
    append_destination(all_.at(std::uniform_int_distribution<size_t>(0, all_.size() - 1)(random)),
                       out);
  }

 private:
  const bool keys_are_empty_;
  DestinationSet all_;
};

}  // namespace

std::unique_ptr<BindingIndex> make_consistent_hash_index() {
  return std::make_unique<ConsistentHashIndex>();
}
std::unique_ptr<BindingIndex> make_random_index(bool keys_are_empty) {
  return std::make_unique<RandomIndex>(keys_are_empty);
}
std::unique_ptr<BindingIndex> make_modulus_hash_index() {
  return std::make_unique<ModulusHashIndex>();
}

std::string hashed_text(const HashOn& on, ByteSpan headers, const PropertiesView* properties) {
  if (on.what == HashOn::What::header) {
    const auto field = find_field(headers, on.name);
    if (!field) return {};
    return field->type == 'S' ? std::string(as_text(field->value)) : field_value(*field).to_text();
  }
  if (!properties) return {};
  if (on.name == "correlation_id") return std::string(properties->correlation_id.value_or(""));
  if (on.name == "message_id") return std::string(properties->message_id.value_or(""));
  return properties->timestamp ? std::to_string(*properties->timestamp) : std::string();
}

}  // namespace tarry
