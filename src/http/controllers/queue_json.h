#pragma once

#include "http/listing.h"
#include "http/stats.h"

namespace tarry::http {

/// A queue or a companion as RabbitMQ shows it (http-api 4.3), and our own fields: those wanted,
/// and no others.
Json queue_json(Context& context, const QueueInfo& queue, const Fields& fields,
                const StatsRange& range);
/// queue_totals of the overview, messages and the like of a vhost: each gauge and its `_details`.
void put_message_totals(Json& out, const QueueNumbers& numbers, const HistoryBook::View& view,
                        HistoryRange range);

}  // namespace tarry::http
