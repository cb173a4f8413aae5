// Virtual hosts (http-api H-54, H-56).
#include "http/controllers/common.h"
#include "http/controllers/queue_json.h"

namespace tarry::http {
namespace {

Json vhost_json(Context& context, const VhostInfo& vhost, const Fields& fields,
                const StatsRange& range) {
  const std::string type = vhost.default_queue_type.empty() ? "classic" : vhost.default_queue_type;
  ObjectWriter out(fields);
  out.put("name", vhost.name);
  out.put("description", vhost.description);
  out.put("tags", vhost.tags);
  out.put(
      "metadata",
      Json{{"description", vhost.description}, {"tags", vhost.tags}, {"default_queue_type", type}});
  out.put("default_queue_type", type);
  out.put("tracing", false);
  out.put("protected_from_deletion", vhost.protected_from_deletion);
  out.put("cluster_state", Json{{context.node, "running"}});
  out.put("queues", vhost.queues);
  const auto values = queue_values(vhost.totals);
  const auto view = context.history.look(vhost_thing(vhost.name), values, stats_now());
  Json object = out.take();
  Json totals = Json::object();
  put_message_totals(totals, vhost.totals, view, range.lengths);
  for (auto& [name, value] : totals.items()) {
    if (fields.wants(name)) object[name] = std::move(value);
  }
  if (fields.wants("message_stats"))
    object["message_stats"] = message_stats_json(values, view, range.msg_rates);
  return object;
}

/// As a list, or text with commas; a missing one is empty.
std::vector<std::string> tags_of(const Json& body, BodyReader& reader) {
  return body.contains("tags") ? read_words(body, "tags", reader) : std::vector<std::string>();
}

void put_vhost(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  VhostInfo info;
  for (VhostInfo& known : context.broker.vhosts()) {  // what is not said stays
    if (known.name == request->capture(0)) info = std::move(known);
  }
  info.name = request->capture(0);
  info.description = reader.text("description", info.description);
  if (body->contains("tags")) info.tags = tags_of(*body, reader);
  info.default_queue_type = reader.text("default_queue_type", info.default_queue_type);
  if (info.default_queue_type == "undefined") info.default_queue_type.clear();
  info.protected_from_deletion =
      reader.flag("protected_from_deletion", info.protected_from_deletion);
  (void)reader.flag("tracing", false);  // taken and without effect, as the README says
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  // Who makes a vhost may use it, as providers expect: their next call declares something there.
  PermissionInfo all{login_of(*request).user, info.name, ".*", ".*", ".*"};
  context.broker.put_vhost(
      std::move(info), [&context, responder, all = std::move(all)](Result<bool, PeerError> result) {
        if (!result || !*result) return created_or_updated(responder)(std::move(result));
        context.broker.put_permission(all, [responder](const Result<bool, PeerError>& granted) {
          responder.send(granted ? Response::created() : error_response(granted.error()));
        });
      });
}

void set_protection(Context& context, const std::shared_ptr<Request>& request,
                    const Responder& responder, bool on) {
  for (VhostInfo& info : context.broker.vhosts()) {
    if (info.name != request->capture(0)) continue;
    info.protected_from_deletion = on;
    return context.broker.put_vhost(std::move(info), updated(responder));
  }
  responder.send(Response::not_found());
}

Response list_vhosts(Context& context, const Request& request) {
  return with_range(request, [&](const StatsRange& range) {
    VhostFilter visible(context, request.caller);
    std::vector<VhostInfo> vhosts = context.broker.vhosts();
    std::erase_if(vhosts, [&](const VhostInfo& vhost) { return !visible(vhost.name); });
    Listing listing;
    listing.count = vhosts.size();
    listing.name = [&](size_t i) -> std::string_view { return vhosts[i].name; };
    listing.render = [&](size_t i, const Fields& fields) {
      return vhost_json(context, vhosts[i], fields, range);
    };
    return list_response(request, listing);
  });
}

Response get_vhost(Context& context, const Request& request) {
  if (auto refusal =
          vhost_refusal(context, request, request.capture(0), request.caller.monitoring())) {
    return std::move(*refusal);
  }
  return with_range(request, [&](const StatsRange& range) {
    for (const VhostInfo& vhost : context.broker.vhosts()) {
      if (vhost.name != request.capture(0)) continue;
      return object_response(
          request, [&](const Fields& fields) { return vhost_json(context, vhost, fields, range); });
    }
    return Response::not_found();
  });
}

}  // namespace

void add_vhost_routes(Router& router, Context& context) {
  router.add_direct(Method::get, "/api/vhosts", Access::management, bound(context, list_vhosts));
  router.add_direct(Method::get, "/api/vhosts/{vhost}", Access::management,
                    bound(context, get_vhost));
  router.add(Method::put, "/api/vhosts/{vhost}", Access::administrator, bound(context, put_vhost));
  router.add(Method::del, "/api/vhosts/{vhost}", Access::administrator,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               context.broker.delete_vhost(request->capture(0), no_content(responder));
             });
  for (const auto& [method, on] : {std::pair{Method::post, true}, std::pair{Method::del, false}}) {
    router.add(method, "/api/vhosts/{vhost}/deletion/protection", Access::administrator,
               [&context, on = on](std::shared_ptr<Request> request, Responder responder) {
                 set_protection(context, request, responder, on);
               });
  }
  // There is one node, and its vhosts run.
  router.add_direct(Method::post, "/api/vhosts/{vhost}/start/{node}", Access::administrator,
                    [&context](const Request& request) {
                      const bool known = vhost_exists(context, request.capture(0)) &&
                                         request.capture(1) == context.node;
                      return known ? Response::no_content() : Response::not_found();
                    });
}

}  // namespace tarry::http
