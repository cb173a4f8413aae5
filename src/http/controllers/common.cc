#include "http/controllers/common.h"

#include <charconv>
#include <ctime>

namespace tarry::http {
namespace {

constexpr size_t kJsonDepthMax = 64;

/// Brackets outside of strings, so that no parser or destructor has to recurse deeply over what a
/// client sent.
bool too_deep(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kJsonDepthMax) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::string utc_text(int64_t ms) {
  const auto seconds = static_cast<time_t>(ms / 1000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  const size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string fraction = std::to_string(1000 + ms % 1000);
  return std::string(text, size) + "." + fraction.substr(1);
}

void put_idle_since(ObjectWriter& out, Context& context, int64_t active_at_ns) {
  constexpr int64_t kBusyNs = 1'000'000'000;
  if (active_at_ns == 0 || context.broker.now().ns - active_at_ns < kBusyNs) return;
  out.lazy("idle_since", [&] { return utc_text(active_at_ns / 1'000'000) + "+00:00"; });
}

Login login_of(const Request& request) { return {request.caller.user}; }

bool vhost_exists(Context& context, const std::string& vhost) {
  return context.broker.exchange(vhost, "amq.direct")
      .has_value();  // each vhost has it, and nobody can delete it
}

std::optional<Response> vhost_refusal(Context& context, const Request& request,
                                      const std::string& vhost, bool sees_all) {
  if (!vhost_exists(context, vhost)) return Response::not_found();
  if (sees_all || context.broker.may_access(request.caller.user, vhost)) return std::nullopt;
  return Response::forbidden("access to vhost '" + vhost + "' refused for user '" +
                             request.caller.user + "'");
}

bool VhostFilter::operator()(const std::string& vhost) {
  if (caller_.monitoring()) return true;
  if (!last_answer_ || last_ != vhost) {
    last_ = vhost;
    last_answer_ = context_.broker.may_access(caller_.user, vhost);
  }
  return *last_answer_;
}

Response error_response(const PeerError& error) {
  switch (error.code) {
    case 403:
      return Response::forbidden(error.text);
    case 404:
      return Response::error(404, "Object Not Found", error.text);
    case 412:
      return Response::error(412, "precondition_failed", error.text);
    case 409:
      return Response::error(409, "conflict", error.text);
    default:
      break;
  }
  if (error.code == 541 || error.code == 506)
    return Response::error(500, "internal_error", error.text);
  return Response::bad_request(error.text);
}

Answer<void> no_content(Responder responder) {
  return [responder = std::move(responder)](Result<void, PeerError> result) {
    responder.send(result ? Response::no_content() : error_response(result.error()));
  };
}

Answer<bool> created_or_updated(Responder responder) {
  return [responder = std::move(responder)](Result<bool, PeerError> result) {
    if (!result) return responder.send(error_response(result.error()));
    responder.send(*result ? Response::created() : Response::no_content());
  };
}

Answer<bool> updated(Responder responder) {
  return [responder = std::move(responder)](Result<bool, PeerError> result) {
    responder.send(result ? Response::no_content() : error_response(result.error()));
  };
}

Result<Json, Response> body_object(const Request& request) {
  const auto value = [](Json body) {
    return Result<Json, Response>(boost::system::in_place_value, std::move(body));
  };
  if (request.body.empty()) return value(Json::object());
  if (too_deep(request.body)) {
    return Response::bad_request("the body is nested more than " + std::to_string(kJsonDepthMax) +
                                 " deep");
  }
  Json body = Json::parse(request.body, nullptr, false);
  if (body.is_discarded()) return Response::bad_request("the body is not JSON");
  if (!body.is_object()) return Response::bad_request("the body must be a JSON object");
  return value(std::move(body));
}

const Json* BodyReader::find(const char* key) const {
  const auto found = body_.find(key);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> BodyReader::optional_text(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail("'" + std::string(key) + "' must be a string");
  return std::nullopt;
}

std::string BodyReader::text(const char* key, std::string fallback) {
  auto value = optional_text(key);
  return value ? std::move(*value) : std::move(fallback);
}

std::string BodyReader::required_text(const char* key) {
  if (find(key) == nullptr) fail("'" + std::string(key) + "' is missing");
  return text(key);
}

bool BodyReader::flag(const char* key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  if (*value == "true") return true;
  if (*value == "false") return false;
  fail("'" + std::string(key) + "' must be true or false");
  return fallback;
}

int64_t BodyReader::integer(const char* key, int64_t fallback, int64_t min, int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const bool too_large =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (value->is_number_integer() && !too_large) {
    const auto number = value->get<int64_t>();
    if (number >= min && number <= max) return number;
  }
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size() && number >= min && number <= max)
      return number;
  }
  fail("'" + std::string(key) + "' must be an integer from " + std::to_string(min) + " to " +
       std::to_string(max));
  return fallback;
}

FieldTable BodyReader::table(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_array() && value->empty()) return {};  // PHP clients write an empty object so
  if (!value->is_object()) {
    fail("'" + std::string(key) + "' must be an object");
    return {};
  }
  auto table = table_from_json(*value);
  if (!table) {
    fail("'" + std::string(key) + "': " + table.error());
    return {};
  }
  if (table->encode().size() > kArgumentBytesMax) {
    fail("'" + std::string(key) + "' must have at most " + std::to_string(kArgumentBytesMax) +
         " bytes, as AMQP writes it");
    return {};
  }
  return std::move(*table);
}

std::vector<std::string> read_words(const Json& body, const char* key, BodyReader& reader) {
  std::vector<std::string> tags;
  const auto found = body.find(key);
  if (found == body.end()) {
    reader.fail("'" + std::string(key) + "' is missing");
  } else if (found->is_array()) {
    for (const Json& tag : *found) {
      if (!tag.is_string())
        reader.fail("'" + std::string(key) +
                    "' must be a list of strings, or text with commas between them");
      else
        tags.push_back(tag.get<std::string>());
    }
  } else {
    const std::string text = reader.text(key);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const size_t first = text.find_first_not_of(' ', begin);
      if (first < end) {
        const size_t last = text.find_last_not_of(' ', end - 1);
        tags.push_back(text.substr(first, last - first + 1));
      }
      begin = end + 1;
    }
  }
  return tags;
}

}  // namespace tarry::http
