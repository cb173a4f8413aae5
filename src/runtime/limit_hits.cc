#include "tarrymq/runtime/limit_hits.h"

#include <array>
#include <atomic>

namespace tarry {
namespace {

constexpr std::array<std::string_view, 9> kLimitNames{
    "connections", "handshake_timeout", "frame_max",   "channel_max", "message_bytes",
    "table_depth", "http_connections",  "http_header", "http_body"};
static_assert(kLimitNames.size() == static_cast<size_t>(Limit::http_body) + 1);

std::array<std::atomic<uint64_t>, kLimitNames.size()> limit_counts{};

}  // namespace

void count_limit_hit(Limit limit) {
  limit_counts[static_cast<size_t>(limit)].fetch_add(1, std::memory_order_relaxed);
}

std::vector<LimitHits> limit_hits() {
  std::vector<LimitHits> all;
  for (size_t i = 0; i < kLimitNames.size(); ++i) {
    all.push_back({kLimitNames[i], limit_counts[i].load(std::memory_order_relaxed)});
  }
  return all;
}

}  // namespace tarry
