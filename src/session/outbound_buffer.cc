#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "tarrymq/runtime/invariant.h"
#include "tarrymq/session/outbound_port.h"

namespace tarry {
namespace {

constexpr size_t kFirstCapacity = 4096;
// An empty buffer larger than this is given back, so that one burst does not cost memory for the
// connection's life.
constexpr size_t kKeptCapacity = 256 << 10;
// Whoever grows to this takes a buffer that another one gave back, if there is one.
constexpr size_t kSharedFrom = 32 << 10;

/// Large buffers that ran empty, for the next connection of this thread that needs one: a steady
/// flow of large batches neither asks the system for memory nor grows by copying.
class SpareBuffers {
 public:
  ~SpareBuffers() {
    for (const Buffer& buffer : spare_) std::free(buffer.data);
  }
  std::byte* take(size_t wanted, size_t& capacity) {
    for (Buffer& buffer : spare_) {
      if (buffer.capacity < wanted) continue;
      capacity = std::exchange(buffer.capacity, 0);
      return std::exchange(buffer.data, nullptr);
    }
    return nullptr;
  }
  void give(std::byte* data, size_t capacity) {
    for (Buffer& buffer : spare_) {
      if (buffer.data || capacity > kLargest) continue;
      buffer = {data, capacity};
      return;
    }
    std::free(data);
  }

 private:
  static constexpr size_t kLargest = 1 << 20;
  struct Buffer {
    std::byte* data = nullptr;
    size_t capacity = 0;
  };
  std::array<Buffer, 2> spare_;
};

thread_local SpareBuffers spare_buffers;

}  // namespace

OutboundBuffer::~OutboundBuffer() { std::free(data_); }

void OutboundBuffer::consume(size_t size) {
  TARRY_INVARIANT(size <= end_ - begin_);
  begin_ += size;
  if (begin_ < end_) return;
  dropped_ += begin_;
  begin_ = end_ = 0;
  if (capacity_ > kKeptCapacity) {
    spare_buffers.give(data_, capacity_);
    data_ = nullptr;
    capacity_ = 0;
  }
}

void OutboundBuffer::grow(size_t size) {
  size_t kept = end_ - begin_;
  // Worth moving down when at least half of what lies there was sent.
  if (begin_ >= kept && capacity_ - kept >= size) {
    std::memmove(data_, data_ + begin_, kept);
  } else {
    size_t wanted = std::max({kFirstCapacity, capacity_ * 2, kept + size});
    std::byte* bigger = wanted >= kSharedFrom ? spare_buffers.take(wanted, wanted) : nullptr;
    if (!bigger) bigger = static_cast<std::byte*>(std::malloc(wanted));
    TARRY_INVARIANT(bigger != nullptr);
    if (kept > 0) std::memcpy(bigger, data_ + begin_, kept);
    std::free(data_);
    data_ = bigger;
    capacity_ = wanted;
  }
  dropped_ += begin_;
  begin_ = 0;
  end_ = kept;
}

}  // namespace tarry
