// Queues and their companions: list, look at, declare, delete, purge (http-api H-40 to H-44).
#include "http/controllers/common.h"
#include "http/controllers/consumer_json.h"
#include "http/controllers/queue_json.h"

namespace tarry::http {
namespace {

/// What disable_stats=true leaves of a queue, and what enable_queue_totals=true adds to that
/// (RabbitMQ's words).
const Fields& fields_without_stats(const Request& request) {
  static const std::vector<std::string> kNames = {
      "name",      "vhost",    "type",  "node",      "state",  "durable",        "auto_delete",
      "exclusive", "internal", "owner", "arguments", "policy", "operator_policy"};
  static const Fields kPlain(kNames);
  static const Fields kTotals([] {
    auto names = kNames;
    names.insert(names.end(), {"messages", "messages_ready", "messages_unacknowledged"});
    return names;
  }());
  return request.query_flag("enable_queue_totals") ? kTotals : kPlain;
}

void list_queues(Context& context, std::shared_ptr<Request> request, Responder responder,
                 const std::string& vhost) {
  auto range = StatsRange::parse(*request);
  if (!range) return responder.send(Response::bad_request(range.error()));
  auto all = std::make_shared<std::vector<QueueInfo>>(context.broker.queues({vhost}));
  std::vector<const QueueInfo*> order;
  VhostFilter visible(context, request->caller);
  for (const QueueInfo& queue : *all) {
    if (visible(queue.vhost)) order.push_back(&queue);
  }
  std::sort(order.begin(), order.end(), [](const QueueInfo* a, const QueueInfo* b) {
    return std::tie(a->vhost, a->name) < std::tie(b->vhost, b->name);
  });
  auto rows = std::make_shared<const std::vector<const QueueInfo*>>(std::move(order));
  Listing listing;
  listing.count = rows->size();
  listing.name = [rows](size_t i) -> std::string_view { return (*rows)[i]->name; };
  const bool plain = request->query_flag("disable_stats");
  listing.render = [&context, all, rows, plain, request, range = *range](size_t i,
                                                                         const Fields& fields) {
    return queue_json(context, *(*rows)[i],
                      plain && fields.all() ? fields_without_stats(*request) : fields, range);
  };
  send_list(request, std::move(responder), std::move(listing));
}

/// The consumer that has the queue to itself, in RabbitMQ's fields. In lists they stay null: each
/// queue would have to be asked.
void put_chosen_consumer(Json& object, const QueueInfo& queue,
                         const std::vector<ConsumerView>& consumers, const Fields& fields) {
  const FieldValue* single = queue.arguments.find("x-single-active-consumer");
  const bool has_single = single && single->boolean().value_or(false);
  for (const ConsumerView& view : consumers) {
    const ConsumerInfo& consumer = view.consumer;
    if (consumer.exclusive && fields.wants("exclusive_consumer_tag"))
      object["exclusive_consumer_tag"] = consumer.tag;
    if (has_single && consumer.active && fields.wants("single_active_consumer_tag")) {
      object["single_active_consumer_tag"] = consumer.tag;
    }
  }
}

/// A queue with what only itself can tell.
Json looked_at_json(Context& context, const QueueInfo& info, const QueueLook& look,
                    const Fields& fields, const StatsRange& range) {
  Json object = queue_json(context, info, fields, range);
  if (fields.wants("head_message_timestamp")) {
    object["head_message_timestamp"] =
        look.head_timestamp_s ? Json(*look.head_timestamp_s) : Json();
  }
  std::vector<ConsumerView> views;
  for (const ConsumerInfo& consumer : look.consumers)
    views.push_back({info.vhost, info.name, consumer});
  if (fields.wants("consumer_details")) object["consumer_details"] = consumers_json(context, views);
  put_chosen_consumer(object, info, views, fields);
  return object;
}

void get_queue(Context& context, std::shared_ptr<Request> request, Responder responder) {
  const std::string& vhost = request->capture(0);
  if (auto refusal = vhost_refusal(context, *request, vhost, request->caller.monitoring())) {
    return responder.send(std::move(*refusal));
  }
  auto queue = context.broker.queue(vhost, request->capture(1));
  if (!queue) return responder.send(Response::not_found());
  auto range = StatsRange::parse(*request);
  if (!range) return responder.send(Response::bad_request(range.error()));
  const auto render = [&context, range = *range, request](const QueueInfo& info,
                                                          const QueueLook& look) {
    return object_response(*request, [&](const Fields& fields) {
      return looked_at_json(context, info, look, fields, range);
    });
  };
  if (queue->internal) return responder.send(render(*queue, {}));
  context.broker.look_at_queue(vhost, queue->name, [=, info = *queue](QueueLook look) {
    responder.send_later([=, look = std::move(look)] { return render(info, look); });
  });
}

void put_queue(Context& context, std::shared_ptr<Request> request, Responder responder) {
  if (request->capture(1).starts_with(kCompanionPrefix)) {
    return responder.send(
        Response::bad_request("queue name '" + request->capture(1) +
                              "' is reserved: queues that begin with amq.retry- hold what waits to "
                              "be retried, and come and go with their owner"));
  }
  auto body = body_object(*request);
  if (!body) return responder.send(body.error());
  BodyReader reader(*body);
  QueueDeclare declare;
  declare.name = request->capture(1);
  declare.durable = reader.flag("durable", false);
  declare.auto_delete = reader.flag("auto_delete", false);
  declare.arguments = reader.table("arguments");
  if (reader.reason()) return responder.send(Response::bad_request(*reader.reason()));
  context.broker.declare_queue(login_of(*request), request->capture(0), std::move(declare),
                               created_or_updated(responder));
}

Answer<uint64_t> count_to_no_content(Responder responder) {
  return [responder = std::move(responder)](Result<uint64_t, PeerError> result) {
    responder.send(result ? Response::no_content() : error_response(result.error()));
  };
}

void delete_queue(Context& context, std::shared_ptr<Request> request, Responder responder) {
  context.broker.delete_queue(login_of(*request), request->capture(0), request->capture(1),
                              request->query_flag("if-unused"), request->query_flag("if-empty"),
                              count_to_no_content(responder));
}

void purge_queue(Context& context, std::shared_ptr<Request> request, Responder responder) {
  context.broker.purge_queue(login_of(*request), request->capture(0), request->capture(1),
                             count_to_no_content(responder));
}

}  // namespace

void add_queue_routes(Router& router, Context& context) {
  const auto list_all = [&context](std::shared_ptr<Request> request, Responder responder) {
    list_queues(context, std::move(request), std::move(responder), "");
  };
  const auto list_vhost = [&context](std::shared_ptr<Request> request, Responder responder) {
    const std::string vhost = request->capture(0);
    if (auto refusal = vhost_refusal(context, *request, vhost, request->caller.monitoring()))
      return responder.send(std::move(*refusal));
    list_queues(context, std::move(request), std::move(responder), vhost);
  };
  router.add(Method::get, "/api/queues", Access::management, list_all);
  router.add(Method::get, "/api/queues/detailed", Access::management, list_all);
  router.add(Method::get, "/api/queues/{vhost}", Access::management, list_vhost);
  router.add(Method::get, "/api/queues/{vhost}/{name}", Access::management,
             bound(context, get_queue));
  router.add(Method::put, "/api/queues/{vhost}/{name}", Access::management,
             bound(context, put_queue));
  router.add(Method::del, "/api/queues/{vhost}/{name}", Access::management,
             bound(context, delete_queue));
  router.add(Method::del, "/api/queues/{vhost}/{name}/contents", Access::management,
             bound(context, purge_queue));
}

}  // namespace tarry::http
