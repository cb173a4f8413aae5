#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/confirms.h"
#include "session/consumer.h"
#include "session/direct_reply.h"
#include "session/owed_replies.h"
#include "session/route_cache.h"
#include "session/transaction.h"
#include "session/unacked.h"
#include "tarrymq/amqp/methods.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/session/connection_list.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

class ConnectionImpl;

/// One channel: content assembly, publishes and their confirms, consumers, unacknowledged
/// deliveries, transaction. Owned by its connection; everything on its shard. A method that fails
/// reports to the connection (fail), after which the channel may be closing: callers look at
/// `open()` again.
class Channel {
 public:
  using Consumer = ChannelConsumer;
  Channel(ConnectionImpl& connection, uint16_t number, uint32_t serial);
  ~Channel();

  const uint16_t number;
  const uint32_t serial;  // tells it from its successor on the same number
  bool open() const { return !closing_; }
  bool owes() const { return !owed_.empty(); }  // replies that wait for the disk
  bool expects_content() const { return content_.state != Content::State::none; }
  /// While it expects content: which.
  const char* expected_content() const {
    return content_.state == Content::State::header ? "header for class 60" : "body";
  }
  const std::shared_ptr<ChannelFigures>& figures() const { return figures_; }
  size_t consumer_count() const { return consumers_.size(); }

  // -- Frames (publish.cc)

  /// basic.publish, with the bytes behind its frame: header and body frame are used in place when
  /// they are all there. Returns how many of `rest` were used.
  size_t on_publish(ByteSpan payload, ByteSpan rest);
  void on_header(ByteSpan payload);
  void on_body(ByteSpan payload);

  // -- Methods (channel.cc, consume.cc, settle.cc, transaction.cc, declare.cc)
  void on_method(const Method& m);
  void settle_tag(uint64_t tag, bool multiple, Outcome outcome);

  // -- From the queues, by way of the connection
  void deliver(Consumer& consumer, std::span<const Delivery> batch);
  void on_confirm(const ConfirmRange& range);
  void on_cancelled(Consumer& consumer);
  void credit_wanted(Consumer& consumer);
  void credit_returned(Consumer& consumer, uint32_t count);

  // -- Direct reply-to (direct_reply.cc)
  bool deliver_reply(const ReplyAddress& address, ByteSpan route, ByteSpan header, ByteSpan body);
  bool hears(const ReplyAddress& address) const { return replies_ && replies_->address == address; }

  // -- For the connection

  /// Consumers are cancelled, everything unacknowledged goes back, the transaction is dropped. The
  /// number stays taken until the channel is removed.
  void shut(const std::shared_ptr<Farewell>& farewell = nullptr);
  uint64_t timeout_ms_of(const UnackedRun& run) const;  // 0: none
  std::optional<SteadyTime> timeout_of(const UnackedRun& run) const;
  /// The instant at which a delivery has been out for longer than its queue allows
  /// (x-consumer-timeout); none: never.
  std::optional<SteadyTime> next_timeout() const;
  /// Closes the channel if that instant is there.
  void check_timeouts(SteadyTime now);
  void pause_consumers();  // or resumes them: as connection and channel.flow say
  void pause_consumer(Consumer& consumer);
  void flush_confirms();
  /// What was put off to the end of the turn: credit, commits, confirms, figures.
  void end_turn();

 private:
  friend class ConnectionImpl;

  struct Content {
    enum class State : uint8_t { none, header, body } state = State::none;
    std::string route, header, body;
    bool mandatory = false;
    uint64_t body_size = 0;
  };

  // publish.cc
  bool check_header(ByteSpan payload, PropertiesView& view);
  /// `request`: with route, header and body; the rest is filled in. Answers where it went if a
  /// message of which only the body is another would go there too, by the same request; else null.
  const RouteTargets* publish(PublishRequest& request, bool mandatory, const PropertiesView& view);
  bool check_properties(const PropertiesView& view, uint32_t& ttl_ms);
  bool check_extra_keys(const PropertiesView& view, ByteSpan& header);
  const RouteTargets* targets_of(ByteSpan route, const PropertiesView& view);
  /// `whole_header`: with BCC, for those that only hold it.
  void post(const RouteTargets& targets, PublishRequest& request, bool mandatory,
            ByteSpan whole_header);
  bool is_duplicate(const RouteTargets& targets, ByteSpan route, const PropertiesView& view);
  void settle_noted(uint64_t tag, bool multiple, bool ack);
  void return_unroutable(ByteSpan route, ByteSpan header, ByteSpan body);

  // publish_alike.cc
  /// The publishes behind one that went to `targets`, while all that is before their bodies are the
  /// same bytes but for the body's size: then what was found out of that one holds for them.
  /// `first`: its method and header frame, one behind the other; `rest`: what lies behind its body.
  /// Returns how many of `rest` were used.
  size_t publish_alike(const RouteTargets& targets, PublishRequest& request, bool mandatory,
                       ByteSpan first, ByteSpan rest);

