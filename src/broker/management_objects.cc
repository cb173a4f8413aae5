#include "broker/desk.h"
#include "broker/holding.h"
#include "broker/management_face.h"
#include "broker/success.h"
#include "broker/vhost_face.h"
#include "broker/wording.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/runtime/shard.h"

namespace tarry {
namespace {

/// The expiration property: a whole number of ms. False if it is anything else.
bool parse_expiration(std::string_view text, uint32_t& ttl_ms) {
  uint64_t value = 0;
  if (text.empty() || text.size() > 18) return false;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  ttl_ms = static_cast<uint32_t>(std::min<uint64_t>(value, kNoTtl - 1));
  return true;
}

/// The header payload as consumers may see it: without BCC.
std::string without_bcc(const std::string& header, const PropertiesView& view) {
  auto table = FieldTable::decode(view.headers);
  if (!table) return header;
  table->erase("BCC");
  return with_headers(as_bytes(header), *table);
}

/// To each its header: a queue in which messages wait for their x-delay gets the whole of it, since
/// they are routed only when they are due, others get what consumers may see. True: some queue has
/// stored it.
void publish_to(ShardDesk& desk, PublishRequest request, ByteSpan whole_header,
                std::vector<std::shared_ptr<QueueHandle>> targets, Answer<bool> done) {
  std::vector<std::shared_ptr<QueueHandle>> holding;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(holding),
               [](const auto& queue) { return !queue->identity.holds_for.empty(); });
  std::erase_if(targets, [](const auto& queue) { return !queue->identity.holds_for.empty(); });
  auto left = std::make_shared<int>(2);
  auto any = std::make_shared<bool>(false);
  const auto joined = [left, any, done = std::move(done)](bool stored) {
    *any |= stored;
    if (--*left == 0) done(success(*any));
  };
  desk.publish(request, targets, joined);
  request.header = whole_header;
  desk.publish(request, holding, joined);
}

std::string_view take_short_string(ByteSpan& bytes) {
  if (bytes.empty()) return {};
  size_t size = std::min(static_cast<size_t>(bytes[0]), bytes.size() - 1);
  std::string_view out = as_text(bytes.subspan(1, size));
  bytes = bytes.subspan(1 + size);
  return out;
}

GotMessage got_message(const Delivery& delivery, uint64_t still_ready) {
  GotMessage message;
  ByteSpan route = delivery.record.route;
  message.exchange = take_short_string(route);
  message.routing_key = take_short_string(route);
  message.body = as_text(delivery.record.body);
  message.redelivered = delivery.redelivered;
  message.message_count = still_ready;
  message.header = as_text(delivery.record.header);
  const int64_t count =
      delivery.show_counter ? delivery.counter : 0;  // the first one has none (retry-spec 14)
  if (count == 0 && delivery.last_error.empty()) return message;
  if (auto view = PropertiesView::parse(delivery.record.header)) {
    message.header.clear();
    if (delivery.last_error.empty()) {
      append_with_delivery_count(message.header, delivery.record.header, *view, count);
    } else {
      append_with_last_error(message.header, delivery.record.header, *view, count,
                             delivery.last_error);
    }
  }
  return message;
}

Outcome outcome_of(GetMode mode) {
  switch (mode) {
    case GetMode::ack_requeue_true:
      return Outcome::put_back;
    case GetMode::reject_requeue_true:
      return Outcome::reject_requeue;
    case GetMode::ack_requeue_false:
      return Outcome::ack;
    case GetMode::reject_requeue_false:
      return Outcome::drop;
  }
  return Outcome::put_back;
}

/// Gets one after another, then settles them all: what is put back must not be got again by the
/// same request.
class Getting : public std::enable_shared_from_this<Getting> {
 public:
  Getting(ShardDesk& desk, std::shared_ptr<QueueHandle> queue, uint32_t count, GetMode mode,
          Answer<std::vector<GotMessage>> answer)
      : desk_(desk),
        queue_(std::move(queue)),
        left_(count),
        mode_(mode),
        answer_(std::move(answer)) {}

