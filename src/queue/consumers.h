#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tarrymq/queue/queue_handle.h"

namespace tarry {

/// A consumer as its queue keeps it.
struct Consumer {
  ConsumeRequest request;
  uint32_t outstanding =
      0;  // delivered and not settled; what is left when it is cancelled is forgotten here
  uint32_t credit = 0;         // granted, for a channel-limited one
  bool credit_wanted = false;  // asked and not yet granted
  bool paused = false;
  bool active = true;  // false: waits behind the single active consumer
  /// Sent to a connection on another shard and not yet heard of there, so that a busy shard's mail
  /// stays bounded.
  uint64_t travelling_bytes = 0;

  // Of the present pass.
  std::vector<Delivery> batch;
  uint64_t batch_bytes = 0;

  ConsumerId id() const { return request.consumer; }
  static constexpr uint64_t kTravellingBytesMax = 1 << 20;
  bool prefetch_counts() const { return request.prefetch != 0 && !request.no_ack; }
  /// How many more it may have; its bytes in a pass aside.
  uint32_t capacity() const;
  /// It could take something if the channel granted it credit.
  bool would_take() const;

 private:
  friend class Consumers;
  Consumer* next_ = nullptr;  // ring of those of one priority that have capacity
  Consumer* previous_ = nullptr;
  bool listed_ = false;
};

/// Who gets the next message: strictly the highest priority that has capacity, round robin within
/// it; or the single active consumer alone. Every step is O(1) in the number of consumers (O(log)
/// in that of priorities), but for remove(). Own shard.
class Consumers {
 public:
  explicit Consumers(bool single_active) : single_active_(single_active) {}
  Consumers(const Consumers&) = delete;
  Consumers& operator=(const Consumers&) = delete;

  size_t count() const { return all_.size(); }
  bool exclusive() const { return all_.size() == 1 && all_.front()->request.exclusive; }
  /// Requires that an exclusive one is alone (the actor refuses with 403).
  Consumer& add(ConsumeRequest request);
  Consumer* find(ConsumerId id);
  /// With single active consumer the next by priority, then by age, becomes active; but not before
  /// everything that the one before holds is settled, or what comes back would be out of order.
  void remove(ConsumerId id);
  /// `count` deliveries of a consumer that has left were settled.
  void settled_after_leaving(ConsumerId id, uint32_t count);

  /// The one to serve next, or null. Stays the same until it is rotated or loses its capacity.
  Consumer* next();
  /// True if `consumer` is the only one of its priority with capacity: bursts need no turns.
  bool alone(const Consumer& consumer) const { return consumer.next_ == &consumer; }
  /// The next one of its priority is served first.
  void rotate(Consumer& consumer);
  /// To be called after anything that capacity() depends on has changed.
  void refresh(Consumer& consumer);
  /// Leaves it out until refresh(): it has had its bytes of this pass.
  void set_aside(Consumer& consumer) { unlist(consumer); }

  const std::vector<std::unique_ptr<Consumer>>& all() const { return all_; }  // in order of age
  size_t channel_limited_count() const { return channel_limited_count_; }
  void set_channel_limited(Consumer& consumer, bool limited);

 private:
  void enlist(Consumer& consumer);
  void unlist(Consumer& consumer);
  void choose_active();
  struct Fading {
    ConsumerId id;
    uint32_t outstanding = 0;
  };

  const bool single_active_;
  std::vector<std::unique_ptr<Consumer>> all_;
  std::unordered_map<ConsumerId, Consumer*> by_id_;
  std::map<int32_t, Consumer*, std::greater<>> rings_;  // front of each non-empty ring
  size_t channel_limited_count_ = 0;
  Fading fading_;  // the active one before, while it holds something
};

}  // namespace tarry
