#pragma once

#include <span>
#include <string>
#include <string_view>

#include "http/router.h"

namespace tarry::http {

/// One operation of the API as its description tells it. A test compares these with the router.
struct ApiOperation {
  Method method;
  const char* path;  // with the names of its parts: /api/queues/{vhost}/{name}
  const char* tag;   // the chapter
  const char* summary;
  const char* query = "";  // names of query parameters, with spaces; "list" stands for paging,
                           // filter, sort, columns, "stats" for the ranges of rates and history
  const char* body = "";        // what a body holds; "" is none
  const char* answers = "200";  // status codes, with spaces
};
std::span<const ApiOperation> api_operations();
/// The OpenAPI 3.1 document over those operations that the router has.
Json openapi_document(std::string_view version, const Router& router);
/// A method and a path without the names of its parts: "GET /api/queues/{}/{}".
std::string operation_key(Method method, std::string_view path);

}  // namespace tarry::http
