// Health checks (http-api H-74, H-26): 200 {"status": "ok"}, or 503 with a reason.
#include <charconv>

#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Response healthy() { return Response::json(Json{{"status", "ok"}}); }

Response unhealthy(Json details, std::string_view reason) {
  details["status"] = "failed";
  details["reason"] = reason;
  return Response::json(details, 503);
}

Response alarms(Context& context) {
  const OverviewInfo info = context.broker.overview({});
  if (!info.disk_alarm && !info.memory_alarm) return healthy();
  Json list = Json::array();
  if (info.disk_alarm) list.push_back(Json{{"node", info.node}, {"resource", "disk"}});
  if (info.memory_alarm) list.push_back(Json{{"node", info.node}, {"resource", "memory"}});
  return unhealthy(Json{{"alarms", std::move(list)}}, "There are alarms in effect in the broker");
}

Response port_listener(Context& context, const Request& request) {
  const std::string& text = request.capture(0);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return Response::bad_request("'" + text + "' is no port number");
  }
  Json ports = Json::array();
  for (const ListenerInfo& listener : context.broker.overview({}).listeners) {
    if (listener.port == port) return Response::json(Json{{"status", "ok"}, {"port", port}});
    ports.push_back(listener.port);
  }
  return unhealthy(Json{{"missing", port}, {"ports", std::move(ports)}}, "No active listener");
}

/// RabbitMQ takes "amqp091", "amqp" and so on for the same listener.
std::string_view protocol_of(std::string_view name) {
  if (name == "amqp091" || name == "amqp0.9.1" || name == "amqp0-9-1") return "amqp";
  if (name == "amqps" || name == "amqp091s") return "amqp/ssl";
  return name;
}

Response protocol_listener(Context& context, const Request& request) {
  const std::string& wanted = request.capture(0);
  Json protocols = Json::array();
  for (const ListenerInfo& listener : context.broker.overview({}).listeners) {
    if (protocol_of(listener.protocol) == protocol_of(wanted)) {
      return Response::json(Json{{"status", "ok"}, {"protocol", wanted}});
    }
    protocols.push_back(listener.protocol);
  }
  return unhealthy(Json{{"missing", wanted}, {"protocols", std::move(protocols)}},
                   "No active listener");
}

/// Clients find open doors: there is an AMQP listener, and no alarm blocks publishers.
Response ready_to_serve(Context& context) {
  const OverviewInfo info = context.broker.overview({});
  const bool amqp =
      std::any_of(info.listeners.begin(), info.listeners.end(), [](const ListenerInfo& listener) {
        return protocol_of(listener.protocol) == "amqp" ||
               protocol_of(listener.protocol) == "amqp/ssl";
      });
  if (!amqp) return unhealthy(Json::object(), "no AMQP listener");
  if (info.disk_alarm || info.memory_alarm)
    return unhealthy(Json::object(), "publishers are blocked by an alarm");
  return healthy();
}

/// Fails when the oldest due message of any companion is late by more than the limit (ours;
/// retry-spec 23 is the reason why some ms of lateness are the rule). What only finds no room in
/// its queue, since nobody consumes what came back before, is not late.
Response retries_on_time(Context& context, const Request& request) {
  const std::string& text = request.capture(0);
  uint64_t limit_ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit_ms);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return Response::bad_request("'" + text + "' is no number of milliseconds");
  }
  const uint64_t now_ms = context.broker.overview({}).now_ms;
  Json late = Json::array();
  uint64_t worst_ms = 0;
  VhostFilter visible(context, request.caller);
  for (const QueueInfo& queue : context.broker.queues({})) {
    const uint64_t owed_ms = queue.numbers.owed_since_ms;
    if (!queue.internal || owed_ms == 0 || owed_ms + limit_ms >= now_ms || !visible(queue.vhost))
      continue;
    worst_ms = std::max(worst_ms, now_ms - owed_ms);
    late.push_back(
        Json{{"vhost", queue.vhost}, {"queue", queue.owner}, {"late_ms", now_ms - owed_ms}});
  }
  if (late.empty()) return healthy();
  return unhealthy(Json{{"late", std::move(late)}, {"limit_ms", limit_ms}},
                   "retries are late by up to " + std::to_string(worst_ms) + " ms, the limit is " +
                       text + " ms");
}

