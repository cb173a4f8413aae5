// Consumers (http-api H-35).
#include <unordered_map>
#include <unordered_set>

#include "http/controllers/common.h"
#include "http/controllers/consumer_json.h"

namespace tarry::http {
namespace {

/// As with connections and channels: who does not monitor sees his own (http-api H-04).
std::unordered_set<ConnectionId> own_connections(Context& context, const Caller& caller) {
  std::unordered_set<ConnectionId> own;
  if (caller.monitoring()) return own;  // not asked for
  for (const auto& connection : context.broker.connections({})) {
    if (connection->info.user == caller.user) own.insert(connection->info.id);
  }
  return own;
}

void list_consumers(Context& context, std::shared_ptr<Request> request, Responder responder,
                    const std::string& vhost) {
  context.broker.consumers(
      {vhost}, [&context, request, responder](std::vector<ConsumerView> views) {
        responder.send_later([&context, request, views = std::move(views)]() mutable {
          VhostFilter visible(context, request->caller);
          const std::unordered_set<ConnectionId> own = own_connections(context, request->caller);
          std::erase_if(views, [&](const ConsumerView& view) {
            return !visible(view.vhost) ||
                   (!request->caller.monitoring() && !own.contains(view.consumer.connection));
          });
          const Json list = consumers_json(context, views);
          return list_response(*request, list.get_ref<const Json::array_t&>(), "consumer_tag");
        });
      });
}

Json arguments_json(const ConsumerInfo& consumer) {
  const auto table = FieldTable::decode(as_bytes(consumer.arguments));
  return table ? to_json(*table) : Json::object();
}

}  // namespace

Json consumers_json(Context& context, const std::vector<ConsumerView>& consumers) {
  std::unordered_map<ConnectionId, std::shared_ptr<const ConnectionFigures>> connections;
  if (!consumers.empty()) {
    for (auto& connection : context.broker.connections({}))
      connections.emplace(connection->info.id, connection);
  }
  Json out = Json::array();
  for (const ConsumerView& view : consumers) {
    const ConsumerInfo& consumer = view.consumer;
    Json channel{
        {"number", consumer.channel}, {"name", consumer.description}, {"node", context.node}};
    if (const auto found = connections.find(consumer.connection); found != connections.end()) {
      const ConnectionInfo& info = found->second->info;
      channel["connection_name"] = info.name;
      channel["name"] = info.name + " (" + std::to_string(consumer.channel) + ")";
      channel["user"] = info.user;
      channel["peer_host"] = info.peer_host;
      channel["peer_port"] = info.peer_port;
    }
    out.push_back(Json{{"queue", {{"name", view.queue}, {"vhost", view.vhost}}},
                       {"consumer_tag", consumer.tag},
                       {"exclusive", consumer.exclusive},
                       {"ack_required", !consumer.no_ack},
                       {"prefetch_count", consumer.prefetch},
                       {"priority", consumer.priority},
                       {"active", consumer.active},
                       {"activity_status", consumer.active ? "up" : "waiting"},
                       {"arguments", arguments_json(consumer)},
                       {"channel_details", std::move(channel)}});
  }
  return out;
}

void add_consumer_routes(Router& router, Context& context) {
  router.add(Method::get, "/api/consumers", Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               list_consumers(context, std::move(request), std::move(responder), "");
             });
  router.add(Method::get, "/api/consumers/{vhost}", Access::management,
             [&context](std::shared_ptr<Request> request, Responder responder) {
               if (auto refusal = vhost_refusal(context, *request, request->capture(0),
                                                request->caller.monitoring())) {
                 return responder.send(std::move(*refusal));
               }
               const std::string vhost = request->capture(0);
               list_consumers(context, std::move(request), std::move(responder), vhost);
             });
}

}  // namespace tarry::http
