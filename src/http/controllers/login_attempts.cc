// Log-ins that were tried (http-api H-64).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Response list(Context& context, const Request& request, bool by_source) {
  if (request.capture(0) != context.node) return Response::not_found();
  Json out = Json::array();
  for (const LoginAttempts& attempts : context.broker.login_attempts(by_source)) {
    Json one{{"protocol", attempts.protocol},
             {"auth_attempts", attempts.succeeded + attempts.failed},
             {"auth_attempts_succeeded", attempts.succeeded},
             {"auth_attempts_failed", attempts.failed}};
    if (by_source) {
      one["remote_address"] = attempts.address;
      one["username"] = attempts.user;
    }
    out.push_back(std::move(one));
  }
  return Response::json(out);
}

/// Both lists begin anew, whichever is named, as in RabbitMQ.
Response forget(Context& context, const Request& request) {
  if (request.capture(0) != context.node) return Response::not_found();
  context.broker.forget_login_attempts();
  return Response::no_content();
}

}  // namespace

void add_login_attempt_routes(Router& router, Context& context) {
  for (const bool by_source : {false, true}) {
    const std::string path =
        std::string("/api/auth/attempts/{node}") + (by_source ? "/source" : "");
    router.add_direct(Method::get, path, Access::monitoring,
                      [&context, by_source](const Request& request) {
                        return list(context, request, by_source);
                      });
    router.add_direct(Method::del, path, Access::monitoring, bound(context, forget));
  }
}

}  // namespace tarry::http
