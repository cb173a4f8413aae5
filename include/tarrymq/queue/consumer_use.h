#pragma once

#include <algorithm>
#include <cstdint>

namespace tarry {

/// For how large a part of the last seconds somebody could have taken a message (RabbitMQ's
/// consumer_capacity): less than 1 when consumers are held up by their prefetch or their network.
/// An average that leans to the present, reckoned when the state changes and when it is read. A
/// value.
struct ConsumerUse {
  bool able = false;  // since `since_ns`
  int64_t since_ns = 0;
  double share = 0;  // up to then

  static constexpr int64_t kWindowNs = 5'000'000'000;
  double at(int64_t now_ns) const {
    const auto passed = static_cast<double>(std::clamp<int64_t>(now_ns - since_ns, 0, kWindowNs));
    return share + ((able ? 1.0 : 0.0) - share) * passed / kWindowNs;
  }
  ConsumerUse changed_to(bool now_able, int64_t now_ns) const {
    return {now_able, now_ns, at(now_ns)};
  }
  /// The first consumer has come.
  static ConsumerUse begun(bool able, int64_t now_ns) { return {able, now_ns, able ? 1.0 : 0.0}; }
};

}  // namespace tarry
