#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "session/channel.h"

namespace tarry {

/// A connection's channels by number. A client may pick any number of 1..65535, so what this takes
/// goes by how many there are and not by the highest: open addressing over a power of two of slots,
/// at most half of them taken. A look-up is a multiplication and, as a rule, one slot.
class ChannelTable {
 public:
  size_t size() const { return size_; }

  /// Null if there is none.
  Channel* find(uint16_t number) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home_of(number);; i = (i + 1) & mask()) {
      Channel* c = slots_[i].get();
      if (!c || c->number == number) return c;
    }
  }

  /// Its number must be free.
  Channel& add(std::unique_ptr<Channel> channel) {
    if (2 * (size_ + 1) > slots_.size()) resize(slots_.empty() ? kFewest : slots_.size() * 2);
    Channel& added = *channel;
    put(std::move(channel));
    ++size_;
    return added;
  }

  /// Null if there is none.
  std::unique_ptr<Channel> remove(uint16_t number) {
    if (slots_.empty()) return nullptr;
    size_t i = home_of(number);
    while (slots_[i] && slots_[i]->number != number) i = (i + 1) & mask();
    if (!slots_[i]) return nullptr;
    auto removed = std::move(slots_[i]);
    --size_;
    // Those behind it that went past its slot move up, so that no look-up ends early.
    for (size_t next = (i + 1) & mask(); slots_[next]; next = (next + 1) & mask()) {
      auto moving = std::move(slots_[next]);
      put(std::move(moving));
    }
    return removed;
  }

  /// `visit(Channel&)`, which must neither add nor remove.
  template <class F>
  void for_each(F&& visit) {
    for (auto& slot : slots_) {
      if (slot) visit(*slot);
    }
  }

 private:
  static constexpr size_t kFewest = 4;

  size_t mask() const { return slots_.size() - 1; }
  /// Fibonacci hashing: numbers in a row as well as those a power of two apart are spread.
  size_t home_of(uint16_t number) const {
    return (number * uint64_t{0x9E3779B97F4A7C15} >> 40) & mask();
  }
  void put(std::unique_ptr<Channel> channel) {
    size_t i = home_of(channel->number);
    while (slots_[i]) i = (i + 1) & mask();
    slots_[i] = std::move(channel);
  }
  void resize(size_t slots) {
    std::vector<std::unique_ptr<Channel>> old(slots);
    old.swap(slots_);
    for (auto& channel : old) {
      if (channel) put(std::move(channel));
    }
  }

  std::vector<std::unique_ptr<Channel>> slots_;
  size_t size_ = 0;
};

}  // namespace tarry
