#include <openssl/evp.h>

#include "broker/definition_codec.h"
#include "broker/management_face.h"
#include "broker/passwords.h"
#include "tarrymq/queue/queue_handle.h"
#include "tarrymq/retry/retry_arguments.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

constexpr size_t kReasons = 5;  // DeathReason without `unused`

std::map<std::string, uint64_t> by_reason(const std::atomic<uint64_t>* counts) {
  std::map<std::string, uint64_t> out;
  for (size_t i = 0; i < kReasons; ++i) {
    uint64_t count = counts[i].load(std::memory_order_relaxed);
    if (count > 0) out[death_reason_name(static_cast<DeathReason>(i))] = count;
  }
  return out;
}

QueueNumbers numbers_of(const QueueFigures& f) {
  auto get = [](const std::atomic<uint64_t>& v) { return v.load(std::memory_order_relaxed); };
  QueueNumbers n;
  n.ready = get(f.ready);
  n.ready_bytes = get(f.ready_bytes);
  n.unacked = get(f.unacked);
  n.unacked_bytes = get(f.unacked_bytes);
  n.persistent = get(f.persistent);
  n.delayed = get(f.delayed);
  n.delayed_bytes = get(f.delayed_bytes);
  n.next_due_ms = get(f.next_due_ms);
  n.last_due_ms = get(f.last_due_ms);
  n.owed_since_ms = get(f.owed_since_ms);
  n.consumers = get(f.consumers);
  n.consumer_use = {f.consumers_able.load(std::memory_order_relaxed),
                    f.consumers_able_since_ns.load(std::memory_order_relaxed),
                    f.consumers_able_share.load(std::memory_order_relaxed)};
  n.active_at_ns = f.active_at_ns.load(std::memory_order_relaxed);
  n.published = get(f.published);
  n.delivered = get(f.delivered);
  n.delivered_no_ack = get(f.delivered_no_ack);
  n.got = get(f.got);
  n.got_no_ack = get(f.got_no_ack);
  n.acked = get(f.acked);
  n.redelivered = get(f.redelivered);
  n.rejected = get(f.rejected);
  n.confirmed = get(f.confirmed);
  n.retries_scheduled = get(f.retries_scheduled);
  n.retries_redelivered = get(f.retries_redelivered);
  n.retries_postponed = get(f.retries_postponed);
  n.dead_lettered = by_reason(f.dead_lettered);
  n.dropped = by_reason(f.dropped);
  n.dead_lettering = get(f.dead_lettering);
  for (size_t i = 0; i < n.retry_lag.size(); ++i) n.retry_lag[i] = get(f.retry_lag[i]);
  n.retry_lag_sum_ms = get(f.retry_lag_sum_ms);
  n.disk_bytes = get(f.disk_bytes);
  n.memory_bytes = get(f.memory_bytes);
  n.segments = get(f.segments);
  return n;
}

}  // namespace

void add_numbers(QueueNumbers& sum, const QueueNumbers& n) {
  for (auto member : {&QueueNumbers::ready,
                      &QueueNumbers::ready_bytes,
                      &QueueNumbers::unacked,
                      &QueueNumbers::unacked_bytes,
                      &QueueNumbers::persistent,
                      &QueueNumbers::delayed,
                      &QueueNumbers::delayed_bytes,
                      &QueueNumbers::consumers,
                      &QueueNumbers::published,
                      &QueueNumbers::delivered,
                      &QueueNumbers::delivered_no_ack,
                      &QueueNumbers::got,
                      &QueueNumbers::got_no_ack,
                      &QueueNumbers::acked,
                      &QueueNumbers::redelivered,
                      &QueueNumbers::rejected,
                      &QueueNumbers::confirmed,
                      &QueueNumbers::retries_scheduled,
                      &QueueNumbers::retries_redelivered,
                      &QueueNumbers::retries_postponed,
                      &QueueNumbers::dead_lettering,
                      &QueueNumbers::retry_lag_sum_ms,
                      &QueueNumbers::disk_bytes,
                      &QueueNumbers::memory_bytes,
                      &QueueNumbers::segments}) {
    sum.*member += n.*member;
  }
  for (const auto& [reason, count] : n.dead_lettered) sum.dead_lettered[reason] += count;
  for (const auto& [reason, count] : n.dropped) sum.dropped[reason] += count;
  for (size_t i = 0; i < n.retry_lag.size(); ++i) sum.retry_lag[i] += n.retry_lag[i];
  if (n.next_due_ms && (!sum.next_due_ms || n.next_due_ms < sum.next_due_ms))
    sum.next_due_ms = n.next_due_ms;
  sum.last_due_ms = std::max(sum.last_due_ms, n.last_due_ms);
  sum.active_at_ns = std::max(sum.active_at_ns, n.active_at_ns);
}

