// Publishes that begin with the same bytes as the one before them.
#include <cstring>

#include "session/channel.h"
#include "session/connection_impl.h"
#include "session/content_frame.h"

namespace tarry {

size_t Channel::publish_alike(const RouteTargets& targets, PublishRequest& request, bool mandatory,
                              ByteSpan first, ByteSpan rest) {
  // The body's size is the one thing that may differ: behind class and weight of the header.
  const auto header_at = static_cast<size_t>(request.header.data() - first.data());
  const size_t size_at = header_at + 4, size_end = size_at + sizeof(uint64_t);
  const uint64_t most = connection_.settings().max_message_bytes;
  size_t used = 0;
  uint64_t count = 0;
  while (!closing_ && rest.size() - used > first.size() && connection_.takes_input() &&
         connection_.vhost().topology_version() == routes_.version()) {
    const std::byte* at = rest.data() + used;
    if (std::memcmp(at, first.data(), size_at) != 0 ||
        std::memcmp(at + size_end, first.data() + size_end, first.size() - size_end) != 0)
      break;
    const auto body_size = load_be<uint64_t>(at + size_at);
    if (body_size > most) break;
    size_t end = used + first.size();
    const std::byte* body = nullptr;
    if (body_size > 0) {
      const DecodedFrame part = decode_frame(rest.subspan(end), connection_.frame_max());
      if (!is_content(part, FrameType::body, number) || part.payload.size() != body_size) break;
      body = part.payload.data();
      end += part.total_bytes;
    }
    request.header = {at + header_at, request.header.size()};
    request.body = {body, static_cast<size_t>(body_size)};
    request.publish_number = 0;
    post(targets, request, mandatory, request.header);
    used = end;
    ++count;
  }
  published_ += count;
  routes_.count_again(count);
  return used;
}

}  // namespace tarry
