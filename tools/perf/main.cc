// tarrymqperf: loads an AMQP 0-9-1 broker and says what it did.

#include <CLI/CLI.hpp>
#include <iostream>

#include "perf/link.h"
#include "perf/options.h"

namespace {

using tarry::perf::Options;

std::string percent_decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// amqp://user:password@host:port/vhost, or amqps:, everything behind the scheme optional.
void read_uri(std::string uri, Options& options) {
  constexpr std::string_view kPlain = "amqp://", kSecured = "amqps://";
  options.tls = uri.starts_with(kSecured);
  if (!options.tls && !uri.starts_with(kPlain))
    tarry::perf::die("--uri must begin with amqp:// or amqps://");
  if (options.tls) options.port = 5671;
  uri.erase(0, (options.tls ? kSecured : kPlain).size());
  size_t slash = uri.find('/');
  if (slash != std::string::npos) {
    if (slash + 1 < uri.size()) options.vhost = percent_decoded(uri.substr(slash + 1));
    uri.resize(slash);
  }
  size_t at = uri.rfind('@');
  if (at != std::string::npos) {
    std::string login = uri.substr(0, at);
    size_t colon = login.find(':');
    options.user = percent_decoded(login.substr(0, colon));
    if (colon != std::string::npos) options.password = percent_decoded(login.substr(colon + 1));
    uri.erase(0, at + 1);
  }
  size_t colon = uri.rfind(':');
  if (colon != std::string::npos) {
    options.port = static_cast<uint16_t>(std::stoul(uri.substr(colon + 1)));
    uri.resize(colon);
  }
  if (!uri.empty()) options.host = uri;
}

void add_delay(CLI::App* scenario, Options& options) {
  scenario->add_option("--retry-min", options.retry_min_ms, "x-delayed-retry-min, ms")
      ->check(CLI::PositiveNumber);
}

void add_rest(CLI::App* scenario, Options& options) {
  scenario->add_flag("--fill-only", options.fill_only, "Leave the messages there");
  scenario->add_flag("--drain-only", options.drain_only,
                     "The messages are there from an earlier run");
}

void add_scenarios(CLI::App& app, Options& options) {
  app.add_subcommand("throughput", "Publishers and consumers at full speed");
  app.add_subcommand("fanout", "The same, each message to every queue by a fanout exchange");
  app.add_subcommand("topic", "The same, by a topic exchange with three bindings a queue");
  app.add_subcommand("latency", "Time from a publish to its delivery, at --rate (1,000/s)");
  app.add_subcommand("confirm-latency",
                     "Time from a publish to its confirm, one at a time on each publisher");
  auto* churn = app.add_subcommand(
      "churn", "Makes and ends connections, channels or queues, one after another");
  churn->add_option("--what", options.churned, "connections, channels or queues")
      ->check(CLI::IsMember({"connections", "channels", "queues"}));
  churn->add_option("--hold", options.hold, "Makes so many and holds them, to see what each costs");
  churn->add_flag("--pipelined", options.pipelined,
                  "Of held queues: many declarations before the first answer");
  auto* backlog = app.add_subcommand("backlog", "Fills the queues with --count, then drains them");
  backlog->add_flag("--purge", options.purge, "Purges them instead");
  add_rest(backlog, options);
  auto* retry =
      app.add_subcommand("retry", "Each message rejected --rejects times, then acknowledged");
  auto* dead = app.add_subcommand("dead-letter", "Each message rejected until it is dead-lettered");
  auto* park = app.add_subcommand(
      "park", "Each message rejected once into a long delay; drained when all are due");
  retry->add_option("--rejects", options.rejects, "Rejections of each message")
      ->check(CLI::Range(0, 1000));
  dead->add_option("--rejects", options.rejects, "x-delivery-limit; 0: rejected without requeue")
      ->check(CLI::Range(0, 1000));
  for (auto* scenario : {retry, dead, park}) add_delay(scenario, options);
  retry->add_option("--retry-multiplier", options.retry_multiplier,
                    "x-delayed-retry-multiplier; 0: not set");
  retry->add_option("--retry-max", options.retry_max_ms, "x-delayed-retry-max, ms; 0: not set");
  retry->add_flag("--wait-queue", options.wait_queue,
                  "By a dead-letter queue with a TTL instead, on any broker");
  add_rest(park, options);
}

void need(bool holds, const std::string& what) {
  if (!holds) tarry::perf::die(what);
}

int run(const std::string& scenario, Options& options) {
  using namespace tarry::perf;
  options.scenario = scenario;
  bool timed = options.seconds > 0, counted = options.count > 0;
  if (scenario == "fanout" || scenario == "topic") options.exchange_type = scenario;
  if (scenario == "retry" || scenario == "dead-letter" || scenario == "park" ||
      scenario == "backlog") {
    if (!counted) options.count = 10'000;
    need(options.publishers > 0 && options.consumers > 0,
         scenario + " needs a publisher and a consumer");
    need(!timed, scenario + " takes --count, not --seconds");
    need(scenario == "backlog" || options.size_bytes >= 8,
         scenario + " needs bodies of 8 bytes or more");
    if (scenario == "retry") return run_retry(options);
    if (scenario == "dead-letter") return run_dead_letter(options);
    return scenario == "park" ? run_park(options) : run_backlog(options);
  }
  if (!timed && !counted) options.seconds = 5;
  if (scenario == "churn") return run_churn(options);
  if (scenario == "confirm-latency") return run_confirm_latency(options);
  if (scenario == "latency") {
    if (options.rate == 0) options.rate = 1'000;
    need(options.size_bytes >= 16, "latency needs bodies of 16 bytes or more");
    need(options.publishers > 0 && options.consumers > 0,
         "latency needs a publisher and a consumer");
    return run_latency(options);
  }
  return run_throughput(options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string uri;
  std::vector<std::string> queue_arguments;
  CLI::App app(
      "Loads an AMQP 0-9-1 broker. The last line is JSON. Exit status 1 when a message was lost, "
      "doubled, out\n"
      "of order or early.",
      "tarrymqperf");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option(
      "--uri", uri,
      "amqp://user:password@host:port/vhost; amqps:// for TLS (its certificate is not checked)");
  app.add_option("--publishers", options.publishers, "Publishing connections")
      ->check(CLI::Range(0, 10000));
  app.add_option("--consumers", options.consumers, "Consuming connections")
      ->check(CLI::Range(0, 10000));
  app.add_option("--queues", options.queues, "Queues; connection i uses queue i modulo this")
      ->check(CLI::Range(1, 100000));
  app.add_option("--size", options.size_bytes,
                 "Body in bytes; from 8 on messages are numbered and checked");
  app.add_option("--seconds", options.seconds, "How long to publish");
  app.add_option("--count", options.count, "How many messages in all, over all publishers");
  app.add_flag("--persistent", options.persistent, "Delivery mode 2");
  app.add_flag("--durable", options.durable, "Durable queues");
  app.add_option("--confirm-window", options.confirm_window,
                 "Most unconfirmed messages of a publisher; 0: no confirms");
  app.add_option("--ack-batch", options.ack_batch,
                 "One multiple ack for so many deliveries; 0: automatic");
  app.add_option("--prefetch", options.prefetch, "Of each consumer; 0: none")
      ->check(CLI::Range(0, 65535));
  app.add_option("--rate", options.rate, "Messages/s of each publisher; 0: as fast as it goes");
  app.add_option("--queue-args", queue_arguments, "key=value, for each argument of the queues");
  app.add_option("--queue-prefix", options.queue_prefix,
                 "Queues are called PREFIX.0, PREFIX.1, ...");
  app.add_flag("--keep-queues", options.keep_queues, "Neither declare nor delete them");
  app.add_option("--drain-seconds", options.drain_seconds,
                 "Patience without any progress at the end");
  app.add_option("--broker-pid", options.broker_pid, "Process whose CPU and memory are reported");
  app.add_flag("--json-only", options.json_only, "No line a second");
  add_scenarios(app, options);
  CLI11_PARSE(app, argc, argv);

  if (!uri.empty()) read_uri(uri, options);
  for (const auto& entry : queue_arguments) {
    size_t equals = entry.find('=');
    if (equals == std::string::npos) tarry::perf::die("--queue-args takes key=value, not " + entry);
    options.queue_arguments.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return run(app.get_subcommands().front()->get_name(), options);
}
