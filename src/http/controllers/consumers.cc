// Consumers (http-api H-35).
#include <algorithm>
#include <map>
#include <optional>
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

FieldTable arguments_of(const ConsumerInfo& consumer) {
  auto table = FieldTable::decode(as_bytes(consumer.arguments));
  return table ? std::move(*table) : FieldTable();
}

std::optional<uint64_t> number_in(const FieldTable& table, const char* name) {
  const FieldValue* value = table.find(name);
  const auto number = value ? value->integer() : std::nullopt;
  return number && *number >= 0 ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

/// Within which time a delivery must be acknowledged, in ms; 0: whenever. A consumer's own goes
/// before its queue's, which is the lower one of argument and policy.
class Timeouts {
 public:
  explicit Timeouts(Context& context) : context_(context) {}
  uint64_t of(const ConsumerView& view, const FieldTable& arguments) {
    if (const auto own = number_in(arguments, "x-consumer-timeout")) return *own;
    const auto [known, is_new] = of_queues_.try_emplace({view.vhost, view.queue}, 0);
    if (is_new) known->second = of_queue(view);
    return known->second;
  }

 private:
  uint64_t of_queue(const ConsumerView& view) const {
    const auto queue = context_.broker.queue(view.vhost, view.queue);
    if (!queue) return 0;
    const auto declared = number_in(queue->arguments, "x-consumer-timeout");
    const auto policy = number_in(queue->effective_policy_definition, "consumer-timeout");
    if (declared && policy) return std::min(*declared, *policy);
    return declared.value_or(policy.value_or(0));
  }

  Context& context_;
  std::map<std::pair<std::string, std::string>, uint64_t> of_queues_;
};

}  // namespace

Json consumers_json(Context& context, const std::vector<ConsumerView>& consumers) {
  std::unordered_map<ConnectionId, std::shared_ptr<const ConnectionFigures>> connections;
  if (!consumers.empty()) {
    for (auto& connection : context.broker.connections({}))
      connections.emplace(connection->info.id, connection);
  }
  Timeouts timeouts(context);
  Json out = Json::array();
  for (const ConsumerView& view : consumers) {
    const ConsumerInfo& consumer = view.consumer;
    const FieldTable arguments = arguments_of(consumer);
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
                       {"arguments", to_json(arguments)},
                       {"consumer_timeout", timeouts.of(view, arguments)},
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
