#include "http/api.h"

#include <boost/beast/core/string.hpp>

#include "http/controllers/common.h"

namespace tarry::http {
namespace {

/// With the challenge that clients wait for, but not for a script of our own pages: a browser would
/// open its own dialog and remember what is typed there.
Response unauthorised(const Request& head) {
  Response response = Response::error(401, "not_authorised", "Login failed");
  if (head.fetch_site == "same-origin") return response;
  // RabbitMQ's realm: libraries (Perl's LWP) keep a password for that name.
  response.headers.emplace_back("WWW-Authenticate",
                                "Basic realm=\"RabbitMQ Management\", charset=\"UTF-8\"");
  return response;
}

/// User and password of a Basic authorization field; none if it is another scheme or malformed.
std::optional<std::pair<std::string, std::string>> basic_credentials(std::string_view field) {
  constexpr std::string_view kScheme = "basic ";
  if (field.size() < kScheme.size() ||
      !boost::beast::iequals(field.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  field.remove_prefix(kScheme.size());
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
  auto decoded = base64_decode(field);
  if (!decoded) return std::nullopt;
  const size_t colon = decoded->find(':');
  if (colon == std::string::npos) return std::nullopt;
  return std::pair(decoded->substr(0, colon), decoded->substr(colon + 1));
}

/// A browser that was told to by another site: it sends Origin (or Sec-Fetch-Site), and maybe
/// remembered credentials.
bool comes_from_another_site(const Request& head) {
  if (head.method == Method::get) return false;
  if (head.fetch_site == "cross-site" || head.fetch_site == "same-site") return true;
  if (head.origin.empty()) return false;
  const size_t scheme_end = head.origin.find("://");
  if (scheme_end == std::string::npos) return true;  // "null" and the like
  return !boost::beast::iequals(std::string_view(head.origin).substr(scheme_end + 3), head.host);
}

bool allowed(Access access, const Caller& caller) {
  switch (access) {
    case Access::anyone:
      return true;
    case Access::management:
      return caller.any_tag();
    case Access::monitoring:
      return caller.monitoring();
    case Access::policymaker:
      return caller.policymaker();
    case Access::administrator:
      return caller.administrator();
  }
  return false;
}

/// Who has no permissions in a vhost gets no further, so that no answer tells what is there or what
/// is wrong with the request. Who sees every vhost may read; an administrator's writes are the
/// controllers' to judge.
std::optional<Response> stranger_to_vhost(Context& context, const Route& route,
                                          const std::string& vhost, const Caller& caller) {
  const bool passes =
      caller.administrator() || (route.method == Method::get && caller.monitoring());
  if (passes || !vhost_exists(context, vhost) || context.broker.may_access(caller.user, vhost))
    return std::nullopt;
  return Response::forbidden("access to vhost '" + vhost + "' refused for user '" + caller.user +
                             "'");
}

}  // namespace

ManagementApi::ManagementApi(Management& broker, ProcessOperations* process)
    : context_{broker, {}, broker.overview({}).node, process} {
  add_page_routes(router_, context_);
  add_overview_routes(router_, context_);
  add_node_routes(router_, context_);
  add_health_routes(router_, context_);
  add_vhost_routes(router_, context_);
  add_exchange_routes(router_, context_);
  add_queue_routes(router_, context_);
  add_message_routes(router_, context_);
  add_delayed_routes(router_, context_);
  add_redrive_routes(router_, context_);
  add_retry_routes(router_, context_);
  add_binding_routes(router_, context_);
  add_connection_routes(router_, context_);
  add_consumer_routes(router_, context_);
  add_definition_routes(router_, context_);
  add_policy_routes(router_, context_);
  add_parameter_routes(router_, context_);
  add_user_routes(router_, context_);
  add_login_attempt_routes(router_, context_);
  add_permission_routes(router_, context_);
  add_topic_permission_routes(router_, context_);
  add_limit_routes(router_, context_);
  add_log_routes(router_, context_);
  add_metrics_routes(router_, context_, Access::monitoring);
  add_process_routes(router_, context_);
  add_compat_routes(router_, context_);
  add_openapi_routes(router_, context_);
}

void ManagementApi::admit(Request& head, Admitted done) {
  auto match = router_.match(head.method, head.segments);
  if (match.allow.empty()) return done(Response::not_found(), {});
  if (match.route == nullptr) {
    const bool options = head.method_text == "OPTIONS";
    Response response =
        options
            ? Response::no_content()
            : Response::error(405, "method_not_allowed",
                              head.method_text + " is not allowed here; allowed: " + match.allow);
    response.headers.emplace_back("Allow", match.allow + ", OPTIONS");
    return done(std::move(response), {});
  }
  head.captures = std::move(match.captures);
  head.may_be_large = match.route->body == Body::large;
  if (comes_from_another_site(head)) {
    return done(
        Response::forbidden("refused: the request comes from another site (" + head.origin + ")"),
        {});
  }
  const Access access = match.route->access;
  if (access == Access::anyone) return done(std::nullopt, {});
  auto credentials = basic_credentials(head.authorization);
  if (!credentials) return done(unauthorised(head), {});
  const bool loopback = head.peer_loopback;
  std::optional<std::string> vhost;
  if (match.route->vhost_capture) vhost = head.captures.at(*match.route->vhost_capture);
  Response refusal = unauthorised(head);
  context_.broker.log_in(
      std::move(credentials->first), std::move(credentials->second), {head.peer_host, loopback},
      [this, done = std::move(done), route = match.route, vhost = std::move(vhost), loopback,
       refusal = std::move(refusal)](std::optional<UserInfo> user) {
        if (!user) return done(refusal, {});
        Caller caller{user->name, user->tags, loopback};
        if (!allowed(route->access, caller)) {
          return done(Response::forbidden(caller.any_tag() ? "the user's tags do not allow this"
                                                           : "Not management user"),
                      {});
        }
        if (vhost) {
          if (auto stranger = stranger_to_vhost(context_, *route, *vhost, caller))
            return done(std::move(stranger), {});
        }
        done(std::nullopt, std::move(caller));
      });
}

void ManagementApi::sample() { sample_everything(context_, stats_now()); }

void ManagementApi::serve(std::shared_ptr<Request> request, Responder responder) {
  const auto match = router_.match(request->method, request->segments);
  match.route->handler(std::move(request), std::move(responder));
}

}  // namespace tarry::http