/// Fails when a certificate of a listener expires within so many days, weeks, months or years.
Response certificate_expiration(Context& context, const Request& request) {
  const std::string &text = request.capture(0), &unit = request.capture(1);
  uint64_t within = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), within);
  const int64_t days = unit == "days"     ? 1
                       : unit == "weeks"  ? 7
                       : unit == "months" ? 31
                       : unit == "years"  ? 366
                                          : 0;
  if (error != std::errc{} || end != text.data() + text.size() || days == 0 || within > 100'000) {
    return Response::bad_request("'" + text + " " + unit +
                                 "': allowed is a number and days, weeks, months or years");
  }
  const OverviewInfo info = context.broker.overview({});
  const int64_t limit_s =
      static_cast<int64_t>(info.now_ms / 1000) + static_cast<int64_t>(within) * days * 86'400;
  Json expired = Json::array();
  for (const ListenerInfo& listener : info.listeners) {
    if (!listener.certificate_until_s || *listener.certificate_until_s > limit_s) continue;
    expired.push_back(Json{{"name", listener.protocol},
                           {"interface", listener.address},
                           {"port", listener.port},
                           {"certfile_expires_at", *listener.certificate_until_s}});
  }
  if (expired.empty()) return healthy();
  return unhealthy(Json{{"expired", std::move(expired)}}, "Certificates expiring");
}

}  // namespace

void add_health_routes(Router& router, Context& context) {
  const std::string base = "/api/health/checks/";
  for (const char* name : {"alarms", "local-alarms"}) {
    router.add_direct(Method::get, base + name, Access::management,
                      [&context](const Request&) { return alarms(context); });
  }
  for (const char* old : {"/api/healthchecks/node",
                          "/api/healthchecks/node/{node}"}) {  // RabbitMQ 3's one check for all
    router.add_direct(Method::get, old, Access::management,
                      [&context](const Request&) { return alarms(context); });
  }
  // True of a single node that answers at all: its vhosts are up, and there is nobody to lose a
  // quorum with.
  for (const char* name :
       {"virtual-hosts", "node-is-quorum-critical", "below-node-connection-limit",
        "metadata-store/initialized", "metadata-store/initialized/with-data",
        "quorum-queues-without-elected-leaders/all-vhosts",
        "quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
        "node-is-mirror-sync-critical", "reached-target-cluster-size"}) {
    router.add_direct(Method::get, base + name, Access::management,
                      [](const Request&) { return healthy(); });
  }
  for (const char* name :
       {"quorum-queues-without-elected-leaders/vhost/{vhost}",
        "quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}"}) {
    router.add_direct(
        Method::get, base + name, Access::management, [&context](const Request& request) {
          return vhost_exists(context, request.capture(0)) ? healthy() : Response::not_found();
        });
  }
  router.add_direct(Method::get, base + "certificate-expiration/{within}/{unit}",
                    Access::management, bound(context, certificate_expiration));
  router.add_direct(
      Method::get, base + "is-in-service", Access::management, [&context](const Request&) {
        const bool draining =
            context.process != nullptr && context.process->drain().phase != DrainState::Phase::none;
        return draining ? unhealthy(Json::object(), "the broker is being drained") : healthy();
      });
  router.add_direct(Method::get, base + "ready-to-serve-clients", Access::management,
                    [&context](const Request&) { return ready_to_serve(context); });
  router.add_direct(Method::get, base + "retries-on-time/{limit_ms}", Access::management,
                    bound(context, retries_on_time));
  router.add_direct(Method::get, base + "port-listener/{port}", Access::management,
                    [&context](const Request& request) { return port_listener(context, request); });
  router.add_direct(
      Method::get, base + "protocol-listener/{protocol}", Access::management,
      [&context](const Request& request) { return protocol_listener(context, request); });
  router.add_direct(Method::get, "/api/aliveness-test/{vhost}", Access::management,
                    [&context](const Request& request) {
                      if (auto refusal = vhost_refusal(context, request, request.capture(0),
                                                       request.caller.monitoring())) {
                        return std::move(*refusal);
                      }
                      return healthy();
                    });
}

}  // namespace tarry::http
