#include "sim/sim_client.h"

#include <algorithm>

#include "tarrymq/amqp/field_table.h"

namespace tarry::sim {
namespace {

constexpr uint32_t kFrameMax = 4096;
const char* const kBoth = "both";
const char* const kNowhere = "nowhere";

}  // namespace

const char* role_name(Role role) {
  static const char* const kNames[] = {"publisher", "consumer", "getter", "transactor",
                                       "admin",     "churner",  "drainer"};
  return kNames[static_cast<size_t>(role)];
}

SimClient::SimClient(ClientsWorld& world, uint64_t serial, Role role)
    : world_(world), model_(world.model), random_(world.random), serial_(serial), role_(role) {}

SimLink::Ends SimClient::ends() {
  return {[this](uint64_t consumed) { on_consumed(consumed); }, [this] { on_link_end(); }};
}

std::string SimClient::who() const {
  return std::string(role_name(role_)) + " " + std::to_string(serial_);
}

/// Number, then padding that the number tells: most are small, some are larger than a frame or a
/// small segment.
std::string SimClient::body_of(uint32_t number) {
  uint32_t mixed = number * 2654435761u;
  size_t size = mixed % 16 == 3   ? 3000 + mixed % 9000
                : mixed % 97 == 5 ? 70'000
                                  : (mixed >> 8) % 200;
  return std::to_string(number) + " " + std::string(size, static_cast<char>('a' + number % 26));
}

// -- Writing

void SimClient::frame(FrameType type, std::string_view payload) {
  TextSink sink;
  detail::put_frame(sink.append(payload.size() + kFrameOverheadBytes), type, 1, as_bytes(payload));
  send(sink.text);
}

void SimClient::when_taken(std::function<void()> what) {
  taken_callbacks_.emplace_back(written_, std::move(what));
}

/// As above, for a method that is answered: until then nothing else is written.
void SimClient::when_taken_waiting(std::function<void()> what) {
  waiting_ = true;
  when_taken(std::move(what));
}

void SimClient::on_consumed(uint64_t consumed) {
  while (!taken_callbacks_.empty() && taken_callbacks_.front().first <= consumed) {
    auto what = std::move(taken_callbacks_.front().second);
    taken_callbacks_.pop_front();
    what();
  }
}

void SimClient::open(std::shared_ptr<SimLink> link) {
  link_ = std::move(link);
  link_->start();
  greet();
}

void SimClient::greet() {
  written_ += kProtocolHeader.size();
  link_->write(std::string(as_text(as_bytes(kProtocolHeader))));
  FieldTable capabilities, properties;
  for (const char* name :
       {"consumer_cancel_notify", "connection.blocked", "basic.nack", "publisher_confirms"}) {
    capabilities.set(name, FieldValue::boolean(true));
  }
  properties.set("capabilities", FieldValue::table(capabilities));
  const std::string table = properties.encode();
  say(method::ConnectionStartOk{as_bytes(table), "PLAIN", std::string_view("\0guest\0guest", 12),
                                "en_US"},
      0);
  say(method::ConnectionTuneOk{0, kFrameMax, 0}, 0);
  say(method::ConnectionOpen{"/"}, 0);
  say(method::ChannelOpen{});
}

void SimClient::use(size_t queue) {
  std::string tag =
      "c" + std::to_string(consumers_.size() + 1) + "." + std::to_string(next_publish_++);
  consumers_[tag] = queue;
  tags_[tag] = {queue, no_ack_};
  used_.insert(queue);
  say(method::BasicConsume{model_.queues()[queue].name, tag, false, no_ack_, false, false, {}});
}

/// The channel is open: what this client is for.
void SimClient::set_up() {
  ready_ = true;
  switch (role_) {
    case Role::publisher:
      say(method::ConfirmSelect{});
      next_publish_ = 1;
      return;
    case Role::drainer:
      for (size_t i = 0; i < model_.queues().size(); ++i) {
        if (i != world_.churned || world_.churned_there) use(i);
      }
      return;
    case Role::consumer:
      no_ack_ = random_.one_in(8);
      confirms_words_ = random_.one_in(2);
      next_word_ = 1;
      if (confirms_words_) say(method::ConfirmSelect{});
      break;
    case Role::transactor:
      say(method::TxSelect{});
      transactional_ = true;
      break;
    case Role::churner:
      churn_ = Churn::missing;
      return;
    case Role::getter:
    case Role::admin:
      return;
  }
  if (!random_.one_in(6))
    say(method::BasicQos{0, static_cast<uint16_t>(random_.between(1, 12)), random_.one_in(3)});
  size_t count = random_.between(1, 3);
  for (size_t i = 0; i < count; ++i) {
    size_t queue = random_.below(model_.queues().size());
    if (queue != world_.churned) use(queue);
  }
}

void SimClient::act() {
  if (over_ || !ready_ || waiting_) return;
  if (role_ != Role::drainer && random_.one_in(150)) {
    // The channel ends; what it holds goes back. Another one follows.
    say(method::ChannelClose{200, "", 0, 0});
    trace(" closes its channel");
    when_taken_waiting([this] { return_held(Return::closed); });
    return;
  }
  switch (role_) {
    case Role::publisher:
      return publish_some();
    case Role::consumer:
      return settle_some();
    case Role::transactor:
      return transact();
    case Role::admin:
      return administer();
    case Role::churner:
      return churn();
    case Role::getter:
      if (!get_from_ && random_.one_in(2)) {
        size_t queue = random_.below(model_.queues().size());
        if (queue == world_.churned) return;
        get_from_ = queue;
        used_.insert(queue);
        say(method::BasicGet{model_.queues()[queue].name, false});
        return;
      }
      return settle_some();
    case Role::drainer:
      return;
  }
}

void SimClient::publish_some() {
  if (unconfirmed_.size() > 60) return;
  for (uint64_t n = random_.between(1, 6); n > 0; --n) publish_one(false);
}

void SimClient::publish_one(bool in_transaction) {
  const uint32_t number = world_.next_number++;
  Model::Publish publish;
  publish.persistent = !random_.one_in(25);
  PropertiesBuilder properties;
  if (publish.persistent) properties.delivery_mode = 2;
  std::string exchange, key;
  if (random_.one_in(5)) {
    exchange = kBoth;
    publish.fanned_out = true;
    for (size_t queue : world_.fanout) publish.copies.push_back({queue, number});
  } else if (random_.one_in(12)) {
    key = kNowhere;
  } else {
    size_t queue = world_.published[random_.below(world_.published.size())];
    const QueueSpec& spec = model_.queues()[queue];
    // What a queue may refuse would end the channel with its transaction.
    if (in_transaction && (spec.reject_publish || queue == world_.churned)) return;
    key = spec.name;
    publish.copies.push_back({queue, number});
    if (spec.max_priority > 0) {
      properties.priority = static_cast<uint8_t>(random_.below(spec.max_priority + 2u));
      if (random_.one_in(2)) publish.ttl_ms = random_.between(1, 6000);
      if (publish.ttl_ms) properties.expiration = std::to_string(*publish.ttl_ms);
    }
  }
  const bool nowhere = publish.copies.empty();
  const std::string body = body_of(number);
  // A client's own count must not be believed (retry-spec 15).
  if (random_.one_in(10)) {
    FieldTable headers;
    headers.set("x-delivery-count", FieldValue::int64(99));
    properties.headers = headers;
  }
  properties.message_id = std::to_string(serial_);
  say(method::BasicPublish{exchange, key, nowhere, false});
  frame(FrameType::header, properties.build(body.size()));
  for (size_t at = 0; at < body.size(); at += 4000)
    frame(FrameType::body, std::string_view(body).substr(at, 4000));
  if (in_transaction) {
    when_taken([this, publish] { transaction_.push_back(publish); });
    if (nowhere) ++returns_expected_;
    return;
  }
  uint64_t sequence = next_publish_++;
  unconfirmed_[sequence] = publish;
  if (nowhere) returned_[sequence] = false;
  when_taken([this, publish, number] {
    std::string text = " has published " + std::to_string(number) +
                       (publish.persistent ? "" : ", transient,") + " to";
    for (const CopyKey& copy : publish.copies) text += " " + model_.queues()[copy.queue].name;
    trace(text);
    model_.published(publish, now_ms(), false);
  });
}

void SimClient::administer() {
  if (random_.one_in(6)) return rebind();
  if (!random_.one_in(8)) return;
  size_t queue = random_.below(model_.queues().size());
  if (queue == world_.churned) return;
  purging_ = queue;
  say(method::QueuePurge{model_.queues()[queue].name});
  trace(" purges " + model_.queues()[queue].name);
  when_taken_waiting([this, queue] { model_.purge_sent(queue); });
}

/// Takes a queue from behind the fanout exchange, or puts it back.
void SimClient::rebind() {
  if (world_.rebinding) return;
  world_.rebinding = true;
  const size_t queue = world_.rebound;
  const std::string& name = model_.queues()[queue].name;
  const bool bind = model_.binding(queue) == Model::Binding::unbound ||
                    (model_.binding(queue) == Model::Binding::changing && random_.one_in(2));
  rebinding_to_ = bind ? Model::Binding::bound : Model::Binding::unbound;
  trace(bind ? " binds " + name : " unbinds " + name);
  if (bind)
    say(method::QueueBind{name, kBoth, "", false, {}});
  else
    say(method::QueueUnbind{name, kBoth, "", {}});
  when_taken_waiting([this, queue] { model_.binding(queue, Model::Binding::changing); });
}

/// Declares a queue, uses it, deletes it, over and over.
void SimClient::churn() {
  const size_t queue = world_.churned;
  const std::string& name = model_.queues()[queue].name;
  if (churn_ == Churn::missing) {
    const std::string arguments = world_.declare_arguments(queue);
    churn_ = Churn::declaring;
    say(method::QueueDeclare{name, false, true, false, false, false, as_bytes(arguments)});
    waiting_ = true;
    return;
  }
  if (churn_ != Churn::there) return;
  if (!random_.one_in(30)) return settle_some();
  churn_ = Churn::deleting;
  say(method::QueueDelete{name});
  trace(" deletes " + name);
  when_taken_waiting([this, queue] { model_.delete_sent(queue); });
}

/// basic.recover, or the end of the channel or connection: what was delivered, read or not, is
/// given back.
void SimClient::return_held(Return how) {
  trace(" gives back " + std::to_string(held_.size()));
  look_ahead();
  for (const auto& [tag, held] : held_) model_.returned(held.copy, how, now_rounded_up_ms());
  held_.clear();
  unsettled_.clear();
  for (size_t queue : used_) model_.unseen_return(queue);
  transaction_.clear();
  transaction_settles_.clear();
  if (how == Return::closed) {
    if (rebinding_to_) world_.rebinding = false;
    rebinding_to_.reset();
    ready_ = false;
    unconfirmed_.clear();
    words_.clear();
    returned_.clear();
    consumers_.clear();
  }
}

void SimClient::on_link_end() {
  if (over_) return;
  read();
  over_ = true;
  if (committing_) {
    for (const CopyKey& copy : committing_->settled)
      model_.settlement_unknown(copy, now_rounded_up_ms());
  }
  taken_callbacks_.clear();
  for (const CopyKey& copy : taken_together_) model_.maybe_not_taken(copy);
  return_held(Return::closed);
}

void SimClient::on_crash() {
  if (!over_) read();
  if (rebinding_to_) world_.rebinding = false;
  over_ = true;
  taken_callbacks_.clear();
}

}  // namespace tarry::sim
