#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tarry::sim {

/// The only source of chance in a simulation (splitmix64): the same seed, the same run, on every
/// machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {
    state_ = next() ^ (seed << 32);
  }  // neighbours differ in all they do

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// 0 .. n-1; n >= 1.
  uint64_t below(uint64_t n) { return next() % n; }
  /// lowest .. highest, both included.
  uint64_t between(uint64_t lowest, uint64_t highest) {
    return lowest + below(highest - lowest + 1);
  }
  bool percent(uint64_t chance) { return below(100) < chance; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  /// An index, each as often as its weight says. At least one weight is above 0.
  size_t weighted(const std::vector<uint32_t>& weights) {
    uint64_t sum = 0;
    for (uint32_t w : weights) sum += w;
    uint64_t drawn = below(sum);
    for (size_t i = 0; i < weights.size(); ++i) {
      if (drawn < weights[i]) return i;
      drawn -= weights[i];
    }
    return 0;
  }

 private:
  uint64_t state_;
};

}  // namespace tarry::sim
