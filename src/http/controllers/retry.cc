// A queue's retries: what was declared, the override, the preview of a schedule (retry-spec 36 and
// section 8).
#include <charconv>

#include "http/controllers/common.h"
#include "tarrymq/broker/retry_override_json.h"

namespace tarry::http {
namespace {

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json settings_json(const RetrySettings& settings, const std::optional<uint64_t>& limit,
                   const std::string& type) {
  return Json{{"min", settings.min_ms},
              {"multiplier", or_null(settings.multiplier)},
              {"max", or_null(settings.max_ms)},
              {"limit", or_null(limit)},
              {"jitter", settings.jitter_percent},
              {"max_age", or_null(settings.max_age_ms)},
              {"type", type.empty() ? Json() : Json(type)}};
}

void put_schedule(Json& out, const RetrySettings& settings, uint64_t limit) {
  const RetrySchedule schedule = retry_schedule(settings, limit);
  out["schedule"] = schedule.delays_ms;
  if (schedule.cut) out["schedule_truncated"] = true;
  out["total_ms"] = schedule.total_ms;
  out["deliveries_max"] = schedule.deliveries_max;
}

Response get_retry(Context& context, const Request& request) {
  const std::string& vhost = request.capture(0);
  if (auto refusal = vhost_refusal(context, request, vhost, request.caller.monitoring()))
    return std::move(*refusal);
  const auto info = context.broker.queue_retry(vhost, request.capture(1));
  if (!info) return error_response(info.error());
  Json out{{"declared", settings_json(info->declared, info->declared_limit, info->type)},
           {"override", to_json(info->changes)},
           {"effective", settings_json(info->effective, info->effective_limit, info->type)}};
  put_schedule(out, info->effective, info->effective_limit);
  return Response::json(out);
}

void put_retry(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  auto changes = retry_override_from_json(*body);
  if (!changes) return responder.send(Response::bad_request(changes.error()));
  context.broker.put_retry_override(login_of(*request), request->capture(0), request->capture(1),
                                    *changes, no_content(responder));
}

void delete_retry(Context& context, std::shared_ptr<Request> request, Responder responder) {
  context.broker.put_retry_override(login_of(*request), request->capture(0), request->capture(1),
                                    {}, no_content(responder));
}

/// A query's value: an integer if it is one.
Json value_of(const std::string& text) {
  const char* const last = text.data() + text.size();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc{} && end == last) return number;
  uint64_t above_63_bits = 0;
  const auto [end_of_it, too_large] = std::from_chars(text.data(), last, above_63_bits);
  if (too_large == std::errc{} && end_of_it == last) return above_63_bits;
  return text;
}

Response preview(Context&, const Request& request) {
  Json values = Json::object();
  for (const auto& [key, value] : request.query) {
    if (key == "type") {
      if (value == "all" || value == "failed" || value == "returned") continue;
      return Response::bad_request("type: it was '" + value +
                                   "', allowed are all, failed and returned");
    }
    values[key] = value_of(value);
  }
  auto asked = retry_override_from_json(values);
  if (!asked) return Response::bad_request(asked.error());
  if (!asked->min_ms)
    return Response::bad_request("min is missing: the first delay in milliseconds");
  Json out = Json::object();
  put_schedule(out, with_override({}, *asked), asked->limit.value_or(kDefaultDeliveryLimit));
  return Response::json(out);
}

}  // namespace

void add_retry_routes(Router& router, Context& context) {
  constexpr const char* kPath = "/api/queues/{vhost}/{queue}/retry";
  router.add_direct(Method::get, kPath, Access::management,
                    [&context](const Request& request) { return get_retry(context, request); });
  router.add(Method::put, kPath, Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               put_retry(context, std::move(request), std::move(responder));
             });
  router.add(Method::del, kPath, Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               delete_retry(context, std::move(request), std::move(responder));
             });
  router.add_direct(Method::get, "/api/retry-preview", Access::management,
                    [&context](const Request& request) { return preview(context, request); });
}

}  // namespace tarry::http
