#include "tarrymq/amqp/frame_encoder.h"

namespace tarry {

DeliverTemplate::DeliverTemplate(uint16_t channel, std::string_view consumer_tag)
    : channel_(channel) {
  MethodWriter writer(detail::put_frame_head(prefix_.data(), FrameType::method, channel, 0));
  writer.integer(method_id::basic_deliver);
  writer.short_text(consumer_tag);
  prefix_bytes_ = static_cast<uint16_t>(writer.at() - prefix_.data());
}

}  // namespace tarry
