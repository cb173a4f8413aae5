#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/channel.h"
#include "session/channel_table.h"
#include "session/consumer.h"
#include "session/queue_refs.h"
#include "tarrymq/amqp/frame_decoder.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/amqp/methods.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"
#include "tarrymq/session/connection_list.h"

namespace tarry {

/// The connection's state machine. Answers of the vhost and of queues find it by its id at the
/// QueueShard, so that one that comes too late finds nothing.
class ConnectionImpl final : public Connection, public DeliverySink, public TurnHook {
 public:
  using Consumer = ChannelConsumer;
  ConnectionImpl(QueueShard& home, AccessPort& access, const SessionSettings& settings, Peer peer,
                 OutboundPort& port, ConnectionList* list);
  ~ConnectionImpl() override;

  /// Null when it is gone. On the home shard; `id` must be a connection's.
  static ConnectionImpl* find(QueueShard& home, ConnectionId id);

  // -- Connection
  ConnectionId id() const override { return id_; }
  size_t on_bytes(ByteSpan bytes) override;
  void on_sent() override;
  void on_closed() override;
  void close(uint16_t code, std::string text) override;
  void set_blocked(bool blocked, std::string reason) override;

  // -- DeliverySink
  void on_deliver(ConsumerId consumer, std::span<const Delivery> batch) override;
  void on_confirm(std::span<const ConfirmRange> ranges) override;
  void on_reply(uint64_t token, const QueueReply& reply) override;
  void on_cancelled(ConsumerId consumer) override;
  void on_credit_wanted(ConsumerId consumer) override;
  void on_credit_returned(ConsumerId consumer, uint32_t count) override;
  void on_room() override;

  // -- TurnHook
  void on_turn_end() override;

  // -- For channels

  QueueShard& home() { return home_; }
  Shard& shard() { return home_.shard(); }
  VhostPort& vhost() { return *vhost_; }
  const Login& login() const { return *login_; }
  const SessionSettings& settings() const { return settings_; }
  Requester requester() { return {&home_, id_}; }
  Actor actor() { return {login_.get(), id_, requester()}; }
  QueueRefs& queues() { return queues_; }
  ConnectionList* list() { return list_; }  // may be null
  uint32_t frame_max() const { return frame_max_; }
  uint32_t method() const { return method_; }
  bool client_takes_cancel() const { return capability_cancel_; }
  /// True: basic.qos without `global` limits the channel, live, as the specification has it, and
  /// not each new consumer.
  bool qos_is_of_the_channel() const { return qos_is_of_the_channel_; }
  const std::string& name() const { return name_; }

  template <class M>
  void send(uint16_t channel, const M& m) {
    append_method(port_.outbound(), channel, m);
    flush_later();
  }
  OutboundBuffer& outbound() { return port_.outbound(); }
  void flush_later() { shard().at_turn_end(TurnStage::connections, *this); }
  void touch(Channel& channel);

  /// What a peer did wrong becomes channel.close or connection.close. `method`: the offending one.
  /// After the replies that are owed before it.
  void fail(Channel* channel, const PeerError& error, uint32_t method);
  void fail(Channel* channel, const PeerError& error) { fail(channel, error, method_); }

  /// No input is taken until as many end_wait() have come.
  void begin_wait() { ++waits_; }
  void end_wait();
  /// For answers: the channel if it is still that one and open.
  Channel* open_channel(uint16_t number, uint32_t serial);

  // -- Replies that wait for the disk (owed.cc, owed_replies.h)

  /// One more change that has taken effect and is not durable.
  uint64_t number_change();
  /// The channel owes one more reply; `first`: it owed none.
  void note_owed(Channel& channel, bool first);
  /// The channel ends, and owed so many.
  void forget_owed(Channel& channel, size_t count);

  /// A token for a command to a queue; `then` runs with its reply, and with a null channel when the
  /// channel that asked is gone. `waits`: no input is taken until then.
  uint64_t expect_reply(Channel& channel, bool waits,
                        std::function<void(Channel*, const QueueReply&)> then);
  /// For a reply that no one waits for; runs whatever became of the channel.
  uint64_t expect_reply(std::function<void(const QueueReply&)> then);

  Consumer& add_consumer(Channel& channel, std::string tag,
                         const std::shared_ptr<QueueHandle>& queue);
  Consumer* find_consumer(ConsumerId id);
  void drop_consumer(ConsumerId id);
  uint32_t consumer_count() const { return static_cast<uint32_t>(consumers_.size()); }

  /// An auto-ack delivery was encoded: it is settled once the socket took it.
  void settle_when_sent(QueueRef& queue, const SettleRun& one);
  bool send_reply(ByteSpan route, ByteSpan header, ByteSpan body);
  bool reply_name_known(std::string_view name);
  /// A delivery from a queue with a consumer timeout went out.
  void watch_timeouts(const Channel& channel, const UnackedRun& run);
  /// Pauses the consumers when too much is unsent.
  void check_outbound();
  bool outbound_full() const { return outbound_full_; }
  void note_publisher();
  bool takes_input() const {
    if (state_ == State::closing) return true;
    return state_ != State::ended && waits_ == 0 && !held_up_ && !stopped_ && !held_by_owed_ &&
           !unread_ && failures_.empty();
  }

 private:
  /// What is unsent behind the last delivery are answers and returned messages: of a peer that does
  /// not read them, no more is asked for. Deliveries do not count: a client may well send something
  /// large while something large is on its way to it, and read only then.
  uint64_t unread_from() const { return std::max(port_.outbound().sent(), delivered_up_to_); }
  uint64_t unread_bytes_max() const { return uint64_t{4} * settings_.outbound_high_bytes; }

