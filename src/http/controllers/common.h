#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/api.h"
#include "http/listing.h"
#include "http/stats.h"
#include "tarrymq/amqp/peer_error.h"
#include "tarrymq/broker/json_values.h"

namespace tarry::http {

/// What a client of AMQP can declare: a frame as it comes.
inline constexpr size_t kArgumentBytesMax = 128 << 10;

/// The version of RabbitMQ whose shapes we answer with; tools choose what to ask for by it.
inline constexpr const char* kCompatibleVersion = "4.0.0";
/// The name of a companion begins so; clients may not make such queues or bind them (retry-spec
/// 20).
inline constexpr std::string_view kCompanionPrefix = "amq.retry-";
/// How paths and bodies name the default exchange, whose name is empty.
inline constexpr std::string_view kDefaultExchange = "amq.default";

inline std::string exchange_of_path(const std::string& name) {
  return name == kDefaultExchange ? "" : name;
}

Login login_of(const Request& request);
/// Operations on what is in a vhost that Management does not check by permissions: the vhost must
/// exist (404), and the caller must have permissions there, or `sees_all` (a tag that sees every
/// vhost) must hold (403).
std::optional<Response> vhost_refusal(Context& context, const Request& request,
                                      const std::string& vhost, bool sees_all);
bool vhost_exists(Context& context, const std::string& vhost);
/// For lists: monitoring sees all, the others their own vhosts. Remembers its answers: one for each
/// list.
class VhostFilter {
 public:
  VhostFilter(Context& context, const Caller& caller) : context_(context), caller_(caller) {}
  bool operator()(const std::string& vhost);

 private:
  Context& context_;
  const Caller& caller_;
  std::string last_;
  std::optional<bool> last_answer_;
};

/// 403, 404 and 409 stay, 5xx stay a 500, the rest (405, 406, 400 ...) is the request's fault: 400.
Response error_response(const PeerError& error);
/// Answers for Management: 204; 201 if new, else 204; 200 with what `make` writes.
Answer<void> no_content(Responder responder);
Answer<bool> created_or_updated(Responder responder);
Answer<bool> updated(Responder responder);  // 204, new or not

/// The body as an object, {} if empty. Nesting at most 64 deep. The error is the 400.
Result<Json, Response> body_object(const Request& request);
/// Reads fields of a body and remembers the first thing that is wrong. A missing field (or null)
/// gives the default.
class BodyReader {
 public:
  explicit BodyReader(const Json& body) : body_(body) {}
  std::string text(const char* key, std::string fallback = "");
  std::optional<std::string> optional_text(const char* key);
  std::string required_text(const char* key);
  /// true, false, or "true", "false" as older tools send.
  bool flag(const char* key, bool fallback);
  /// A number, or text of digits as older tools send.
  int64_t integer(const char* key, int64_t fallback, int64_t min, int64_t max);
  FieldTable table(const char* key);
  void fail(std::string reason) {
    if (!reason_) reason_ = std::move(reason);
  }
  const std::optional<std::string>& reason() const { return reason_; }

 private:
  const Json* find(const char* key) const;
  const Json& body_;
  std::optional<std::string> reason_;
};

/// 2026-11-30T12:00:00.000 (UTC) of ms since 1970.
std::string utc_text(int64_t ms);
/// idle_since, as RabbitMQ writes instants, of what has done nothing for a second or more; of what
/// is busy there is none. `active_at_ns`: broker time of its last turn; 0: not known.
void put_idle_since(ObjectWriter& out, Context& context, int64_t active_at_ns);

/// A list of strings, or text with commas between them (tags).
std::vector<std::string> read_words(const Json& body, const char* key, BodyReader& reader);
/// The StatsRange of a request, and then `make` with it; the 400 if it has none.
template <class Make>
Response with_range(const Request& request, Make make) {
  auto range = StatsRange::parse(request);
  if (!range) return Response::bad_request(range.error());
  return make(*range);
}
/// Handlers that need the context, as the router takes them.
inline Handler bound(Context& context,
                     void (*handler)(Context&, std::shared_ptr<Request>, Responder)) {
  return [&context, handler](std::shared_ptr<Request> request, Responder responder) {
    handler(context, std::move(request), std::move(responder));
  };
}
inline DirectHandler bound(Context& context, Response (*handler)(Context&, const Request&)) {
  return [&context, handler](const Request& request) { return handler(context, request); };
}

}  // namespace tarry::http
