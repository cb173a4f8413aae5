// Bindings (http-api H-38, H-47, H-52, H-53).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

using KeepBinding = std::function<bool(const BindingInfo&)>;

Json binding_json(const BindingInfo& binding, const Fields& fields) {
  ObjectWriter out(fields);
  out.put("source", binding.source);
  out.put("vhost", binding.vhost);
  out.put("destination", binding.destination);
  out.put("destination_type", binding.destination_is_queue ? "queue" : "exchange");
  out.put("routing_key", binding.routing_key);
  out.lazy("arguments", [&] { return to_json(binding.arguments); });
  out.put("properties_key", binding.properties_key);
  return out.take();
}

Response list_bindings(Context& context, const Request& request, const std::string& vhost,
                       const KeepBinding& keep) {
  std::vector<BindingInfo> bindings = context.broker.bindings({vhost});
  VhostFilter visible(context, request.caller);
  std::erase_if(bindings,
                [&](const BindingInfo& b) { return !visible(b.vhost) || (keep && !keep(b)); });
  Listing listing;
  listing.count = bindings.size();
  listing.name = [&](size_t i) -> std::string_view { return bindings[i].source; };
  listing.render = [&](size_t i, const Fields& fields) {
    return binding_json(bindings[i], fields);
  };
  return list_response(request, listing);
}

/// Vhost, source and destination of .../bindings/{vhost}/e/{source}/{q|e}/{destination}.
struct Pair {
  std::string vhost, source, destination;
  bool destination_is_queue;

  Pair(const Request& request, bool to_queue)
      : vhost(request.capture(0)),
        source(exchange_of_path(request.capture(1))),
        destination(to_queue ? request.capture(2) : exchange_of_path(request.capture(2))),
        destination_is_queue(to_queue) {}
  bool holds(const BindingInfo& b) const {
    return b.source == source && b.destination == destination &&
           b.destination_is_queue == destination_is_queue;
  }
};

/// The vhost, both ends, and who may look. 404 names nothing, as RabbitMQ.
std::optional<Response> pair_refusal(Context& context, const Request& request, const Pair& pair) {
  if (auto refusal = vhost_refusal(context, request, pair.vhost, request.caller.monitoring()))
    return refusal;
  const bool source = context.broker.exchange(pair.vhost, pair.source).has_value();
  const bool destination = pair.destination_is_queue
                               ? context.broker.queue(pair.vhost, pair.destination).has_value()
                               : context.broker.exchange(pair.vhost, pair.destination).has_value();
  return source && destination ? std::nullopt : std::optional(Response::not_found());
}

std::optional<BindingInfo> find_binding(Context& context, const Pair& pair,
                                        const std::string& properties_key) {
  for (BindingInfo& binding : context.broker.bindings({pair.vhost})) {
    if (pair.holds(binding) && binding.properties_key == properties_key) return std::move(binding);
  }
  return std::nullopt;
}

void post_binding(Context& context, std::shared_ptr<Request> request, Responder responder,
                  bool to_queue) {
  const Pair pair(*request, to_queue);
  if (to_queue && pair.destination.starts_with(kCompanionPrefix)) {
    return responder.send(Response::bad_request(
        "queue '" + pair.destination +
        "' is internal: it holds what waits to be retried, and cannot be bound"));
  }
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  BindingSpec spec;
  spec.source = pair.source;
  spec.destination = pair.destination;
  spec.destination_is_queue = to_queue;
  spec.routing_key = reader.text("routing_key");
  spec.arguments = reader.table("arguments");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  if (auto refusal = pair_refusal(context, *request, pair))
    return responder.send(std::move(*refusal));
  const std::string at = "/api/bindings/" + percent_encode(pair.vhost) + "/e/" +
                         percent_encode(request->capture(1)) + (to_queue ? "/q/" : "/e/") +
                         percent_encode(request->capture(2)) + '/';
  context.broker.bind(login_of(*request), pair.vhost, std::move(spec),
                      [responder, at](Result<std::string, PeerError> key) {
                        if (!key) return responder.send(error_response(key.error()));
                        Response response = Response::created();
                        response.headers.emplace_back("Location", at + percent_encode(*key));
                        responder.send(std::move(response));
                      });
}

