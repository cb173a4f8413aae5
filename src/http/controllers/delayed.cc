// What waits in a queue's companion: list, redeliver, dead-letter, drop, and park more (retry-spec
// 37).
#include <charconv>

#include "http/controllers/common.h"
#include "http/controllers/message_json.h"
#include "http/controllers/retry_json.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/broker/retry_operations.h"

namespace tarry::http {

bool query_number(const Request& request, const char* key, uint64_t min, uint64_t max,
                  std::optional<uint64_t>& out, std::string& error) {
  const std::string* text = request.query_value(key);
  if (text == nullptr) return true;
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (code == std::errc{} && end == text->data() + text->size() && number >= min && number <= max) {
    out = number;
    return true;
  }
  error = "'" + std::string(key) + "' must be an integer from " + std::to_string(min) + " to " +
          std::to_string(max);
  return false;
}

bool only_known(const Json& object, std::initializer_list<std::string_view> known,
                const std::string& what, BodyReader& reader) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
    reader.fail(what + " has an unknown key '" + key + "'; known: " + names);
    return false;
  }
  return true;
}

RetryOperations* operations_of(Context& context, const Responder& responder) {
  RetryOperations* operations = context.broker.retry_operations();
  if (operations == nullptr) responder.send(Response::not_found());
  return operations;
}

