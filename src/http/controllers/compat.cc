// What tools of RabbitMQ ask for and one node answers in a word (http-api H-27, H-50, H-75, H-76).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

/// Features that clients and providers look for before they use something.
constexpr const char* kFeatures[] = {"classic_mirrored_queue_version",
                                     "classic_queue_type_delivery_support",
                                     "direct_exchange_routing_v2",
                                     "drop_unroutable_metric",
                                     "empty_basic_get_metric",
                                     "feature_flags_v2",
                                     "implicit_default_bindings",
                                     "listener_records_in_ets",
                                     "maintenance_mode_status",
                                     "message_containers",
                                     "quorum_queue",
                                     "stream_queue",
                                     "user_limits",
                                     "virtual_host_metadata",
                                     "tracking_records_in_ets"};

Response feature_flags() {
  Json out = Json::array();
  for (const char* name : kFeatures) {
    out.push_back(Json{{"name", name},
                       {"state", "enabled"},
                       {"stability", "required"},
                       {"desc", ""},
                       {"doc_url", ""},
                       {"provided_by", "tarrymq"}});
  }
  return Response::json(out);
}

Response queue_action(Context& context, const Request& request) {
  auto body = body_object(request);
  if (!body) return body.error();
  BodyReader reader(*body);
  const std::string action = reader.required_text("action");
  if (reader.reason()) return Response::bad_request(*reader.reason());
  if (auto refusal = vhost_refusal(context, request, request.capture(0), false))
    return std::move(*refusal);
  if (!context.broker.queue(request.capture(0), request.capture(1))) return Response::not_found();
  if (action == "sync" || action == "cancel_sync")
    return Response::no_content();  // no mirrors, nothing to do
  return Response::bad_request("unknown action '" + action + "': expected sync or cancel_sync");
}

Response empty_list(const Request&) { return Response::json(Json::array()); }

}  // namespace

void add_compat_routes(Router& router, Context& context) {
  router.add_direct(Method::get, "/api/version", Access::management, [&context](const Request&) {
    return Response::json(Json{{"version", context.broker.overview({}).version}});
  });
  router.add_direct(Method::get, "/api/feature-flags", Access::management,
                    [](const Request&) { return feature_flags(); });
  router.add_direct(
      Method::put, "/api/feature-flags/{name}/enable", Access::administrator,
      [](const Request& request) {
        for (const char* name : kFeatures) {
          if (request.capture(0) == name) return Response::no_content();
        }
        return Response::bad_request("feature flag '" + request.capture(0) + "' is not known");
      });
  router.add_direct(Method::get, "/api/deprecated-features", Access::management, empty_list);
  router.add_direct(Method::get, "/api/deprecated-features/used", Access::management, empty_list);
  router.add_direct(Method::post, "/api/rebalance/queues", Access::administrator,
                    [](const Request&) { return Response::no_content(); });
  for (const char* pattern : {"/api/shovels", "/api/shovels/{vhost}", "/api/federation-links",
                              "/api/federation-links/{vhost}"}) {
    router.add_direct(Method::get, pattern, Access::management, empty_list);
  }
  router.add_direct(Method::post, "/api/queues/{vhost}/{name}/actions", Access::management,
                    bound(context, queue_action));
}

}  // namespace tarry::http
