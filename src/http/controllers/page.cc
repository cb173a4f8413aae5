// The pages: "/" is one document, and what it needs is below /assets/<version>/, all of it in this
// program.
#include <algorithm>

#include "http/assets.h"
#include "http/controllers/common.h"

namespace tarry::http {
namespace {

/// Scripts, styles and calls of this server alone; nothing inline, no frame around it, no form that
/// leads elsewhere.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'";
/// Where the document says that its files are, in the tree; in an answer the version is in its
/// place.
constexpr std::string_view kPlaceInTree = "assets/dev/";

std::string_view content_type_of(std::string_view path) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"}};
  for (const auto& [end, type] : kTypes) {
    if (path.ends_with(end)) return type;
  }
  return "application/octet-stream";
}

const AssetBytes* find_asset(std::string_view path) {
  const auto all = page_assets();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const AssetBytes& asset) { return asset.path == path; });
  return found == all.end() ? nullptr : &*found;
}

Response page_answer(std::string_view path, std::string body, const char* cache) {
  Response response;
  response.content_type = std::string(content_type_of(path));
  response.body = std::move(body);
  response.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  response.headers.emplace_back("Cache-Control", cache);
  return response;
}

std::string document() {
  const AssetBytes* index = find_asset("index.html");
  if (index == nullptr)
    return "<!doctype html><title>TarryMQ</title><p>This program was built without its pages.</p>";
  std::string text(index->text());
  const std::string place = "assets/" + std::string(page_assets_version()) + "/";
  for (size_t at = text.find(kPlaceInTree); at != std::string::npos;
       at = text.find(kPlaceInTree, at + place.size())) {
    text.replace(at, kPlaceInTree.size(), place);
  }
  return text;
}

/// A browser may keep what has the version of this program in its path. With another version (a
/// page that was open while the broker was replaced) it gets what there is now, and keeps it not.
Response asset(const Request& request, const std::string& path) {
  const AssetBytes* found = find_asset(path);
  if (found == nullptr || path == "index.html") return Response::not_found();
  const bool current = request.capture(0) == page_assets_version();
  return page_answer(path, std::string(found->text()),
                     current ? "public, max-age=31536000, immutable" : "no-store");
}

}  // namespace

void add_page_routes(Router& router, Context&) {
  router.add_direct(Method::get, "/", Access::anyone, [](const Request&) {
    static const std::string kDocument = document();
    return page_answer("index.html", kDocument, "no-cache");
  });
  router.add_direct(Method::get, "/assets/{version}/{folder}/{file}", Access::anyone,
                    [](const Request& request) {
                      return asset(request, request.capture(1) + "/" + request.capture(2));
                    });
}

}  // namespace tarry::http
