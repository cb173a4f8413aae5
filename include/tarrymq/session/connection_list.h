#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/session/vhost_port.h"

namespace tarry {

/// One open channel as a listing shows it. Written by the connection's shard (at the end of a turn
/// in which something changed), read by any thread.
struct ChannelFigures {
  explicit ChannelFigures(uint16_t n) : number(n) {}
  const uint16_t number;
  std::atomic<uint32_t> consumers{0};
  std::atomic<uint32_t> prefetch{0}, global_prefetch{0};  // 0: no limit
  std::atomic<uint64_t> unacked{0}, unconfirmed{0}, uncommitted{0};
  std::atomic<uint64_t> published{0}, confirmed{0}, returned{0}, settled{0};
  std::atomic<uint64_t> delivered{0}, delivered_no_ack{0}, got{0}, got_no_ack{0}, got_empty{0},
      redelivered{0};
  std::atomic<uint64_t> unroutable{0};   // went to no queue and was not to be returned
  std::atomic<int64_t> active_at_ns{0};  // broker time of the last turn in which it did something
  std::atomic<bool> confirm{false}, transactional{false}, flow_active{true};
};

enum class ConnectionState : uint8_t { running, blocked, closing, closed };
const char* connection_state_name(ConnectionState state);

/// One open connection as a listing shows it: `info` is constant, the rest is read by any thread.
class ConnectionFigures {
 public:
  explicit ConnectionFigures(ConnectionInfo i) : info(std::move(i)) {}
  const ConnectionInfo info;
  std::atomic<ConnectionState> state{ConnectionState::running};
  std::atomic<uint64_t> bytes_in{0}, bytes_out{0};
  std::atomic<uint64_t> receives{0}, sends{0};  // of the socket
  std::atomic<uint64_t> unsent_bytes{0};        // that the socket did not take yet
  std::atomic<uint32_t> channel_count{0}, consumer_count{0};

  std::vector<std::shared_ptr<const ChannelFigures>> channels() const;
  void add_channel(std::shared_ptr<const ChannelFigures> channel);
  void remove_channel(uint16_t number);

 private:
  friend class ConnectionList;
  mutable std::mutex mutex_;
  std::map<uint16_t, std::shared_ptr<const ChannelFigures>>
      channels_;  // by number: 65,535 are closed one by one
  uint64_t channels_opened_ = 0;
  uint64_t past_published_ = 0, past_confirmed_ = 0, past_returned_ = 0,
           past_unroutable_ = 0;  // of closed channels
};

/// What all connections did since the start, those that are gone included.
struct ConnectionTotals {
  uint64_t bytes_in = 0, bytes_out = 0, channels_opened = 0, channels_closed = 0;
  uint64_t published = 0, confirmed = 0, returned = 0, unroutable = 0;
};

/// The connections that are open (from connection.open to the end), over all shards. One a process;
/// outlives them. Any thread may call everything here.
class ConnectionList {
 public:
  std::vector<std::shared_ptr<const ConnectionFigures>> all() const;
  std::shared_ptr<const ConnectionFigures> find(ConnectionId id) const;
  size_t size() const;
  ConnectionTotals totals() const;
  std::vector<std::string> alarms() const;  // the reasons that are on, as given to set_blocked

  /// connection.close from the broker's side (320 by the administrator or at shutdown).
  /// Asynchronous: the connection leaves the list once it has ended. False if there is no such
  /// connection.
  bool close(ConnectionId id, uint16_t code, const std::string& text);
  void close_all(uint16_t code, const std::string& text);
  /// Alarms, told apart by their reason: Connection::set_blocked on every connection, those to come
  /// included, while any is on.
  void set_blocked(bool blocked, const std::string& reason);

  // -- For the session room
  void add(std::shared_ptr<ConnectionFigures> figures, QueueShard& home);
  void remove(ConnectionId id);
  /// Who hears replies (direct reply-to), by the secret of the address. Any thread.
  void add_reply_consumer(uint64_t secret);
  void remove_reply_consumer(uint64_t secret);
  bool has_reply_consumer(uint64_t secret) const;
  QueueShard* home_of(ConnectionId id) const;  // null: not there

 private:
  void tell_alarms(ConnectionId id, QueueShard& home) const;  // under the lock
  static void add_up(ConnectionTotals& sum, const ConnectionFigures& figures);
  struct Entry {
    std::shared_ptr<ConnectionFigures> figures;
    QueueShard* home;
  };
  mutable std::mutex mutex_;
  std::unordered_map<ConnectionId, Entry> entries_;
  std::vector<std::string> alarms_;
  ConnectionTotals past_;  // of connections that are gone
  std::unordered_set<uint64_t> reply_consumers_;
};

}  // namespace tarry
