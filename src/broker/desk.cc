#include "broker/desk.h"

#include <algorithm>
#include <charconv>

#include "broker/core.h"
#include "broker/walk.h"
#include "tarrymq/retry/retry_arguments.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {
namespace {

constexpr ConnectionId kDesk{0};

/// Exchange and routing key as short strings, as a record keeps them.
std::string route_bytes(std::string_view exchange, std::string_view routing_key) {
  std::string out;
  out.reserve(2 + exchange.size() + routing_key.size());
  out.push_back(static_cast<char>(exchange.size()));
  out.append(exchange);
  out.push_back(static_cast<char>(routing_key.size()));
  out.append(routing_key);
  return out;
}

/// Of a message that was held for its x-delay; a dead letter has no expiration any more.
uint32_t own_ttl_ms(std::string_view header) {
  const auto properties = PropertiesView::parse(as_bytes(header));
  if (!properties || !properties->expiration) return kNoTtl;
  uint32_t ttl_ms = 0;
  const std::string_view text = *properties->expiration;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ttl_ms);
  return error == std::errc{} && end == text.data() + text.size() ? ttl_ms : kNoTtl;
}

}  // namespace

ShardDesk::ShardDesk(Core& core, QueueShard& home) : core_(core), home_(home) {
  home_.set_dead_letter_sink(*this);
  home_.add_sink(kDesk, *this);
}

ShardDesk::~ShardDesk() { home_.remove_sink(kDesk); }

uint64_t ShardDesk::expect(std::function<void(const QueueReply&)> answer) {
  uint64_t token = next_token_++;
  replies_.emplace(token, std::move(answer));
  return token;
}

void ShardDesk::on_reply(uint64_t token, const QueueReply& reply) {
  auto it = replies_.find(token);
  if (it == replies_.end()) return;
  auto answer = std::move(it->second);
  replies_.erase(it);
  answer(reply);
}

void ShardDesk::run_later(uint32_t delay_ms, std::function<void()> work) {
  auto slot = std::make_shared<std::list<Delayed>::iterator>();
  delayed_.emplace_back([this, slot, work = std::move(work)] {
    // The timer ends with its entry, and this function with the timer.
    auto run = work;
    delayed_.erase(*slot);
    run();
  });
  *slot = std::prev(delayed_.end());
  Shard& shard = home_.shard();
  shard.timers().schedule(delayed_.back().timer, shard.steady_now().plus_ms(delay_ms));
}

// -- Publishing

uint64_t ShardDesk::add_pending(Pending pending) {
  pending_.push_back(std::move(pending));
  return first_number_ + pending_.size() - 1;
}

void ShardDesk::publish(PublishRequest request,
                        const std::vector<std::shared_ptr<QueueHandle>>& targets,
                        std::function<void(bool)> answer) {
  if (targets.empty()) {
    answer(false);
    return;
  }
  Pending pending;
  pending.left = static_cast<uint32_t>(targets.size());
  pending.answer = std::move(answer);
  request.publish_number = add_pending(std::move(pending));
  request.from = me();
  for (const auto& target : targets) target->publish(request);
}

void ShardDesk::on_confirm(std::span<const ConfirmRange> ranges) {
  for (const ConfirmRange& range : ranges) {
    for (uint64_t number = range.first; number <= range.last; ++number) count_down(number, range);
  }
}

void ShardDesk::count_down(uint64_t number, const ConfirmRange& range) {
  TARRY_INVARIANT(number >= first_number_ && number - first_number_ < pending_.size());
  Pending& pending = pending_[number - first_number_];
  TARRY_INVARIANT(pending.left > 0);
  pending.stored = pending.stored || !range.refused;
  pending.no_room = pending.no_room || range.no_room;
  if (--pending.left > 0) return;
  Pending done = std::move(pending);
  while (!pending_.empty() && pending_.front().left == 0) {
    pending_.pop_front();
    ++first_number_;
  }
  finish(done);
}

void ShardDesk::finish(Pending& pending) {
  if (pending.answer) {
    pending.answer(pending.stored);
    return;
  }
  // Those that have it already know it by its origin when it comes again.
  const DeadLetterResult result = pending.no_room  ? DeadLetterResult::no_room
                                  : pending.stored ? DeadLetterResult::stored
                                                   : DeadLetterResult::refused;
  if (result != DeadLetterResult::stored) moves_.erase({pending.source->id.value, pending.token});
  home_.dead_letter_done(*pending.source, pending.token, result);
}

