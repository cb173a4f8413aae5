// Permissions (http-api H-55, H-61).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

using KeepPermission = std::function<bool(const PermissionInfo&)>;

Json permission_json(const PermissionInfo& permission) {
  return Json{{"user", permission.user},
              {"vhost", permission.vhost},
              {"configure", permission.configure},
              {"write", permission.write},
              {"read", permission.read}};
}

Response list_permissions(Context& context, const Request& request, const KeepPermission& keep) {
  std::vector<Json> objects;
  for (const PermissionInfo& permission : context.broker.permissions()) {
    if (!keep || keep(permission)) objects.push_back(permission_json(permission));
  }
  return list_response(request, objects, "user");
}

void put_permission(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  PermissionInfo permission;
  permission.vhost = request->capture(0);
  permission.user = request->capture(1);
  permission.configure = reader.required_text("configure");
  permission.write = reader.required_text("write");
  permission.read = reader.required_text("read");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  context.broker.put_permission(std::move(permission), created_or_updated(responder));
}

}  // namespace

void add_permission_routes(Router& router, Context& context) {
  const std::string one = "/api/permissions/{vhost}/{user}";
  router.add_direct(
      Method::get, "/api/permissions", Access::administrator,
      [&context](const Request& request) { return list_permissions(context, request, {}); });
  router.add_direct(Method::get, "/api/vhosts/{vhost}/permissions", Access::administrator,
                    [&context](const Request& request) {
                      if (!vhost_exists(context, request.capture(0))) return Response::not_found();
                      return list_permissions(context, request, [&](const PermissionInfo& p) {
                        return p.vhost == request.capture(0);
                      });
                    });
  router.add_direct(Method::get, "/api/users/{user}/permissions", Access::administrator,
                    [&context](const Request& request) {
                      if (!context.broker.user(request.capture(0))) return Response::not_found();
                      return list_permissions(context, request, [&](const PermissionInfo& p) {
                        return p.user == request.capture(0);
                      });
                    });
  router.add_direct(Method::get, one, Access::administrator, [&context](const Request& request) {
    for (const PermissionInfo& p : context.broker.permissions()) {
      if (p.vhost == request.capture(0) && p.user == request.capture(1))
        return Response::json(permission_json(p));
    }
    return Response::not_found();
  });
  router.add(Method::put, one, Access::administrator,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               put_permission(context, std::move(request), std::move(responder));
             });
  router.add(Method::del, one, Access::administrator,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               context.broker.delete_permission(request->capture(1), request->capture(0),
                                                no_content(responder));
             });
}

}  // namespace tarry::http
