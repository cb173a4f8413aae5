#include "tarrymq/session/connection.h"

#include <atomic>

#include "session/connection_impl.h"
#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

ConnectionId next_connection_id() {
  static std::atomic<uint64_t> last{0};
  return ConnectionId(last.fetch_add(1, std::memory_order_relaxed) + 1);
}

ConsumerId next_consumer_id() {
  static std::atomic<uint64_t> last{0};
  return ConsumerId(last.fetch_add(1, std::memory_order_relaxed) + 1);
}

}  // namespace

std::unique_ptr<Connection> Connection::create(QueueShard& home, AccessPort& access,
                                               const SessionSettings& settings, Peer peer,
                                               OutboundPort& port, ConnectionList* list) {
  return std::make_unique<ConnectionImpl>(home, access, settings, std::move(peer), port, list);
}

ConnectionImpl::ConnectionImpl(QueueShard& home, AccessPort& access,
                               const SessionSettings& settings, Peer peer, OutboundPort& port,
                               ConnectionList* list)
    : home_(home),
      access_(access),
      settings_(settings),
      peer_(std::move(peer)),
      port_(port),
      list_(list),
      id_(next_connection_id()),
      affine_(home.shard()),
      frame_max_(kFrameMaxLowest),
      last_heard_(home.shard().steady_now()),
      deadline_([this] {
        if (state_ != State::closing) {
          count_limit_hit(Limit::handshake_timeout);
          log_for("session")->warn("{}: not open after handshake_timeout_ms ({}); closed", name_,
                                   settings_.handshake_timeout_ms);
        }
        port_.abort();
      }),
      heartbeat_([this] { on_heartbeat_timer(); }),
      timeouts_([this] { check_timeouts(); }) {
  name_ = peer_.host + ":" + std::to_string(peer_.port) + " -> " + peer_.host + ":" +
          std::to_string(peer_.local_port);
  home_.add_sink(id_, *this);
  shard().timers().schedule(deadline_,
                            shard().steady_now().plus_ms(settings_.handshake_timeout_ms));
}

ConnectionImpl::~ConnectionImpl() { on_closed(); }

ConnectionImpl* ConnectionImpl::find(QueueShard& home, ConnectionId id) {
  TARRY_INVARIANT(id.value != 0);  // that one is the dead-letter router
  return static_cast<ConnectionImpl*>(home.find_sink(id));
}

// -- Input

void ConnectionImpl::update_reading() {
  if (in_on_bytes_) return;
  const bool wanted = takes_input();
  if (wanted == reading_ || state_ == State::ended) return;
  reading_ = wanted;
  if (wanted) last_heard_ = shard().steady_now();  // silence while nobody listened does not count
  port_.set_reading(wanted);
}

void ConnectionImpl::end_wait() {
  TARRY_INVARIANT(waits_ > 0);
  --waits_;
  update_reading();
}

void ConnectionImpl::on_room() {
  affine_.check();
  held_up_ = false;
  update_reading();
}

size_t ConnectionImpl::on_bytes(ByteSpan bytes) {
  affine_.check();
  if (state_ == State::ended) return bytes.size();
  last_heard_ = shard().steady_now();
  in_on_bytes_ = true;
  size_t used = 0;
  if (state_ == State::header) used = on_protocol_header(bytes);
  if (state_ != State::header && state_ != State::ended) used += take_frames(bytes.subspan(used));
  in_on_bytes_ = false;
  queues_.flush();
  if (publisher_ && !held_up_ && home_.publishes_held_up()) {
    held_up_ = true;
    home_.tell_of_room(id_);
  }
  bytes_in_ += used;
  ++receives_;
  if (figures_) {
    figures_->bytes_in.store(bytes_in_, std::memory_order_relaxed);
    figures_->receives.store(receives_, std::memory_order_relaxed);
  }
  update_reading();
  return state_ == State::ended ? bytes.size() : used;
}

size_t ConnectionImpl::take_frames(ByteSpan bytes) {
  size_t used = 0;
  const OutboundBuffer& out = port_.outbound();
  const uint64_t answers_up_to = unread_from() + unread_bytes_max();
  while (takes_input()) {
    if (out.appended() > answers_up_to && state_ != State::closing) [[unlikely]] {
      unread_ = true;
      break;
    }
    const ByteSpan rest = bytes.subspan(used);
    const DecodedFrame frame = decode_frame(rest, frame_max_);
    if (frame.status == FrameStatus::need_more) break;
    if (frame.status != FrameStatus::frame) {
      // Nobody knows where the next frame begins: what is here is thrown away.
      if (state_ != State::closing) fail(nullptr, frame_error(frame.status, rest, frame_max_), 0);
      return bytes.size();
    }
    if (is_held(frame)) [[unlikely]] {
      held_by_owed_ = true;
      break;
    }
    used += frame.total_bytes;
    method_ = 0;
    switch (frame.type) {
      case FrameType::method:
        used += on_method_frame(frame, bytes.subspan(used));
        break;
      case FrameType::header:
      case FrameType::body:
        on_content_frame(frame);
        break;
      case FrameType::heartbeat:
        if (state_ == State::closing) break;
        if (frame.channel != 0) {
          fail(nullptr,
               PeerError::connection(reply::unexpected_frame,
                                     "heartbeat frame on channel " + std::to_string(frame.channel)),
               0);
        } else if (!frame.payload.empty()) {
          fail(nullptr, PeerError::connection(reply::frame_error, "heartbeat frame with a payload"),
               0);
        }
        break;
    }
  }
  return used;
}