  void next() {
    if (left_ == 0) {
      finish({});
      return;
    }
    --left_;
    uint64_t token =
        desk_.expect([self = shared_from_this()](const QueueReply& reply) { self->take(reply); });
    queue_->get(false, desk_.me(), token);
  }

 private:
  void take(const QueueReply& reply) {
    if (reply.error || !reply.got) {
      finish(reply.error);
      return;
    }
    const Delivery& delivery = *reply.got;
    messages_.push_back(got_message(delivery, reply.message_count));
    runs_.push_back({{delivery.position, 1},
                     delivery.lane,
                     delivery.counter,
                     ConsumerId{},
                     delivery.record.body.size()});
    next();
  }

  void finish(const std::optional<PeerError>& error) {
    // Last first: each is put back to the place before those that came after it.
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
      if (mode_ == GetMode::ack_requeue_true) queue_->settle(outcome_of(mode_), {&*run, 1});
    }
    if (mode_ != GetMode::ack_requeue_true && !runs_.empty())
      queue_->settle(outcome_of(mode_), runs_);
    if (error && messages_.empty())
      answer_(*error);
    else
      answer_(std::move(messages_));
  }

  ShardDesk& desk_;
  const std::shared_ptr<QueueHandle> queue_;
  uint32_t left_;
  const GetMode mode_;
  Answer<std::vector<GotMessage>> answer_;
  std::vector<GotMessage> messages_;
  std::vector<SettleRun> runs_;
};

Result<std::shared_ptr<QueueHandle>, PeerError> held_in(VhostFace& face, const std::string& name) {
  auto handle = face.find_queue(name);
  if (!handle) return no_queue(name, face.name());
  return handle;
}

/// An answer that only says whether it went well, as one that says that the thing is (not) new.
Answer<void> told_whether_new(Answer<bool> answer, bool is_new) {
  return [answer, is_new](Result<void, PeerError> result) {
    if (result)
      answer(success(is_new));
    else
      answer(result.error());
  };
}

}  // namespace

template <class T>
void ManagementFace::in_vhost(const Login& login, const std::string& vhost, Answer<T> answer,
                              std::function<void(VhostFace&, const Actor&, Answer<T>)> work) {
  after_what_was_sent([this, login, vhost, answer = std::move(answer), work = std::move(work)] {
    std::shared_ptr<Vhost> found;
    {
      std::shared_lock lock(core_.registry.mutex);
      found = core_.registry.find_vhost(vhost);
    }
    if (!found) return answer(PeerError::not_found("no vhost '" + vhost + "'"));
    auto face = core_.face(found);
    Actor actor{&login, ConnectionId{}, core_.desks[0]->me()};
    // The face lives until the answer.
    work(*face, actor, [face, answer](Result<T, PeerError> result) { answer(std::move(result)); });
  });
}

void ManagementFace::declare_exchange(const Login& login, std::string vhost,
                                      ExchangeDeclare declare, Answer<bool> answer) {
  bool is_new = !exchange(vhost, declare.name);
  in_vhost<void>(login, vhost, told_whether_new(std::move(answer), is_new),
                 [declare](VhostFace& face, const Actor& actor, Answer<void> done) {
                   face.declare_exchange(actor, declare, std::move(done));
                 });
}

void ManagementFace::delete_exchange(const Login& login, std::string vhost, std::string name,
                                     bool if_unused, Answer<void> answer) {
  if (!exchange(vhost, name)) return answer(no_exchange(name, vhost));
  in_vhost<void>(login, vhost, std::move(answer),
                 [=](VhostFace& face, const Actor& actor, Answer<void> done) {
                   face.delete_exchange(actor, name, if_unused, std::move(done));
                 });
}