void delete_binding(Context& context, std::shared_ptr<Request> request, Responder responder,
                    bool to_queue) {
  const Pair pair(*request, to_queue);
  if (auto refusal = pair_refusal(context, *request, pair))
    return responder.send(std::move(*refusal));
  auto binding = find_binding(context, pair, request->capture(3));
  if (!binding) return responder.send(Response::not_found());
  BindingSpec spec{pair.source, pair.destination, binding->routing_key, to_queue,
                   std::move(binding->arguments)};
  context.broker.unbind(login_of(*request), pair.vhost, std::move(spec), no_content(responder));
}

void add_pair_routes(Router& router, Context& context, bool to_queue) {
  const std::string pattern =
      std::string("/api/bindings/{vhost}/e/{source}/") + (to_queue ? "q" : "e") + "/{destination}";
  router.add_direct(Method::get, pattern, Access::management,
                    [&context, to_queue](const Request& request) {
                      const Pair pair(request, to_queue);
                      if (auto refusal = pair_refusal(context, request, pair))
                        return std::move(*refusal);
                      return list_bindings(context, request, pair.vhost,
                                           [&](const BindingInfo& b) { return pair.holds(b); });
                    });
  router.add(Method::post, pattern, Access::management,
             [&context, to_queue](std::shared_ptr<Request> request, Responder responder) {
               post_binding(context, std::move(request), std::move(responder), to_queue);
             });
  router.add_direct(Method::get, pattern + "/{props}", Access::management,
                    [&context, to_queue](const Request& request) {
                      const Pair pair(request, to_queue);
                      if (auto refusal = pair_refusal(context, request, pair))
                        return std::move(*refusal);
                      const auto binding = find_binding(context, pair, request.capture(3));
                      if (!binding) return Response::not_found();
                      return object_response(request, [&](const Fields& fields) {
                        return binding_json(*binding, fields);
                      });
                    });
  router.add(Method::del, pattern + "/{props}", Access::management,
             [&context, to_queue](std::shared_ptr<Request> request, Responder responder) {
               delete_binding(context, std::move(request), std::move(responder), to_queue);
             });
}

void add_end_route(Router& router, Context& context, std::string_view pattern, bool queue,
                   bool as_source) {
  router.add_direct(
      Method::get, pattern, Access::management, [=, &context](const Request& request) {
        const std::string& vhost = request.capture(0);
        if (auto refusal = vhost_refusal(context, request, vhost, request.caller.monitoring()))
          return std::move(*refusal);
        const std::string name = queue ? request.capture(1) : exchange_of_path(request.capture(1));
        const bool exists = queue ? context.broker.queue(vhost, name).has_value()
                                  : context.broker.exchange(vhost, name).has_value();
        if (!exists) return Response::not_found();
        return list_bindings(context, request, vhost, [&](const BindingInfo& b) {
          if (as_source) return b.source == name;
          return b.destination == name && b.destination_is_queue == queue;
        });
      });
}

}  // namespace

void add_binding_routes(Router& router, Context& context) {
  router.add_direct(
      Method::get, "/api/bindings", Access::management,
      [&context](const Request& request) { return list_bindings(context, request, "", {}); });
  router.add_direct(
      Method::get, "/api/bindings/{vhost}", Access::management, [&context](const Request& request) {
        if (auto refusal =
                vhost_refusal(context, request, request.capture(0), request.caller.monitoring())) {
          return std::move(*refusal);
        }
        return list_bindings(context, request, request.capture(0), {});
      });
  add_pair_routes(router, context, true);
  add_pair_routes(router, context, false);
  add_end_route(router, context, "/api/queues/{vhost}/{name}/bindings", true, false);
  add_end_route(router, context, "/api/exchanges/{vhost}/{name}/bindings/source", false, true);
  add_end_route(router, context, "/api/exchanges/{vhost}/{name}/bindings/destination", false,
                false);
}

}  // namespace tarry::http
