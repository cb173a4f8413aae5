#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/session/outbound_port.h"

namespace tarry {

/// The replies that one channel owes for changes of the topology (queues, exchanges, bindings) that
/// have taken effect and are not durable yet, encoded, in the order of their methods.
///
/// How a declaration is answered. The vhost says when a change has taken effect; from there on the
/// channel's next method may be another change, while the reply waits here. A connection numbers
/// its changes, and at the end of each turn asks the vhost once to be told when all so far are
/// durable (one sync of the disk for many changes). Then replies leave in order: a reply that owes
/// nothing waits for those before it. While a channel owes replies
///   - a method of it that is no change of the topology, and any method on channel 0, is not taken,
///     so that what confirms, deliveries and commits rest on is durable (ConnectionImpl::is_held),
///   - an error of it waits until the replies before it are out, and so does one that ends the
///     connection while any channel owes one; no input is taken meanwhile (fail_later),
///   - a change with no-wait has its place in the order, without a reply,
///   - the end of the channel or the connection drops them: nothing is sent afterwards.
/// A client that is not answered (a disk that takes nothing) is stopped after kOwedMax of them.
class OwedReplies {
 public:
  /// `change`: the number of the connection's change that has to be durable; 0: none.
  void add_silent(uint64_t change) { replies_.push_back({change, 0}); }
  template <class M>
  void add(uint64_t change, uint16_t channel, const M& m) {
    Bytes bytes{bytes_};
    const size_t before = bytes_.size();
    append_method(bytes, channel, m);
    replies_.push_back({change, bytes_.size() - before});
  }

  bool empty() const { return replies_.empty(); }
  size_t count() const { return replies_.size(); }

  /// Moves to `out` what may leave now that every change up to `stored` is durable. How many
  /// replies that were, silent ones included.
  size_t release(uint64_t stored, OutboundBuffer& out) {
    size_t due = 0, size = 0;
    for (; due < replies_.size() && replies_[due].change <= stored; ++due)
      size += replies_[due].size_bytes;
    out.append(as_bytes(std::string_view(bytes_).substr(0, size)));
    if (due == replies_.size()) {
      drop();
    } else {
      replies_.erase(replies_.begin(), replies_.begin() + static_cast<ptrdiff_t>(due));
      bytes_.erase(0, size);
    }
    return due;
  }
  /// With its memory: most channels owe nothing.
  void drop() {
    replies_ = {};
    bytes_ = {};
  }

 private:
  struct Reply {
    uint64_t change;
    size_t size_bytes;
  };
  struct Bytes {  // for append_method
    std::string& text;
    std::byte* append(size_t size) {
      const size_t at = text.size();
      text.resize(at + size);
      return reinterpret_cast<std::byte*>(text.data()) + at;
    }
  };
  std::vector<Reply> replies_;
  std::string bytes_;
};

/// Changes of one connection whose replies are owed. Above it nothing more is taken from it.
inline constexpr size_t kOwedMax = 1024;
/// Taken in a row from one connection before the disk is asked and others have their turn.
inline constexpr size_t kChangesInARow = 128;

}  // namespace tarry
