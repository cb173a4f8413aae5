#include "http/stats.h"

#include <charconv>

#include "http/api.h"
#include "http/node_figures.h"

namespace tarry::http {
namespace {

const SystemClock& stats_clock() {
  static const SystemClock clock;  // for rates only: nothing here is due
  return clock;
}

uint64_t sum_of(const std::map<std::string, uint64_t>& counts) {
  uint64_t sum = 0;
  for (const auto& [reason, count] : counts) sum += count;
  return sum;
}

int64_t as_value(uint64_t v) { return static_cast<int64_t>(v); }

/// Most samples of one answer: a page draws some hundred.
constexpr uint64_t kSamplesMax = 3'000;

Result<HistoryRange, std::string> parse_range(const Request& request, const std::string& kind) {
  HistoryRange range;
  for (const auto& [suffix, field] :
       {std::pair{"_age", &HistoryRange::age_s}, std::pair{"_incr", &HistoryRange::incr_s}}) {
    const std::string name = kind + suffix;
    const std::string* text = request.query_value(name);
    if (text == nullptr || text->empty()) continue;
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size() || value < 1 || value > 86'400) {
      return "invalid " + name + " '" + *text + "': must be an integer from 1 to 86400 (seconds)";
    }
    range.*field = value;
  }
  if ((range.age_s > 0) != (range.incr_s > 0))
    return kind + "_age and " + kind + "_incr go together";
  if (range.wanted() && range.age_s / range.incr_s > kSamplesMax) {
    return kind + "_age / " + kind + "_incr: at most " + std::to_string(kSamplesMax) + " samples";
  }
  return range;
}

}  // namespace

SteadyTime stats_now() { return stats_clock().steady_now(); }

QueueValues queue_values(const QueueNumbers& n) {
  QueueValues v{};
  v[kReady] = as_value(n.ready);
  v[kUnacked] = as_value(n.unacked);
  v[kMessages] = as_value(n.ready + n.unacked);
  v[kDelayed] = as_value(n.delayed);
  v[kPublish] = as_value(n.published);
  v[kConfirm] = as_value(n.confirmed);
  v[kDeliver] = as_value(n.delivered);
  v[kDeliverNoAck] = as_value(n.delivered_no_ack);
  v[kGet] = as_value(n.got);
  v[kGetNoAck] = as_value(n.got_no_ack);
  v[kDeliverGet] = as_value(n.delivered + n.delivered_no_ack + n.got + n.got_no_ack);
  v[kAck] = as_value(n.acked);
  v[kRedeliver] = as_value(n.redelivered);
  v[kReject] = as_value(n.rejected);
  v[kRetryScheduled] = as_value(n.retries_scheduled);
  v[kRetryRedelivered] = as_value(n.retries_redelivered);
  v[kDeadLettered] = as_value(sum_of(n.dead_lettered));
  v[kDropped] = as_value(sum_of(n.dropped));
  return v;
}

std::array<int64_t, kOverviewValues> overview_values(const OverviewInfo& info) {
  std::array<int64_t, kOverviewValues> v{};
  const QueueValues queues = queue_values(info.totals);
  std::copy(queues.begin(), queues.end(), v.begin());
  v[kReturned] = as_value(info.unroutable_returned);
  v[kUnroutableDropped] = as_value(info.unroutable_dropped);
  v[kBytesIn] = as_value(info.bytes_in);
  v[kBytesOut] = as_value(info.bytes_out);
  v[kConnectionsOpened] = as_value(info.connections_opened);
  v[kConnectionsClosed] = as_value(info.connections_closed);
  v[kChannelsOpened] = as_value(info.channels_opened);
  v[kChannelsClosed] = as_value(info.channels_closed);
  v[kQueuesDeclared] = as_value(info.queues_declared);
  v[kQueuesDeleted] = as_value(info.queues_deleted);
  return v;
}

std::array<int64_t, kConnectionValues> connection_values(const ConnectionFigures& connection) {
  return {as_value(connection.bytes_in.load(std::memory_order_relaxed)),
          as_value(connection.bytes_out.load(std::memory_order_relaxed))};
}

std::array<int64_t, kChannelValues> channel_values(const ChannelFigures& channel) {
  const auto read = [](const std::atomic<uint64_t>& figure) {
    return as_value(figure.load(std::memory_order_relaxed));
  };
  std::array<int64_t, kChannelValues> v{};
  v[kChannelPublish] = read(channel.published);
  v[kChannelConfirm] = read(channel.confirmed);
  v[kChannelReturned] = read(channel.returned);
  v[kChannelUnroutable] = read(channel.unroutable);
  v[kChannelDeliver] = read(channel.delivered);
  v[kChannelDeliverNoAck] = read(channel.delivered_no_ack);
  v[kChannelGet] = read(channel.got);
  v[kChannelGetNoAck] = read(channel.got_no_ack);
  v[kChannelGetEmpty] = read(channel.got_empty);
  v[kChannelDeliverGet] =
      v[kChannelDeliver] + v[kChannelDeliverNoAck] + v[kChannelGet] + v[kChannelGetNoAck];
  v[kChannelRedeliver] = read(channel.redelivered);
  v[kChannelAck] = read(channel.settled);
  return v;
}

