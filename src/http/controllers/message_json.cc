#include "http/controllers/message_json.h"

#include "http/controllers/common.h"
#include "tarrymq/amqp/properties.h"

namespace tarry::http {
namespace {

/// Whole UTF-8, no overlong forms, no surrogates.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char c = byte(i);
    const size_t more = c < 0x80                ? 0
                        : c >= 0xC2 && c < 0xE0 ? 1
                        : c >= 0xE0 && c < 0xF0 ? 2
                        : c >= 0xF0 && c < 0xF5 ? 3
                                                : SIZE_MAX;
    if (more == SIZE_MAX || text.size() - i <= more) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const unsigned char second = more > 0 ? byte(i + 1) : 0;
    if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second >= 0xA0) ||
        (c == 0xF0 && second < 0x90) || (c == 0xF4 && second >= 0x90)) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

std::optional<std::string> short_text(BodyReader& reader, const char* key) {
  auto value = reader.optional_text(key);
  if (value && value->size() > 255)
    reader.fail("property '" + std::string(key) + "' must have at most 255 bytes");
  return value;
}

}  // namespace

Result<std::string, std::string> properties_from_json(const Json& properties, uint64_t body_bytes) {
  using Answer = Result<std::string, std::string>;
  constexpr auto kError = boost::system::in_place_error;
  static const Json kNone = Json::object();
  const Json& from = properties.is_array() && properties.empty() ? kNone : properties;
  if (!from.is_object()) return Answer(kError, "'properties' must be an object");
  BodyReader reader(from);
  PropertiesBuilder builder;
  builder.content_type = short_text(reader, "content_type");
  builder.content_encoding = short_text(reader, "content_encoding");
  builder.correlation_id = short_text(reader, "correlation_id");
  builder.reply_to = short_text(reader, "reply_to");
  builder.message_id = short_text(reader, "message_id");
  builder.type = short_text(reader, "type");
  builder.user_id = short_text(reader, "user_id");
  builder.app_id = short_text(reader, "app_id");
  builder.cluster_id = short_text(reader, "cluster_id");
  if (const auto e = from.find("expiration"); e != from.end() && e->is_number_unsigned()) {
    builder.expiration = std::to_string(e->get<uint64_t>());  // meant well by many a script
  } else {
    builder.expiration = short_text(reader, "expiration");
  }
  const auto has = [&](const char* key) { return from.contains(key) && !from[key].is_null(); };
  if (has("delivery_mode"))
    builder.delivery_mode = static_cast<uint8_t>(reader.integer("delivery_mode", 1, 0, 255));
  if (has("priority"))
    builder.priority = static_cast<uint8_t>(reader.integer("priority", 0, 0, 255));
  if (has("timestamp"))
    builder.timestamp = static_cast<uint64_t>(reader.integer("timestamp", 0, 0, INT64_MAX));
  if (has("headers")) builder.headers = reader.table("headers");
  if (reader.reason()) return Answer(kError, "properties: " + *reader.reason());
  return Answer(boost::system::in_place_value, builder.build(body_bytes));
}

Json properties_json(std::string_view header) {
  Json out = Json::object();
  const auto view = PropertiesView::parse(as_bytes(header));
  if (!view) return out;  // what is stored was checked at publish; show the message all the same
  const auto put = [&](const char* key, const std::optional<std::string_view>& value) {
    if (value) out[key] = *value;
  };
  put("content_type", view->content_type);
  put("content_encoding", view->content_encoding);
  put("correlation_id", view->correlation_id);
  put("reply_to", view->reply_to);
  put("expiration", view->expiration);
  put("message_id", view->message_id);
  put("type", view->type);
  put("user_id", view->user_id);
  put("app_id", view->app_id);
  put("cluster_id", view->cluster_id);
  if (view->timestamp) out["timestamp"] = *view->timestamp;
  if (view->flags & property_flag::delivery_mode) out["delivery_mode"] = view->delivery_mode;
  if (view->flags & property_flag::priority) out["priority"] = view->priority;
  if (view->flags & property_flag::headers) {
    if (const auto table = FieldTable::decode(view->headers)) out["headers"] = to_json(*table);
  }
  return out;
}

Json got_json(const GotMessage& message, bool base64, std::optional<uint64_t> truncate) {
  std::string_view payload = message.body;
  if (truncate && payload.size() > *truncate)
    payload = payload.substr(0, static_cast<size_t>(*truncate));
  const bool as_text = !base64 && is_utf8(payload);
  return Json{{"payload_bytes", message.body.size()},
              {"redelivered", message.redelivered},
              {"exchange", message.exchange},
              {"routing_key", message.routing_key},
              {"message_count", message.message_count},
              {"properties", properties_json(message.header)},
              {"payload", as_text ? std::string(payload) : base64_encode(payload)},
              {"payload_encoding", as_text ? "string" : "base64"}};
}

}  // namespace tarry::http
