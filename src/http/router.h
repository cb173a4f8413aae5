#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tarry::http {

/// The least that a caller must be (http-api H-04). Vhost access is the controller's to check.
enum class Access : uint8_t {
  anyone,       // without a log-in: the pages
  management,   // any tag
  monitoring,   // monitoring or administrator
  policymaker,  // policymaker or administrator
  administrator,
};

using Handler = std::function<void(std::shared_ptr<Request>, Responder)>;
/// For what can be answered at once.
using DirectHandler = std::function<Response(const Request&)>;

/// What a request may bring. Few have reason to be large, and to read one as JSON takes many times
/// its size.
enum class Body : uint8_t { small, large };

struct Route {
  Method method;
  std::vector<std::string> pattern;  // "{}" matches any one segment
  Access access;
  Handler handler;
  std::string text;  // the pattern as it was given: "/api/queues/{vhost}/{name}"
  std::optional<size_t> vhost_capture{};  // which capture is {vhost}
  Body body = Body::small;
};

/// A table of routes; the first that fits wins, literal segments before "{}" by the order of add().
class Router {
 public:
  /// `pattern` such as "/api/queues/{vhost}/{name}"; captures come in order, whatever the braces
  /// say.
  void add(Method method, std::string_view pattern, Access access, Handler handler,
           Body body = Body::small);
  void add_direct(Method method, std::string_view pattern, Access access, DirectHandler handler);

  struct Match {
    const Route* route = nullptr;  // null: no such path, or no such method there
    std::vector<std::string> captures;
    std::string allow;  // methods that the path has, for a 405; empty: unknown path
  };
  const std::vector<Route>& routes() const { return routes_; }
  Match match(Method method, const std::vector<std::string>& segments) const;

 private:
  std::vector<Route> routes_;
};

std::string_view method_name(Method method);

}  // namespace tarry::http