void ManagementFace::declare_queue(const Login& login, std::string vhost, QueueDeclare declare,
                                   Answer<bool> answer) {
  if (is_internal_queue_name(declare.name))
    return answer(bad_request(internal_queue(declare.name, vhost).text));
  bool is_new = !queue(vhost, declare.name);
  Answer<QueueDeclared> declared = [answer, is_new](Result<QueueDeclared, PeerError> result) {
    if (result)
      answer(success(is_new));
    else
      answer(result.error());
  };
  in_vhost<QueueDeclared>(
      login, vhost, std::move(declared),
      [declare](VhostFace& face, const Actor& actor, Answer<QueueDeclared> done) {
        face.declare_queue(actor, declare, std::move(done));
      });
}

/// retry-spec 21: an operator may empty or delete a companion; those that wait are gone, and it
/// comes back by itself.
void ManagementFace::drop_companion(const Login& login, std::string vhost, std::string name,
                                    Answer<uint64_t> answer) {
  auto info = queue(vhost, name);
  if (!info) return answer(no_queue(name, vhost));
  std::string owner = info->owner;
  uint64_t waiting = info->numbers.ready;
  in_vhost<uint64_t>(login, vhost, std::move(answer),
                     [=](VhostFace& face, const Actor& actor, Answer<uint64_t> done) {
                       auto handle = is_holding_name(name) ? held_in(face, name)
                                                           : face.open_queue(actor, owner);
                       if (!handle) return done(handle.error());
                       (*handle)->purge_delayed();
                       done(success(waiting));
                     });
}

/// The one to come shows itself with the next rejection.
void ManagementFace::hide_companion(const std::string& vhost, const std::string& name) {
  std::unique_lock lock(core_.registry.mutex);
  auto found = core_.registry.find_vhost(vhost);
  auto owner = found ? found->find_queue(name.substr(kCompanionPrefix.size())) : nullptr;
  if (owner)
    owner->companion_gone_at =
        owner->handle->figures().retries_scheduled.load(std::memory_order_relaxed);
}

void ManagementFace::delete_queue(const Login& login, std::string vhost, std::string name,
                                  bool if_unused, bool if_empty, Answer<uint64_t> answer) {
  if (is_companion_name(name)) {
    return drop_companion(login, vhost, name,
                          [this, vhost, name, answer](Result<uint64_t, PeerError> dropped) {
                            if (dropped) hide_companion(vhost, name);
                            answer(std::move(dropped));
                          });
  }
  if (is_holding_name(name))
    return answer(bad_request(internal_queue(name, vhost).text + "; it goes with its exchange"));
  if (!queue(vhost, name)) return answer(no_queue(name, vhost));
  in_vhost<uint64_t>(login, vhost, std::move(answer),
                     [=](VhostFace& face, const Actor& actor, Answer<uint64_t> done) {
                       face.delete_queue(actor, name, if_unused, if_empty, std::move(done));
                     });
}

void ManagementFace::purge_queue(const Login& login, std::string vhost, std::string name,
                                 Answer<uint64_t> answer) {
  if (is_internal_queue_name(name)) return drop_companion(login, vhost, name, std::move(answer));
  in_vhost<uint64_t>(login, vhost, std::move(answer),
                     [=](VhostFace& face, const Actor& actor, Answer<uint64_t> done) {
                       face.purge_queue(actor, name, std::move(done));
                     });
}

void ManagementFace::bind(const Login& login, std::string vhost, BindingSpec binding,
                          Answer<std::string> answer) {
  if (binding.destination_is_queue && is_internal_queue_name(binding.destination)) {
    return answer(bad_request(internal_queue(binding.destination, vhost).text));
  }
  std::string key = properties_key_of(binding.routing_key, binding.arguments);
  Answer<void> bound = [answer, key](Result<void, PeerError> result) {
    if (result)
      answer(key);
    else
      answer(result.error());
  };
  in_vhost<void>(login, vhost, std::move(bound),
                 [binding](VhostFace& face, const Actor& actor, Answer<void> done) {
                   face.bind(actor, binding, std::move(done));
                 });
}

