#include <algorithm>

#include "sim/sim_client.h"
#include "tarrymq/amqp/field_table.h"

// The reading half of a simulated client.

namespace tarry::sim {
namespace {

bool has_content(uint32_t id) {
  return id == method_id::basic_deliver || id == method_id::basic_get_ok ||
         id == method_id::basic_return;
}

/// The newest entry of x-death.
void read_death(const FieldTable& headers, Seen& seen) {
  const FieldValue* deaths = headers.find("x-death");
  const auto* list = deaths ? deaths->array() : nullptr;
  if (!list || list->empty()) return;
  const FieldTable* entry = list->front().table();
  if (!entry) return;
  const FieldValue *queue = entry->find("queue"), *reason = entry->find("reason");
  if (queue && queue->text()) seen.death_queue = *queue->text();
  if (reason && reason->text()) seen.death_reason = *reason->text();
}

}  // namespace

void SimClient::read() {
  if (over_ || !link_->readable()) return;
  const bool all = link_->unsent() == 0;
  take(link_->read(), false);
  if (all) taken_together_.clear();
}

/// What is on its way to the client counts as delivered for the broker: told to the model now,
/// skipped when it is read.
void SimClient::look_ahead() {
  std::string bytes = link_->look_ahead();
  std::string partial = partial_;
  uint64_t at = partial_at_;
  Incoming content = content_;
  take(bytes, true);
  partial_ = std::move(partial);
  seen_until_ = std::max(seen_until_, link_->appended());
  partial_at_ = at;
  content_ = std::move(content);
}

void SimClient::take(const std::string& bytes, bool ahead) {
  partial_ += bytes;
  size_t done = 0;
  while (true) {
    DecodedFrame f = decode_frame(as_bytes(std::string_view(partial_).substr(done)), UINT32_MAX);
    if (f.status == FrameStatus::need_more) break;
    if (f.status != FrameStatus::frame) return model_.fault(who() + " got a bad frame");
    done += f.total_bytes;
    take_frame(f.type, f.payload, partial_at_ + done, ahead);
  }
  partial_.erase(0, done);
  partial_at_ += done;
}

void SimClient::take_frame(FrameType type, ByteSpan payload, uint64_t end, bool ahead) {
  if (type == FrameType::method) {
    uint32_t id = peek_method_id(payload);
    if (has_content(id))
      content_ = {id, std::string(as_text(payload)), "", "", end, 0, false};
    else if (!ahead)
      on_method(id, payload);
    return;
  }
  if (type == FrameType::header) {
    content_.header = as_text(payload);
    auto view = PropertiesView::parse(payload);
    if (!view) return model_.fault(who() + " got a malformed header");
    content_.body_size = view->body_size;
  } else if (type == FrameType::body) {
    content_.body += as_text(payload);
  } else {
    return;
  }
  content_.end = end;
  if (content_.body.size() >= content_.body_size) finish_content(ahead);
}

void SimClient::finish_content(bool ahead) {
  Incoming in = std::move(content_);
  content_ = {};
  if (in.method == method_id::basic_return) {
    if (ahead) return;
    ++returns_;
    for (auto& [sequence, seen] : returned_) {
      if (!seen) {
        seen = true;
        return;
      }
    }
    if (role_ == Role::publisher && !returned_.empty())
      model_.fault(who() + " got a return too many");
    return;
  }
  on_delivery(in, in.method == method_id::basic_get_ok, ahead);
}

void SimClient::on_delivery(const Incoming& in, bool got, bool ahead) {
  auto parsed = parse_method(as_bytes(in.payload));
  if (!parsed) return model_.fault(who() + " got a method that can't be parsed");
  uint64_t tag = 0;
  Seen seen;
  std::string consumer;
  CopyKey copy;
  if (got) {
    const auto& m = std::get<method::BasicGetOk>(*parsed);
    tag = m.delivery_tag;
    seen.redelivered = m.redelivered;
    if (!get_from_ && in.end > seen_until_)
      return model_.fault(who() + " got what it did not ask for");
    copy.queue = get_from_.value_or(0);
    if (!ahead) get_from_.reset();
  } else {
    const auto& m = std::get<method::BasicDeliver>(*parsed);
    tag = m.delivery_tag;
    seen.redelivered = m.redelivered;
    consumer = m.consumer_tag;
  }
  if (!got) {
    auto it = tags_.find(consumer);
    if (it == tags_.end())
      return model_.fault(who() + " got a delivery for no consumer of its own: " + consumer);
    copy.queue = it->second.queue;
    seen.no_ack = it->second.no_ack;
  }
  if (in.end <= seen_until_ && !seen.no_ack) return;  // was looked at ahead
  auto view = PropertiesView::parse(as_bytes(in.header));
  FieldTable headers;
  if (view && !view->headers.empty()) headers = *FieldTable::decode(view->headers);
  if (const FieldValue* count = headers.find("x-delivery-count")) seen.counter = count->integer();
  read_death(headers, seen);
  const FieldValue* error = headers.find("x-last-error");
  if (error && error->text()) seen.error = *error->text();
  seen.at_ms = ahead ? now_ms() : link_->stamp_ms(in.end);
  copy.number = static_cast<uint32_t>(std::atoll(in.body.c_str()));
  // Not taken by the socket, so it is not gone; the model knows that it may come back once more.
  if (ahead && seen.no_ack) return model_.was_on_its_way(copy);
  world_.trace(who() + (got ? " got " : " receives ") + model_.queues()[copy.queue].name + "/" +
               std::to_string(copy.number) + " tag " + std::to_string(tag) + " counter " +
               std::to_string(seen.counter.value_or(0)) + (seen.redelivered ? " redelivered" : "") +
               " at " + std::to_string(seen.at_ms));
  if (in.body != body_of(copy.number)) {
    return model_.fault(who() + " got a body that was not sent, " + std::to_string(copy.number));
  }
  const bool untouched = model_.untouched(copy) && !world_.all_leave;
  model_.delivered(copy, seen, serial_);
  const bool fresh = untouched && !seen.redelivered && seen.counter.value_or(0) == 0 &&
                     model_.queues()[copy.queue].published;
  if (fresh && !got && view) {
    // Of one publisher and one priority: in the order of publishing.
    std::string key = consumer + " " + std::string(view->message_id.value_or("")) + " " +
                      std::to_string(view->priority);
    auto& last = last_fresh_[key];
    if (copy.number < last.first) {
      model_.fault(who() + " got " + std::to_string(copy.number) + " after " +
                   std::to_string(last.first) + " of the same publisher");
    }
    last.first = copy.number;
  }
  if (seen.no_ack) return taken_together_.push_back(copy);
  held_[tag] = {copy, false};
  unsettled_.insert(tag);
  if (role_ == Role::drainer) settle_one(tag, Verdict::ack, false);
}

void SimClient::on_word_confirm(uint64_t tag, bool multiple, bool ok) {
  auto it = multiple ? words_.begin() : words_.find(tag);
  if (it == words_.end() || it->first > tag)
    model_.fault(who() + " got a confirm for " + std::to_string(tag) + ", which waits for none");
  while (it != words_.end() && it->first <= tag) {
    if (ok) model_.word_confirmed(it->second.copy, it->second.touched);
    it = words_.erase(it);
  }
}

void SimClient::on_confirm(uint64_t tag, bool multiple, bool ok) {
  if (!ready_) return;  // of the channel before this one
  if (confirms_words_) return on_word_confirm(tag, multiple, ok);
  bool any = false;
  for (auto it = multiple ? unconfirmed_.begin() : unconfirmed_.find(tag);
       it != unconfirmed_.end() && it->first <= tag;) {
    any = true;
    if (ok)
      model_.confirmed(it->second);
    else
      model_.refused(it->second);
    if (auto returned = returned_.find(it->first); returned != returned_.end()) {
      if (!returned->second)
        model_.fault(who() +
                     ": a mandatory message without a queue was confirmed and not returned");
      returned_.erase(returned);
    }
    it = unconfirmed_.erase(it);
  }
  if (!any)
    model_.fault(who() + " got a confirm for " + std::to_string(tag) + ", which waits for none");
}

void SimClient::on_method(uint32_t id, ByteSpan payload) {
  auto parsed = parse_method(payload);
  if (!parsed) return model_.fault(who() + " got a method that can't be parsed");
  switch (id) {
    case method_id::channel_open_ok:
      waiting_ = false;
      return set_up();
    case method_id::basic_ack: {
      const auto& m = std::get<method::BasicAck>(*parsed);
      return on_confirm(m.delivery_tag, m.multiple, true);
    }
    case method_id::basic_nack: {
      const auto& m = std::get<method::BasicNack>(*parsed);
      return on_confirm(m.delivery_tag, m.multiple, false);
    }
    case method_id::basic_get_empty:
      get_from_.reset();
      return;
    case method_id::basic_recover_ok:
    case method_id::tx_rollback_ok:
      waiting_ = false;
      unsettled_.clear();
      for (const auto& [tag, held] : held_) unsettled_.insert(tag);
      return;
    case method_id::basic_cancel_ok: {
      waiting_ = false;
      std::string tag(std::get<method::BasicCancelOk>(*parsed).consumer_tag);
      size_t queue = consumers_[tag];
      consumers_.erase(tag);
      if (!random_.one_in(3)) use(queue);
      return;
    }
    case method_id::basic_cancel:
      consumers_.erase(std::string(std::get<method::BasicCancel>(*parsed).consumer_tag));
      return;
    case method_id::tx_commit_ok:
      waiting_ = false;
      if (!committing_) return model_.fault(who() + " got a commit-ok without a commit");
      for (const Model::Publish& publish : committing_->publishes) model_.confirmed(publish);
      for (const CopyKey& copy : committing_->settled) model_.settlement_durable(copy);
      committing_.reset();
      return;
    case method_id::queue_purge_ok:
      waiting_ = false;
      model_.purge_done(*purging_);
      return;
    case method_id::queue_bind_ok:
    case method_id::queue_unbind_ok:
      waiting_ = false;
      world_.rebinding = false;
      model_.binding(world_.rebound, rebinding_to_.value());
      rebinding_to_.reset();
      return;
    case method_id::queue_declare_ok:
      waiting_ = false;
      churn_ = Churn::there;
      model_.declared(world_.churned);
      use(world_.churned);
      return;
    case method_id::queue_delete_ok:
      waiting_ = false;
      churn_ = Churn::missing;
      model_.delete_done(world_.churned);
      held_.clear();
      unsettled_.clear();
      return;
    case method_id::channel_close_ok:
      last_fresh_.clear();
      committing_.reset();
      get_from_.reset();
      say(method::ChannelOpen{});
      return;
    case method_id::channel_close: {
      const auto& m = std::get<method::ChannelClose>(*parsed);
      return model_.fault(who() + ": its channel was closed: " + std::string(m.reply_text));
    }
    case method_id::connection_close: {
      const auto& m = std::get<method::ConnectionClose>(*parsed);
      return model_.fault(who() + ": its connection was closed: " + std::string(m.reply_text));
    }
    default:
      return;
  }
}

}  // namespace tarry::sim
