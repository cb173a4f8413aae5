// Policies and operator policies (http-api H-65, H-66).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

struct Kind {
  bool is_operator;
  const char* path;
  Access write;  // reading: policymaker
};
constexpr Kind kPolicies{false, "/api/policies", Access::policymaker};
constexpr Kind kOperatorPolicies{true, "/api/operator-policies", Access::administrator};

Json policy_json(const PolicyInfo& policy) {
  return Json{{"vhost", policy.vhost},       {"name", policy.name},
              {"pattern", policy.pattern},   {"apply-to", policy.apply_to},
              {"priority", policy.priority}, {"definition", to_json(policy.definition)}};
}

Response list_policies(Context& context, const Request& request, const std::string& vhost,
                       bool is_operator) {
  VhostFilter visible(context, request.caller);
  std::vector<Json> objects;
  for (const PolicyInfo& policy : context.broker.policies({vhost}, is_operator)) {
    if (visible(policy.vhost)) objects.push_back(policy_json(policy));
  }
  return list_response(request, objects);
}

/// Messages go to these exchanges in the name of who set the policy: he needs the right that a
/// queue's or exchange's argument asks for. An administrator could give it to himself.
std::optional<Response> may_not_write(Context& context, const Request& request,
                                      const PolicyInfo& policy) {
  if (request.caller.administrator()) return std::nullopt;
  for (const char* key : {"dead-letter-exchange", "alternate-exchange"}) {
    const FieldValue* value = policy.definition.find(key);
    if (value == nullptr || value->text() == nullptr) continue;
    auto may = context.broker.may_write_to(login_of(request), policy.vhost, *value->text());
    if (!may) return error_response(may.error());
  }
  return std::nullopt;
}

void put_policy(Context& context, std::shared_ptr<Request> request, Responder responder,
                bool is_operator) {
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  PolicyInfo policy;
  policy.vhost = request->capture(0);
  policy.name = request->capture(1);
  policy.pattern = reader.required_text("pattern");
  if (!body->contains("definition")) reader.fail("'definition' is missing");
  policy.definition = reader.table("definition");
  policy.priority = reader.integer("priority", 0, INT32_MIN, INT32_MAX);
  policy.apply_to = reader.text("apply-to", is_operator ? "queues" : "all");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  if (auto refusal =
          vhost_refusal(context, *request, policy.vhost, request->caller.administrator())) {
    return responder.send(std::move(*refusal));
  }
  if (auto refusal = may_not_write(context, *request, policy))
    return responder.send(std::move(*refusal));
  context.broker.put_policy(std::move(policy), is_operator, created_or_updated(responder));
}

void add_routes(Router& router, Context& context, const Kind& kind) {
  const bool is_operator = kind.is_operator;
  const std::string base = kind.path;
  router.add_direct(Method::get, base, Access::policymaker,
                    [&context, is_operator](const Request& request) {
                      return list_policies(context, request, "", is_operator);
                    });
  router.add_direct(Method::get, base + "/{vhost}", Access::policymaker,
                    [&context, is_operator](const Request& request) {
                      if (auto refusal = vhost_refusal(context, request, request.capture(0),
                                                       request.caller.administrator())) {
                        return std::move(*refusal);
                      }
                      return list_policies(context, request, request.capture(0), is_operator);
                    });
  router.add_direct(Method::get, base + "/{vhost}/{name}", Access::policymaker,
                    [&context, is_operator](const Request& request) {
                      if (auto refusal = vhost_refusal(context, request, request.capture(0),
                                                       request.caller.administrator())) {
                        return std::move(*refusal);
                      }
                      for (const PolicyInfo& policy :
                           context.broker.policies({request.capture(0)}, is_operator)) {
                        if (policy.name == request.capture(1))
                          return Response::json(policy_json(policy));
                      }
                      return Response::not_found();
                    });
  router.add(Method::put, base + "/{vhost}/{name}", kind.write,
             [&context, is_operator](std::shared_ptr<Request> request, Responder responder) {
               put_policy(context, std::move(request), std::move(responder), is_operator);
             });
  router.add(Method::del, base + "/{vhost}/{name}", kind.write,
             [&context, is_operator](std::shared_ptr<Request> request, Responder responder) {
               if (auto refusal = vhost_refusal(context, *request, request->capture(0),
                                                request->caller.administrator())) {
                 return responder.send(std::move(*refusal));
               }
               context.broker.delete_policy(request->capture(0), request->capture(1), is_operator,
                                            no_content(responder));
             });
}

}  // namespace

void add_policy_routes(Router& router, Context& context) {
  add_routes(router, context, kPolicies);
  add_routes(router, context, kOperatorPolicies);
}

}  // namespace tarry::http
