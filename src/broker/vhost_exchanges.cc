#include "broker/definition_codec.h"
#include "broker/holding.h"
#include "broker/kept_actor.h"
#include "broker/vhost_face.h"
#include "broker/walk.h"
#include "broker/wording.h"
#include "tarrymq/amqp/delay.h"

namespace tarry {
namespace {

PeerError retry_exchange_refused(const char* what, const std::string& vhost) {
  return PeerError::access_refused(
      exchange_named(kRetryExchange, vhost) +
      " takes settlements (its publishes name a delivery tag): " + what + " it is refused");
}

const char* in_words(bool on) { return on ? "'true'" : "'false'"; }

std::string in_quotes(std::string_view word) { return "'" + std::string(word) + "'"; }

/// E-24. Arguments that have no meaning here are stored and ignored.
Result<void, PeerError> check_equivalent(const std::string& vhost, const ExchangeDeclare& declare,
                                         const ExchangeSpec& existing) {
  std::string whose = exchange_named(declare.name, vhost);
  std::string_view type = exchange_type_name(existing.type);
  if (declare.type != type)
    return inequivalent("type", whose, in_quotes(declare.type), in_quotes(type));
  if (declare.durable != existing.durable) {
    return inequivalent("durable", whose, in_words(declare.durable), in_words(existing.durable));
  }
  if (declare.auto_delete != existing.auto_delete) {
    return inequivalent("auto_delete", whose, in_words(declare.auto_delete),
                        in_words(existing.auto_delete));
  }
  if (declare.internal != existing.internal) {
    return inequivalent("internal", whose, in_words(declare.internal), in_words(existing.internal));
  }
  for (std::string_view name : known_exchange_arguments()) {
    const FieldValue* received = declare.arguments.find(name);
    const FieldValue* current = existing.arguments.find(name);
    bool same = received && current ? received->equivalent(*current) : received == current;
    if (!same) return inequivalent_argument(name, whose, received, current);
  }
  return {};
}

/// What it asks for; whether it may is checked later.
bool declares_delay(const ExchangeDeclare& declare) {
  if (declare.type == exchange_type_name(ExchangeType::delayed)) return true;
  const FieldValue* argument = declare.arguments.find("x-delayed-exchange");
  return argument && argument->boolean().value_or(false);
}

PeerError delayed_name_too_long(std::string_view name) {
  return PeerError::precondition_failed(
      "invalid exchange name of " + std::to_string(name.size()) + " bytes: at most " +
      std::to_string(kDelayedExchangeNameBytesMax) +
      " are allowed for one that delays, since its messages wait in '" +
      std::string(kHoldingPrefix) + "<name>'");
}

}  // namespace

void VhostFace::declare_exchange(const Actor& actor, ExchangeDeclare declare,
                                 VhostAnswer<void> answer) {
  if (declare.name.size() > kNameBytesMax)
    return answer(name_too_long("exchange name", declare.name));
  declare.name = without_line_ends(std::move(declare.name));
  QueueId holding;
  if (!declare.passive && declares_delay(declare)) {
    if (declare.name.size() > kDelayedExchangeNameBytesMax)
      return answer(delayed_name_too_long(declare.name));
    const auto id = core_.definitions.next_queue_id();
    if (!id) {
      return core_.when_queue_id(
          [self = core_.face(vhost_), kept = KeptActor(actor), declare, answer] {
            self->declare_exchange(kept.actor(), declare, answer);
          });
    }
    holding = *id;
  }
  Lock lock(core_.registry.mutex);
  auto refuse = [&](PeerError error) {
    lock.unlock();
    answer(std::move(error));
  };
  if (declare.name.empty()) return refuse(default_exchange_refused());
  Exchange* existing = vhost_->find_exchange(declare.name);
  if (declare.passive) {
    if (!existing) return refuse(no_exchange(declare.name, name()));
    lock.unlock();
    return answer({});
  }
  if (auto right = check(actor, Right::configure, "exchange", declare.name); !right)
    return refuse(right.error());
  if (declare.name == kRetryExchange) return refuse(retry_exchange_refused("declaring", name()));
  auto type = exchange_type_of(declare.type);
  if (!type)
    return refuse(PeerError::precondition_failed("unknown exchange type '" + declare.type + "'"));
  if (existing) {
    if (auto same = check_equivalent(name(), declare, existing->spec()); !same)
      return refuse(same.error());
    // It may have been declared a moment ago, and be still on its way to the disk.
    const Stored stored = existing->spec().durable ? Stored::not_yet : Stored::yes;
    lock.unlock();
    return tell(answer, {}, stored);
  }
  if (is_reserved_name(declare.name)) {
    return refuse(PeerError::access_refused("exchange name '" + declare.name +
                                            "' contains reserved prefix 'amq.*'"));
  }
  if (vhost_->deleted) return refuse(PeerError::not_found("no vhost '" + name() + "'"));
  for (const char* argument : {"alternate-exchange", "x-alternate-exchange"}) {
    const FieldValue* other = declare.arguments.find(argument);
    if (!other || !other->text()) continue;
    if (auto right = check(actor, Right::read, "exchange", declare.name); !right)
      return refuse(right.error());
    if (auto right = check(actor, Right::write, "exchange", *other->text()); !right)
      return refuse(right.error());
  }
  auto exchange = Exchange::create({declare.name, *type, declare.durable, declare.auto_delete,
                                    declare.internal, std::move(declare.arguments)});
  if (!exchange) {
    PeerError error = exchange.error();
    error.text = with_vhost(std::move(error.text), "exchange '" + declare.name + "'", name());
    return refuse(std::move(error));
  }
  DefinitionBatch batch;
  if (declare.durable) {
    batch.puts.emplace_back(definition::exchange_key(name(), declare.name),
                            definition::exchange_value((*exchange)->spec()));
  }
  if ((*exchange)->delays()) add_holding_queue(core_, *vhost_, **exchange, holding, batch);
  core_.registry.refresh_policy(*vhost_, **exchange);
  vhost_->exchanges[declare.name] = std::move(*exchange);
  ++vhost_->version;
  if (!declare.durable) {
    lock.unlock();
    return answer({});
  }
  core_.commit(lock, std::move(batch));
  tell(answer, {}, Stored::not_yet);
}

void VhostFace::delete_exchange(const Actor& actor, std::string exchange_name, bool if_unused,
                                VhostAnswer<void> answer) {
  Lock lock(core_.registry.mutex);
  auto refuse = [&](PeerError error) {
    lock.unlock();
    answer(std::move(error));
  };
  if (exchange_name.empty()) return refuse(default_exchange_refused());
  if (auto right = check(actor, Right::configure, "exchange", exchange_name); !right)
    return refuse(right.error());
  if (is_system_exchange(exchange_name)) {
    return refuse(PeerError::access_refused(
        "deletion of system " + exchange_named(exchange_name, name()) + " not allowed"));
  }
  Exchange* exchange = vhost_->find_exchange(exchange_name);
  if (!exchange) {
    lock.unlock();
    return answer({});
  }
  if (if_unused && !exchange->empty()) {
    return refuse(
        PeerError::precondition_failed(exchange_named(exchange_name, name()) + " in use"));
  }
  DefinitionBatch batch;
  core_.registry.remove_exchange(*vhost_, exchange_name, batch);
  if (batch.empty()) {
    lock.unlock();
    return answer({});
  }
  core_.commit(lock, std::move(batch));
  tell(answer, {}, Stored::not_yet);
}

Result<void, PeerError> VhostFace::check_topic(const Login* login, Right right,
                                               std::string_view exchange,
                                               std::string_view routing_key) const {
  if (!login || vhost_->topic_rights.empty()) return {};
  auto user = vhost_->topic_rights.find(login->user);
  if (user == vhost_->topic_rights.end()) return {};
  auto rights = user->second.find(exchange);
  const Exchange* found = vhost_->find_exchange(exchange);
  if (rights == user->second.end() || !found || found->spec().type != ExchangeType::topic)
    return {};
  const bool writes = right == Right::write;
  if ((writes ? rights->second.write : rights->second.read).matches(routing_key)) return {};
  return PeerError::access_refused(
      std::string(writes ? "write" : "read") + " access to topic '" + std::string(routing_key) +
      "' in " + exchange_named(exchange, name()) + " refused for user '" + login->user + "'");
}

Result<void, PeerError> VhostFace::may_open_channel(const Login& login) {
  int64_t limit = -1;
  {
    std::shared_lock lock(core_.registry.mutex);
    auto user = core_.registry.users.find(login.user);
    if (user != core_.registry.users.end()) limit = limit_in(user->second.limits, "max-channels");
  }
  if (limit < 0) return {};
  uint64_t count = 0;
  for (const auto& connection : core_.connections.all()) {
    if (connection->info.user == login.user)
      count += connection->channel_count.load(std::memory_order_relaxed);
  }
  if (count < static_cast<uint64_t>(limit)) return {};
  return PeerError::connection(530, "number of channels opened for user '" + login.user +
                                        "' has reached the maximum allowed user limit of (" +
                                        std::to_string(limit) + ")");
}

bool VhostFace::may_impersonate(const Login& login) {
  std::shared_lock lock(core_.registry.mutex);
  const auto user = core_.registry.users.find(login.user);
  return user != core_.registry.users.end() && user->second.has_tag("impersonator");
}

Result<void, PeerError> VhostFace::check_binding(const Actor& actor,
                                                 const BindingSpec& spec) const {
  if (spec.source.empty() || (!spec.destination_is_queue && spec.destination.empty()))
    return default_exchange_refused();
  if (spec.source == kRetryExchange ||
      (!spec.destination_is_queue && spec.destination == kRetryExchange)) {
    return retry_exchange_refused("binding", name());
  }
  const char* kind = spec.destination_is_queue ? "queue" : "exchange";
  if (spec.destination_is_queue && is_internal_queue_name(spec.destination)) {
    return internal_queue(spec.destination, name());
  }
  if (auto right = check(actor, Right::write, kind, spec.destination); !right) return right;
  if (auto right = check(actor, Right::read, "exchange", spec.source); !right) return right;
  if (spec.destination_is_queue) {
    auto entry = vhost_->find_queue(spec.destination);
    if (!entry) return no_queue(spec.destination, name());
    if (locked_for(*entry, actor)) return locked_queue(spec.destination, name());
  } else if (!vhost_->find_exchange(spec.destination)) {
    return no_exchange(spec.destination, name());
  }
  if (!vhost_->find_exchange(spec.source)) return no_exchange(spec.source, name());
  return check_topic(actor.login, Right::read, spec.source, spec.routing_key);
}

void VhostFace::bind(const Actor& actor, BindingSpec spec, VhostAnswer<void> answer) {
  if (spec.routing_key.size() > kNameBytesMax)
    return answer(name_too_long("binding key", spec.routing_key));
  spec.source = without_line_ends(std::move(spec.source));
  spec.destination = without_line_ends(std::move(spec.destination));
  Lock lock(core_.registry.mutex);
  DefinitionBatch batch;
  auto allowed = check_binding(actor, spec);
  auto bound = allowed ? core_.registry.bind(*vhost_, spec, batch)
                       : Result<bool, PeerError>(allowed.error());
  if (!bound) {
    lock.unlock();
    return answer(bound.error());
  }
  core_.commit(lock, std::move(batch));
  tell(answer, {}, Stored::not_yet);
}

bool VhostFace::is_bound(const Vhost& vhost, const BindingSpec& spec) {
  const Exchange* exchange = vhost.find_exchange(spec.source);
  if (!exchange) return false;
  const std::vector<Binding> all = exchange->bindings();
  return std::any_of(all.begin(), all.end(), [&](const Binding& b) {
    return b.destination.is_queue() == spec.destination_is_queue &&
           b.destination.name == spec.destination && b.key == spec.routing_key &&
           b.arguments.equivalent(spec.arguments);
  });
}

void VhostFace::unbind(const Actor& actor, BindingSpec spec, VhostAnswer<void> answer) {
  Lock lock(core_.registry.mutex);
  if (auto allowed = check_binding(actor, spec); !allowed) {
    const bool nothing_there = allowed.error().code == 404 || !is_bound(*vhost_, spec);
    lock.unlock();
    // What is not there is not bound; nor is it, then, a matter of who owns the queue.
    if (nothing_there && allowed.error().code != 403) return answer({});
    return answer(allowed.error());
  }
  DefinitionBatch batch;
  core_.registry.unbind(*vhost_, spec, batch);
  core_.commit(lock, std::move(batch));
  tell(answer, {}, Stored::not_yet);
}

Result<Routed, PeerError> VhostFace::route(const Login& login, std::string_view exchange,
                                           std::string_view routing_key,
                                           const PropertiesView* properties,
                                           std::vector<std::shared_ptr<QueueHandle>>& targets) {
  thread_local RouteResult walked;
  thread_local std::vector<std::string_view> more_keys;
  more_keys.clear();
  std::shared_lock lock(core_.registry.mutex);
  if (auto right = Core::check_right(*vhost_, &login, Right::write, "exchange", exchange); !right)
    return right.error();
  std::shared_ptr<ExchangeFigures> figures = vhost_->default_exchange;
  if (exchange.empty()) {
    if (is_internal_queue_name(routing_key)) return internal_queue(routing_key, name());
  } else {
    const Exchange* found = vhost_->find_exchange(exchange);
    if (!found) return no_exchange(exchange, name());
    if (found->spec().internal) {
      return PeerError::access_refused("cannot publish to internal " +
                                       exchange_named(exchange, name()));
    }
    figures = found->figures();
    if (auto topic = check_topic(&login, Right::write, exchange, routing_key); !topic)
      return topic.error();
  }
  if (properties) {
    if (auto bad = append_sender_keys(*properties, true, more_keys)) return *bad;
  }
  VhostWalk lookup(*vhost_);
  RouteQuery query{exchange, routing_key, more_keys, properties ? properties->headers : ByteSpan(),
                   properties};
  walk_route(lookup, query, walked);
  if (walked.bad_delay) {
    return PeerError::precondition_failed(
        "invalid header 'x-delay': " + delay_in_words(*properties) +
        ", expected a number of milliseconds");
  }
  for (QueueId id : walked.queues) {
    auto it = vhost_->by_id.find(id);
    if (it != vhost_->by_id.end()) targets.push_back(it->second);
  }
  Routed routed{walked.cacheable && more_keys.empty(), std::move(figures), walked.held, false,
                walked.deduplicates};
  if (walked.held) {
    query.ignore_delay = true;
    walk_route(lookup, query, walked);
    routed.nowhere = walked.queues.empty();
  }
  return routed;
}

bool VhostFace::seen_before(std::string_view exchange, const PropertiesView& properties,
                            std::string& value) {
  std::shared_lock lock(core_.registry.mutex);
  Exchange* found = vhost_->find_exchange(exchange);
  return found &&
         found->seen_before(properties.headers,
                            static_cast<uint64_t>(core_.clock.steady_now().ns / 1'000'000), value);
}

void VhostFace::forget_seen(std::string_view exchange, const std::string& value) {
  std::shared_lock lock(core_.registry.mutex);
  if (Exchange* found = vhost_->find_exchange(exchange)) found->forget_seen(value);
}

}  // namespace tarry