namespace {

QueueInfo queue_info(const Registry& registry, const QueueEntry& entry) {
  const QueueIdentity& identity = entry.identity();
  QueueInfo info;
  info.vhost = identity.vhost;
  info.name = identity.name;
  info.type = identity.quorum_type ? "quorum" : "classic";
  info.durable = entry.durable;
  info.exclusive = identity.exclusive;
  info.auto_delete = identity.auto_delete;
  info.retry_enabled = identity.retry_enabled;
  info.arguments = entry.arguments;
  info.policy = entry.policy;
  info.operator_policy = entry.operator_policy;
  info.effective_policy_definition = entry.definition;
  info.delivery_limit = registry.effective(identity, entry).delivery_limit;
  info.exclusive_owner = entry.exclusive_owner;
  info.numbers = numbers_of(entry.handle->figures());
  info.id = entry.handle->id.value;
  if (!identity.holds_for.empty()) {  // like a companion: what waits is what it has
    info.internal = true;
    info.owner = identity.holds_for;
    info.numbers.ready = std::exchange(info.numbers.delayed, 0);
    info.numbers.ready_bytes = std::exchange(info.numbers.delayed_bytes, 0);
  }
  return info;
}

bool has_companion(const QueueEntry& entry) {
  if (!entry.identity().retry_enabled) return false;
  return !entry.companion_gone_at || entry.handle->figures().retries_scheduled.load(
                                         std::memory_order_relaxed) != *entry.companion_gone_at;
}

/// retry-spec 21: like any queue, but internal.
QueueInfo companion_info(const QueueEntry& entry) {
  const QueueIdentity& identity = entry.identity();
  QueueNumbers owner = numbers_of(entry.handle->figures());
  QueueInfo info;
  info.vhost = identity.vhost;
  info.name = companion_name(identity.name);
  info.type = "classic";
  info.durable = entry.durable;
  info.exclusive = identity.exclusive;
  info.auto_delete = identity.auto_delete;
  info.internal = true;
  info.owner = identity.name;
  info.exclusive_owner = entry.exclusive_owner;
  info.id = entry.handle->id.value;
  info.numbers.ready = owner.delayed;
  info.numbers.ready_bytes = owner.delayed_bytes;
  info.numbers.next_due_ms = owner.next_due_ms;
  info.numbers.owed_since_ms = owner.owed_since_ms;
  info.numbers.last_due_ms = owner.last_due_ms;
  info.numbers.retries_scheduled = owner.retries_scheduled;
  info.numbers.retries_redelivered = owner.retries_redelivered;
  info.numbers.retries_postponed = owner.retries_postponed;
  info.numbers.active_at_ns = owner.active_at_ns;
  return info;
}

ExchangeInfo exchange_info(const Vhost& vhost, const Exchange& exchange) {
  const ExchangeSpec& spec = exchange.spec();
  ExchangeInfo info{vhost.name,
                    spec.name,
                    std::string(exchange_type_name(spec.type)),
                    spec.durable,
                    spec.auto_delete,
                    spec.internal,
                    spec.arguments,
                    "",
                    {},
                    0,
                    0};
  info.published_in = exchange.figures()->in.load(std::memory_order_relaxed);
  info.published_out = exchange.figures()->out.load(std::memory_order_relaxed);
  if (const Policy* policy = ruling_policy(vhost.policies, spec.name, PolicyTarget::exchange)) {
    info.policy = policy->info.name;
    info.effective_policy_definition = policy->info.definition;
  }
  return info;
}

ExchangeInfo default_exchange(const Vhost& vhost) {
  return {vhost.name,
          "",
          "direct",
          true,
          false,
          false,
          {},
          "",
          {},
          vhost.default_exchange->in.load(std::memory_order_relaxed),
          vhost.default_exchange->out.load(std::memory_order_relaxed)};
}

/// What is a state and not a count: of queues that are gone nothing is left of it.
void clear_gauges(QueueNumbers& n) {
  for (auto member :
       {&QueueNumbers::ready, &QueueNumbers::ready_bytes, &QueueNumbers::unacked,
        &QueueNumbers::unacked_bytes, &QueueNumbers::persistent, &QueueNumbers::delayed,
        &QueueNumbers::delayed_bytes, &QueueNumbers::owed_since_ms, &QueueNumbers::next_due_ms,
        &QueueNumbers::last_due_ms, &QueueNumbers::consumers, &QueueNumbers::disk_bytes,
        &QueueNumbers::memory_bytes, &QueueNumbers::segments, &QueueNumbers::dead_lettering}) {
    n.*member = 0;
  }
}

}  // namespace

