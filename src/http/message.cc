#include "http/message.h"

#include <algorithm>

namespace tarry::http {

bool Caller::has_tag(std::string_view tag) const {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

const std::string* Request::query_value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool Request::query_flag(std::string_view name) const {
  const std::string* value = query_value(name);
  return value != nullptr && *value == "true";
}

Response Response::json(const Json& value, int status) {
  // Names and headers come from clients: what is no UTF-8 shows as U+FFFD, it must not break the
  // document.
  return {
      status, "application/json", value.dump(-1, ' ', false, Json::error_handler_t::replace), {}};
}

Response Response::error(int status, std::string_view error, std::string_view reason) {
  return json(Json{{"error", error}, {"reason", reason}}, status);
}

void Responder::send_later(std::function<Response()> make) const {
  if (!state_->sink) return;
  state_->sink->run_on_server([state = state_, make = std::move(make)] { state->send(make()); });
}

}  // namespace tarry::http
