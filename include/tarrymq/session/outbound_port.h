#pragma once

#include <cstddef>
#include <string>

#include "tarrymq/runtime/bytes.h"

namespace tarry {

/// Bytes on their way to one socket: session appends whole frames, net sends and consumes them. One
/// a connection; own shard. Capacity is kept between turns up to a mark, so that a busy connection
/// does not allocate.
class OutboundBuffer {
 public:
  /// Room for `size` more bytes; valid until the next call. The caller fills all of it.
  std::byte* append(size_t size) {
    if (size > capacity_ - end_) grow(size);
    std::byte* at = data_ + end_;
    end_ += size;
    return at;
  }
  void append(ByteSpan bytes) {
    if (!bytes.empty()) std::memcpy(append(bytes.size()), bytes.data(), bytes.size());
  }
  ByteSpan unsent() const { return {data_ + begin_, end_ - begin_}; }
  size_t unsent_bytes() const { return end_ - begin_; }
  /// Bytes ever appended; position of the next byte in the stream of this connection.
  uint64_t appended() const { return dropped_ + end_; }
  /// Bytes ever taken by the socket.
  uint64_t sent() const { return dropped_ + begin_; }
  void consume(size_t size);

  OutboundBuffer() = default;
  ~OutboundBuffer();
  OutboundBuffer(const OutboundBuffer&) = delete;
  OutboundBuffer& operator=(const OutboundBuffer&) = delete;

 private:
  void grow(size_t size);
  std::byte* data_ = nullptr;
  size_t begin_ = 0, end_ = 0, capacity_ = 0;
  uint64_t dropped_ = 0;
};

/// Port: what a session needs of its socket. Implemented by net (and by a pipe in tests). Own
/// shard.
class OutboundPort {
 public:
  virtual ~OutboundPort() = default;
  virtual OutboundBuffer& outbound() = 0;
  /// Send what is in outbound() at this turn's end.
  virtual void request_flush() = 0;
  /// Stop or go on reading (back-pressure, a command that waits for its answer). When reading
  /// resumes, bytes that were received and not consumed are offered to the session again.
  virtual void set_reading(bool on) = 0;
  /// Send what is left, then close. The session is told by on_closed afterwards.
  virtual void close_after_flush() = 0;
  /// The same after a goodbye of the peer's own: it was answered, and closes first. Only when it
  /// takes its time we do. (A client with several threads may be at its own close still; an end of
  /// file before it is through is an error there.)
  virtual void close_after_peer() { close_after_flush(); }
  /// Close at once.
  virtual void abort() = 0;
};

}  // namespace tarry