void add_past(QueueNumbers& past, const QueueFigures& figures) {
  QueueNumbers numbers = numbers_of(figures);
  clear_gauges(numbers);
  add_numbers(past, numbers);
}

std::string properties_key_of(std::string_view routing_key, const FieldTable& arguments) {
  if (arguments.empty()) return routing_key.empty() ? "~" : std::string(routing_key);
  std::string encoded = arguments.encode();
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(encoded.data(), encoded.size(), sum, &size, EVP_sha256(), nullptr);
  std::string hash = base64_encode({reinterpret_cast<const char*>(sum), 15});
  for (char& c : hash) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return std::string(routing_key) + "~" + hash;
}

BindingInfo binding_info(const std::string& vhost, const std::string& source,
                         const Binding& binding) {
  return {vhost,
          source,
          binding.destination.name,
          binding.key,
          binding.destination.is_queue(),
          binding.arguments,
          properties_key_of(binding.key, binding.arguments)};
}

std::vector<std::shared_ptr<Vhost>> ManagementFace::in_scope(const Scope& scope) const {
  std::vector<std::shared_ptr<Vhost>> out;
  for (const auto& [name, vhost] : core_.registry.vhosts) {
    if (scope.vhost.empty() || scope.vhost == name) out.push_back(vhost);
  }
  return out;
}