size_t ConnectionImpl::on_method_frame(const DecodedFrame& frame, ByteSpan rest) {
  method_ = peek_method_id(frame.payload);
  if (frame.channel == 0) {
    auto m = parse_method(frame.payload);
    if (m) {
      on_connection_method(*m);
    } else if (state_ != State::closing) {
      fail(nullptr, m.error());
    }
    return 0;
  }
  if (state_ == State::closing) return 0;
  if (state_ != State::running) {
    fail(nullptr, PeerError::connection(reply::channel_error,
                                        "expected 'connection.open' before any channel"));
    return 0;
  }
  Channel* c = channel(frame.channel);
  if (!c || !c->open()) {
    on_channel_method(frame.channel, frame, c);
    return 0;
  }
  if (c->expects_content()) {
    fail(nullptr,
         PeerError::connection(reply::unexpected_frame,
                               "expected content " + std::string(c->expected_content()) +
                                   ", got method frame " + method_name(method_) + " instead"),
         method_id::basic_publish);
    return 0;
  }
  switch (method_) {  // the hot ones first
    case method_id::basic_publish:
      return c->on_publish(frame.payload, rest);
    case method_id::basic_ack: {
      method::BasicAck m;
      if (!parse_ack(frame.payload, m)) break;
      c->settle_tag(m.delivery_tag, m.multiple, Outcome::ack);
      return 0;
    }
    case method_id::basic_reject: {
      method::BasicReject m;
      if (!parse_reject(frame.payload, m)) break;
      c->settle_tag(m.delivery_tag, false, m.requeue ? Outcome::reject_requeue : Outcome::drop);
      return 0;
    }
    case method_id::basic_nack: {
      method::BasicNack m;
      if (!parse_nack(frame.payload, m)) break;
      c->settle_tag(m.delivery_tag, m.multiple, m.requeue ? Outcome::nack_requeue : Outcome::drop);
      return 0;
    }
    default:
      break;
  }
  on_channel_method(frame.channel, frame, c);
  return 0;
}

void ConnectionImpl::on_channel_method(uint16_t number, const DecodedFrame& frame, Channel* c) {
  if (method_ == method_id::channel_close_ok) {
    // Also the late answer to a close that crossed the client's own: nothing is left of that
    // channel then.
    if (c && !c->open()) remove_channel(number);
    return;
  }
  if (c && !c->open() && method_ != method_id::channel_close) return;
  auto m = parse_method(frame.payload);
  if (!m) return fail(nullptr, m.error());
  if (method_ == method_id::channel_open) return open_channel_method(number);
  if (!c) {
    return fail(nullptr, PeerError::connection(reply::channel_error, "expected 'channel.open'"));
  }
  if (method_ == method_id::channel_close) {
    c->flush_confirms();
    return close_channel(*c);
  }
  if (method_id::klass(method_) == class_id::connection) {
    return fail(nullptr,
                PeerError::connection(reply::command_invalid,
                                      "method " + method_name(method_) + " on channel " +
                                          std::to_string(number) + ", it belongs on channel 0"));
  }
  c->on_method(*m);
}

void ConnectionImpl::on_content_frame(const DecodedFrame& frame) {
  if (state_ == State::closing) return;
  Channel* c = channel(frame.channel);
  if (c && !c->open()) return;
  if (frame.channel == 0 || state_ != State::running) {
    return fail(nullptr,
                PeerError::connection(reply::unexpected_frame, "content frame on channel " +
                                                                   std::to_string(frame.channel) +
                                                                   ", expected a method frame"),
                0);
  }
  if (!c) {
    return fail(nullptr, PeerError::connection(reply::channel_error, "expected 'channel.open'"), 0);
  }
  method_ = method_id::basic_publish;
  if (frame.type == FrameType::header) {
    c->on_header(frame.payload);
  } else {
    c->on_body(frame.payload);
  }
}

