#include "tarrymq/routing/exchange.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "routing/binding_index.h"
#include "routing/hash_index.h"

namespace tarry {

namespace {

constexpr const char* kAlternates[] = {"alternate-exchange",
                                       "x-alternate-exchange"};  // their type was checked

constexpr std::array<std::pair<ExchangeType, std::string_view>, 10> kTypes{{
    {ExchangeType::direct, "direct"},
    {ExchangeType::fanout, "fanout"},
    {ExchangeType::topic, "topic"},
    {ExchangeType::headers, "headers"},
    {ExchangeType::retry, "x-retry"},
    {ExchangeType::delayed, "x-delayed-message"},
    {ExchangeType::consistent_hash, "x-consistent-hash"},
    {ExchangeType::random, "x-random"},
    {ExchangeType::local_random, "x-local-random"},
    {ExchangeType::modulus_hash, "x-modulus-hash"},
}};

/// Null for a type that has no bindings.
std::unique_ptr<BindingIndex> make_index(ExchangeType type) {
  switch (type) {
    case ExchangeType::direct:
      return make_direct_index();
    case ExchangeType::fanout:
      return make_fanout_index();
    case ExchangeType::topic:
      return make_topic_index();
    case ExchangeType::headers:
      return make_headers_index();
    case ExchangeType::consistent_hash:
      return make_consistent_hash_index();
    case ExchangeType::random:
      return make_random_index(false);
    case ExchangeType::local_random:
      return make_random_index(true);
    case ExchangeType::modulus_hash:
      return make_modulus_hash_index();
    case ExchangeType::retry:
    case ExchangeType::delayed:  // routes as another type
      return nullptr;
  }
  return nullptr;
}

std::string identity_of(const Destination& destination) {
  return destination.is_queue() ? "q" + std::to_string(destination.queue.value)
                                : "e" + destination.name;
}

/// A bool alone doesn't say whether it is the value.
Result<bool, PeerError> outcome(bool is_new) { return {boost::system::in_place_value, is_new}; }

template <class Value>
void sort_unique_from(std::vector<Value>& values, size_t first) {
  if (values.size() - first < 2) return;
  const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
  std::sort(begin, values.end());
  values.erase(std::unique(begin, values.end()), values.end());
}

}  // namespace

std::string_view exchange_type_name(ExchangeType type) {
  for (const auto& [known, name] : kTypes) {
    if (known == type) return name;
  }
  return "";
}

std::optional<ExchangeType> exchange_type_of(std::string_view name) {
  for (const auto& [type, known] : kTypes) {
    if (known == name && type != ExchangeType::retry) return type;
  }
  return std::nullopt;
}

struct Exchange::Bound {
  Destination to;
  std::unordered_multimap<std::string, FieldTable> bindings;  // by binding key

