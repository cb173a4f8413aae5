#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

#include "tarrymq/runtime/shard.h"

namespace tarry {

/// One listening socket. Each accepted socket goes to `on_socket`, which owns the descriptor from
/// then on. When the process is out of descriptors it waits and tries again, longer each time.
/// Belongs to one shard, but may be made elsewhere before start() is posted.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(Shard& shard, boost::asio::ip::tcp::acceptor acceptor,
           std::function<void(int)> on_socket);
  void start();
  void stop();

 private:
  void wait();
  void accept_some();
  void back_off(int error);

  Shard& shard_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::function<void(int)> on_socket_;
  Timer retry_;
  int64_t back_off_ms_ = 0;
  bool stopped_ = false;
};

}  // namespace tarry
