// What all errands of a queue share (retry-spec 37, 38).
#include "queue/errands.h"

#include <algorithm>
#include <charconv>

#include "queue/queue_shard_impl.h"
#include "tarrymq/amqp/field_table.h"
#include "tarrymq/amqp/properties.h"

namespace tarry {
namespace {

/// Takes a hexadecimal number and the sign behind it off the front; false if there is none.
template <class Number>
bool take_hex(std::string_view& text, char end, Number& out) {
  const size_t at = end == '\0' ? text.size() : text.find(end);
  if (at == 0 || at > text.size()) return false;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + at, out, 16);
  if (error != std::errc{} || rest != text.data() + at) return false;
  text.remove_prefix(std::min(text.size(), at + 1));
  return true;
}

void append_hex(std::string& to, uint64_t number, char end) {
  char digits[16];
  const auto [rest, error] = std::to_chars(digits, digits + sizeof digits, number, 16);
  to.append(digits, rest);
  if (end != '\0') to.push_back(end);
}

}  // namespace

std::string WaitingId::text() const {
  std::string out;
  append_hex(out, due_ms, '-');
  append_hex(out, lane, '-');
  append_hex(out, segment, '-');
  append_hex(out, ordinal, '\0');
  return out;
}

std::optional<WaitingId> WaitingId::parse(const std::string& text) {
  std::string_view rest = text;
  WaitingId id;
  if (!take_hex(rest, '-', id.due_ms) || !take_hex(rest, '-', id.lane) ||
      !take_hex(rest, '-', id.segment) || !take_hex(rest, '\0', id.ordinal)) {
    return std::nullopt;
  }
  return id;
}

std::string RedrivePlan::text() const {
  std::string out;
  append_hex(out, matched, ';');
  for (const End& end : ends) {
    append_hex(out, end.lane, '-');
    append_hex(out, end.last.segment, '-');
    append_hex(out, end.last.ordinal, ';');
  }
  return out;
}

std::optional<RedrivePlan> RedrivePlan::parse(const std::string& text) {
  std::string_view rest = text;
  RedrivePlan plan;
  if (!take_hex(rest, ';', plan.matched)) return std::nullopt;
  while (!rest.empty()) {
    End end;
    if (!take_hex(rest, '-', end.lane) || !take_hex(rest, '-', end.last.segment) ||
        !take_hex(rest, ';', end.last.ordinal)) {
      return std::nullopt;
    }
    plan.ends.push_back(end);
  }
  return plan;
}

bool header_matches(ByteSpan header, const std::string& name,
                    const std::optional<std::string>& value) {
  auto view = PropertiesView::parse(header);
  if (!view || view->headers.empty()) return false;
  auto table = FieldTable::decode(view->headers);
  if (!table) return false;
  const FieldValue* found = table->find(name);
  if (!found) return false;
  if (!value) return true;
  if (const std::string* text = found->text()) return *text == *value;
  if (auto flag = found->boolean()) return *value == (*flag ? "true" : "false");
  if (auto number = found->integer()) return *value == std::to_string(*number);
  return false;
}

const char* dead_letter_failure(DeadLetterResult result) {
  switch (result) {
    case DeadLetterResult::stored:
      return "stored";
    case DeadLetterResult::no_exchange:
      return "the dead-letter exchange does not exist";
    case DeadLetterResult::no_route:
      return "no queue is bound for it";
    case DeadLetterResult::cycle:
      return "it would go round in an automatic cycle";
    case DeadLetterResult::refused:
      return "no target has room for it";
    case DeadLetterResult::no_room:
      return "the disk takes nothing at present";
  }
  return "";
}

void QueueErrand::wait_for_barrier() {
  durable_ = false;
  queue_.store_.when_durable([weak = weak_from_this()] {
    if (auto self = weak.lock()) {
      self->durable_ = true;
      self->again();
    }
  });
}

uint64_t QueueErrand::new_move(uint8_t lane, const Position& position) {
  const uint64_t token = queue_.next_token_++ | kErrandToken;
  queue_.errand_moves_[token] = {shared_from_this(), lane, position};
  return token;
}

void QueueErrand::drop_source(uint64_t token, uint8_t lane, const Position& position) {
  queue_.find_lane(lane)->log->settle({position, 1});
  queue_.next_durable_.dropped_moves.push_back(token);
  again();
}

void QueueActor::start_errand(std::shared_ptr<QueueErrand> errand) {
  errands_.push_back(std::move(errand));
  schedule();
}

void QueueActor::run_errands() {
  for (size_t i = 0; i < errands_.size();) {
    const std::shared_ptr<QueueErrand> errand = errands_[i];
    if (!errand->step()) {
      ++i;
      continue;
    }
    std::erase(errands_, errand);
  }
}

void QueueActor::end_errands() {
  std::vector<std::shared_ptr<QueueErrand>> ended;
  ended.swap(errands_);
  for (const auto& errand : ended) errand->queue_gone();
}

void QueueActor::errand_move_done(uint64_t token, DeadLetterResult result) {
  auto it = errand_moves_.find(token);
  if (it == errand_moves_.end()) return;
  const ErrandMove move = std::move(it->second);
  errand_moves_.erase(it);
  if (gone_) {
    // Nothing is left to drop, but the target need not remember the move.
    if (result == DeadLetterResult::stored) {
      store_.when_durable([sink = sink_of_letters(), handle = weak_handle_.lock(), token] {
        if (handle) sink->source_dropped(*handle, token);
      });
    }
    return;
  }
  refresh_time();
  if (move.errand) return move.errand->move_done(token, result);
  find_lane(move.lane)->log->settle({move.position, 1});
  next_durable_.dropped_moves.push_back(token);
  schedule();
}

/// Its record was found where it went to: the source can go. Routed to nowhere, past the one that
/// holds it.
bool QueueActor::finish_redriven(const Origin& origin, std::vector<QueueId> holders) {
  if (!sink_of_letters()) return false;
  const Position position{origin.segment, origin.ordinal, 0};
  const uint64_t token = next_token_++ | kErrandToken;
  errand_moves_[token] = {nullptr, origin.lane, position};
  DeadLetter letter;
  letter.source = handle_;
  letter.token = token;
  letter.reason = DeathReason::rejected;
  letter.routing_keys = {""};
  letter.origin = origin;
  letter.already_in = std::move(holders);
  sink_of_letters()->route(letter);
  return true;
}

}  // namespace tarry
