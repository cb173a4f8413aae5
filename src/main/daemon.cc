#include "main/daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <latch>
#include <sstream>
#include <thread>

#include "main/machine_memory.h"
#include "main/port_probe.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection_list.h"
#include "tarrymq/storage/definition_store.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

size_t worker_count(const Settings& settings) {
  if (settings.workers != 0) return settings.workers;
  return std::max(1u, std::thread::hardware_concurrency());
}

uint64_t page_bytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * page_bytes();
}

uint64_t memory_limit(const Settings& settings) {
  if (settings.memory_limit_bytes != 0) return settings.memory_limit_bytes;
  return machine_memory() / 10 * 6;
}

/// The rest of the descriptors is for segments, definitions and HTTP: a broker full of clients
/// still writes to its disk.
size_t connections_max(const Settings& settings) {
  if (settings.connections_max != 0) return settings.connections_max;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur / 10 * 9;
}

std::string host_and_port(const std::string& host, uint64_t port) {
  bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

TlsSettings tls_settings(const Settings& s) {
  TlsSettings tls;
  tls.cert = s.tls_cert;
  tls.key = s.tls_key;
  tls.ca = s.tls_ca;
  tls.sni_dir = s.tls_sni_dir;
  tls.min_version = s.tls_min_version;
  tls.ciphers = s.tls_ciphers;
  tls.ciphersuites = s.tls_ciphersuites;
  tls.verify = s.tls_verify;
  tls.user_from = s.tls_user_from;
  return tls;
}

}  // namespace

/// A shard and the thread that is it.
struct Daemon::Worker {
  Worker(ShardId id, const Clock& clock) : shard(id, clock) {}
  ~Worker() { stop(); }
  void start() {
    thread = std::thread([this] { shard.run(); });
  }
  void stop() {
    if (!thread.joinable()) return;
    shard.stop();
    thread.join();
  }
  Shard shard;
  std::thread thread;
};

Daemon::Daemon(const Settings& settings) : settings_(settings) {
  session_settings_.frame_max = static_cast<uint32_t>(settings_.frame_max);
  session_settings_.channel_max = static_cast<uint16_t>(settings_.channel_max);
  session_settings_.heartbeat_s = static_cast<uint16_t>(settings_.heartbeat_s);
  session_settings_.max_message_bytes = settings_.max_message_bytes;
  session_settings_.handshake_timeout_ms = static_cast<uint32_t>(settings_.handshake_timeout_ms);
  session_settings_.outbound_high_bytes = static_cast<uint32_t>(settings_.outbound_high_bytes);
}

Daemon::~Daemon() {
  (void)stop();  // who wants to know has called it
}

Result<std::unique_ptr<Daemon>, std::string> Daemon::start(const Settings& settings) {
  std::unique_ptr<Daemon> daemon(new Daemon(settings));
  std::string error = daemon->open_tls();
  if (error.empty()) error = daemon->open();
  if (error.empty()) error = daemon->listen();
  if (!error.empty()) return error;
  return daemon;
}

/// A bad file should be known before anything is touched.
std::string Daemon::open_tls() {
  const auto open = [&](bool clients, std::unique_ptr<TlsContext>& made) {
    auto context = TlsContext::open(tls_settings(settings_), clients);
    if (!context) return "bad setting " + context.error();
    made = std::move(*context);
    return std::string();
  };
  std::string error;
  if (settings_.amqps_port != 0) error = open(true, amqps_tls_);
  if (error.empty() && settings_.https_port != 0) error = open(false, https_tls_);
  auto sources = Networks::parse(settings_.proxy_protocol_trusted_sources);
  if (sources) proxy_sources_ = std::move(*sources);  // checked with the settings
  sources = Networks::parse(settings_.http_proxy_protocol_trusted_sources);
  if (sources) http_proxy_sources_ = std::move(*sources);
  return error;
}