void ConnectionImpl::on_connection_method(const Method& m) {
  if (auto* close = std::get_if<method::ConnectionClose>(&m)) return on(*close);
  if (auto* ok = std::get_if<method::ConnectionCloseOk>(&m); ok && state_ == State::closing)
    return end();
  if (state_ == State::closing) return;
  if (auto* ok = std::get_if<method::ConnectionStartOk>(&m); ok && state_ == State::start)
    return on(*ok);
  if (auto* ok = std::get_if<method::ConnectionTuneOk>(&m); ok && state_ == State::tune)
    return on(*ok);
  if (auto* open = std::get_if<method::ConnectionOpen>(&m); open && state_ == State::opening)
    return on(*open);
  if (auto* secret = std::get_if<method::ConnectionUpdateSecret>(&m);
      secret && state_ == State::running) {
    return on(*secret);
  }
  if (state_ == State::running) {
    return fail(nullptr, PeerError::connection(reply::channel_error,
                                               "unexpected method in connection state running"));
  }
  static constexpr const char* kNames[] = {"header", "starting", "logging in", "tuning", "opening"};
  fail(nullptr,
       PeerError::connection(reply::command_invalid, "unexpected method " + method_name(method_) +
                                                         " in connection state " +
                                                         kNames[static_cast<size_t>(state_)]));
}

// -- Answers from queues

Channel* ConnectionImpl::open_channel(uint16_t number, uint32_t serial) {
  Channel* c = state_ == State::running ? channel(number) : nullptr;
  return c && c->serial == serial && c->open() ? c : nullptr;
}

uint64_t ConnectionImpl::expect_reply(Channel& c, bool waits,
                                      std::function<void(Channel*, const QueueReply&)> then) {
  if (waits) begin_wait();
  pending_replies_.push_back({next_token_, c.number, c.serial, method_, waits, std::move(then)});
  return next_token_++;
}

uint64_t ConnectionImpl::expect_reply(std::function<void(const QueueReply&)> then) {
  pending_replies_.push_back(
      {next_token_, 0, 0, 0, false,
       [then = std::move(then)](Channel*, const QueueReply& reply) { then(reply); }});
  return next_token_++;
}

void ConnectionImpl::on_reply(uint64_t token, const QueueReply& reply) {
  affine_.check();
  auto it = std::find_if(pending_replies_.begin(), pending_replies_.end(),
                         [token](const PendingReply& p) { return p.token == token; });
  if (it == pending_replies_.end()) return;
  PendingReply pending = std::move(*it);
  pending_replies_.erase(it);
  pending.then(pending.serial == 0 ? nullptr : open_channel(pending.channel, pending.serial),
               reply);
  flush_later();
  if (pending.waits) end_wait();
}

void ConnectionImpl::on_confirm(std::span<const ConfirmRange> ranges) {
  affine_.check();
  for (const ConfirmRange& range : ranges) {
    if (Channel* c = open_channel(range.channel, range.channel_serial)) c->on_confirm(range);
  }
}

void ConnectionImpl::on_cancelled(ConsumerId id) {
  affine_.check();
  Consumer* consumer = find_consumer(id);
  if (consumer && consumer->channel) consumer->channel->on_cancelled(*consumer);
}

void ConnectionImpl::on_credit_wanted(ConsumerId id) {
  affine_.check();
  Consumer* consumer = find_consumer(id);
  if (consumer && consumer->channel) consumer->channel->credit_wanted(*consumer);
}

void ConnectionImpl::on_credit_returned(ConsumerId id, uint32_t count) {
  affine_.check();
  Consumer* consumer = find_consumer(id);
  if (consumer && consumer->channel) consumer->channel->credit_returned(*consumer, count);
}

// -- Consumers

ChannelConsumer& ConnectionImpl::add_consumer(Channel& c, std::string tag,
                                              const std::shared_ptr<QueueHandle>& queue) {
  const ConsumerId consumer_id = next_consumer_id();
  auto consumer =
      std::make_unique<Consumer>(consumer_id, std::move(tag), c.number, queues_.hold(queue));
  consumer->channel = &c;
  auto& slot = consumers_[consumer_id];
  slot = std::move(consumer);
  return *slot;
}

ChannelConsumer* ConnectionImpl::find_consumer(ConsumerId consumer_id) {
  auto it = consumers_.find(consumer_id);
  return it == consumers_.end() ? nullptr : it->second.get();
}

void ConnectionImpl::drop_consumer(ConsumerId consumer_id) {
  auto it = consumers_.find(consumer_id);
  if (it == consumers_.end()) return;
  queues_.release(it->second->queue);
  const std::shared_ptr<Farewell> farewell = std::move(it->second->farewell);
  consumers_.erase(it);
  if (farewell) farewell->one_left();
  flush_later();
}

// -- The turn's end

void ConnectionImpl::touch(Channel& c) {
  if (c.touched_) return;
  c.touched_ = true;
  touched_.push_back(&c);
  flush_later();
}

void ConnectionImpl::on_turn_end() {
  affine_.check();
  ask_for_disk();
  check_outbound();
  for (size_t i = 0; i < touched_.size(); ++i) touched_[i]->end_turn();
  touched_.clear();
  removed_.clear();
  queues_.flush();
  const size_t unsent = port_.outbound().unsent_bytes();
  if (figures_) {
    figures_->consumer_count.store(consumer_count(), std::memory_order_relaxed);
    figures_->unsent_bytes.store(unsent, std::memory_order_relaxed);
  }
  if (unsent > 0) port_.request_flush();
}

}  // namespace tarry
