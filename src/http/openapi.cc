#include "http/openapi.h"

#include <set>

#include "http/controllers/common.h"

namespace tarry::http {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    if (space != 0) out.emplace_back(text.substr(0, space));
    if (space == std::string_view::npos) break;
    text = text.substr(space + 1);
  }
  return out;
}

Json query_parameter(const std::string& name, const char* type) {
  return Json{{"name", name}, {"in", "query"}, {"required", false}, {"schema", {{"type", type}}}};
}

void add_query(Json& parameters, std::string_view names) {
  for (const std::string& name : words_of(names)) {
    if (name == "list") {
      for (const char* number : {"page", "page_size"})
        parameters.push_back(query_parameter(number, "integer"));
      for (const char* text : {"name", "sort", "columns"})
        parameters.push_back(query_parameter(text, "string"));
      for (const char* flag : {"use_regex", "sort_reverse"})
        parameters.push_back(query_parameter(flag, "boolean"));
    } else if (name == "stats") {
      for (const char* kind : {"lengths", "msg_rates", "data_rates", "node_stats"}) {
        for (const char* suffix : {"_age", "_incr"}) {
          parameters.push_back(query_parameter(std::string(kind) + suffix, "integer"));
        }
      }
    } else {
      parameters.push_back(query_parameter(name, "string"));
    }
  }
}

void add_path_parameters(Json& parameters, std::string_view path) {
  for (size_t open = path.find('{'); open != std::string_view::npos;
       open = path.find('{', open + 1)) {
    const std::string name(path.substr(open + 1, path.find('}', open) - open - 1));
    parameters.push_back(
        Json{{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
}

Json response_of(const std::string& status) {
  static const std::map<std::string, const char*> kTexts = {
      {"200", "The answer"}, {"201", "Made"},      {"202", "Begun"},
      {"204", "Done"},       {"412", "Protected"}, {"503", "The check failed"}};
  const auto text = kTexts.find(status);
  Json out{{"description", text == kTexts.end() ? status : text->second}};
  if (status == "200" || status == "202" || status == "503") {
    out["content"] = {{"application/json", {{"schema", Json::object()}}}};
  }
  return out;
}

Json operation_json(const ApiOperation& operation) {
  Json parameters = Json::array();
  add_path_parameters(parameters, operation.path);
  add_query(parameters, operation.query);
  Json responses = Json::object();
  for (const std::string& status : words_of(operation.answers))
    responses[status] = response_of(status);
  responses["default"] = {{"$ref", "#/components/responses/Error"}};
  Json out{{"tags", {operation.tag}},
           {"summary", operation.summary},
           {"responses", std::move(responses)}};
  if (!parameters.empty()) out["parameters"] = std::move(parameters);
  if (operation.body[0] != 0) {
    out["requestBody"] = {{"description", operation.body},
                          {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}};
  }
  return out;
}

std::string lower_name(Method method) {
  std::string name(method_name(method));
  for (char& c : name) c = static_cast<char>(c + ('a' - 'A'));
  return name;
}

}  // namespace

std::string operation_key(Method method, std::string_view path) {
  std::string out = std::string(method_name(method)) + " ";
  bool inside = false;
  for (const char c : path) {
    if (c == '}') inside = false;
    if (!inside) out.push_back(c);
    if (c == '{') inside = true;
  }
  return out;
}

Json openapi_document(std::string_view version, const Router& router) {
  std::set<std::string> there;
  for (const Route& route : router.routes()) there.insert(operation_key(route.method, route.text));
  Json paths = Json::object();
  for (const ApiOperation& operation : api_operations()) {
    if (!there.contains(operation_key(operation.method, operation.path))) continue;
    paths[operation.path][lower_name(operation.method)] = operation_json(operation);
  }
  const Json error{
      {"type", "object"},
      {"properties", {{"error", {{"type", "string"}}}, {"reason", {{"type", "string"}}}}}};
  return Json{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "TarryMQ HTTP API"},
        {"version", version},
        {"description",
         "RabbitMQ's management API on one node, and retries beside it. Names in a path are "
         "percent-encoded: the vhost / is %2F."}}},
      {"paths", std::move(paths)},
      {"security", Json::array({{{"basic", Json::array()}}})},
      {"components",
       {{"securitySchemes", {{"basic", {{"type", "http"}, {"scheme", "basic"}}}}},
        {"responses",
         {{"Error",
           {{"description", "What was wrong"},
            {"content", {{"application/json", {{"schema", error}}}}}}}}}}}};
}

void add_openapi_routes(Router& router, Context& context) {
  router.add_direct(
      Method::get, "/api/openapi.json", Access::anyone, [&router, &context](const Request&) {
        return Response::json(openapi_document(context.broker.overview({}).version, router));
      });
}

}  // namespace tarry::http
