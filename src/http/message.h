#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/url.h"

namespace tarry::http {

using Json = nlohmann::json;

enum class Method : uint8_t { get, put, post, del, other };  // HEAD counts as get

/// Who asks, once logged in. Tags as RabbitMQ has them (http-api H-03, H-04).
struct Caller {
  std::string user;
  std::vector<std::string> tags;
  bool from_loopback = false;

  bool has_tag(std::string_view tag) const;
  bool administrator() const { return has_tag("administrator"); }
  bool monitoring() const { return administrator() || has_tag("monitoring"); }
  bool policymaker() const { return administrator() || has_tag("policymaker"); }
  bool any_tag() const { return monitoring() || policymaker() || has_tag("management"); }
};

/// A request, taken apart. Made by the server, filled further by the router; owned by whoever
/// answers.
struct Request {
  Method method = Method::get;
  std::string method_text;
  std::vector<std::string> segments;  // decoded path
  QueryPairs query;                   // decoded
  std::vector<std::string> captures;  // values of the pattern's {}, in order
  std::string host, origin, fetch_site, authorization, content_type, close_reason,
      scope_vhost;  // header fields: ..., X-Reason, X-Vhost
  std::string peer_host;
  bool peer_loopback = false;
  bool may_be_large = false;  // its route's word: the body may have body_bytes_max
  Caller caller;
  std::string body;

  const std::string& capture(size_t i) const { return captures.at(i); }
  /// The first query parameter of that name.
  const std::string* query_value(std::string_view name) const;
  /// True for "true" (RabbitMQ's way of switching things in a query).
  bool query_flag(std::string_view name) const;
};

/// An answer, not yet bytes.
struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;

  static Response json(const Json& value, int status = 200);
  static Response no_content() { return {204, "", "", {}}; }
  static Response created() { return {201, "", "", {}}; }
  /// {"error": ..., "reason": ...}, the shape of every error.
  static Response error(int status, std::string_view error, std::string_view reason);
  static Response bad_request(std::string_view reason) { return error(400, "bad_request", reason); }
  static Response not_found() { return error(404, "Object Not Found", "Not Found"); }
  static Response forbidden(std::string_view reason) {
    return error(403, "not_authorised", reason);
  }
};

/// As it goes out: names and headers come from clients, and what is no UTF-8 of them shows as
/// U+FFFD.
std::string json_text(const Json& value);

/// Where an answer goes. May be called from any thread, once; a copy that is dropped is nothing,
/// the last one dropped without an answer is a 500. An answer to a connection that is gone goes
/// nowhere.
class Responder {
 public:
  struct Sink {
    virtual ~Sink() = default;
    virtual void deliver(Response response) = 0;                 // any thread
    virtual void run_on_server(std::function<void()> work) = 0;  // any thread
  };
  explicit Responder(std::shared_ptr<Sink> sink)
      : state_(std::make_shared<State>(std::move(sink))) {}

  void send(Response response) const { state_->send(std::move(response)); }
  /// Runs `make` on the server's thread and sends what it returns: for answers that are costly to
  /// write.
  void send_later(std::function<Response()> make) const;
  /// Runs `work` on the server's thread, behind what others have asked for by now.
  void go_on_later(std::function<void()> work) const;

 private:
  struct State {
    explicit State(std::shared_ptr<Sink> s) : sink(std::move(s)) {}
    ~State() {
      if (sink) send(Response::error(500, "internal_error", "the request was dropped"));
    }
    void send(Response response) {
      if (auto to = std::move(sink)) to->deliver(std::move(response));
      sink = nullptr;
    }
    std::shared_ptr<Sink> sink;
  };
  std::shared_ptr<State> state_;
};

/// What the transport asks of the API. All calls on the server's thread.
class Api {
 public:
  virtual ~Api() = default;
  /// After the header, before the body: finds the route and logs in. `done` (any thread, once) with
  /// an answer that refuses, or with the caller.
  using Admitted = std::function<void(std::optional<Response> refusal, Caller caller)>;
  virtual void admit(Request& head, Admitted done) = 0;
  /// A whole request of an admitted caller.
  virtual void serve(std::shared_ptr<Request> request, Responder responder) = 0;
};

}  // namespace tarry::http
