// Redrives: dead letters back to where they died, or elsewhere (retry-spec 38).
#include "http/controllers/common.h"
#include "http/controllers/retry_json.h"
#include "tarrymq/broker/retry_operations.h"

namespace tarry::http {

std::optional<std::string> text_or_number(const Json& object, const char* key, BodyReader& reader) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_integer() || found->is_boolean()) return found->dump();
  reader.fail("'" + std::string(key) + "' must be a string, an integer or a boolean");
  return std::nullopt;
}

namespace {

constexpr double kRateMax = 1'000'000;

RedriveFilter read_redrive_filter(const Json& object, BodyReader& outer) {
  RedriveFilter filter;
  if (!object.is_object()) {
    outer.fail("'filter' must be an object");
    return filter;
  }
  if (!only_known(object, {"reason", "queue", "header", "value"}, "'filter'", outer)) return filter;
  BodyReader reader(object);
  filter.reason = reader.text("reason");
  filter.queue = reader.text("queue");
  filter.header = reader.text("header");
  filter.value = text_or_number(object, "value", reader);
  if (filter.value && filter.header.empty()) reader.fail("'value' needs a 'header'");
  if (reader.reason()) outer.fail("filter: " + *reader.reason());
  return filter;
}

RedriveRequest read_redrive(const Json& body, BodyReader& reader) {
  RedriveRequest request;
  if (!only_known(body, {"target", "limit", "rate", "filter", "reset_budget", "dry_run"},
                  "the body", reader))
    return request;
  request.target = reader.text("target", "origin");
  if (request.target.empty()) reader.fail("'target' must be \"origin\" or the name of a queue");
  if (request.target == "origin") request.target.clear();
  const auto given = [&](const char* key) { return body.contains(key) && !body[key].is_null(); };
  if (given("limit"))
    request.limit = static_cast<uint64_t>(reader.integer("limit", 1, 1, INT64_MAX));
  if (given("rate")) {
    const Json& rate = body["rate"];
    if (rate.is_number() && rate.get<double>() > 0 && rate.get<double>() <= kRateMax)
      request.rate = rate.get<double>();
    else
      reader.fail("'rate' must be a number of messages a second, above 0 and at most 1000000");
  }
  if (given("filter")) request.filter = read_redrive_filter(body["filter"], reader);
  request.reset_budget = reader.flag("reset_budget", true);
  request.dry_run = reader.flag("dry_run", false);
  return request;
}

/// A dry run's: {"matched": 3}, and what would be in the way.
Response counted_response(const RedriveStarted& counted) {
  Json out{{"matched", counted.matched}};
  if (!counted.reason.empty()) out["reason"] = counted.reason;
  if (counted.missing.empty()) return Response::json(out);
  out["missing"] = counted.missing;
  std::string names;
  for (const auto& [name, count] : counted.missing)
    names += (names.empty() ? "'" : ", '") + name + "'";
  out["reason"] = "no such queue: " + names + "; a redrive stops where its target is missing";
  return Response::json(out);
}

void start_redrive(Context& context, std::shared_ptr<Request> request, Responder responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  RedriveRequest redrive = read_redrive(*body, reader);
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  const bool dry_run = redrive.dry_run;
  operations->start_redrive(login_of(*request), request->capture(0), request->capture(1),
                            std::move(redrive),
                            [responder, dry_run](Result<RedriveStarted, PeerError> result) {
                              if (!result) return responder.send(error_response(result.error()));
                              if (dry_run) return responder.send(counted_response(*result));
                              responder.send(Response::json(Json{{"id", result->id}}, 202));
                            });
}

Json redrive_json(const RedriveInfo& info) {
  const RedriveRequest& request = info.request;
  const auto instant = [](uint64_t ms) { return ms == 0 ? Json() : Json(ms); };
  Json filter = Json::object();
  if (!request.filter.reason.empty()) filter["reason"] = request.filter.reason;
  if (!request.filter.queue.empty()) filter["queue"] = request.filter.queue;
  if (!request.filter.header.empty()) filter["header"] = request.filter.header;
  if (request.filter.value) filter["value"] = *request.filter.value;
  return Json{{"id", info.id},
              {"vhost", info.vhost},
              {"queue", info.queue},
              {"target", request.target.empty() ? "origin" : request.target},
              {"limit", request.limit ? Json(*request.limit) : Json()},
              {"rate", request.rate ? Json(*request.rate) : Json()},
              {"filter", std::move(filter)},
              {"reset_budget", request.reset_budget},
              {"state", info.state},
              {"matched", info.matched},
              {"moved", info.moved},
              {"skipped", info.skipped},
              {"failed", info.failed},
              {"started_at", instant(info.started_ms)},
              {"finished_at", instant(info.finished_ms)},
              {"reason", info.reason}};
}

void list_redrives(Context& context, std::shared_ptr<Request> request, Responder responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return;
  VhostFilter visible(context, request->caller);
  Json::array_t list;
  for (const RedriveInfo& info : operations->redrives()) {
    if (visible(info.vhost)) list.push_back(redrive_json(info));
  }
  responder.send(list_response(*request, list, "queue"));
}

/// The one that the path names, if the caller may see it; else the answer is sent.
std::optional<RedriveInfo> find_redrive(Context& context, const Request& request,
                                        const Responder& responder) {
  RetryOperations* operations = operations_of(context, responder);
  if (operations == nullptr) return std::nullopt;
  const std::string& text = request.capture(0);
  std::optional<RedriveInfo> info;
  if (!text.empty() && text.size() < 19 &&
      text.find_first_not_of("0123456789") == std::string::npos) {
    info = operations->redrive(std::stoull(text));
  }
  if (info && VhostFilter(context, request.caller)(info->vhost)) return info;
  responder.send(Response::error(404, "Object Not Found", "no redrive '" + text + "'"));
  return std::nullopt;
}

void get_redrive(Context& context, std::shared_ptr<Request> request, Responder responder) {
  if (auto info = find_redrive(context, *request, responder))
    responder.send(Response::json(redrive_json(*info)));
}

void cancel_redrive(Context& context, std::shared_ptr<Request> request, Responder responder) {
  auto info = find_redrive(context, *request, responder);
  if (!info) return;
  context.broker.retry_operations()->cancel_redrive(login_of(*request), info->id,
                                                    no_content(responder));
}

}  // namespace

void add_redrive_routes(Router& router, Context& context) {
  router.add(Method::post, "/api/queues/{vhost}/{name}/redrive", Access::management,
             with_context(context, start_redrive));
  router.add(Method::get, "/api/redrives", Access::management,
             with_context(context, list_redrives));
  router.add(Method::get, "/api/redrives/{id}", Access::management,
             with_context(context, get_redrive));
  router.add(Method::del, "/api/redrives/{id}", Access::management,
             with_context(context, cancel_redrive));
}

}  // namespace tarry::http
