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

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response Response::json(const Json& value, int status) {
  return {status, "application/json", json_text(value), {}};
}

Response Response::error(int status, std::string_view error, std::string_view reason) {
  return json(Json{{"error", error}, {"reason", reason}}, status);
}

void Responder::send_later(std::function<Response()> make) const {
  if (!state_->sink) return;
  state_->sink->run_on_server([state = state_, make = std::move(make)] { state->send(make()); });
}

void Responder::go_on_later(std::function<void()> work) const {
  if (state_->sink) state_->sink->run_on_server(std::move(work));
}

}  // namespace tarry::http