void ManagementFace::unbind(const Login& login, std::string vhost, BindingSpec binding,
                            Answer<void> answer) {
  bool there = false;
  for (const BindingInfo& b : bindings({vhost})) {
    there = there || (b.source == binding.source && b.destination == binding.destination &&
                      b.destination_is_queue == binding.destination_is_queue &&
                      b.routing_key == binding.routing_key);
  }
  if (!there) {
    return answer(PeerError::not_found("no binding from '" + binding.source + "' to '" +
                                       binding.destination + "' with routing key '" +
                                       binding.routing_key + "' in vhost '" + vhost + "'"));
  }
  in_vhost<void>(login, vhost, std::move(answer),
                 [binding](VhostFace& face, const Actor& actor, Answer<void> done) {
                   face.unbind(actor, binding, std::move(done));
                 });
}

void ManagementFace::publish(const Login& login, PublishMessage message, Answer<bool> answer) {
  if (message.exchange.empty() && is_internal_queue_name(message.routing_key))
    return answer(success(false));
  if (message.exchange == kRetryExchange) {
    return answer(bad_request(
        "exchange 'amq.retry' settles a delivery of the channel that publishes to it, and there is "
        "no channel over HTTP"));
  }
  auto sent = std::make_shared<PublishMessage>(std::move(message));
  in_vhost<bool>(
      login, sent->vhost, std::move(answer),
      [this, sent](VhostFace& face, const Actor& actor, Answer<bool> done) {
        auto view = PropertiesView::parse(as_bytes(sent->header));
        if (!view) return done(bad_request("properties: " + view.error()));
        if (auto error = core_.too_large(sent->header, sent->body)) return done(std::move(*error));
        if (view->user_id && *view->user_id != actor.login->user &&
            !face.may_impersonate(*actor.login)) {
          return done(bad_request("user_id property set to '" + std::string(*view->user_id) +
                                  "' but authenticated user was '" + actor.login->user + "'"));
        }
        PublishRequest request;
        if (view->expiration && !parse_expiration(*view->expiration, request.ttl_ms)) {
          return done(bad_request("invalid expiration '" + std::string(*view->expiration) +
                                  "': expected a number of ms"));
        }
        std::vector<std::shared_ptr<QueueHandle>> targets;
        auto routed = face.route(*actor.login, sent->exchange, sent->routing_key, &*view, targets);
        if (!routed) return done(routed.error());
        std::string noted;
        if (routed->deduplicates && !targets.empty() &&
            face.seen_before(sent->exchange, *view, noted)) {
          return done(success(false));
        }
        if (routed->figures) routed->figures->add(1, targets.size());
        std::string header = view->has_bcc ? without_bcc(sent->header, *view) : sent->header;
        std::string route;
        for (const std::string* part : {&sent->exchange, &sent->routing_key}) {
          route.push_back(static_cast<char>(part->size()));
          route += *part;
        }
        request.route = as_bytes(route);
        request.header = as_bytes(header);
        request.body = as_bytes(sent->body);
        request.persistent = view->delivery_mode == 2;
        request.priority = view->priority;
        request.has_delivery_count = view->has_delivery_count;
        publish_to(*core_.desks[0], request, as_bytes(sent->header), std::move(targets),
                   std::move(done));
      });
}

void ManagementFace::get_messages(const Login& login, std::string vhost, std::string queue_name,
                                  uint32_t count, GetMode mode,
                                  Answer<std::vector<GotMessage>> answer) {
  using Messages = std::vector<GotMessage>;
  in_vhost<Messages>(
      login, vhost, std::move(answer),
      [this, queue_name, count, mode](VhostFace& face, const Actor& actor, Answer<Messages> done) {
        auto handle = face.open_queue(actor, queue_name);
        if (!handle) return done(handle.error());
        std::make_shared<Getting>(*core_.desks[0], *handle, count, mode, std::move(done))->next();
      });
}

}  // namespace tarry
