#include "broker/registry.h"

#include <array>

#include "broker/definition_codec.h"
#include "broker/holding.h"
#include "broker/management_face.h"
#include "broker/success.h"
#include "broker/wording.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

struct SystemExchange {
  std::string_view name;
  ExchangeType type;
};
constexpr std::array kSystemExchanges = {
    SystemExchange{"amq.direct", ExchangeType::direct},
    SystemExchange{"amq.fanout", ExchangeType::fanout},
    SystemExchange{"amq.topic", ExchangeType::topic},
    SystemExchange{"amq.headers", ExchangeType::headers},
    SystemExchange{"amq.match", ExchangeType::headers},
    SystemExchange{kRetryExchange, ExchangeType::retry},
};

}  // namespace

bool is_reserved_name(std::string_view name) { return name.starts_with("amq."); }

bool is_system_exchange(std::string_view name) { return name.empty() || is_reserved_name(name); }

Exchange* Vhost::find_exchange(std::string_view name_) const {
  auto it = exchanges.find(name_);
  return it == exchanges.end() ? nullptr : it->second.get();
}

std::shared_ptr<QueueEntry> Vhost::find_queue(std::string_view name_) const {
  auto it = queues.find(name_);
  return it == queues.end() ? nullptr : it->second;
}

int64_t limit_in(const std::map<std::string, int64_t>& limits, std::string_view what) {
  for (const auto& [name, value] : limits) {
    if (name == what) return value;
  }
  return -1;
}

int64_t Vhost::limit(std::string_view what) const { return limit_in(about.limits, what); }

std::shared_ptr<Vhost> Registry::find_vhost(std::string_view name) const {
  auto it = vhosts.find(name);
  return it == vhosts.end() ? nullptr : it->second;
}

std::shared_ptr<Vhost> Registry::add_vhost(const std::string& name) {
  auto vhost = std::make_shared<Vhost>(name);
  for (const SystemExchange& system : kSystemExchanges) {
    ExchangeSpec spec;
    spec.name = system.name;
    spec.type = system.type;
    spec.durable = true;
    auto exchange = Exchange::create(std::move(spec));
    TARRY_INVARIANT(exchange.has_value());
    vhost->exchanges.emplace(system.name, std::move(*exchange));
  }
  vhosts[name] = vhost;
  return vhost;
}

void Registry::add_queue(Vhost& vhost, std::shared_ptr<QueueEntry> entry) {
  vhost.by_id[entry->handle->id] = entry->handle;
  if (entry->exclusive_owner != ConnectionId{})
    vhost.exclusive[entry->exclusive_owner].push_back(entry->handle);
  const std::string& name = entry->identity().name;
  vhost.queues[name] = std::move(entry);
  ++vhost.version;
}

void Registry::remove_queue(Vhost& vhost, const std::shared_ptr<QueueEntry>& entry,
                            DefinitionBatch& batch) {
  const QueueIdentity& identity = entry->identity();
  QueueId id = entry->handle->id;
  unbind_destination(vhost, Destination::to_queue(id, identity.name), entry->stored(),
                     {entry->sources.begin(), entry->sources.end()}, batch);
  if (entry->stored()) {
    batch.erases.push_back(definition::queue_key(vhost.name, identity.name));
    batch.puts.emplace_back(definition::tombstone_key(id), definition::tombstone_value());
  }
  add_past(vhost.past, entry->handle->figures());
  vhost.by_id.erase(id);
  if (auto owned = vhost.exclusive.find(entry->exclusive_owner); owned != vhost.exclusive.end()) {
    std::erase(owned->second, entry->handle);
    if (owned->second.empty()) vhost.exclusive.erase(owned);
  }
  vhost.queues.erase(identity.name);
  ++vhost.version;
}

void Registry::unbind_destination(Vhost& vhost, const Destination& destination, bool stored,
                                  const std::vector<std::string>& sources, DefinitionBatch& batch) {
  for (const std::string& source : sources) {
    Exchange* exchange = vhost.find_exchange(source);
    if (!exchange) continue;
    std::vector<Binding> removed = exchange->unbind_all(destination);
    if (stored && exchange->spec().durable) {
      for (const Binding& binding : removed) {
        batch.erases.push_back(definition::binding_key(vhost.name, source, binding.destination,
                                                       binding.key, binding.arguments));
      }
    }
    if (!removed.empty() && exchange->spec().auto_delete && exchange->empty())
      remove_exchange(vhost, source, batch);
  }
}

void Registry::remove_exchange(Vhost& vhost, std::string_view name, DefinitionBatch& batch) {
  auto it = vhost.exchanges.find(name);
  if (it == vhost.exchanges.end()) return;
  std::unique_ptr<Exchange> exchange = std::move(it->second);
  vhost.exchanges.erase(it);
  bool stored = exchange->spec().durable;
  if (auto holding =
          exchange->delays() ? vhost.find_queue(holding_name(exchange->name())) : nullptr) {
    remove_queue(vhost, holding, batch);
    if (on_holding_queue_removed) on_holding_queue_removed(holding->handle);
  }
  if (stored) batch.erases.push_back(definition::exchange_key(vhost.name, exchange->name()));
  for (const Binding& binding : exchange->bindings()) {
    auto queue =
        binding.destination.is_queue() ? vhost.find_queue(binding.destination.name) : nullptr;
    if (queue) queue->sources.erase(exchange->name());
    // An erase of a binding that was never stored does no harm.
    if (stored && (!queue || queue->stored())) {
      batch.erases.push_back(definition::binding_key(
          vhost.name, exchange->name(), binding.destination, binding.key, binding.arguments));
    }
  }
  std::vector<std::string> sources;
  for (const auto& [source, other] : vhost.exchanges) {
    if (!other->bindings_to(Destination::to_exchange(exchange->name())).empty())
      sources.push_back(source);
  }
  ++vhost.version;
  unbind_destination(vhost, Destination::to_exchange(exchange->name()), stored, sources, batch);
}