OverviewInfo ManagementFace::overview(const Scope& scope) {
  OverviewInfo info;
  info.version = TARRYMQ_VERSION;
  info.node = info.cluster_name = core_.options.node_name;
  info.uptime_ms =
      static_cast<uint64_t>((core_.clock.steady_now().ns - core_.started_at.ns) / 1'000'000);
  {
    std::shared_lock lock(core_.registry.mutex);
    if (scope.vhost.empty()) add_numbers(info.totals, core_.registry.past);
    for (const auto& vhost : in_scope(scope)) {
      info.exchanges += vhost->exchanges.size() + 1;
      info.queues += vhost->queues.size();
      add_numbers(info.totals, vhost->past);
      for (const auto& [name, entry] : vhost->queues)
        add_numbers(info.totals, numbers_of(entry->handle->figures()));
    }
  }
  info.consumers = info.totals.consumers;
  for (const auto& connection : connections(scope)) {
    ++info.connections;
    info.channels += connection->channel_count.load(std::memory_order_relaxed);
  }
  info.connections_opened = core_.connections_opened.load(std::memory_order_relaxed);
  info.connections_closed = core_.connections_closed.load(std::memory_order_relaxed);
  info.queues_declared = core_.queues_declared.load(std::memory_order_relaxed);
  info.queues_deleted = core_.queues_deleted.load(std::memory_order_relaxed);
  const ConnectionTotals totals = core_.connections.totals();
  info.channels_opened = totals.channels_opened;
  info.channels_closed = totals.channels_closed;
  info.received = totals.published;
  info.received_confirmed = totals.confirmed;
  info.unroutable_returned = totals.returned;
  info.unroutable_dropped = totals.unroutable;
  info.bytes_in = totals.bytes_in;
  info.bytes_out = totals.bytes_out;
  info.now_ms = core_.clock.wall_now().floor_ms();
  info.disk_alarm = core_.store.disk_alarm();
  for (const std::string& alarm : core_.connections.alarms())
    info.memory_alarm = info.memory_alarm || alarm == "memory";
  std::lock_guard lock(core_.listeners_mutex);
  info.listeners = core_.listeners;
  info.facts = core_.facts;
  return info;
}

std::vector<VhostInfo> ManagementFace::vhosts() {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<VhostInfo> out;
  for (const auto& [name, vhost] : core_.registry.vhosts) {
    VhostInfo info = vhost->about;
    info.name = name;
    info.totals = vhost->past;
    info.queues = vhost->queues.size();
    for (const auto& [queue, entry] : vhost->queues)
      add_numbers(info.totals, numbers_of(entry->handle->figures()));
    out.push_back(std::move(info));
  }
  return out;
}

std::vector<ExchangeInfo> ManagementFace::exchanges(const Scope& scope) {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<ExchangeInfo> out;
  for (const auto& vhost : in_scope(scope)) {
    out.push_back(default_exchange(*vhost));
    for (const auto& [name, exchange] : vhost->exchanges)
      out.push_back(exchange_info(*vhost, *exchange));
  }
  return out;
}

std::optional<ExchangeInfo> ManagementFace::exchange(std::string_view vhost,
                                                     std::string_view name) {
  std::shared_lock lock(core_.registry.mutex);
  auto found = core_.registry.find_vhost(vhost);
  if (!found) return std::nullopt;
  if (name.empty()) return default_exchange(*found);
  Exchange* one = found->find_exchange(name);
  if (!one) return std::nullopt;
  return exchange_info(*found, *one);
}

std::vector<QueueInfo> ManagementFace::queues(const Scope& scope) {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<QueueInfo> out;
  for (const auto& vhost : in_scope(scope)) {
    for (const auto& [name, entry] : vhost->queues) {
      out.push_back(queue_info(core_.registry, *entry));
      if (has_companion(*entry)) out.push_back(companion_info(*entry));
    }
  }
  return out;
}

std::optional<QueueInfo> ManagementFace::queue(std::string_view vhost, std::string_view name) {
  std::shared_lock lock(core_.registry.mutex);
  auto found = core_.registry.find_vhost(vhost);
  if (!found) return std::nullopt;
  if (is_companion_name(name)) {
    auto owner = found->find_queue(name.substr(kCompanionPrefix.size()));
    if (!owner || !has_companion(*owner)) return std::nullopt;
    return companion_info(*owner);
  }
  auto entry = found->find_queue(name);
  if (!entry) return std::nullopt;
  return queue_info(core_.registry, *entry);
}

void ManagementFace::each_queue(
    const std::function<void(uint64_t id, const QueueNumbers& numbers)>& visit) {
  std::shared_lock lock(core_.registry.mutex);
  for (const auto& [vhost_name, vhost] : core_.registry.vhosts) {
    for (const auto& [name, entry] : vhost->queues)
      visit(entry->handle->id.value, numbers_of(entry->handle->figures()));
  }
}

