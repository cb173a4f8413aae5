#pragma once

#include <array>
#include <string>
#include <string_view>

#include "http/history.h"
#include "http/listing.h"
#include "http/message.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/result.h"

namespace tarry::http {

struct Context;

/// The values of a queue, of a vhost or of all queues together, as HistoryBook keeps them.
enum QueueValue : size_t {
  kReady,
  kUnacked,
  kMessages,
  kDelayed,  // gauges; the rest counters
  kPublish,
  kConfirm,
  kDeliver,
  kDeliverNoAck,
  kGet,
  kGetNoAck,
  kDeliverGet,
  kAck,
  kRedeliver,
  kReject,
  kRetryScheduled,
  kRetryRedelivered,
  kDeadLettered,
  kDropped,
  kQueueValues
};
using QueueValues = std::array<int64_t, kQueueValues>;
QueueValues queue_values(const QueueNumbers& numbers);

/// What the broker as a whole has besides (its own thing in the book: these behind the queue's).
enum OverviewValue : size_t {
  kReturned = kQueueValues,
  kUnroutableDropped,
  kBytesIn,
  kBytesOut,
  kConnectionsOpened,
  kConnectionsClosed,
  kChannelsOpened,
  kChannelsClosed,
  kQueuesDeclared,
  kQueuesDeleted,
  kOverviewValues
};
std::array<int64_t, kOverviewValues> overview_values(const OverviewInfo& info);

enum ConnectionValue : size_t { kRecvOct, kSendOct, kConnectionValues };
std::array<int64_t, kConnectionValues> connection_values(const ConnectionFigures& connection);

enum ChannelValue : size_t {
  kChannelPublish,
  kChannelConfirm,
  kChannelReturned,
  kChannelUnroutable,
  kChannelDeliver,
  kChannelDeliverNoAck,
  kChannelGet,
  kChannelGetNoAck,
  kChannelGetEmpty,
  kChannelDeliverGet,
  kChannelRedeliver,
  kChannelAck,
  kChannelValues
};
std::array<int64_t, kChannelValues> channel_values(const ChannelFigures& channel);

enum ExchangeValue : size_t { kPublishIn, kPublishOut, kExchangeValues };
std::array<int64_t, kExchangeValues> exchange_values(const ExchangeInfo& exchange);

// Names of things in the book.
inline const std::string kOverviewThing = "o";
inline const std::string kNodeThing = "n";
std::string queue_thing(uint64_t id);
std::string tenant_thing(
    std::string_view user);  // what a user who does not see all sees; known while he looks
std::string vhost_thing(std::string_view vhost);
std::string connection_thing(const ConnectionFigures& connection);
std::string channel_thing(const ConnectionFigures& connection, uint16_t number);
std::string exchange_thing(std::string_view vhost, std::string_view name);

/// What a request wants of the past (http-api H-11): lengths_age and lengths_incr, msg_rates_...,
/// data_rates_..., node_stats_..., in seconds. Nothing said: only rates.
struct StatsRange {
  HistoryRange lengths, msg_rates, data_rates, node_stats;
  /// The error is the reason for a 400.
  static Result<StatsRange, std::string> parse(const Request& request);
};

/// `{"rate": 2.0}`, and with a range `samples` (newest first: {"sample", "timestamp"} with ms since
/// 1970), `avg`, `avg_rate`.
Json details_json(const HistoryBook::View& view, size_t value, HistoryRange range);
/// message_stats of a queue, a vhost or all queues: each count, and its `_details`; of these what
/// `fields` wants.
Json message_stats_json(const QueueValues& values, const HistoryBook::View& view,
                        HistoryRange range, const Fields& fields = {});
/// The time by which rates are reckoned.
SteadyTime stats_now();

/// One round of sampling over everything there is: what charts and rates are made of.
void sample_everything(Context& context, SteadyTime now);

}  // namespace tarry::http