  enum class State : uint8_t {
    header,      // waits for the protocol header
    start,       // connection.start was sent
    logging_in,  // start-ok came, access is asked
    tune,        // tune was sent
    opening,     // tune-ok came, waits for open
    running,
    closing,  // connection.close was sent, waits for close-ok
    ended,    // nothing is taken any more; the port closes when it has flushed
  };
  struct PendingReply {
    uint64_t token;
    uint16_t channel;
    uint32_t serial;  // 0: no channel
    uint32_t method;
    bool waits;
    std::function<void(Channel*, const QueueReply&)> then;
  };
  /// An error that waits until the replies before it are out.
  struct LaterFailure {
    uint16_t channel;
    uint32_t serial;  // 0: of the connection
    PeerError error;
    uint32_t method;
  };
  struct AutoAck {
    uint64_t end;  // position in the outbound stream behind the last of them
    QueueRef* queue;
    SettleRun run;
  };

  // connection.cc
  size_t take_frames(ByteSpan bytes);
  size_t on_method_frame(const DecodedFrame& frame, ByteSpan rest);
  void on_content_frame(const DecodedFrame& frame);
  void on_connection_method(const Method& m);
  void on_channel_method(uint16_t number, const DecodedFrame& frame, Channel* channel);
  void update_reading();
  Channel* channel(uint16_t number) { return channels_.find(number); }

  // closing.cc
  void fail_connection(const PeerError& error, uint32_t method);
  void fail_channel(Channel& channel, const PeerError& error, uint32_t method);
  void begin_close(uint16_t code, std::string_view text, uint32_t method);
  void end(bool peer_said_goodbye = false);
  void release_all(const std::shared_ptr<Farewell>& farewell = nullptr);
  void close_channel(Channel& channel);
  void remove_channel(uint16_t number);
  void on(const method::ConnectionClose& m);

  // owed.cc
  bool is_held(const DecodedFrame& frame);
  void ask_for_disk();
  void changes_stored(uint64_t change);
  void fail_later(Channel* channel, const PeerError& error, uint32_t method);
  void release_hold();

  // handshake.cc
  size_t on_protocol_header(ByteSpan bytes);
  void on(const method::ConnectionStartOk& m);
  void log_in_answered(std::unique_ptr<Login> login);
  void refuse_log_in();
  void on(const method::ConnectionTuneOk& m);
  void on(const method::ConnectionOpen& m);
  void on(const method::ConnectionUpdateSecret& m);
  void open_channel_method(uint16_t number);

  // direct_reply.cc
  bool take_reply(const ReplyAddress& address, ByteSpan route, ByteSpan header, ByteSpan body);

  void tell_blocked();

  // heartbeat.cc
  void start_heartbeat();
  void on_heartbeat_timer();

  // timeouts.cc
  void check_timeouts();

  QueueShard& home_;
  AccessPort& access_;
  const SessionSettings& settings_;
  const Peer peer_;
  OutboundPort& port_;
  ConnectionList* const list_;
  const ConnectionId id_;
  ShardAffine affine_;

  State state_ = State::header;
  uint32_t frame_max_;  // before tune: 4096
  uint16_t channel_max_ = 0;
  uint16_t heartbeat_s_ = 0;
  uint32_t method_ = 0;  // the one being worked on (class and method id)
  std::string name_, mechanism_;
  FieldTable client_properties_;
  bool qos_is_of_the_channel_ = false;
  bool capability_cancel_ = false, capability_blocked_ = false, capability_auth_close_ = false;
  std::unique_ptr<Login> login_;
  std::shared_ptr<VhostPort> vhost_;
  std::shared_ptr<ConnectionFigures> figures_;
  bool announced_ = false;  // to access_ and list_

  ChannelTable channels_;
  std::vector<std::unique_ptr<Channel>>
      removed_;  // may still be on the stack: freed at the turn's end
  std::vector<Channel*> touched_;
  uint32_t next_serial_ = 1;

  QueueRefs queues_;
  std::unordered_map<ConsumerId, std::unique_ptr<Consumer>> consumers_;
  std::vector<PendingReply> pending_replies_;
  uint64_t next_token_ = 1;
  std::deque<AutoAck> auto_acks_;
  bool auto_ack_open_ = false;  // the last entry may grow

  // Changes of the topology, by number: given out, those whose durability was asked for, durable.
  uint64_t last_change_ = 0, asked_change_ = 0, stored_change_ = 0;
  size_t owed_count_ = 0;               // replies, of all channels
  std::vector<Channel*> owing_;         // channels that owe some
  std::vector<LaterFailure> failures_;  // no input is taken while there are any
  bool held_by_owed_ = false;           // the next frame waits for replies that are owed

  int waits_ = 0;
  bool in_on_bytes_ = false;
  bool reading_ = true;
  // An alarm is on (its reason). Who has published is told so; who publishes while it is on is read
  // from no longer, so that one who only consumes, or has done with publishing, is not held up.
  std::optional<std::string> alarm_;
  bool publisher_ = false, told_blocked_ = false, stopped_ = false;
  bool held_up_ = false;  // its publishes are waiting for another shard
  bool outbound_full_ = false;
  bool unread_ = false;           // so many answers are unsent that no more input is taken
  uint64_t delivered_up_to_ = 0;  // of what was appended to outbound()
  bool released_ = false;
  bool gone_ = false;  // on_closed was called

  SteadyTime last_heard_;
  uint64_t sent_at_last_beat_ = 0;
  uint64_t bytes_in_ = 0, receives_ = 0, sends_ = 0;
  Timer deadline_;  // handshake, later the close
  Timer heartbeat_;
  Timer timeouts_;  // the next look at what is out for too long
  SteadyTime timeouts_at_;
};

}  // namespace tarry