std::optional<Destination> Registry::destination_of(const Vhost& vhost, const BindingSpec& spec,
                                                    bool& stored) const {
  if (spec.destination_is_queue) {
    auto queue = vhost.find_queue(spec.destination);
    if (!queue) return std::nullopt;
    stored = queue->stored();
    return Destination::to_queue(queue->handle->id, spec.destination);
  }
  Exchange* exchange = vhost.find_exchange(spec.destination);
  if (!exchange) return std::nullopt;
  stored = exchange->spec().durable;
  return Destination::to_exchange(spec.destination);
}

Result<bool, PeerError> Registry::bind(Vhost& vhost, const BindingSpec& spec,
                                       DefinitionBatch& batch) {
  Exchange* exchange = vhost.find_exchange(spec.source);
  if (!exchange) return no_exchange(spec.source, vhost.name);
  bool stored = false;
  auto destination = destination_of(vhost, spec, stored);
  if (!destination) {
    return spec.destination_is_queue ? no_queue(spec.destination, vhost.name)
                                     : no_exchange(spec.destination, vhost.name);
  }
  auto added = exchange->bind(*destination, spec.routing_key, spec.arguments);
  if (!added || !*added) return added;
  if (spec.destination_is_queue) vhost.find_queue(spec.destination)->sources.insert(spec.source);
  if (stored && exchange->spec().durable) {
    batch.puts.emplace_back(definition::binding_key(vhost.name, spec.source, *destination,
                                                    spec.routing_key, spec.arguments),
                            definition::binding_value(spec));
  }
  ++vhost.version;
  return success(true);
}

bool Registry::unbind(Vhost& vhost, const BindingSpec& spec, DefinitionBatch& batch) {
  Exchange* exchange = vhost.find_exchange(spec.source);
  bool stored = false;
  auto destination = destination_of(vhost, spec, stored);
  if (!exchange || !destination) return false;
  // The arguments as they were stored: those of the request may be in another order or width.
  FieldTable arguments = spec.arguments;
  std::vector<Binding> bindings = exchange->bindings_to(*destination);
  for (const Binding& binding : bindings) {
    if (binding.key == spec.routing_key && binding.arguments.equivalent(spec.arguments)) {
      arguments = binding.arguments;
    }
  }
  if (!exchange->unbind(*destination, spec.routing_key, spec.arguments)) return false;
  if (spec.destination_is_queue && bindings.size() == 1) {
    vhost.find_queue(spec.destination)->sources.erase(spec.source);
  }
  if (stored && exchange->spec().durable) {
    batch.erases.push_back(definition::binding_key(vhost.name, spec.source, *destination,
                                                   spec.routing_key, arguments));
  }
  ++vhost.version;
  if (exchange->spec().auto_delete && exchange->empty()) remove_exchange(vhost, spec.source, batch);
  return true;
}

bool Registry::refresh_policy(const Vhost& vhost, const QueueIdentity& identity,
                              QueueEntry& entry) const {
  if (!identity.holds_for.empty()) return false;
  PolicyTarget target =
      identity.quorum_type ? PolicyTarget::quorum_queue : PolicyTarget::classic_queue;
  const Policy* policy = ruling_policy(vhost.policies, identity.name, target);
  const Policy* operator_policy = ruling_policy(vhost.operator_policies, identity.name, target);
  entry.policy = policy ? policy->info.name : std::string();
  entry.operator_policy = operator_policy ? operator_policy->info.name : std::string();
  FieldTable merged = merge_definitions(policy, operator_policy);
  if (merged == entry.definition) return false;
  entry.definition = std::move(merged);
  return true;
}

void Registry::refresh_policy(const Vhost& vhost, Exchange& exchange) const {
  const Policy* policy = ruling_policy(vhost.policies, exchange.name(), PolicyTarget::exchange);
  const FieldValue* alternate =
      policy ? policy->info.definition.find("alternate-exchange") : nullptr;
  exchange.set_policy_alternate(alternate && alternate->text() ? std::optional(*alternate->text())
                                                               : std::nullopt);
}

std::vector<std::pair<std::shared_ptr<QueueHandle>, QueueSettings>> Registry::refresh_policies(
    Vhost& vhost) {
  std::vector<std::pair<std::shared_ptr<QueueHandle>, QueueSettings>> changed;
  for (auto& [name, entry] : vhost.queues) {
    if (!refresh_policy(vhost, entry->identity(), *entry)) continue;
    changed.emplace_back(entry->handle, effective(entry->identity(), *entry));
  }
  for (auto& [name, exchange] : vhost.exchanges) refresh_policy(vhost, *exchange);
  ++vhost.version;
  return changed;
}

QueueSettings Registry::effective(const QueueIdentity& identity, const QueueEntry& entry) const {
  QueueSettings own = entry.declared;
  own.retry = with_override(own.retry, entry.retry_override);
  if (entry.retry_override.limit) own.delivery_limit = entry.retry_override.limit;
  const FieldValue* strategy = entry.definition.find("dead-letter-strategy");
  if (strategy && strategy->text() && !entry.arguments.find("x-dead-letter-strategy")) {
    own.dead_letter_at_least_once = *strategy->text() == "at-least-once";
  }
  return effective_settings(own, entry.overflow_declared, identity.retry_enabled, entry.definition);
}

}  // namespace tarry