  // own_word.cc
  void settle_by_word(ByteSpan route, const PropertiesView& view);
  bool read_word(const PropertiesView& view, OwnWord& word);
  void send_word(const UnackedRun& run, OwnWord word);

  // consume.cc
  void on(const method::BasicConsume& m);
  void on(const method::BasicCancel& m);
  void on(const method::BasicGet& m);
  void consume_answered(ConsumerId id, const QueueReply& reply, bool no_wait);
  void get_answered(const std::shared_ptr<QueueHandle>& queue, const QueueReply& reply,
                    bool no_ack);
  void end_consumer(Consumer& consumer, bool tell_queue);

  // direct_reply.cc
  void consume_replies(const method::BasicConsume& m, std::string_view name, std::string tag);
  bool address_request(const PropertiesView& view, ByteSpan header, std::string& out);
  void publish_reply(ByteSpan route, bool mandatory, ByteSpan header, ByteSpan body);

  // prefetch.cc
  void on(const method::BasicQos& m);
  void share_credit();
  uint64_t credit_left() const;

  // settle.cc
  void on(const method::BasicRecover& m);
  void on(const method::BasicRecoverAsync& m);
  void recover();
  void give_back(const UnackedRun& run, Outcome outcome);
  void hold(const UnackedRun& one);

  // deliver.cc
  ByteSpan header_of(const Delivery& delivery);

  // transaction.cc
  void on(const method::ConfirmSelect& m);
  void on(const method::TxSelect& m);
  void on(const method::TxCommit& m);
  void on(const method::TxRollback& m);
  bool commit_publishes();
  void continue_commit();
  void commit_done();
  void rollback_settlements();

  // channel.cc
  void on(const method::ChannelFlow& m);
  void on(const method::ChannelFlowOk& m);
  void on(const method::BasicCancelOk& m);
  void on(const method::AccessRequest& m);

  // declare.cc
  void on(const method::ExchangeDeclare& m);
  void on(const method::ExchangeDelete& m);
  void on(const method::ExchangeBind& m);
  void on(const method::ExchangeUnbind& m);
  void on(const method::QueueDeclare& m);
  void on(const method::QueueDelete& m);
  void on(const method::QueueBind& m);
  void on(const method::QueueUnbind& m);
  void on(const method::QueuePurge& m);
  /// "" is the last queue declared on this channel; false (and 404) if there is none.
  bool resolve_queue(std::string_view name, std::string& out);
  template <class T, class F>
  VhostAnswer<T> answer(F then);
  template <class Ok>
  VhostAnswer<void> plain_answer(bool no_wait);
  /// Behind the replies that are owed, and once what it tells of is durable.
  template <class Ok>
  void reply(Stored stored, bool no_wait, const Ok& ok);
  void owe_silently(Stored stored);  // owed.cc

  ConnectionImpl& connection_;
  std::shared_ptr<ChannelFigures> figures_;
  bool closing_ = false;  // channel.close was sent: only close and close-ok count
  bool touched_ = false;  // in the connection's list for the turn's end
  bool flow_active_ = true;
  bool paused_ = false;                     // the consumers, as pause_consumers() left them
  std::optional<SteadyTime> timed_out_at_;  // closing because of it
  bool consumer_timeouts_ = false;          // a consumer came with one of its own
  std::string last_queue_;
  OwedReplies owed_;

  Content content_;
  RouteCache routes_;
  RouteTargets asked_targets_;  // scratch: of a route that is not in the cache
  struct {
    bool held = false, nowhere = false, deduplicates = false, suppressed = false;
  } routed_;                      // of the last route (Routed), none of it for one from the cache
  std::string rewritten_header_;  // scratch

  std::unique_ptr<Confirms> confirms_;  // confirm.select
  std::unique_ptr<Transaction> tx_;     // tx.select
  uint64_t tx_publish_number_ = 0;
  struct Noted {
    std::string exchange, value;
  };
  std::optional<Noted> noted_;          // by an exchange that deduplicates, of the publish at hand
  std::map<uint64_t, Noted> noted_in_;  // by publish number, until its queues have answered

  uint64_t delivery_tag_ = 0;  // last given
  Unacked unacked_;
  std::unordered_map<std::string, Consumer*> consumers_;  // by tag
  std::unique_ptr<ReplyConsumer> replies_;                // of direct reply-to

  uint16_t prefetch_ = 0;      // of consumers to come; 0: none
  uint32_t global_limit_ = 0;  // 0: none
  uint64_t limited_out_ =
      0;  // unacknowledged deliveries to consumers (settled ones of a tx included)
  uint64_t granted_out_ = 0;         // granted to consumers and not used
  std::vector<ConsumerId> waiting_;  // consumers that want credit, first come first served

  uint64_t published_ = 0, confirmed_ = 0, returned_ = 0, settled_ = 0, unroutable_ = 0;
  uint64_t delivered_ = 0, delivered_no_ack_ = 0, got_ = 0, got_no_ack_ = 0, got_empty_ = 0,
           redelivered_ = 0;
};

}  // namespace tarry
