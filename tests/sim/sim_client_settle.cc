#include <iterator>

#include "sim/sim_client.h"
#include "tarrymq/amqp/field_table.h"

// How a simulated client settles its deliveries.

namespace tarry::sim {

void SimClient::settle_some() {
  if (role_ == Role::consumer && random_.one_in(60)) {
    say(method::BasicRecover{true});
    trace(" recovers");
    when_taken_waiting([this] { return_held(Return::recovered); });
    return;
  }
  if (role_ == Role::consumer && !consumers_.empty() && random_.one_in(60)) {
    auto it =
        std::next(consumers_.begin(), static_cast<ptrdiff_t>(random_.below(consumers_.size())));
    size_t queue = it->second;
    say(method::BasicCancel{it->first});
    trace(" cancels " + it->first);
    when_taken_waiting([this, queue] { model_.unseen_return(queue); });
    return;
  }
  for (uint64_t n = random_.between(1, 4); n > 0 && !unsettled_.empty(); --n) {
    auto it =
        std::next(unsettled_.begin(), static_cast<ptrdiff_t>(random_.below(unsettled_.size())));
    uint64_t drawn = random_.below(100);
    settle_one(*it,
               drawn < 45   ? Verdict::ack
               : drawn < 85 ? Verdict::requeue
                            : Verdict::reject,
               random_.one_in(6));
  }
}

void SimClient::settle_one(uint64_t tag, Verdict verdict, bool multiple) {
  if (verdict != Verdict::ack && !multiple && random_.one_in(4))
    return settle_by_word(tag, verdict);
  Settlement settlement{verdict, multiple || random_.one_in(2) ? Return::nack : Return::reject};
  if (verdict == Verdict::ack) {
    say(method::BasicAck{tag, multiple});
  } else if (settlement.how == Return::nack) {
    say(method::BasicNack{tag, multiple, verdict == Verdict::requeue});
  } else {
    say(method::BasicReject{tag, verdict == Verdict::requeue});
  }
  unsettled_.erase(multiple ? unsettled_.begin() : unsettled_.find(tag),
                   std::next(unsettled_.find(tag)));
  when_taken([this, tag, multiple, settlement] { apply(tag, multiple, settlement); });
}

/// By a publish to amq.retry (retry-spec 35).
void SimClient::settle_by_word(uint64_t tag, Verdict verdict) {
  auto held = held_.find(tag);
  if (held == held_.end()) return;
  Settlement settlement{verdict, Return::word, true};
  FieldTable headers;
  if (verdict == Verdict::reject) {
    headers.set("x-retry-permanent", FieldValue::boolean(true));
  } else if (model_.queues()[held->second.copy.queue].retry_min > 0 && random_.one_in(2)) {
    settlement.delay_ms = random_.one_in(4) ? 0 : random_.between(1, kOwnDelayMaxMs);
    headers.set("x-retry-delay", FieldValue::int64(static_cast<int64_t>(*settlement.delay_ms)));
  }
  if (random_.percent(70)) {
    settlement.error = "e" + std::to_string(tag) + "." + std::to_string(serial_);
    if (random_.one_in(10)) settlement.error += std::string(300, '!');
    headers.set("x-retry-error", FieldValue::text(settlement.error));
  }
  PropertiesBuilder properties;
  properties.headers = headers;
  say(method::BasicPublish{"amq.retry", std::to_string(tag), false, false});
  frame(FrameType::header, properties.build(0));
  unsettled_.erase(tag);
  const uint64_t number = confirms_words_ ? next_word_++ : 0;
  if (number > 0) words_[number].copy = held->second.copy;
  when_taken([this, tag, number, settlement] {
    const uint64_t touched = apply(tag, false, settlement);
    if (auto word = words_.find(number); word != words_.end()) word->second.touched = touched;
  });
}

uint64_t SimClient::apply(uint64_t tag, bool multiple, const Settlement& settlement) {
  static const char* const kVerdicts[] = {" acks ", " requeues ", " rejects "};
  uint64_t touched = 0;
  for (auto it = multiple ? held_.begin() : held_.find(tag);
       it != held_.end() && it->first <= tag;) {
    Held& held = it->second;
    if (held.in_transaction) {
      ++it;
      continue;
    }
    if (transactional_) {
      held.in_transaction = true;
      transaction_settles_.emplace_back(it->first, settlement);
      ++it;
    } else {
      trace((settlement.word ? " by its word" : "") +
            std::string(kVerdicts[static_cast<size_t>(settlement.verdict)]) +
            model_.queues()[held.copy.queue].name + "/" + std::to_string(held.copy.number) +
            " at " + std::to_string(now_ms()));
      touched = model_.settled(held.copy, settlement, now_rounded_up_ms(), false);
      it = held_.erase(it);
    }
  }
  return touched;
}

void SimClient::transact() {
  if (world_.disk_trouble) return;
  switch (random_.below(6)) {
    case 0:
    case 1:
      publish_one(true);
      return;
    case 2:
    case 3:
    case 4:
      return settle_some();
    default:
      break;
  }
  if (random_.one_in(4)) {
    say(method::TxRollback{});
    trace(" rolls back");
    when_taken_waiting([this] {
      transaction_.clear();
      transaction_settles_.clear();
      for (auto& [tag, held] : held_) held.in_transaction = false;
    });
    return;
  }
  say(method::TxCommit{});
  trace(" commits");
  when_taken_waiting([this] { commit(); });
}

void SimClient::commit() {
  committing_.emplace();
  committing_->publishes = std::move(transaction_);
  transaction_.clear();
  for (const Model::Publish& publish : committing_->publishes)
    model_.published(publish, now_ms(), true);
  for (auto& [tag, settlement] : transaction_settles_) {
    auto it = held_.find(tag);
    if (it == held_.end()) continue;
    trace(" in its transaction " + std::to_string(static_cast<int>(settlement.verdict)) + " " +
          model_.queues()[it->second.copy.queue].name + "/" +
          std::to_string(it->second.copy.number));
    model_.settled(it->second.copy, settlement, now_rounded_up_ms(), true);
    committing_->settled.push_back(it->second.copy);
    held_.erase(it);
  }
  transaction_settles_.clear();
}

}  // namespace tarry::sim
