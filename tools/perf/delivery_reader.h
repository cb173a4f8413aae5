#pragma once

#include <algorithm>
#include <cstring>

#include "perf/link.h"
#include "perf/wire.h"

namespace tarry::perf {

/// One delivery that came whole: its tag, and from the start of its body the message number and the
/// second 8 bytes.
struct Delivery {
  uint64_t tag = 0, number = 0, stamp = 0;
  bool redelivered = false;
};

/// Puts deliveries together from frames. One per link; the link's thread.
class DeliveryReader {
 public:
  /// Reads all that the socket has and calls on_delivery(const Delivery&) for each. True if
  /// anything came.
  template <class OnDelivery>
  bool read(Link& link, OnDelivery&& on_delivery) {
    bool moved = false;
    while (link.receive() > 0) {
      moved = true;
      each_frame(link, [&](uint8_t type, std::string_view payload) {
        if (on_frame(type, payload)) on_delivery(static_cast<const Delivery&>(delivery_));
      });
    }
    return moved;
  }

 private:
  /// True: with this frame a delivery is whole.
  bool on_frame(uint8_t type, std::string_view payload) {
    if (type == kMethodFrame) {
      uint32_t key = load32(payload.data());
      if (key != kBasicDeliver) {
        Link::check_close(key, payload.substr(4));
        return false;
      }
      size_t tag_at = 5 + static_cast<uint8_t>(payload[4]);
      delivery_ = {.tag = load64(payload.data() + tag_at), .redelivered = payload[tag_at + 8] != 0};
    } else if (type == kHeaderFrame) {
      body_bytes_ = body_left_ = load64(payload.data() + 4);
      return body_left_ == 0;
    } else if (type == kBodyFrame) {
      if (body_left_ == body_bytes_ && payload.size() >= 8)
        delivery_.number = load64(payload.data());
      if (body_left_ == body_bytes_ && payload.size() >= 16)
        delivery_.stamp = load64(payload.data() + 8);
      body_left_ -= std::min<uint64_t>(body_left_, payload.size());
      return body_left_ == 0;
    }
    return false;
  }

  Delivery delivery_;
  uint64_t body_bytes_ = 0, body_left_ = 0;
};

}  // namespace tarry::perf
