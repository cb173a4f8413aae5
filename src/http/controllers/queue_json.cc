#include "http/controllers/queue_json.h"

#include "http/controllers/common.h"

namespace tarry::http {
namespace {

Json instant_or_null(uint64_t ms) { return ms == 0 ? Json() : Json(ms); }

Json by_reason(const std::map<std::string, uint64_t>& counts) {
  Json out = Json::object();
  for (const auto& [reason, count] : counts) out[reason] = count;
  return out;
}

/// How late retries that came due were let in (retry-spec 40). `p99_ms`: 99 of 100 were no later
/// than this class's end; null: more than one of 100 is above all classes, or none came due yet.
Json lag_json(const QueueNumbers& n) {
  uint64_t count = 0, so_far = 0;
  for (uint64_t of_class : n.retry_lag) count += of_class;
  Json p99;
  for (size_t i = 0; i < kRetryLagBoundsMs.size() && count > 0 && p99.is_null(); ++i) {
    so_far += n.retry_lag[i];
    if (so_far >= count - count / 100) p99 = kRetryLagBoundsMs[i];
  }
  return Json{{"count", count},
              {"mean_ms", count > 0 ? Json(n.retry_lag_sum_ms / count) : Json()},
              {"p99_ms", p99}};
}

Json retry_stats_json(const QueueNumbers& n) {
  return Json{{"scheduled", n.retries_scheduled}, {"redelivered", n.retries_redelivered},
              {"postponed", n.retries_postponed}, {"dead_lettered", by_reason(n.dead_lettered)},
              {"dropped", by_reason(n.dropped)},  {"lag", lag_json(n)}};
}

/// Of messages that are persistent and others together a share: the queue keeps no sum of each.
uint64_t persistent_bytes(const QueueNumbers& n) {
  const uint64_t bytes = n.ready_bytes + n.unacked_bytes;
  const uint64_t all = n.ready + n.unacked + n.delayed;
  if (n.persistent >= all) return bytes;
  return static_cast<uint64_t>(static_cast<double>(bytes) * static_cast<double>(n.persistent) /
                               static_cast<double>(all));
}

void put_counts(ObjectWriter& out, const QueueNumbers& n, int64_t now_ns) {
  out.put("messages", n.ready + n.unacked);
  out.put("messages_ready", n.ready);
  out.put("messages_unacknowledged", n.unacked);
  out.put("messages_persistent", n.persistent);
  out.put("message_bytes", n.ready_bytes + n.unacked_bytes);
  out.put("message_bytes_ready", n.ready_bytes);
  out.put("message_bytes_unacknowledged", n.unacked_bytes);
  out.put("message_bytes_persistent", persistent_bytes(n));
  out.put("messages_delayed", n.delayed);
  out.put("message_bytes_delayed", n.delayed_bytes);
  out.put("messages_dead_lettering", n.dead_lettering);
  out.put("next_due_at", instant_or_null(n.next_due_ms));
  out.put("last_due_at", instant_or_null(n.last_due_ms));
  out.put("consumers", n.consumers);
  const double capacity = n.consumers > 0 ? n.consumer_use.at(now_ns) : 0;
  out.put("consumer_capacity", capacity);
  out.put("consumer_utilisation", capacity);
  out.put("memory", n.memory_bytes);
  out.put("disk_bytes", n.disk_bytes);
  out.put("segments", n.segments);
}

Json companion_stats_json(const QueueValues& values, const HistoryBook::View& view,
                          HistoryRange range) {
  return Json{{"retry_scheduled", values[kRetryScheduled]},
              {"retry_scheduled_details", details_json(view, kRetryScheduled, range)},
              {"retry_redelivered", values[kRetryRedelivered]},
              {"retry_redelivered_details", details_json(view, kRetryRedelivered, range)}};
}

/// Rates and history. A companion shares its owner's thing in the book: what waits there is ready
/// here.
void put_rates(Context& context, ObjectWriter& out, const QueueInfo& queue, const Fields& fields,
               const StatsRange& range) {
  QueueNumbers numbers = queue.numbers;
  if (queue.internal) {
    numbers.delayed = std::exchange(numbers.ready, 0);
  }
  const QueueValues values = queue_values(numbers);
  const auto view = context.history.look(queue_thing(queue.id), values, stats_now());
  out.lazy("message_stats", [&] {
    return queue.internal ? companion_stats_json(values, view, range.msg_rates)
                          : message_stats_json(values, view, range.msg_rates, fields);
  });
  out.lazy("messages_details", [&] {
    return details_json(view, queue.internal ? kDelayed : kMessages, range.lengths);
  });
  out.lazy("messages_ready_details",
           [&] { return details_json(view, queue.internal ? kDelayed : kReady, range.lengths); });
  if (queue.internal) return;
  out.lazy("messages_unacknowledged_details",
           [&] { return details_json(view, kUnacked, range.lengths); });
  out.lazy("messages_delayed_details", [&] { return details_json(view, kDelayed, range.lengths); });
}

}  // namespace

void put_message_totals(Json& out, const QueueNumbers& n, const HistoryBook::View& view,
                        HistoryRange range) {
  out["messages"] = n.ready + n.unacked;
  out["messages_details"] = details_json(view, kMessages, range);
  out["messages_ready"] = n.ready;
  out["messages_ready_details"] = details_json(view, kReady, range);
  out["messages_unacknowledged"] = n.unacked;
  out["messages_unacknowledged_details"] = details_json(view, kUnacked, range);
  out["messages_delayed"] = n.delayed;
  out["messages_delayed_details"] = details_json(view, kDelayed, range);
}

namespace {

/// The connection that an exclusive queue belongs to.
Json owner_json(Context& context, const QueueInfo& queue) {
  const auto connection = context.broker.connection(queue.exclusive_owner);
  if (!connection) return {};  // it has gone, and takes the queue along
  const ConnectionInfo& info = connection->info;
  return Json{{"name", info.name}, {"peer_host", info.peer_host}, {"peer_port", info.peer_port}};
}

}  // namespace

Json queue_json(Context& context, const QueueInfo& queue, const Fields& fields,
                const StatsRange& range) {
  ObjectWriter out(fields);
  out.put("name", queue.name);
  out.put("vhost", queue.vhost);
  out.put("type", queue.type);
  out.put("durable", queue.durable);
  out.put("exclusive", queue.exclusive);
  if (queue.exclusive) out.lazy("owner_pid_details", [&] { return owner_json(context, queue); });
  out.put("auto_delete", queue.auto_delete);
  out.put("internal", queue.internal);
  if (queue.internal) out.put("owner", queue.owner);
  out.lazy("arguments", [&] { return to_json(queue.arguments); });
  out.put("state", "running");
  out.put("node", context.node);
  if (queue.type == "quorum") {
    out.put("leader", context.node);
    out.put("members", Json::array({context.node}));
    out.put("online", Json::array({context.node}));
  }
  out.put_name_or_null("policy", queue.policy);
  out.put_name_or_null("operator_policy", queue.operator_policy);
  out.lazy("effective_policy_definition",
           [&] { return to_json(queue.effective_policy_definition); });
  out.put("exclusive_consumer_tag", Json());
  out.put("single_active_consumer_tag", Json());
  out.put("head_message_timestamp", Json());  // only of a queue that is asked itself
  out.put("storage_version", 1);
  out.put("delivery_limit", queue.delivery_limit ? Json(*queue.delivery_limit) : Json());
  put_idle_since(out, context, queue.numbers.active_at_ns);
  put_counts(out, queue.numbers, context.broker.now().ns);
  out.lazy("retry_stats", [&] { return retry_stats_json(queue.numbers); });

  const bool rated = fields.wants("message_stats") || fields.wants("messages_details") ||
                     fields.wants("messages_ready_details") ||
                     fields.wants("messages_unacknowledged_details") ||
                     fields.wants("messages_delayed_details");
  if (rated) put_rates(context, out, queue, fields, range);
  return out.take();
}

}  // namespace tarry::http
