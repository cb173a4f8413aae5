// Exchanges (http-api H-37).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Json exchange_stats_json(Context& context, const ExchangeInfo& exchange, HistoryRange range) {
  const auto view = context.history.look(exchange_thing(exchange.vhost, exchange.name),
                                         exchange_values(exchange), stats_now());
  return Json{{"publish_in", exchange.published_in},
              {"publish_in_details", details_json(view, kPublishIn, range)},
              {"publish_out", exchange.published_out},
              {"publish_out_details", details_json(view, kPublishOut, range)}};
}

Json exchange_json(Context& context, const ExchangeInfo& exchange, const Fields& fields,
                   const StatsRange& range) {
  ObjectWriter out(fields);
  out.put("name", exchange.name);
  out.put("vhost", exchange.vhost);
  out.put("type", exchange.type);
  out.put("durable", exchange.durable);
  out.put("auto_delete", exchange.auto_delete);
  out.put("internal", exchange.internal);
  out.lazy("arguments", [&] { return to_json(exchange.arguments); });
  out.put_name_or_null("policy", exchange.policy);
  out.put("operator_policy", Json());
  out.lazy("effective_policy_definition",
           [&] { return to_json(exchange.effective_policy_definition); });
  out.put("user_who_performed_action", "");
  out.lazy("message_stats",
           [&] { return exchange_stats_json(context, exchange, range.msg_rates); });
  return out.take();
}

Response list_exchanges(Context& context, const Request& request, const std::string& vhost) {
  auto range = StatsRange::parse(request);
  if (!range) return Response::bad_request(range.error());
  std::vector<ExchangeInfo> exchanges = context.broker.exchanges({vhost});
  VhostFilter visible(context, request.caller);
  std::erase_if(exchanges, [&](const ExchangeInfo& exchange) { return !visible(exchange.vhost); });
  std::sort(exchanges.begin(), exchanges.end(), [](const ExchangeInfo& a, const ExchangeInfo& b) {
    return std::tie(a.vhost, a.name) < std::tie(b.vhost, b.name);
  });
  Listing listing;
  listing.count = exchanges.size();
  listing.name = [&](size_t i) -> std::string_view { return exchanges[i].name; };
  listing.render = [&](size_t i, const Fields& fields) {
    return exchange_json(context, exchanges[i], fields, *range);
  };
  return list_response(request, listing);
}

Response get_exchange(Context& context, const Request& request) {
  if (auto refusal =
          vhost_refusal(context, request, request.capture(0), request.caller.monitoring())) {
    return std::move(*refusal);
  }
  const auto exchange =
      context.broker.exchange(request.capture(0), exchange_of_path(request.capture(1)));
  if (!exchange) return Response::not_found();
  return with_range(request, [&](const StatsRange& range) {
    return object_response(request, [&](const Fields& fields) {
      return exchange_json(context, *exchange, fields, range);
    });
  });
}

void put_exchange(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  ExchangeDeclare declare;
  declare.name = exchange_of_path(request->capture(1));
  declare.type = reader.required_text("type");
  declare.durable = reader.flag("durable", false);
  declare.auto_delete = reader.flag("auto_delete", false);
  declare.internal = reader.flag("internal", false);
  declare.arguments = reader.table("arguments");
  // LavinMQ's flag for one that delays.
  if (reader.flag("delayed", false) && declare.type != "x-delayed-message") {
    declare.arguments.set("x-delayed-exchange", FieldValue::boolean(true));
  }
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  context.broker.declare_exchange(login_of(*request), request->capture(0), std::move(declare),
                                  created_or_updated(responder));
}

}  // namespace

void add_exchange_routes(Router& router, Context& context) {
  router.add_direct(
      Method::get, "/api/exchanges", Access::management,
      [&context](const Request& request) { return list_exchanges(context, request, ""); });
  router.add_direct(Method::get, "/api/exchanges/{vhost}", Access::management,
                    [&context](const Request& request) {
                      if (auto refusal = vhost_refusal(context, request, request.capture(0),
                                                       request.caller.monitoring())) {
                        return std::move(*refusal);
                      }
                      return list_exchanges(context, request, request.capture(0));
                    });
  router.add_direct(Method::get, "/api/exchanges/{vhost}/{name}", Access::management,
                    [&context](const Request& request) { return get_exchange(context, request); });
  router.add(Method::put, "/api/exchanges/{vhost}/{name}", Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               put_exchange(context, std::move(request), std::move(responder));
             });
  router.add(Method::del, "/api/exchanges/{vhost}/{name}", Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               context.broker.delete_exchange(
                   login_of(*request), request->capture(0), exchange_of_path(request->capture(1)),
                   request->query_flag("if-unused"), no_content(responder));
             });
}

}  // namespace tarry::http
