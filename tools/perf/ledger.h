#pragma once

#include <cstdint>
#include <vector>

namespace tarry::perf {

/// A message's number: the publisher in the top 16 bits, its own count (from 0) below. First 8
/// bytes of the body.
struct MessageNumber {
  static constexpr int kPublisherShift = 48;
  static constexpr uint64_t make(uint32_t publisher, uint64_t sequence) {
    return static_cast<uint64_t>(publisher) << kPublisherShift | sequence;
  }
  static constexpr uint32_t publisher(uint64_t number) {
    return static_cast<uint32_t>(number >> kPublisherShift);
  }
  static constexpr uint64_t sequence(uint64_t number) {
    return number & ((1ull << kPublisherShift) - 1);
  }
};

/// Which numbers have come, a bit each. One thread.
class Ledger {
 public:
  explicit Ledger(uint32_t publishers) : seen_(publishers) {}
  /// False if it had come before, or if nobody sent such a number.
  bool note(uint64_t number) {
    uint32_t publisher = MessageNumber::publisher(number);
    uint64_t sequence = MessageNumber::sequence(number);
    if (publisher >= seen_.size() || sequence > kSequenceMax) return false;
    auto& words = seen_[publisher];
    if (sequence / 64 >= words.size()) words.resize(sequence / 64 * 2 + 1024);
    uint64_t bit = 1ull << (sequence % 64);
    bool fresh = (words[sequence / 64] & bit) == 0;
    words[sequence / 64] |= bit;
    return fresh;
  }

 private:
  static constexpr uint64_t kSequenceMax =
      1ull << 36;  // garbage must not make us take memory without end
  std::vector<std::vector<uint64_t>> seen_;
};

}  // namespace tarry::perf
