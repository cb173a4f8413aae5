#include "http/router.h"

#include <algorithm>

namespace tarry::http {
namespace {

std::vector<std::string> split_pattern(std::string_view pattern) {
  std::vector<std::string> out;
  if (!pattern.empty() && pattern.front() == '/') pattern.remove_prefix(1);
  while (!pattern.empty()) {
    const size_t slash = pattern.find('/');
    const std::string_view segment = pattern.substr(0, slash);
    out.emplace_back(segment.starts_with('{') ? "{}" : segment);
    if (slash == std::string_view::npos) break;
    pattern = pattern.substr(slash + 1);
  }
  return out;
}

bool fits(const Route& route, const std::vector<std::string>& segments) {
  if (route.pattern.size() != segments.size()) return false;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (route.pattern[i] != "{}" && route.pattern[i] != segments[i]) return false;
  }
  return true;
}

std::optional<size_t> vhost_capture_of(std::string_view pattern) {
  const size_t at = pattern.find("{vhost}");
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<size_t>(
      std::count(pattern.begin(), pattern.begin() + static_cast<std::ptrdiff_t>(at), '{'));
}

/// Literal patterns shadow those with braces: "/api/queues/detailed" is no vhost of that name.
size_t literal_count(const Route& route) {
  size_t n = 0;
  for (const auto& segment : route.pattern) n += segment != "{}" ? 1 : 0;
  return n;
}

}  // namespace

std::string_view method_name(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::put:
      return "PUT";
    case Method::post:
      return "POST";
    case Method::del:
      return "DELETE";
    case Method::other:
      break;
  }
  return "";
}

void Router::add(Method method, std::string_view pattern, Access access, Handler handler,
                 Body body) {
  routes_.push_back({method, split_pattern(pattern), access, std::move(handler),
                     std::string(pattern), vhost_capture_of(pattern), body});
}

void Router::add_direct(Method method, std::string_view pattern, Access access,
                        DirectHandler handler) {
  add(method, pattern, access,
      [handler = std::move(handler)](std::shared_ptr<Request> request, Responder responder) {
        responder.send(handler(*request));
      });
}

Router::Match Router::match(Method method, const std::vector<std::string>& segments) const {
  size_t best = 0;
  bool known = false;
  for (const Route& route : routes_) {
    if (!fits(route, segments)) continue;
    best = std::max(best, literal_count(route));
    known = true;
  }
  Match found;
  if (!known) return found;
  for (const Route& route : routes_) {
    if (literal_count(route) != best || !fits(route, segments)) continue;
    if (!found.allow.empty()) found.allow += ", ";
    found.allow += method_name(route.method);
    if (route.method == Method::get) found.allow += ", HEAD";
    if (route.method != method || found.route != nullptr) continue;
    found.route = &route;
    for (size_t i = 0; i < segments.size(); ++i) {
      if (route.pattern[i] == "{}") found.captures.push_back(segments[i]);
    }
  }
  return found;
}

}  // namespace tarry::http
