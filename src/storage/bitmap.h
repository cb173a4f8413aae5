#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace tarry {

/// A set of ordinals; memory only up to the highest that was ever set.
class Bitmap {
 public:
  bool empty() const { return words_.empty(); }
  bool test(uint32_t i) const {
    size_t w = i / 64;
    return w < words_.size() && (words_[w] >> (i % 64) & 1);
  }
  /// Returns false if it was set already.
  bool set(uint32_t i) {
    size_t w = i / 64;
    if (w >= words_.size()) words_.resize(w + 1 + w / 2);
    uint64_t bit = 1ull << (i % 64);
    bool fresh = !(words_[w] & bit);
    words_[w] |= bit;
    return fresh;
  }
  bool reset(uint32_t i) {
    size_t w = i / 64;
    if (w >= words_.size()) return false;
    uint64_t bit = 1ull << (i % 64);
    bool was = words_[w] & bit;
    words_[w] &= ~bit;
    return was;
  }
  /// The first ordinal >= i that is not set (set == false) or is set, below `end`; else `end`.
  uint32_t find(uint32_t i, uint32_t end, bool set) const {
    while (i < end) {
      size_t w = i / 64;
      if (w >= words_.size()) return set ? end : i;
      uint64_t word = (set ? words_[w] : ~words_[w]) >> (i % 64);
      if (word) {
        uint64_t at = i + static_cast<uint32_t>(std::countr_zero(word));
        return at < end ? static_cast<uint32_t>(at) : end;
      }
      i = static_cast<uint32_t>((w + 1) * 64);
    }
    return end;
  }
  void clear() { std::vector<uint64_t>().swap(words_); }
  size_t memory_bytes() const { return words_.capacity() * 8; }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace tarry
