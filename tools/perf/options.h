#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tarry::perf {

/// What the command line says. Meanings are in main.cc, beside the flags.
struct Options {
  std::string scenario;
  std::string host = "127.0.0.1", user = "guest", password = "guest", vhost = "/";
  uint16_t port = 5672;
  bool tls = false;
  uint32_t publishers = 1, consumers = 1, queues = 1;
  uint32_t size_bytes = 16;
  double seconds = 0;
  uint64_t count = 0;
  bool persistent = false, durable = false;
  uint32_t confirm_window = 0, ack_batch = 0, prefetch = 0;
  uint64_t rate = 0;
  std::vector<std::pair<std::string, std::string>> queue_arguments;
  std::string queue_prefix = "tarrymqperf";
  double drain_seconds = 30;
  int broker_pid = 0;
  bool json_only = false, keep_queues = false;
  std::string exchange_type;  // empty: the default exchange, by the queues' names
  bool stamped = false;       // the second 8 bytes of a body are the time it was sent
  // Scenario `retry`, and of `park` and `dead-letter` the delay.
  uint32_t rejects = 1;
  uint64_t retry_min_ms = 100, retry_multiplier = 0, retry_max_ms = 0;
  bool wait_queue = false;
  // Scenario `churn`.
  std::string churned = "connections";
  uint32_t hold = 0;
  bool pipelined = false;
  // Scenario `backlog`.
  bool purge = false, fill_only = false, drain_only = false;
};

std::string queue_name(const Options& options, uint32_t index);

int run_throughput(const Options& options);
int run_retry(const Options& options);
int run_latency(const Options& options);
int run_confirm_latency(const Options& options);
int run_churn(const Options& options);
int run_backlog(const Options& options);
int run_dead_letter(const Options& options);
int run_park(const Options& options);

}  // namespace tarry::perf
