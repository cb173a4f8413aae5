// Users (http-api H-58, H-59, H-63).
#include <set>

#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Json user_json(const UserInfo& user) {
  return Json{{"name", user.name},
              {"password_hash", user.password_hash},
              {"hashing_algorithm", user.hashing_algorithm},
              {"tags", user.tags},
              {"limits", user.limits}};
}

/// Rights that are given along with the user, as RabbitMQ's API takes them:
/// {"vhost": {"configure": ..., "write": ..., "read": ...}}.
std::vector<PermissionInfo> permissions_of(Context& context, const Json& body,
                                           const std::string& user, BodyReader& reader) {
  std::vector<PermissionInfo> out;
  const auto found = body.find("permissions");
  if (found == body.end() || found->is_null()) return out;
  if (!found->is_object()) reader.fail("'permissions' must be an object: rights by vhost");
  if (reader.reason()) return out;
  for (const auto& [vhost, rights] : found->items()) {
    if (!rights.is_object()) {
      reader.fail("permissions in vhost '" + vhost + "' must be an object");
      break;
    }
    if (!vhost_exists(context, vhost)) {
      reader.fail("permissions: no vhost '" + vhost + "'");
      break;
    }
    BodyReader each(rights);
    out.push_back({user, vhost, each.required_text("configure"), each.required_text("write"),
                   each.required_text("read")});
    if (each.reason()) reader.fail("permissions in vhost '" + vhost + "': " + *each.reason());
  }
  return out;
}

/// One after the other, the last first; then the answer, or the first error.
void grant(Context& context, std::vector<PermissionInfo> left, bool created,
           const Answer<bool>& answer) {
  if (left.empty()) return answer(Result<bool, PeerError>(boost::system::in_place_value, created));
  PermissionInfo next = std::move(left.back());
  left.pop_back();
  context.broker.put_permission(std::move(next), [&context, left = std::move(left), created,
                                                  answer](const Result<bool, PeerError>& done) {
    if (!done) return answer(done);
    grant(context, left, created, answer);
  });
}

void put_user(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  UserInfo user;
  user.name = request->capture(0);
  user.tags = read_words(*body, "tags", reader);
  std::optional<std::string> password = reader.optional_text("password");
  user.password_hash = reader.text("password_hash");
  user.hashing_algorithm = reader.text("hashing_algorithm", user.hashing_algorithm);
  if (user.name == "without-permissions" || user.name == "bulk-delete") {
    reader.fail("user name '" + user.name + "' is taken by a path of this API");
  }
  if (password && password->empty()) password.reset();  // such a user cannot log in by password
  if (password && !user.password_hash.empty())
    reader.fail("either 'password' or 'password_hash' is allowed, not both");
  auto rights = permissions_of(context, *body, user.name, reader);
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  context.broker.put_user(
      std::move(user), std::move(password),
      [&context, rights = std::move(rights),
       answer = created_or_updated(responder)](const Result<bool, PeerError>& made) {
        if (!made) return answer(made);
        grant(context, rights, *made, answer);
      });
}

void bulk_delete(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  const auto names = body->find("users");
  if (names == body->end() || !names->is_array()) {
    return responder.send(Response::bad_request("'users' must be a list of names"));
  }
  for (const Json& name : *names) {
    if (!name.is_string())
      return responder.send(Response::bad_request("'users' must be a list of names"));
  }
  if (names->empty()) return responder.send(Response::no_content());
  auto left = std::make_shared<std::atomic<size_t>>(names->size());
  for (const Json& name : *names) {
    // Who is gone already is no error.
    context.broker.delete_user(name.get<std::string>(), [responder, left](Result<void, PeerError>) {
      if (left->fetch_sub(1) == 1) responder.send(Response::no_content());
    });
  }
}

Response users_without_permissions(Context& context, const Request& request) {
  std::set<std::string> with;
  for (const PermissionInfo& permission : context.broker.permissions())
    with.insert(permission.user);
  std::vector<Json> objects;
  for (const UserInfo& user : context.broker.users()) {
    if (!with.contains(user.name)) objects.push_back(user_json(user));
  }
  return list_response(request, objects);
}

}  // namespace

void add_user_routes(Router& router, Context& context) {
  router.add_direct(Method::get, "/api/users", Access::administrator,
                    [&context](const Request& request) {
                      std::vector<Json> objects;
                      for (const UserInfo& user : context.broker.users())
                        objects.push_back(user_json(user));
                      return list_response(request, objects);
                    });
  router.add_direct(
      Method::get, "/api/users/without-permissions", Access::administrator,
      [&context](const Request& request) { return users_without_permissions(context, request); });
  router.add(Method::post, "/api/users/bulk-delete", Access::administrator,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               bulk_delete(context, std::move(request), std::move(responder));
             });
  router.add_direct(Method::get, "/api/users/{user}", Access::administrator,
                    [&context](const Request& request) {
                      const auto user = context.broker.user(request.capture(0));
                      return user ? Response::json(user_json(*user)) : Response::not_found();
                    });
  router.add(Method::put, "/api/users/{user}", Access::administrator,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               put_user(context, std::move(request), std::move(responder));
             });
  router.add(Method::del, "/api/users/{user}", Access::administrator,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               context.broker.delete_user(request->capture(0), no_content(responder));
             });
  router.add_direct(Method::put, "/api/auth/hash_password", Access::management,
                    [](const Request& request) {
                      auto body = body_object(request);
                      if (!body) return body.error();
                      BodyReader reader(*body);
                      const std::string password = reader.required_text("password");
                      if (reader.reason()) return Response::bad_request(*reader.reason());
                      return Response::json(Json{{"ok", hash_password(password)}});
                    });
  router.add_direct(Method::get, "/api/auth/hash_password/{password}", Access::administrator,
                    [](const Request& request) {
                      return Response::json(Json{{"ok", hash_password(request.capture(0))}});
                    });
}

}  // namespace tarry::http
