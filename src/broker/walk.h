#pragma once

#include <string_view>

#include "broker/holding.h"
#include "broker/registry.h"
#include "tarrymq/routing/route_walk.h"

namespace tarry {

/// A vhost as a route walk sees it. The registry's lock is held while it lives.
class VhostWalk final : public RouteLookup {
 public:
  explicit VhostWalk(const Vhost& vhost) : vhost_(vhost) {}
  const Exchange* find_exchange(std::string_view name) override {
    return vhost_.find_exchange(name);
  }
  QueueId find_queue(std::string_view name) override {
    if (is_internal_queue_name(name)) return {};
    auto it = vhost_.queues.find(name);
    return it == vhost_.queues.end() ? QueueId{} : it->second->handle->id;
  }

 private:
  const Vhost& vhost_;
};

}  // namespace tarry
