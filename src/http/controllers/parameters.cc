// Runtime parameters (http-api H-67, H-68). Global ones are kept, shown and exported. Those of a
// component need one that takes them, and here there is none but for one use of shovels: moving the
// messages of a queue. What an older version kept is still shown and may be deleted.
#include "http/controllers/common.h"
#include "http/controllers/retry_json.h"
#include "http/controllers/shovel_move.h"
#include "tarrymq/broker/retry_operations.h"

namespace tarry::http {
namespace {

Json parameter_json(const ParameterInfo& parameter, bool global) {
  Json value = Json::parse(parameter.value_json, nullptr, false);
  if (value.is_discarded()) value = nullptr;
  Json out{{"name", parameter.name}, {"value", std::move(value)}};
  if (global) return out;
  out["component"] = parameter.component;
  out["vhost"] = parameter.vhost;
  return out;
}

using KeepParameter = std::function<bool(const ParameterInfo&)>;

Response list_parameters(Context& context, const Request& request, bool global,
                         const KeepParameter& keep) {
  VhostFilter visible(context, request.caller);
  std::vector<Json> objects;
  for (const ParameterInfo& parameter : context.broker.parameters()) {
    if (parameter.component.empty() != global || (keep && !keep(parameter))) continue;
    if (global || visible(parameter.vhost)) objects.push_back(parameter_json(parameter, global));
  }
  return list_response(request, objects);
}

Response get_parameter(Context& context, const Request& request, const ParameterInfo& wanted) {
  VhostFilter visible(context, request.caller);
  const bool global = wanted.component.empty();
  for (const ParameterInfo& parameter : context.broker.parameters()) {
    if (parameter.component != wanted.component || parameter.vhost != wanted.vhost ||
        parameter.name != wanted.name) {
      continue;
    }
    if (global || visible(parameter.vhost))
      return Response::json(parameter_json(parameter, global));
  }
  return Response::not_found();
}

/// Kept and listed, settings of what is no part of this broker would be a lie.
Response component_refusal(const std::string& component) {
  for (const char* missing : {"federation-upstream", "federation-upstream-set", "federation"}) {
    if (component != missing) continue;
    return Response::bad_request("parameters of component '" + component +
                                 "' are not supported by this broker");
  }
  for (const auto& [other, where] :
       {std::pair{"vhost-limits", "vhost-limits/{vhost}/{limit}"},
        std::pair{"policy", "policies/{vhost}/{name}"},
        std::pair{"operator_policy", "operator-policies/{vhost}/{name}"}}) {
    if (component != other) continue;
    return Response::bad_request("component '" + component + "' has a path of its own: PUT /api/" +
                                 where);
  }
  return Response::bad_request("component '" + component + "' not found");
}

/// "Move messages" of RabbitMQ's pages and tools. It becomes a redrive: durable before the answer,
/// nothing lost or doubled over a crash, listed as one. As with RabbitMQ the parameter is gone when
/// it has done its work; here it is never seen.
void put_shovel(Context& context, const Request& request, const Json& value,
                const Responder& responder) {
  const std::string& vhost = request.capture(1);
  std::vector<uint16_t> ports;
  for (const ListenerInfo& listener : context.broker.overview({}).listeners) {
    if (listener.protocol == "amqp") ports.push_back(listener.port);
  }
  auto move = move_of_shovel(value, vhost, ports);
  if (!move) {
    return responder.send(Response::bad_request(
        move.error() +
        "; a shovel moves the messages of a queue to another one of its vhost here, once"));
  }
  if (!context.broker.queue(vhost, move->target)) {
    return responder.send(Response::bad_request("'dest-queue': no queue '" + move->target +
                                                "' in vhost '" + vhost + "'"));
  }
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  RedriveRequest redrive;
  redrive.target = move->target;
  operations->start_redrive(
      login_of(request), vhost, move->source, std::move(redrive),
      [responder](const Result<RedriveStarted, PeerError>& started) {
        responder.send(started ? Response::created() : error_response(started.error()));
      });
}

void put_parameter(Context& context, std::shared_ptr<Request> request, Responder responder) {
  const bool global = request->captures.size() == 1;
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  if (!body->contains("value")) return responder.send(Response::bad_request("'value' is missing"));
  if (!global) {
    if (auto refusal = vhost_refusal(context, *request, request->capture(1),
                                     request->caller.administrator())) {
      return responder.send(std::move(*refusal));
    }
    if (request->capture(0) == "shovel")
      return put_shovel(context, *request, (*body)["value"], responder);
    return responder.send(component_refusal(request->capture(0)));
  }
  context.broker.put_parameter({"", "", request->capture(0), (*body)["value"].dump()},
                               created_or_updated(responder));
}

void delete_parameter(Context& context, std::shared_ptr<Request> request, Responder responder) {
  if (request->captures.size() == 1) {
    return context.broker.delete_parameter("", "", request->capture(0), no_content(responder));
  }
  if (auto refusal =
          vhost_refusal(context, *request, request->capture(1), request->caller.administrator())) {
    return responder.send(std::move(*refusal));
  }
  context.broker.delete_parameter(request->capture(0), request->capture(1), request->capture(2),
                                  no_content(responder));
}

}  // namespace

void add_parameter_routes(Router& router, Context& context) {
  const std::string one = "/api/parameters/{component}/{vhost}/{name}";
  router.add_direct(
      Method::get, "/api/parameters", Access::policymaker,
      [&context](const Request& request) { return list_parameters(context, request, false, {}); });
  router.add_direct(Method::get, "/api/parameters/{component}", Access::policymaker,
                    [&context](const Request& request) {
                      return list_parameters(context, request, false, [&](const ParameterInfo& p) {
                        return p.component == request.capture(0);
                      });
                    });
  router.add_direct(Method::get, "/api/parameters/{component}/{vhost}", Access::policymaker,
                    [&context](const Request& request) {
                      if (!vhost_exists(context, request.capture(1))) return Response::not_found();
                      return list_parameters(context, request, false, [&](const ParameterInfo& p) {
                        return p.component == request.capture(0) && p.vhost == request.capture(1);
                      });
                    });
  router.add_direct(Method::get, one, Access::policymaker, [&context](const Request& request) {
    return get_parameter(context, request,
                         {request.capture(0), request.capture(1), request.capture(2), ""});
  });
  router.add(Method::put, one, Access::policymaker, bound(context, put_parameter));
  router.add(Method::del, one, Access::policymaker, bound(context, delete_parameter));
  router.add(Method::put, "/api/global-parameters/{name}", Access::administrator,
             bound(context, put_parameter));
  router.add(Method::del, "/api/global-parameters/{name}", Access::administrator,
             bound(context, delete_parameter));
  router.add_direct(
      Method::get, "/api/global-parameters", Access::policymaker,
      [&context](const Request& request) { return list_parameters(context, request, true, {}); });
  router.add_direct(Method::get, "/api/global-parameters/{name}", Access::policymaker,
                    [&context](const Request& request) {
                      return get_parameter(context, request, {"", "", request.capture(0), ""});
                    });
}

}  // namespace tarry::http
