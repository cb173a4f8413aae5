#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>

namespace tarry::http {

/// Whose TLS handshake goes on next. A step of one may be a signature, a millisecond of nothing
/// else: between two of them all else that is ready has its turn, or a crowd of new clients would
/// hold up those who are in already. Server's thread.
class HandshakeTurns {
 public:
  explicit HandshakeTurns(boost::asio::io_context& io) : io_(io) {}

  /// Runs `step` now, or in its turn: the first come first.
  void take(std::function<void()> step);
  /// Runs what waits now; each is expected to find that it has nothing to do any more.
  void let_all_go();

 private:
  void next();

  boost::asio::io_context& io_;
  std::deque<std::function<void()>> crowd_;
  bool taken_ = false;  // in this round of the io_context; the next of the crowd is posted
};

}  // namespace tarry::http
