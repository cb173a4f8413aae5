#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "http/handshake_turns.h"
#include "http/message.h"
#include "tarrymq/http/management_server.h"

namespace tarry::http {

class HttpConnection;

/// What all connections of a server share. Held by each of them, so that a late answer finds
/// something to be dropped by. Server's thread, but for post().
struct Core {
  Core(const HttpSettings& s, Api& a) : settings(s), api(a) {}

  const HttpSettings settings;
  Api& api;
  boost::asio::io_context io{1};
  std::unordered_set<HttpConnection*> connections;
  /// Of these, who keeps us waiting (for a handshake, a request, or that an answer is taken): since
  /// when is their order. When there are too many, the first makes room for a new one.
  std::list<HttpConnection*> waited_for;
  HandshakeTurns handshakes{io};
  bool stopping = false;
  uint64_t body_bytes_reserved = 0;  // of large bodies being read (kBodyBudget)

  /// Any thread. After close() it drops `work`.
  void post(std::function<void()> work);
  /// Any thread: the last holder of a connection let go of it. Destroyed on the server's thread, or
  /// here after close().
  void dispose(HttpConnection* connection);
  /// No more posts; what was posted is dropped, so that nothing in the io_context holds this core.
  void close();

 private:
  std::mutex mutex_;
  bool closed_ = false;
};

/// Most bytes of large bodies that are read at once; more: 503.
inline constexpr uint64_t kBodyBudget = 256ull << 20;
inline constexpr uint64_t kSmallBody = 1 << 20;  // not counted

}  // namespace tarry::http