  auto find(std::string_view key, const FieldTable& arguments) {
    auto [at, end] = bindings.equal_range(std::string(key));
    while (at != end && !at->second.equivalent(arguments)) ++at;
    return at == end ? bindings.end() : at;
  }
};

Exchange::Exchange(ExchangeSpec spec, ExchangeArguments arguments)
    : spec_(std::move(spec)),
      arguments_(std::move(arguments)),
      cacheable_(arguments_.routes_as != ExchangeType::headers &&
                 arguments_.routes_as != ExchangeType::random &&
                 arguments_.routes_as != ExchangeType::local_random &&
                 arguments_.hash_on.what == HashOn::What::routing_key && !arguments_.delays &&
                 !arguments_.deduplication),
      deduplicator_(arguments_.deduplication
                        ? std::make_unique<Deduplicator>(*arguments_.deduplication)
                        : nullptr),
      index_(make_index(arguments_.routes_as)) {}
Exchange::~Exchange() = default;

Result<std::unique_ptr<Exchange>, PeerError> Exchange::create(ExchangeSpec spec) {
  auto arguments = check_exchange_arguments(spec);
  if (!arguments) return arguments.error();
  return std::unique_ptr<Exchange>(new Exchange(std::move(spec), std::move(*arguments)));
}

Result<bool, PeerError> Exchange::bind(const Destination& destination, std::string_view key,
                                       const FieldTable& arguments) {
  if (!index_) {
    return PeerError::access_refused("exchange '" + spec_.name + "' of type '" +
                                     std::string(exchange_type_name(spec_.type)) +
                                     "' takes no bindings");
  }
  std::unique_lock lock(mutex_);
  if (auto error = index_->check(key, arguments)) return *std::move(error);
  auto& bound = bound_[identity_of(destination)];
  if (!bound) {
    bound = std::make_unique<Bound>();
    bound->to = destination;
  }
  if (bound->find(key, arguments) != bound->bindings.end()) return outcome(false);
  bound->bindings.emplace(std::string(key), arguments);
  index_->add(&bound->to, key, arguments);
  ++binding_count_;
  return outcome(true);
}

bool Exchange::unbind(const Destination& destination, std::string_view key,
                      const FieldTable& arguments) {
  std::unique_lock lock(mutex_);
  const auto found = bound_.find(identity_of(destination));
  if (found == bound_.end()) return false;
  Bound& bound = *found->second;
  const auto binding = bound.find(key, arguments);
  if (binding == bound.bindings.end()) return false;
  index_->remove(&bound.to, key, binding->second);
  bound.bindings.erase(binding);
  --binding_count_;
  if (bound.bindings.empty()) bound_.erase(found);
  return true;
}

std::vector<Binding> Exchange::unbind_all(const Destination& destination) {
  std::vector<Binding> removed;
  std::unique_lock lock(mutex_);
  const auto found = bound_.find(identity_of(destination));
  if (found == bound_.end()) return removed;
  Bound& bound = *found->second;
  for (const auto& [key, arguments] : bound.bindings) {
    index_->remove(&bound.to, key, arguments);
    removed.push_back({bound.to, key, arguments});
  }
  binding_count_ -= removed.size();
  bound_.erase(found);
  return removed;
}

std::vector<Binding> Exchange::bindings() const {
  std::vector<Binding> out;
  std::shared_lock lock(mutex_);
  out.reserve(binding_count_);
  for (const auto& [identity, bound] : bound_) {
    for (const auto& [key, arguments] : bound->bindings) out.push_back({bound->to, key, arguments});
  }
  return out;
}

std::vector<Binding> Exchange::bindings_to(const Destination& destination) const {
  std::vector<Binding> out;
  std::shared_lock lock(mutex_);
  const auto found = bound_.find(identity_of(destination));
  if (found == bound_.end()) return out;
  for (const auto& [key, arguments] : found->second->bindings) {
    out.push_back({found->second->to, key, arguments});
  }
  return out;
}

size_t Exchange::binding_count() const {
  std::shared_lock lock(mutex_);
  return binding_count_;
}

void Exchange::match(std::string_view routing_key, ByteSpan headers, RouteMatches& out,
                     const PropertiesView* properties) const {
  if (!index_) return;
  std::string hashed;
  if (arguments_.hash_on.what != HashOn::What::routing_key) [[unlikely]] {
    hashed = hashed_text(arguments_.hash_on, headers, properties);
    routing_key = hashed;
  }
  const size_t queues_before = out.queues.size();
  const size_t exchanges_before = out.exchanges.size();
  {
    std::shared_lock lock(mutex_);
    index_->match(routing_key, headers, out);
  }
  sort_unique_from(out.queues, queues_before);
  sort_unique_from(out.exchanges, exchanges_before);
}

std::optional<std::string> Exchange::alternate() const {
  for (const char* name : kAlternates) {
    if (const FieldValue* argument = spec_.arguments.find(name)) return *argument->text();
  }
  std::shared_lock lock(mutex_);
  return policy_alternate_;
}

bool Exchange::seen_before(ByteSpan headers, uint64_t now_ms, std::string& value) {
  if (!deduplicator_) return false;
  std::lock_guard lock(deduplicator_mutex_);
  auto found = deduplicator_->value_of(headers);
  if (!found) return false;
  value = *found;
  return deduplicator_->seen_before(std::move(*found), headers, now_ms);
}

void Exchange::forget_seen(const std::string& value) {
  if (!deduplicator_) return;
  std::lock_guard lock(deduplicator_mutex_);
  deduplicator_->forget(value);
}

void Exchange::set_policy_alternate(std::optional<std::string> name) {
  std::unique_lock lock(mutex_);
  policy_alternate_ = std::move(name);
}

}  // namespace tarry
