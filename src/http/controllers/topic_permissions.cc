// Topic permissions (http-api H-55, H-60, H-62).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

using KeepTopicPermission = std::function<bool(const TopicPermissionInfo&)>;

Json topic_permission_json(const TopicPermissionInfo& p) {
  return Json{{"user", p.user},
              {"vhost", p.vhost},
              {"exchange", p.exchange},
              {"write", p.write},
              {"read", p.read}};
}

Response list_topic_permissions(Context& context, const Request& request,
                                const KeepTopicPermission& keep) {
  std::vector<Json> objects;
  for (const TopicPermissionInfo& p : context.broker.topic_permissions()) {
    if (!keep || keep(p)) objects.push_back(topic_permission_json(p));
  }
  return list_response(request, objects, "user");
}

void put_topic_permission(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  TopicPermissionInfo info;
  info.vhost = request->capture(0);
  info.user = request->capture(1);
  info.exchange = reader.required_text("exchange");
  info.write = reader.required_text("write");
  info.read = reader.required_text("read");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  context.broker.put_topic_permission(std::move(info), created_or_updated(responder));
}

}  // namespace

void add_topic_permission_routes(Router& router, Context& context) {
  const std::string one = "/api/topic-permissions/{vhost}/{user}";
  const auto list = [&context](auto member, size_t capture) {
    return [&context, member, capture](const Request& request) {
      return list_topic_permissions(context, request, [&](const TopicPermissionInfo& p) {
        return p.*member == request.capture(capture);
      });
    };
  };
  router.add_direct(
      Method::get, "/api/topic-permissions", Access::administrator,
      [&context](const Request& request) { return list_topic_permissions(context, request, {}); });
  router.add_direct(Method::get, "/api/topic-permissions/{vhost}", Access::administrator,
                    list(&TopicPermissionInfo::vhost, 0));
  router.add_direct(Method::get, "/api/vhosts/{vhost}/topic-permissions", Access::administrator,
                    list(&TopicPermissionInfo::vhost, 0));
  router.add_direct(Method::get, "/api/users/{user}/topic-permissions", Access::administrator,
                    list(&TopicPermissionInfo::user, 0));
  router.add_direct(Method::get, one, Access::administrator, [&context](const Request& request) {
    const auto wanted = [&](const TopicPermissionInfo& p) {
      return p.vhost == request.capture(0) && p.user == request.capture(1);
    };
    const std::vector<TopicPermissionInfo> all = context.broker.topic_permissions();
    if (std::none_of(all.begin(), all.end(), wanted)) return Response::not_found();
    return list_topic_permissions(context, request, wanted);
  });
  router.add(Method::put, one, Access::administrator, bound(context, put_topic_permission));
  const auto remove = [&context](std::shared_ptr<Request> request, Responder responder) {
    const std::string exchange = request->captures.size() > 2 ? request->capture(2) : std::string();
    context.broker.delete_topic_permission(request->capture(1), request->capture(0), exchange,
                                           no_content(responder));
  };
  router.add(Method::del, one, Access::administrator, remove);
  router.add(Method::del, one + "/{exchange}", Access::administrator, remove);
}

}  // namespace tarry::http