// -- The dead-letter router

void ShardDesk::find_targets(const DeadLetter& letter, Targets& out) {
  std::shared_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(letter.source->identity.vhost);
  if (!vhost) {
    out.exchange_missing = true;
    return;
  }
  if (auto it = vhost->by_id.find(letter.source->id); it != vhost->by_id.end())
    out.source = it->second;
  VhostWalk lookup(*vhost);
  std::vector<std::string_view> more;
  for (size_t i = 1; i < letter.routing_keys.size(); ++i) more.push_back(letter.routing_keys[i]);
  RouteQuery query{letter.exchange,
                   letter.routing_keys.empty() ? std::string_view() : letter.routing_keys[0],
                   more,
                   {}};
  auto properties = PropertiesView::parse(as_bytes(letter.header));
  if (properties) {
    query.headers = properties->headers;
    query.properties = &*properties;
  }
  walk_route(lookup, query, walked_);
  out.exchange_missing = walked_.exchange_missing;
  for (QueueId id : walked_.queues) {
    auto it = vhost->by_id.find(id);
    if (it == vhost->by_id.end()) continue;
    const std::string& name = it->second->identity.name;
    if (std::find(letter.cycle_queues.begin(), letter.cycle_queues.end(), name) !=
        letter.cycle_queues.end()) {
      out.cycle = true;
      continue;
    }
    out.all.push_back(it->second);
    bool holds_it = std::find(letter.already_in.begin(), letter.already_in.end(), id) !=
                    letter.already_in.end();
    if (!holds_it) out.to_publish.push_back(it->second);
  }
  // Holders that are no longer routed to still keep the move open.
  for (QueueId id : letter.already_in) {
    auto it = vhost->by_id.find(id);
    if (it == vhost->by_id.end()) continue;
    if (std::find(out.all.begin(), out.all.end(), it->second) == out.all.end())
      out.all.push_back(it->second);
  }
}

void ShardDesk::route(const DeadLetter& letter) {
  Targets targets;
  find_targets(letter, targets);
  if (targets.all.empty() || !targets.source) {
    DeadLetterResult result = targets.exchange_missing ? DeadLetterResult::no_exchange
                              : targets.cycle          ? DeadLetterResult::cycle
                                                       : DeadLetterResult::no_route;
    home_.dead_letter_done(*letter.source, letter.token, result);
    return;
  }
  bool has_source_record = letter.origin.queue != QueueId{};
  if (has_source_record) {
    Move& move = moves_[{letter.source->id.value, letter.token}];
    move.source = targets.source;
    move.origin = letter.origin;
    move.targets = targets.all;
  }
  if (targets.to_publish.empty()) {
    home_.dead_letter_done(*letter.source, letter.token, DeadLetterResult::stored);
    return;
  }
  Pending pending;
  pending.left = static_cast<uint32_t>(targets.to_publish.size());
  pending.stored = targets.to_publish.size() < targets.all.size();
  pending.source = targets.source;
  pending.token = letter.token;
  std::string route = route_bytes(
      letter.exchange, letter.routing_keys.empty() ? std::string_view() : letter.routing_keys[0]);
  PublishRequest request;
  request.route = letter.shown_route.empty() ? as_bytes(route) : letter.shown_route;
  request.counter = letter.counter;
  request.ttl_ms = own_ttl_ms(letter.header);
  request.header = as_bytes(letter.header);
  request.body = letter.body;
  request.persistent = letter.persistent;
  request.priority = letter.priority;
  request.hops = letter.hops;
  request.has_delivery_count = letter.has_delivery_count;
  request.origin = has_source_record ? &letter.origin : nullptr;
  request.publish_number = add_pending(std::move(pending));
  request.from = me();
  for (const auto& target : targets.to_publish) target->publish(request);
}

void ShardDesk::source_dropped(QueueHandle& source, uint64_t token) {
  auto it = moves_.find({source.id.value, token});
  if (it == moves_.end()) return;
  Move move = std::move(it->second);
  moves_.erase(it);
  for (const auto& target : move.targets) target->close_move(move.origin);
}

void ShardDesk::queue_removed(QueueHandle& queue) { core_.forget_queue(queue); }

void ShardDesk::when_definitions_stored(Task then) { core_.when_durable(std::move(then)); }

}  // namespace tarry
