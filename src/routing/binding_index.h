#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/routing/exchange.h"
#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// How one exchange type finds the destinations of a message. One virtual call a match; an exchange
/// type that comes later is one more of these. Guarded by its exchange's lock. Destinations are
/// borrowed and live as long as they have a binding here.
class BindingIndex {
 public:
  virtual ~BindingIndex() = default;
  /// What this type does not allow in a binding: 406. Asked before anything is changed.
  virtual std::optional<PeerError> check(std::string_view key, const FieldTable& arguments) const;
  /// One call a binding, never twice for an equivalent one without remove() between.
  virtual void add(const Destination* to, std::string_view key, const FieldTable& arguments) = 0;
  virtual void remove(const Destination* to, std::string_view key, const FieldTable& arguments) = 0;
  /// Appends the destinations, maybe some of them twice.
  virtual void match(std::string_view routing_key, ByteSpan headers, RouteMatches& out) const = 0;
};

std::unique_ptr<BindingIndex> make_direct_index();
std::unique_ptr<BindingIndex> make_fanout_index();
std::unique_ptr<BindingIndex> make_topic_index();
std::unique_ptr<BindingIndex> make_headers_index();
std::unique_ptr<BindingIndex>
make_consistent_hash_index();  // its `routing_key` is the text to hash
std::unique_ptr<BindingIndex> make_random_index(bool keys_are_empty);
std::unique_ptr<BindingIndex> make_modulus_hash_index();

inline void append_destination(const Destination& to, RouteMatches& out) {
  if (to.is_queue()) {
    out.queues.push_back(to.queue);
  } else {
    out.exchanges.push_back(to.name);
  }
}

/// A set of destinations with a count each: how many bindings lead there that differ only in what
/// the index does not look at. Walking it is walking an array; changing it is O(1) (a map of places
/// is made only for a set that has grown).
class DestinationSet {
 public:
  void add(const Destination* to);
  void remove(const Destination* to);
  bool empty() const { return slots_.empty(); }
  size_t size() const { return slots_.size(); }
  const Destination& at(size_t place) const { return *slots_[place].to; }
  void append_to(RouteMatches& out) const {
    for (const Slot& slot : slots_) append_destination(*slot.to, out);
  }

 private:
  struct Slot {
    const Destination* to;
    size_t bindings;
  };
  static constexpr size_t kMapAbove = 16;
  using Places = std::unordered_map<const Destination*, size_t>;

  size_t place_of(const Destination* to) const;  // slots_.size() if it is not there

  std::vector<Slot> slots_;
  std::unique_ptr<Places> places_;
};

/// To look up a std::string key by a view of it without making a string.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

}  // namespace tarry