void Daemon::reload(const Settings& settings) {
  for (TlsContext* context : {amqps_tls_.get(), https_tls_.get()}) {
    if (context == nullptr) continue;
    const char* whose = context == amqps_tls_.get() ? "AMQPS" : "HTTPS";
    if (auto read = context->reload(tls_settings(settings)); !read) {
      log_for("main")->error("SIGHUP: {} goes on with the certificates it has: {}", whose,
                             read.error());
    } else {
      log_for("main")->info("SIGHUP: {} has read its certificates again, for new connections",
                            whose);
    }
  }
  {
    std::lock_guard lock(listeners_mutex_);
    for (ListenerInfo& listener : listeners_) {
      if (listener.protocol == "https") listener.certificate_until_s = https_tls_->valid_until_s();
      if (listener.protocol == "amqp/ssl")
        listener.certificate_until_s = amqps_tls_->valid_until_s();
    }
  }
  announce_listeners();
}

std::string Daemon::open() {
  StoreOptions options;
  options.data_dir = settings_.data_dir;
  options.durability = settings_.durability == "os" ? Durability::os : Durability::fsync;
  options.tail_memory_bytes = settings_.tail_memory_bytes;
  options.disk_free_min_bytes = settings_.disk_free_min_bytes;
  std::string why;
  auto store = Store::open(options, posix_file_system(), &why);
  if (!store) {
    if (store.error() == make_error_code(StoreError::locked)) {
      return "the data directory " + settings_.data_dir + " is in use by another process";
    }
    return "cannot open the data directory " + settings_.data_dir + ": " +
           (why.empty() ? store.error().message() : why);
  }
  store_ = std::move(*store);
  // Before what takes long: a port in use should be known at once.
  for (auto [name, port] : {std::pair{"amqp_port", settings_.amqp_port},
                            {"amqps_port", settings_.amqps_port},
                            {"http_port", settings_.http_port},
                            {"https_port", settings_.https_port},
                            {"metrics_port", settings_.metrics_port}}) {
    if (port == 0) continue;
    auto line = probe_port(settings_.bind, static_cast<uint16_t>(port));
    if (!line.empty())
      return "cannot listen on " + host_and_port(settings_.bind, port) + " (" + name + "): " + line;
  }

  time_file_ = std::make_unique<BrokerTimeFile>(settings_.data_dir);
  auto known = time_file_->read();
  if (!known && !store_->definitions().created()) {
    log_for("main")->warn(
        "broker time of the last run is not known; it goes on at the system's clock, so what waits "
        "may "
        "be early or late by as much as that was stepped");
  }
  StoredTime stored = known.value_or(StoredTime{});
  clock_ = std::make_unique<SystemClock>(
      offset_at_start(stored, boot_time_now(), SystemClock().system_now()),
      WallTime{stored.broker_ns});
  std::vector<Shard*> shards;
  for (size_t i = 0; i < worker_count(settings_); ++i) {
    workers_.push_back(std::make_unique<Worker>(ShardId(static_cast<uint16_t>(i)), *clock_));
    shards.push_back(&workers_.back()->shard);
  }
  BrokerOptions broker_options;
  broker_options.default_user = settings_.default_user;
  broker_options.default_password = settings_.default_password;
  broker_options.default_user_loopback_only = settings_.default_user_loopback_only;
  broker_options.login_failure_delay_ms = static_cast<uint32_t>(settings_.login_failure_delay_ms);
  broker_options.login_failures_per_minute =
      static_cast<uint32_t>(settings_.login_failures_per_minute);
  broker_options.frame_max = session_settings_.frame_max;
  broker_options.max_message_bytes = session_settings_.max_message_bytes;
  broker_options.goodbye_timeout_ms = static_cast<uint32_t>(settings_.goodbye_timeout_ms);
  broker_options.stop_timeout_ms = static_cast<uint32_t>(settings_.shutdown_timeout_ms);
  auto broker = Broker::open(broker_options, *store_, *clock_, shards);
  if (!broker) return broker.error();
  broker_ = std::move(*broker);
  for (auto& worker : workers_) worker->start();
  if (auto begun = broker_->start(); !begun) return begun.error();
  started_ = true;
  time_file_->keep(*clock_, true);
  return load_definitions();
}

