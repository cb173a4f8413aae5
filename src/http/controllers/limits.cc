// Limits of vhosts and users (http-api H-57, H-60).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Json limits_entry(const char* key, const std::string& name,
                  const std::map<std::string, int64_t>& limits) {
  return Json{{key, name}, {"value", limits}};
}

Response list_vhost_limits(Context& context, const Request& request, const std::string& only) {
  VhostFilter visible(context, request.caller);
  std::vector<Json> out;
  for (const VhostInfo& vhost : context.broker.vhosts()) {
    if (vhost.limits.empty() || (!only.empty() && vhost.name != only) || !visible(vhost.name))
      continue;
    out.push_back(limits_entry("vhost", vhost.name, vhost.limits));
  }
  return list_response(request, out, "vhost");
}

Response list_user_limits(Context& context, const Request& request, const std::string& only) {
  std::vector<Json> out;
  for (const UserInfo& user : context.broker.users()) {
    if (user.limits.empty() || (!only.empty() && user.name != only)) continue;
    out.push_back(limits_entry("user", user.name, user.limits));
  }
  return list_response(request, out, "user");
}

using PutLimit = void (Management::*)(std::string, std::string, std::optional<int64_t>,
                                      Answer<void>);

void put_limit(Context& context, const std::shared_ptr<Request>& request,
               const Responder& responder, PutLimit put) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  if (!body->contains("value")) reader.fail("'value' is missing");
  const int64_t value = reader.integer("value", -1, -1, INT32_MAX);
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  (context.broker.*put)(request->capture(0), request->capture(1), value, no_content(responder));
}

void add_one(Router& router, Context& context, const std::string& pattern, PutLimit put) {
  const auto set = [&context, put](std::shared_ptr<Request> request, Responder responder) {
    put_limit(context, request, responder, put);
  };
  router.add(Method::put, pattern, Access::administrator, set);
  router.add(Method::post, pattern, Access::administrator, set);
  router.add(Method::del, pattern, Access::administrator,
             [&context, put](std::shared_ptr<Request> request, Responder responder) {
               (context.broker.*put)(request->capture(0), request->capture(1), std::nullopt,
                                     no_content(responder));
             });
}

}  // namespace

void add_limit_routes(Router& router, Context& context) {
  router.add_direct(
      Method::get, "/api/vhost-limits", Access::management,
      [&context](const Request& request) { return list_vhost_limits(context, request, ""); });
  router.add_direct(Method::get, "/api/vhost-limits/{vhost}", Access::management,
                    [&context](const Request& request) {
                      if (auto refusal = vhost_refusal(context, request, request.capture(0),
                                                       request.caller.monitoring())) {
                        return std::move(*refusal);
                      }
                      return list_vhost_limits(context, request, request.capture(0));
                    });
  add_one(router, context, "/api/vhost-limits/{vhost}/{limit}", &Management::put_vhost_limit);
  router.add_direct(
      Method::get, "/api/user-limits", Access::administrator,
      [&context](const Request& request) { return list_user_limits(context, request, ""); });
  router.add_direct(Method::get, "/api/user-limits/{user}", Access::administrator,
                    [&context](const Request& request) {
                      if (!context.broker.user(request.capture(0))) return Response::not_found();
                      return list_user_limits(context, request, request.capture(0));
                    });
  add_one(router, context, "/api/user-limits/{user}/{limit}", &Management::put_user_limit);
}

}  // namespace tarry::http
