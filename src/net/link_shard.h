#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "net/tls_session.h"
#include "tarrymq/queue/queue_shard.h"
#include "tarrymq/runtime/networks.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/session/connection.h"
#include "tarrymq/session/connection_list.h"

namespace tarry {

class TcpLink;
class Greeting;

/// What sockets of one listener have in common. Outlives them; immutable.
struct ListenerKind {
  const TlsContext* tls = nullptr;          // null: none
  const Networks* proxy_sources = nullptr;  // who sends PROXY headers; null or empty: nobody
};

/// Who is at the other end of a socket, as the kernel sees it.
Connection::Peer peer_of(const boost::asio::ip::tcp::socket& socket);

/// What the links of one shard share: the receive buffer and the set of them. Own shard, but for
/// `open_links`.
class LinkShard {
 public:
  /// Most that one recv takes of one connection in a turn.
  static constexpr size_t kReceiveBytes = 256 << 10;
  /// While messages are small: a turn takes in no more than it can hand on, or consumers would
  /// starve.
  static constexpr size_t kSmallReceiveBytes = 64 << 10;
  static constexpr size_t kSmallFrameBytes = 8 << 10;
  /// A link keeps at most this much of a partial frame beside the shared buffer; beyond it receives
  /// into its own.
  static constexpr size_t kCopiedBytes = 64 << 10;

  LinkShard(QueueShard& home, AccessPort& access, ConnectionList& list,
            const SessionSettings& settings, std::atomic<size_t>& open_links);
  ~LinkShard();

  /// Takes a connected socket over, which counts among `open_links` already. On the shard.
  void adopt(int fd, const ListenerKind& kind);
  /// AMQP begins.
  void begin(boost::asio::ip::tcp::socket socket, Connection::Peer peer,
             std::unique_ptr<TlsSession> tls);
  void abort_all();
  /// A step of a TLS handshake may be a signature, a millisecond of nothing else: one or two a
  /// turn, or a crowd of new clients would hold up all others. False: `greeting` is told when its
  /// turn has come.
  bool may_shake_hands(Greeting& greeting);

  QueueShard& home() { return home_; }
  Shard& shard() { return home_.shard(); }
  AccessPort& access() { return access_; }
  ConnectionList& list() { return list_; }
  const SessionSettings& settings() const { return settings_; }
  std::byte* buffer() { return buffer_.data(); }

  void remove(TcpLink& link);
  void remove(Greeting& greeting);

 private:
  void next_of_the_crowd();

  QueueShard& home_;
  AccessPort& access_;
  ConnectionList& list_;
  const SessionSettings& settings_;
  std::atomic<size_t>& open_links_;
  std::vector<std::byte> buffer_;
  std::unordered_map<TcpLink*, std::shared_ptr<TcpLink>> links_;
  std::unordered_map<Greeting*, std::shared_ptr<Greeting>> greetings_;
  std::deque<std::weak_ptr<Greeting>> crowd_;  // wait for their turn, the first come first
  bool shook_hands_ = false;                   // this turn; the next of the crowd is in the mail
};

}  // namespace tarry