std::string Daemon::load_definitions() {
  if (settings_.load_definitions.empty()) return {};
  const std::string& file = settings_.load_definitions;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != EOF) text << in.rdbuf();
  // Bad: it is there and cannot be read, as a directory.
  if (!in.is_open() || in.bad() || !text) return "cannot read " + file + " (load_definitions)";
  // Shared: the answer comes on a shard, and this thread may be gone before the last touch of the
  // promise.
  auto promise = std::make_shared<std::promise<Result<ImportReport, PeerError>>>();
  auto report = promise->get_future();
  broker_->management().import_definitions(
      "", std::move(text).str(),
      [promise](Result<ImportReport, PeerError> result) { promise->set_value(std::move(result)); });
  const auto imported = report.get();
  if (!imported) return file + " (load_definitions): " + imported.error().text;
  for (const std::string& line : imported->skipped) log_for("main")->warn("{}: {}", file, line);
  log_for("main")->info("definitions of {} imported, {} remarks", file, imported->skipped.size());
  return {};
}

std::string Daemon::listen_http(std::vector<ListenerInfo>& listeners) {
  if (settings_.http_port != 0 || settings_.https_port != 0) {
    HttpSettings http;
    http.binds = {settings_.bind};
    http.port = static_cast<uint16_t>(settings_.http_port);
    http.process = operations_.get();
    http.plain = settings_.http_port != 0;
    http.tls = https_tls_.get();
    http.tls_port = static_cast<uint16_t>(settings_.https_port);
    http.proxy_sources = &http_proxy_sources_;
    if (!http.plain) http.hsts_s = static_cast<uint32_t>(settings_.https_hsts_s);
    auto management = ManagementServer::start(http, *broker_);
    if (!management) return management.error();
    management_ = std::move(*management);
    if (http.plain) listeners.push_back({"http", settings_.bind, management_->port()});
    if (https_tls_)
      listeners.push_back(
          {"https", settings_.bind, management_->tls_port(), https_tls_->valid_until_s()});
  }
  if (settings_.metrics_port == 0) return {};
  HttpSettings http;
  http.binds = {settings_.bind};
  http.port = static_cast<uint16_t>(settings_.metrics_port);
  auto metrics = ManagementServer::start_metrics(http, broker_->management());
  if (!metrics) return metrics.error();
  metrics_ = std::move(*metrics);
  listeners.push_back({"http/prometheus", settings_.bind, metrics_->port()});
  return {};
}

std::string Daemon::listen_amqp(std::vector<ListenerInfo>& listeners) {
  std::vector<ListenAddress> addresses;
  std::vector<const char*> protocols;
  const auto add = [&](uint64_t port, const char* protocol, const TlsContext* tls) {
    if (port == 0) return;
    addresses.push_back({settings_.bind, static_cast<uint16_t>(port), tls, &proxy_sources_});
    protocols.push_back(protocol);
  };
  add(settings_.amqp_port, "amqp", nullptr);
  add(settings_.amqps_port, "amqp/ssl", amqps_tls_.get());
  if (addresses.empty()) return {};
  std::vector<QueueShard*> homes;
  for (size_t i = 0; i < broker_->shard_count(); ++i) homes.push_back(&broker_->queue_shard(i));
  std::string failed;
  auto listener = AmqpListener::open(homes, broker_->access(), broker_->connections(),
                                     session_settings_, addresses, &failed);
  if (!listener)
    return "cannot listen on " + failed + " (amqp_port, amqps_port): " + listener.error().message();
  listener_ = std::move(*listener);
  listener_->set_connections_max(connections_max(settings_));
  for (size_t i = 0; i < protocols.size(); ++i) {
    listeners.push_back({protocols[i], settings_.bind, listener_->ports()[i]});
    if (addresses[i].tls != nullptr)
      listeners.back().certificate_until_s = amqps_tls_->valid_until_s();
  }
  return {};
}

std::string Daemon::listen() {
  operations_ = std::make_unique<Operations>(*store_, *clock_, hooks());
  // The HTTP API speaks of AMQP's sockets, and whoever is served over AMQP may count on HTTP: so
  // the sockets are there before HTTP, and clients are taken after it.
  std::vector<ListenerInfo> amqp, all;
  std::string error = listen_amqp(amqp);
  if (error.empty()) error = listen_http(all);
  if (!error.empty()) return error;
  all.insert(all.end(), amqp.begin(), amqp.end());
  {
    std::lock_guard lock(listeners_mutex_);
    listeners_ = std::move(all);
  }
  announce_listeners();
  NodeFacts facts;
  facts.data_dir = settings_.data_dir;
  facts.log_file = settings_.log_file;
  facts.memory_limit_bytes = memory_limit(settings_);
  facts.disk_free_min_bytes = settings_.disk_free_min_bytes;
  broker_->management().set_node_facts(std::move(facts));
  if (listener_) listener_->start();
  return {};
}

