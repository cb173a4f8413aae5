#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tarry {

struct Segment;

/// A piece of a segment's tail in memory: bytes [start, start + used) of the segment. Appended to
/// by its shard; what was handed over is read (and its checksums written) by the barrier's thread
/// until the submission is back.
struct Chunk {
  Segment* segment = nullptr;  // null: its log is gone, freed when the barrier is done with it
  std::byte* data = nullptr;   // null: all dead, memory given back
  uint32_t capacity = 0;
  uint32_t start = 0;
  uint32_t used = 0;
  uint32_t first_ordinal = 0, end_ordinal = 0;
  uint32_t published = 0;  // bytes that are on disk
  uint32_t barrier_refs = 0;
};

/// Chunk memory of one shard: large buffers are kept for reuse, so that a steady flow touches no
/// new pages.
class ChunkPool {
 public:
  static constexpr uint32_t kSmallest = 512, kLargest = 256u << 10;
  ~ChunkPool() { trim(); }
  /// Gives all spare memory back, when the shard is at rest.
  void trim() {
    for (std::byte* buffer : spare_) ::munmap(buffer, kLargest);
    spare_.clear();
  }
  std::byte* take(uint32_t bytes) {
    if (bytes != kLargest) return static_cast<std::byte*>(std::malloc(bytes));
    if (spare_.empty()) {
      // Straight from the system, and back: from the allocator a burst of these would stay in the
      // process.
      void* mapped =
          ::mmap(nullptr, kLargest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
    }
    std::byte* buffer = spare_.back();
    spare_.pop_back();
    return buffer;
  }
  void give_back(std::byte* buffer, uint32_t bytes) {
    if (bytes != kLargest) {
      std::free(buffer);
    } else if (spare_.size() < kSpareMax) {
      spare_.push_back(buffer);
    } else {
      ::munmap(buffer, kLargest);
    }
  }

 private:
  // What a fast publisher has on its way to the disk: to give memory back and take it again costs
  // more than it holds.
  static constexpr size_t kSpareMax = 128;
  std::vector<std::byte*> spare_;
};

}  // namespace tarry
