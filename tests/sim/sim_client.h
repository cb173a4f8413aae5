#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/sim_link.h"
#include "sim/sim_model.h"
#include "sim/sim_random.h"
#include "tarrymq/amqp/frame_decoder.h"
#include "tarrymq/amqp/frame_encoder.h"
#include "tarrymq/amqp/methods.h"
#include "tarrymq/amqp/properties.h"

namespace tarry::sim {

enum class Role : uint8_t { publisher, consumer, getter, transactor, admin, churner, drainer };
const char* role_name(Role role);

/// What clients share.
struct ClientsWorld {
  Model& model;
  Random& random;
  uint32_t& next_number;  // of the next message
  std::function<void(const std::string&)> trace;
  std::vector<size_t> published;  // queues that clients publish to
  std::vector<size_t> fanout;     // those behind the exchange "both"
  size_t churned = 0;             // the queue that comes and goes
  bool churned_there = false;     // at the end
  size_t rebound = 0;             // of those behind "both", the one whose binding comes and goes
  bool rebinding = false;         // somebody waits for its answer
  bool disk_trouble = false;      // transactions would fail: none meanwhile
  bool all_leave = false;         // what one gives back unseen may come to another out of order
  std::function<std::string(size_t)> declare_arguments;  // encoded table of a queue
};

struct TextSink {
  std::string text;
  std::byte* append(size_t size) {
    const size_t at = text.size();
    text.resize(at + size);
    return reinterpret_cast<std::byte*>(text.data()) + at;
  }
};

/// One connection with one channel. What it writes and reads it tells the model: what it asked for
/// at the moment at which the broker took the bytes, what it got at the moment at which it reads
/// it.
class SimClient {
 public:
  SimClient(ClientsWorld& world, uint64_t serial, Role role);

  SimLink::Ends ends();
  void open(std::shared_ptr<SimLink> link);
  SimLink& link() { return *link_; }
  Role role() const { return role_; }
  uint64_t serial() const { return serial_; }

  /// Perhaps writes something.
  void act();
  /// Reads what has come.
  void read();
  /// The process at the other end is gone: reads what had come.
  void on_crash();
  bool over() const { return over_; }
  size_t unconfirmed() const { return unconfirmed_.size() + words_.size(); }
  bool waiting() const { return waiting_; }

  static std::string body_of(uint32_t number);

 private:
  struct Held {
    CopyKey copy;
    bool in_transaction = false;
  };
  struct Incoming {
    uint32_t method = 0;
    std::string payload, header, body;
    uint64_t end = 0;  // where in the stream
    uint64_t body_size = 0;
    bool seen_already = false;
  };

  template <class M>
  void say(const M& m, uint16_t channel = 1) {
    TextSink sink;
    append_method(sink, channel, m);
    send(sink.text);
  }
  void send(const std::string& bytes) {
    written_ += bytes.size();
    link_->write(bytes);
  }
  void frame(FrameType type, std::string_view payload);
  /// Runs `what` once the broker has taken all that was written until now.
  void when_taken(std::function<void()> what);
  void when_taken_waiting(std::function<void()> what);
  void on_consumed(uint64_t consumed);
  void on_link_end();

  void greet();
  void set_up();
  void publish_some();
  void publish_one(bool in_transaction);
  void settle_some();
  void settle_one(uint64_t tag, Verdict verdict, bool multiple);
  void settle_by_word(uint64_t tag, Verdict verdict);
  /// The number of the last event.
  uint64_t apply(uint64_t tag, bool multiple, const Settlement& settlement);
  void transact();
  void commit();
  void administer();
  void churn();
  void rebind();
  void use(size_t queue);

  void take(const std::string& bytes, bool ahead);
  void take_frame(FrameType type, ByteSpan payload, uint64_t end, bool ahead);
  void finish_content(bool ahead);
  void on_method(uint32_t id, ByteSpan payload);
  void on_delivery(const Incoming& in, bool got, bool ahead);
  void on_word_confirm(uint64_t tag, bool multiple, bool ok);
  void on_confirm(uint64_t tag, bool multiple, bool ok);
  void return_held(Return how);
  void look_ahead();
  uint64_t now_ms() { return link_->shard().now().floor_ms(); }
  uint64_t now_rounded_up_ms() {
    return link_->shard().now().ceil_ms();
  }  // what a delay is counted from (retry-spec 23)
  std::string who() const;
  void trace(const std::string& what) const { world_.trace(who() + what); }

  ClientsWorld& world_;
  Model& model_;
  Random& random_;
  const uint64_t serial_;
  const Role role_;
  std::shared_ptr<SimLink> link_;
  uint64_t written_ = 0;
  std::deque<std::pair<uint64_t, std::function<void()>>> taken_callbacks_;

  // What was read
  std::string partial_;
  uint64_t partial_at_ = 0;  // offset of partial_[0] in the stream
  uint64_t seen_until_ = 0;  // deliveries up to here were looked at ahead
  Incoming content_;
  bool over_ = false, waiting_ = false, ready_ = false;

  std::set<size_t> used_;                    // queues it consumes or gets from
  std::map<std::string, size_t> consumers_;  // those that are there
  struct Tag {
    size_t queue = 0;
    bool no_ack = false;
  };
  std::map<std::string, Tag> tags_;                                  // all that ever were
  std::map<std::string, std::pair<uint32_t, uint32_t>> last_fresh_;  // tag and priority: number
  bool no_ack_ = false, transactional_ = false;
  std::map<uint64_t, Held> held_;
  std::vector<CopyKey>
      taken_together_;  // without acknowledgement, since the socket had nothing left to take
  std::set<uint64_t> unsettled_;
  std::optional<size_t> get_from_;

  uint64_t next_publish_ = 1;
  std::map<uint64_t, Model::Publish> unconfirmed_;
  /// Settlements by publishes to amq.retry that are not confirmed yet; in a channel with confirms.
  struct Word {
    CopyKey copy;
    uint64_t touched = 0;  // 0: not taken yet
  };
  bool confirms_words_ = false;
  uint64_t next_word_ = 1;
  std::map<uint64_t, Word> words_;
  std::vector<Model::Publish> transaction_;
  std::vector<std::pair<uint64_t, Settlement>> transaction_settles_;
  struct Commit {
    std::vector<Model::Publish> publishes;
    std::vector<CopyKey> settled;
  };
  std::optional<Commit> committing_;
  std::optional<size_t> purging_;
  std::optional<Model::Binding> rebinding_to_;
  enum class Churn : uint8_t { missing, declaring, there, deleting } churn_ = Churn::missing;
  size_t returns_ = 0, returns_expected_ = 0;
  std::map<uint64_t, bool> returned_;
};

}  // namespace tarry::sim
