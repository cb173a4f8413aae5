// Definitions: export and import (http-api H-28, H-29).
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Response export_definitions(Context& context, const Request& request, const std::string& vhost) {
  auto text = context.broker.export_definitions(vhost);
  if (!text) return error_response(text.error());
  Response response;
  response.body = std::move(*text);
  if (const std::string* file = request.query_value("download")) {
    std::string name;
    for (const char c : *file) {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_')
        name.push_back(c);
    }
    response.headers.emplace_back("Content-Disposition", "attachment; filename=\"" + name + "\"");
  }
  return response;
}

/// The value of `name` in a header field's parameters: boundary=x or boundary="x". "" if it is not
/// there.
std::string parameter_of(std::string_view field, std::string_view name) {
  const std::string wanted = std::string(name) + "=";
  const size_t at = field.find(wanted);
  if (at == std::string_view::npos) return "";
  std::string_view value = field.substr(at + wanted.size());
  if (value.starts_with('"')) return std::string(value.substr(1, value.find('"', 1) - 1));
  return std::string(value.substr(0, value.find_first_of("; ")));
}

/// The file of a browser's form (multipart/form-data): the content of the first part that names a
/// file, or of the first. None: there is no whole part.
std::optional<std::string> file_of_form(std::string_view body, const std::string& boundary) {
  const std::string line = "--" + boundary;
  std::optional<std::string> first;
  size_t at = body.find(line);
  while (at != std::string_view::npos) {
    at += line.size();
    const size_t head_end = body.find("\r\n\r\n", at);
    const size_t next = body.find("\r\n" + line, at);
    if (head_end == std::string_view::npos || next == std::string_view::npos || next < head_end + 4)
      break;
    const std::string_view head = body.substr(at, head_end - at);
    std::string content(body.substr(head_end + 4, next - head_end - 4));
    if (head.find("filename=") != std::string_view::npos) return content;
    if (!first) first = std::move(content);
    at = next + 2;
  }
  return first;
}

/// A form becomes its file. The error is the 400.
std::optional<Response> unwrap_form(Request& request) {
  if (!request.content_type.starts_with("multipart/form-data")) return std::nullopt;
  const std::string boundary = parameter_of(request.content_type, "boundary");
  auto file = boundary.empty() ? std::nullopt : file_of_form(request.body, boundary);
  if (!file) return Response::bad_request("the form holds no file with definitions");
  request.body = std::move(*file);
  return std::nullopt;
}

/// 204, or 200 with what was left out and why.
void import_definitions(Context& context, std::shared_ptr<Request> request, Responder responder,
                        const std::string& vhost) {
  if (auto refusal = unwrap_form(*request)) return responder.send(std::move(*refusal));
  if (auto body = body_object(*request); !body) return responder.send(body.error());
  context.broker.import_definitions(
      vhost, std::move(request->body), [responder](Result<ImportReport, PeerError> report) {
        if (!report) return responder.send(error_response(report.error()));
        if (report->skipped.empty()) return responder.send(Response::no_content());
        responder.send(Response::json(Json{{"skipped", report->skipped}}));
      });
}

}  // namespace

void add_definition_routes(Router& router, Context& context) {
  router.add_direct(
      Method::get, "/api/definitions", Access::administrator,
      [&context](const Request& request) { return export_definitions(context, request, ""); });
  router.add_direct(Method::get, "/api/definitions/{vhost}", Access::administrator,
                    [&context](const Request& request) {
                      if (!vhost_exists(context, request.capture(0))) return Response::not_found();
                      return export_definitions(context, request, request.capture(0));
                    });
  for (const char* pattern : {"/api/definitions", "/api/definitions/upload"}) {
    router.add(
        Method::post, pattern, Access::administrator,
        [&context](std::shared_ptr<Request> request, Responder responder) {
          import_definitions(context, std::move(request), std::move(responder), "");
        },
        Body::large);
  }
  for (const char* pattern : {"/api/definitions/{vhost}", "/api/definitions/{vhost}/upload"}) {
    router.add(
        Method::post, pattern, Access::administrator,
        [&context](std::shared_ptr<Request> request, Responder responder) {
          const std::string vhost = request->capture(0);
          if (!vhost_exists(context, vhost)) return responder.send(Response::not_found());
          import_definitions(context, std::move(request), std::move(responder), vhost);
        },
        Body::large);
  }
}

}  // namespace tarry::http
