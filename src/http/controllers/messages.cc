// Publishing and getting over HTTP (http-api H-39, H-45).
#include "http/controllers/common.h"
#include "http/controllers/message_json.h"

namespace tarry::http {
namespace {

constexpr int64_t kGetCountMax = 10'000;

struct GetOptions {
  uint32_t count = 1;
  GetMode mode = GetMode::ack_requeue_true;
  bool base64 = false;
  std::optional<uint64_t> truncate;
};

std::optional<GetMode> get_mode(const std::string& text) {
  if (text == "ack_requeue_true" || text == "peek") return GetMode::ack_requeue_true;
  if (text == "reject_requeue_true") return GetMode::reject_requeue_true;
  if (text == "ack_requeue_false" || text == "get") return GetMode::ack_requeue_false;
  if (text == "reject_requeue_false") return GetMode::reject_requeue_false;
  return std::nullopt;
}

Result<GetOptions, std::string> get_options(const Json& body) {
  BodyReader reader(body);
  GetOptions options;
  options.count = static_cast<uint32_t>(reader.integer("count", 1, 0, kGetCountMax));
  // RabbitMQ says ackmode, LavinMQ ack_mode; before both there was "requeue".
  std::string mode = reader.text("ackmode", reader.text("ack_mode"));
  if (mode.empty()) mode = reader.flag("requeue", true) ? "ack_requeue_true" : "ack_requeue_false";
  if (const auto known = get_mode(mode)) {
    options.mode = *known;
  } else {
    reader.fail(
        "'ackmode' must be ack_requeue_true, reject_requeue_true, ack_requeue_false or "
        "reject_requeue_false");
  }
  const std::string encoding = reader.text("encoding", "auto");
  if (encoding != "auto" && encoding != "base64") reader.fail("'encoding' must be auto or base64");
  options.base64 = encoding == "base64";
  if (body.contains("truncate")) {
    options.truncate = static_cast<uint64_t>(reader.integer("truncate", 0, 0, INT64_MAX));
  }
  if (reader.reason()) return *reader.reason();
  return options;
}

void get_messages(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  auto options = get_options(*body);
  if (!options) return responder.send(Response::bad_request(options.error()));
  if (auto refusal = vhost_refusal(context, *request, request->capture(0), false)) {
    return responder.send(std::move(*refusal));
  }
  context.broker.get_messages(
      login_of(*request), request->capture(0), request->capture(1), options->count, options->mode,
      [responder, options = *options](Result<std::vector<GotMessage>, PeerError> result) {
        if (!result) return responder.send(error_response(result.error()));
        responder.send_later([options, messages = std::move(*result)] {
          Json out = Json::array();
          for (const GotMessage& message : messages)
            out.push_back(got_json(message, options.base64, options.truncate));
          return Response::json(out);
        });
      });
}

void publish(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  PublishMessage message;
  message.vhost = request->capture(0);
  message.exchange = exchange_of_path(request->capture(1));
  message.routing_key = reader.required_text("routing_key");
  message.body = reader.required_text("payload");
  const std::string encoding = reader.required_text("payload_encoding");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  if (message.routing_key.size() > 255) {
    return responder.send(Response::bad_request("'routing_key' must have at most 255 bytes"));
  }
  if (encoding == "base64") {
    auto decoded = base64_decode(message.body);
    if (!decoded) return responder.send(Response::bad_request("'payload' is not base64"));
    message.body = std::move(*decoded);
  } else if (encoding != "string") {
    return responder.send(Response::bad_request("'payload_encoding' must be string or base64"));
  }
  const auto found = body->find("properties");
  if (found == body->end()) return responder.send(Response::bad_request("'properties' is missing"));
  auto header = properties_from_json(*found, message.body.size());
  if (!header) return responder.send(Response::bad_request(header.error()));
  message.header = std::move(*header);
  if (auto refusal = vhost_refusal(context, *request, message.vhost, false)) {
    return responder.send(std::move(*refusal));
  }
  if (message.exchange.empty() && message.routing_key.starts_with(kCompanionPrefix)) {
    return responder.send(Response::json(Json{{"routed", false}}));  // retry-spec 20
  }
  context.broker.publish(login_of(*request), std::move(message),
                         [responder](Result<bool, PeerError> result) {
                           responder.send(result ? Response::json(Json{{"routed", *result}})
                                                 : error_response(result.error()));
                         });
}

}  // namespace

void add_message_routes(Router& router, Context& context) {
  router.add(Method::post, "/api/queues/{vhost}/{name}/get", Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               get_messages(context, std::move(request), std::move(responder));
             });
  router.add(
      Method::post, "/api/exchanges/{vhost}/{name}/publish", Access::management,
      [&context](std::shared_ptr<Request> request, Responder responder) {
        publish(context, std::move(request), std::move(responder));
      },
      Body::large);
}

}  // namespace tarry::http