std::vector<BindingInfo> ManagementFace::bindings(const Scope& scope) {
  std::shared_lock lock(core_.registry.mutex);
  std::vector<BindingInfo> out;
  for (const auto& vhost : in_scope(scope)) {
    for (const auto& [name, entry] : vhost->queues) {
      // Nobody reaches a holding queue by its name.
      if (entry->identity().holds_for.empty())
        out.push_back({vhost->name, "", name, name, true, {}, name});
    }
    for (const auto& [name, exchange] : vhost->exchanges) {
      for (const Binding& binding : exchange->bindings())
        out.push_back(binding_info(vhost->name, name, binding));
    }
  }
  return out;
}

std::vector<std::shared_ptr<const ConnectionFigures>> ManagementFace::connections(
    const Scope& scope) {
  auto all = core_.connections.all();
  if (!scope.vhost.empty())
    std::erase_if(all, [&](const auto& c) { return c->info.vhost != scope.vhost; });
  return all;
}

WallTime ManagementFace::now() { return core_.clock.wall_now(); }

std::shared_ptr<const ConnectionFigures> ManagementFace::connection(ConnectionId id) {
  return core_.connections.find(id);
}

bool ManagementFace::close_connection(std::string_view name, std::string reason) {
  bool found = false;
  for (const auto& connection : core_.connections.all()) {
    if (connection->info.name == name)
      found = core_.connections.close(connection->info.id, 320, reason) || found;
  }
  return found;
}

void ManagementFace::set_listeners(std::vector<ListenerInfo> listeners) {
  std::lock_guard lock(core_.listeners_mutex);
  core_.listeners = std::move(listeners);
}

void ManagementFace::set_node_facts(NodeFacts facts) {
  std::lock_guard lock(core_.listeners_mutex);
  core_.facts = std::move(facts);
}

void ManagementFace::consumers(const Scope& scope,
                               std::function<void(std::vector<ConsumerView>)> answer) {
  struct Gathering {
    std::mutex mutex;
    std::vector<ConsumerView> found;
    size_t left = 0;
    std::function<void(std::vector<ConsumerView>)> answer;
    void done(const QueueIdentity& queue, std::vector<ConsumerInfo> consumers) {
      std::unique_lock lock(mutex);
      for (ConsumerInfo& c : consumers) found.push_back({queue.vhost, queue.name, std::move(c)});
      if (--left > 0) return;
      lock.unlock();
      answer(std::move(found));
    }
  };
  std::vector<std::shared_ptr<QueueHandle>> with_some;
  {
    std::shared_lock lock(core_.registry.mutex);
    for (const auto& vhost : in_scope(scope)) {
      for (const auto& [name, entry] : vhost->queues) {
        if (entry->handle->figures().consumers.load(std::memory_order_relaxed) > 0)
          with_some.push_back(entry->handle);
      }
    }
  }
  auto gathering = std::make_shared<Gathering>();
  gathering->answer = std::move(answer);
  gathering->left = with_some.size();
  if (with_some.empty()) {
    gathering->answer({});
    return;
  }
  for (const auto& handle : with_some) {
    handle->consumers([gathering, handle](std::vector<ConsumerInfo> consumers) {
      gathering->done(handle->identity, std::move(consumers));
    });
  }
}

void ManagementFace::look_at_queue(std::string vhost, std::string queue,
                                   std::function<void(QueueLook)> answer) {
  std::shared_ptr<QueueHandle> handle;
  {
    std::shared_lock lock(core_.registry.mutex);
    auto found = core_.registry.find_vhost(vhost);
    auto entry = found ? found->find_queue(queue) : nullptr;
    if (entry) handle = entry->handle;
  }
  if (!handle)
    answer({});
  else
    handle->look(std::move(answer));
}

}  // namespace tarry