std::array<int64_t, kExchangeValues> exchange_values(const ExchangeInfo& exchange) {
  return {as_value(exchange.published_in), as_value(exchange.published_out)};
}

std::string queue_thing(uint64_t id) { return "q" + std::to_string(id); }
std::string vhost_thing(std::string_view vhost) { return "v" + std::string(vhost); }
std::string tenant_thing(std::string_view user) { return "t" + std::string(user); }
std::string connection_thing(const ConnectionFigures& c) {
  return "c" + std::to_string(c.info.id.value);
}
std::string channel_thing(const ConnectionFigures& c, uint16_t number) {
  return "h" + std::to_string(c.info.id.value) + "." + std::to_string(number);
}
std::string exchange_thing(std::string_view vhost, std::string_view name) {
  return "e" + std::string(vhost) + '\0' + std::string(name);
}

Result<StatsRange, std::string> StatsRange::parse(const Request& request) {
  StatsRange out;
  for (const auto& [kind, field] :
       {std::pair{"lengths", &StatsRange::lengths}, std::pair{"msg_rates", &StatsRange::msg_rates},
        std::pair{"data_rates", &StatsRange::data_rates},
        std::pair{"node_stats", &StatsRange::node_stats}}) {
    auto range = parse_range(request, kind);
    if (!range) return range.error();
    out.*field = *range;
  }
  return out;
}

Json details_json(const HistoryBook::View& view, size_t value, HistoryRange range) {
  Json out{{"rate", view.rate(value)}};
  if (!range.wanted()) return out;
  const int64_t now_ms = static_cast<int64_t>(stats_clock().system_now().floor_ms());
  Json samples = Json::array();
  double sum = 0;
  const auto found = view.samples(value, range);
  for (const HistoryBook::Sample& sample : found) {
    samples.push_back(Json{{"sample", sample.value}, {"timestamp", now_ms - sample.age_ms}});
    sum += static_cast<double>(sample.value);
  }
  const double passed_s = static_cast<double>(found.back().age_ms - found.front().age_ms) / 1000;
  out["avg"] = sum / static_cast<double>(found.size());
  out["avg_rate"] =
      passed_s > 0 ? static_cast<double>(found.front().value - found.back().value) / passed_s : 0.0;
  out["samples"] = std::move(samples);
  return out;
}

Json message_stats_json(const QueueValues& values, const HistoryBook::View& view,
                        HistoryRange range, const Fields& fields) {
  static constexpr std::pair<const char*, QueueValue> kNames[] = {
      {"publish", kPublish},
      {"confirm", kConfirm},
      {"deliver", kDeliver},
      {"deliver_no_ack", kDeliverNoAck},
      {"get", kGet},
      {"get_no_ack", kGetNoAck},
      {"deliver_get", kDeliverGet},
      {"ack", kAck},
      {"redeliver", kRedeliver},
      {"reject", kReject},
      {"retry_scheduled", kRetryScheduled},
      {"retry_redelivered", kRetryRedelivered},
      {"dead_lettered", kDeadLettered},
      {"dropped", kDropped}};
  Json out = Json::object();
  for (const auto& [name, value] : kNames) {
    const std::string details = std::string(name) + "_details";
    if (fields.wants("message_stats", name)) out[name] = values[value];
    if (fields.wants("message_stats", details)) out[details] = details_json(view, value, range);
  }
  return out;
}

void sample_everything(Context& context, SteadyTime now) {
  HistoryBook& book = context.history;
  book.begin_round(now);
  book.record(kOverviewThing, overview_values(context.broker.overview({})), Keep::day);
  book.record(kNodeThing, node_values(context), Keep::day);
  for (const VhostInfo& vhost : context.broker.vhosts()) {
    book.record(vhost_thing(vhost.name), queue_values(vhost.totals), Keep::day);
  }
  context.broker.each_queue([&](uint64_t id, const QueueNumbers& numbers) {
    book.record(queue_thing(id), queue_values(numbers), Keep::hour);
  });
  for (const ExchangeInfo& exchange : context.broker.exchanges({})) {
    book.record(exchange_thing(exchange.vhost, exchange.name), exchange_values(exchange),
                Keep::hour);
  }
  for (const auto& connection : context.broker.connections({})) {
    book.record(connection_thing(*connection), connection_values(*connection), Keep::minutes);
    for (const auto& channel : connection->channels()) {
      book.record(channel_thing(*connection, channel->number), channel_values(*channel),
                  Keep::minutes);
    }
  }
  book.end_round();
}

}  // namespace tarry::http