namespace {

constexpr uint32_t kPayloadBytesDefault = 1024;
constexpr size_t kParkedAtOnceMax = 1000;
constexpr size_t kIdsMax = 10'000;

/// A cut through the middle of a UTF-8 sequence is moved before it, so that cut text stays text.
void drop_cut_character(std::string& text) {
  size_t at = text.size();
  for (size_t back = 0; back < 4 && at > 0; ++back) {
    const auto byte = static_cast<unsigned char>(text[--at]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    if (at + length > text.size()) text.resize(at);
    return;
  }
}

Json waiting_json(WaitingMessage& message) {
  if (message.body.size() < message.body_bytes) drop_cut_character(message.body);
  GotMessage shown;
  shown.exchange = message.exchange;
  shown.routing_key = message.routing_key;
  shown.header = std::move(message.header);
  shown.body = std::move(message.body);
  Json out = got_json(shown, false, std::nullopt);
  out.erase("redelivered");
  out.erase("message_count");
  out["payload_bytes"] = message.body_bytes;
  out["id"] = message.id;
  out["due_at"] = message.due_ms;
  out["expires"] = message.expires;
  out["rejected_at"] = message.rejected_ms;
  out["attempt"] = message.delivery_count;  // the how many-th retry it waits for
  out["delivery_count"] = message.delivery_count;
  out["last_error"] = message.last_error.empty() ? Json() : Json(message.last_error);
  return out;
}

Json instant_json(const std::optional<uint64_t>& ms) { return ms ? Json(*ms) : Json(); }

Response page_response(WaitingPage& page, uint64_t number, uint64_t size) {
  Json items = Json::array();
  for (WaitingMessage& message : page.messages) items.push_back(waiting_json(message));
  Json rows = Json::array();
  for (const auto& row : page.histogram)
    rows.push_back({{"from", row.from_ms}, {"to", row.to_ms}, {"count", row.count}});
  const uint64_t count = items.size();
  return Response::json(
      Json{{"items", std::move(items)},
           {"item_count", count},
           {"page", number},
           {"page_size", size},
           {"page_count", std::max<uint64_t>(1, (page.matching + size - 1) / size)},
           {"filtered_count", page.matching},
           {"total_count", page.total},
           {"next_due_at", instant_json(page.next_due_ms)},
           {"last_due_at", instant_json(page.last_due_ms)},
           {"histogram", std::move(rows)}});
}

void list_delayed(Context& context, std::shared_ptr<Request> request, Responder responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  std::optional<uint64_t> page = 1, size = 100, payload = kPayloadBytesDefault, due_before;
  std::string error;
  if (!query_number(*request, "page", 1, INT64_MAX / kWaitingPageMax, page, error) ||
      !query_number(*request, "page_size", 1, kWaitingPageMax, size, error) ||
      !query_number(*request, "payload_bytes", 0, kWaitingPayloadBytesMax, payload, error) ||
      !query_number(*request, "due_before", 0, INT64_MAX, due_before, error)) {
    return responder.send(Response::bad_request(error));
  }
  WaitingQuery query;
  query.offset = (*page - 1) * *size;
  query.count = *size;
  query.payload_bytes = static_cast<uint32_t>(*payload);
  query.due_before_ms = due_before;
  operations->list_waiting(
      login_of(*request), request->capture(0), request->capture(1), query,
      [responder, number = *page, page_size = *size](Result<WaitingPage, PeerError> result) {
        if (!result) return responder.send(error_response(result.error()));
        responder.send_later([number, page_size, listed = std::move(*result)]() mutable {
          return page_response(listed, number, page_size);
        });
      });
}

void get_delayed(Context& context, std::shared_ptr<Request> request, Responder responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  std::optional<uint64_t> payload = kWaitingPayloadBytesMax;
  std::string error;
  if (!query_number(*request, "payload_bytes", 0, kWaitingPayloadBytesMax, payload, error))
    return responder.send(Response::bad_request(error));
  const std::string& id = request->capture(2);
  const Response missing =
      Response::error(404, "Object Not Found", "no message '" + id + "' waits there");
  WaitingQuery query;
  query.id = WaitingId::parse(id);
  if (!query.id) return responder.send(missing);
  query.payload_bytes = static_cast<uint32_t>(*payload);
  operations->list_waiting(login_of(*request), request->capture(0), request->capture(1), query,
                           [responder, missing](Result<WaitingPage, PeerError> result) {
                             if (!result) return responder.send(error_response(result.error()));
                             if (result->messages.empty()) return responder.send(missing);
                             responder.send(Response::json(waiting_json(result->messages.front())));
                           });
}

std::optional<WaitingAct> act_of(const std::string& name) {
  if (name == "redeliver") return WaitingAct::redeliver;
  if (name == "dead-letter") return WaitingAct::dead_letter;
  if (name == "drop") return WaitingAct::drop;
  return std::nullopt;
}

WaitingFilter read_waiting_filter(const Json& object, BodyReader& outer) {
  WaitingFilter filter;
  if (!object.is_object() || object.empty()) {
    outer.fail(
        "'filter' must be an object with at least one condition; for all messages say {\"all\": "
        "true}");
    return filter;
  }
  if (!only_known(object,
                  {"exchange", "routing_key", "error", "header", "value", "delivery_count_min",
                   "delivery_count_max", "due_before", "due_after"},
                  "'filter'", outer)) {
    return filter;
  }
  BodyReader reader(object);
  filter.exchange = reader.optional_text("exchange");
  filter.routing_key = reader.optional_text("routing_key");
  filter.error = reader.optional_text("error");
  filter.header = reader.text("header");
  filter.value = text_or_number(object, "value", reader);
  const auto number = [&](const char* key, std::optional<uint64_t>& out) {
    if (object.contains(key)) out = static_cast<uint64_t>(reader.integer(key, 0, 0, INT64_MAX));
  };
  number("delivery_count_min", filter.count_min);
  number("delivery_count_max", filter.count_max);
  number("due_before", filter.due_before_ms);
  number("due_after", filter.due_after_ms);
  if (filter.value && filter.header.empty()) reader.fail("'value' needs a 'header'");
  if (reader.reason()) outer.fail("filter: " + *reader.reason());
  return filter;
}

WaitingOrder read_order(const Json& body, BodyReader& reader) {
  WaitingOrder order;
  if (!only_known(body, {"ids", "filter", "all"}, "the body", reader)) return order;
  const bool all = reader.flag("all", false);
  const int said =
      (body.contains("ids") ? 1 : 0) + (body.contains("filter") ? 1 : 0) + (all ? 1 : 0);
  if (said != 1) {
    reader.fail(
        "the body must say which messages: one of {\"ids\": [...]}, {\"filter\": {...}} and "
        "{\"all\": true}");
    return order;
  }
  if (body.contains("filter")) order.filter = read_waiting_filter(body["filter"], reader);
  if (!body.contains("ids")) return order;
  const Json& ids = body["ids"];
  if (!ids.is_array() || ids.empty() || ids.size() > kIdsMax) {
    reader.fail("'ids' must be a list of 1 to " + std::to_string(kIdsMax) +
                " ids, as the list of waiting messages shows them");
    return order;
  }
  for (const Json& id : ids) {
    if (!id.is_string() || !WaitingId::parse(id.get<std::string>())) {
      reader.fail("'ids': " + id.dump() + " is not the id of a waiting message");
      return order;
    }
    order.ids.push_back(id.get<std::string>());
  }
  return order;
}

void act_on_delayed(Context& context, std::shared_ptr<Request> request, Responder responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  const auto act = act_of(request->capture(2));
  if (!act) {
    return responder.send(Response::error(
        404, "Object Not Found",
        "no action '" + request->capture(2) + "'; there are redeliver, dead-letter and drop"));
  }
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  WaitingOrder order = read_order(*body, reader);
  order.act = *act;
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  operations->act_on_waiting(login_of(*request), request->capture(0), request->capture(1),
                             std::move(order),
                             [responder](Result<WaitingOutcome, PeerError> result) {
                               if (!result) return responder.send(error_response(result.error()));
                               Json out{{"affected", result->affected}};
                               if (result->failed > 0) out["failed"] = result->failed;
                               if (!result->reason.empty()) out["reason"] = result->reason;
                               responder.send(Response::json(out));
                             });
}

// -- Parking

GivenMessage read_given(const Json& object, BodyReader& outer) {
  GivenMessage message;
  if (!object.is_object()) {
    outer.fail("'messages' must hold objects");
    return message;
  }
  if (!only_known(object,
                  {"exchange", "routing_key", "payload", "payload_encoding", "properties",
                   "headers_table", "delay_ms", "delivery_count", "last_error"},
                  "a message", outer)) {
    return message;
  }
  BodyReader reader(object);
  message.exchange = reader.text("exchange");
  message.routing_key = reader.text("routing_key");
  message.body = reader.required_text("payload");
  if (object.contains("delay_ms"))
    message.delay_ms = static_cast<uint64_t>(reader.integer("delay_ms", 0, 0, INT64_MAX));
  else
    reader.fail("'delay_ms' is missing");
  message.delivery_count =
      static_cast<uint32_t>(reader.integer("delivery_count", 0, 0, UINT32_MAX));
  message.last_error = reader.text("last_error");
  const std::string encoding = reader.text("payload_encoding", "string");
  if (message.exchange.size() > 255 || message.routing_key.size() > 255) {
    reader.fail("'exchange' and 'routing_key' must have at most 255 bytes");
  }
  if (encoding == "base64") {
    auto decoded = base64_decode(message.body);
    if (decoded)
      message.body = std::move(*decoded);
    else
      reader.fail("'payload' is not base64");
  } else if (encoding != "string") {
    reader.fail("'payload_encoding' must be string or base64");
  }
  static const Json kNone = Json::object();
  auto header = properties_from_json(object.contains("properties") ? object["properties"] : kNone,
                                     message.body.size());
  if (!header) {
    reader.fail(header.error());
  } else if (auto view = PropertiesView::parse(as_bytes(*header))) {
    message.persistent = view->delivery_mode == 2;
    message.priority = view->priority;
    if (view->expiration)
      reader.fail("a message that waits here may not have an 'expiration': say 'delay_ms'");
    message.header = std::move(*header);
  }
  if (const std::string table = reader.text("headers_table"); !table.empty() && !reader.reason()) {
    const auto bytes = base64_decode(table);
    auto headers = bytes ? FieldTable::decode(as_bytes(*bytes))
                         : Result<FieldTable, std::string>(std::string("not base64"));
    if (headers)
      message.header = with_headers(as_bytes(message.header), *headers);
    else
      reader.fail("'headers_table' must be an AMQP field table in base64: " + headers.error());
  }
  if (reader.reason()) outer.fail("a message: " + *reader.reason());
  return message;
}

void park_messages(Context& context, std::shared_ptr<Request> request, Responder responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  std::vector<GivenMessage> messages;
  const auto given = body->find("messages");
  if (given == body->end() || !given->is_array() || given->empty() ||
      given->size() > kParkedAtOnceMax) {
    reader.fail("'messages' must be a list of 1 to " + std::to_string(kParkedAtOnceMax) +
                " messages");
  } else {
    for (const Json& object : *given) {
      messages.push_back(read_given(object, reader));
      if (reader.reason()) break;
    }
  }
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  operations->park(login_of(*request), request->capture(0), request->capture(1),
                   std::move(messages), [responder](Result<uint64_t, PeerError> result) {
                     if (!result) return responder.send(error_response(result.error()));
                     responder.send(Response::json(Json{{"parked", *result}}));
                   });
}

}  // namespace

void add_delayed_routes(Router& router, Context& context) {
  router.add(Method::get, "/api/queues/{vhost}/{name}/delayed", Access::management,
             with_context(context, list_delayed));
  router.add(Method::post, "/api/queues/{vhost}/{name}/delayed", Access::management,
             with_context(context, park_messages), Body::large);
  // One name for both, as OpenAPI wants it.
  constexpr const char* kOne = "/api/queues/{vhost}/{name}/delayed/{id}";
  router.add(Method::get, kOne, Access::management, with_context(context, get_delayed));
  router.add(Method::post, kOne, Access::management, with_context(context, act_on_delayed));
}

}  // namespace tarry::http