std::string Daemon::where() const {
  std::string text;
  for (auto [name, port] : {std::pair{"amqp", settings_.amqp_port},
                            {"amqps", settings_.amqps_port},
                            {"http", settings_.http_port},
                            {"https", settings_.https_port},
                            {"metrics", settings_.metrics_port}}) {
    if (port != 0) text += name + (" " + host_and_port(settings_.bind, port)) + ", ";
  }
  return text + "data " + settings_.data_dir;
}

void Daemon::tick() {
  time_file_->keep(*clock_);
  watch_memory();
  operations_->tick();
}

bool Daemon::responsive() {
  if (unanswered_ && *unanswered_ > 0) return false;
  unanswered_ = std::make_shared<std::atomic<size_t>>(workers_.size());
  for (auto& worker : workers_) worker->shard.post([left = unanswered_] { --*left; });
  return true;
}

void Daemon::announce_listeners() {
  std::lock_guard lock(listeners_mutex_);
  std::vector<ListenerInfo> open;
  for (const ListenerInfo& one : listeners_) {
    if (!draining_ || !one.protocol.starts_with("amqp")) open.push_back(one);
  }
  broker_->management().set_listeners(std::move(open));
}

Operations::Daemon Daemon::hooks() {
  Operations::Daemon daemon;
  daemon.stop_listening = [this] {
    if (listener_) listener_->stop();
    {
      std::lock_guard lock(listeners_mutex_);
      draining_ = true;
    }
    announce_listeners();
  };
  daemon.open_links = [this] { return listener_ ? listener_->open_links() : 0; };
  daemon.say_goodbye = [this] {
    const uint64_t there = broker_->connections().size();
    broker_->connections().close_all(320,
                                     "broker forced connection closure with reason 'shutdown'");
    return there;
  };
  daemon.end_links = [this] {
    if (listener_) end_sockets();
  };
  daemon.goodbye_timeout_ms = settings_.goodbye_timeout_ms;
  return daemon;
}

// A tenth below the limit it is over: no flapping at the edge.
void Daemon::watch_memory() {
  uint64_t limit = memory_limit(settings_), used = resident_bytes();
  bool over = memory_alarm_ ? used > limit / 10 * 9 : used > limit;
  if (over == memory_alarm_) return;
  memory_alarm_ = over;
  if (over) {
    log_for("main")->warn(
        "memory alarm: {} bytes in use, memory_limit_bytes is {}; publishers are blocked", used,
        limit);
  } else {
    log_for("main")->info("memory alarm is over: {} bytes in use", used);
  }
  broker_->connections().set_blocked(over, "memory");
}

void Daemon::end_sockets() {
  // Shared, since the last one to count down may still be at it when the wait has ended.
  auto aborted = std::make_shared<std::latch>(1);
  listener_->abort_all([aborted] { aborted->count_down(); });
  aborted->wait();
  // What a shard gave back to another leaves at the end of its turn: after one more turn of each it
  // has arrived.
  auto turned = std::make_shared<std::latch>(static_cast<ptrdiff_t>(workers_.size()));
  for (auto& worker : workers_) worker->shard.post([turned] { turned->count_down(); });
  turned->wait();
}

bool Daemon::stop() {
  if (!store_) return flushed_;
  if (listener_) listener_->stop();
  if (management_) management_->stop();
  if (metrics_) metrics_->stop();
  if (operations_) operations_->stop();
  if (started_) broker_->close_connections();
  if (listener_) end_sockets();
  if (started_) flushed_ = broker_->stop();
  for (auto& worker : workers_) worker->stop();
  management_.reset();
  metrics_.reset();
  operations_.reset();
  listener_.reset();
  broker_.reset();
  workers_.clear();
  if (started_) time_file_->keep(*clock_, true);
  started_ = false;
  store_.reset();
  return flushed_;
}

}  // namespace tarry
