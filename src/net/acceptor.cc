#include "net/acceptor.h"

#include <sys/socket.h>

#include <algorithm>

#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr int64_t kFirstBackOffMs = 50;
constexpr int64_t kLongestBackOffMs = 1'000;

}  // namespace

Acceptor::Acceptor(Shard& shard, boost::asio::ip::tcp::acceptor acceptor,
                   std::function<void(int)> on_socket)
    : shard_(shard),
      acceptor_(std::move(acceptor)),
      on_socket_(std::move(on_socket)),
      retry_([this] { wait(); }) {}

void Acceptor::start() { wait(); }

void Acceptor::stop() {
  stopped_ = true;
  retry_.cancel();
  boost::system::error_code ignored;  // closing what may be closed already
  acceptor_.close(ignored);
}

void Acceptor::wait() {
  if (stopped_) return;
  acceptor_.async_wait(boost::asio::ip::tcp::acceptor::wait_read,
                       [self = shared_from_this()](const boost::system::error_code& ec) {
                         if (!ec && !self->stopped_) self->accept_some();
                       });
}

void Acceptor::accept_some() {
  for (int n = 0; n < kAcceptsPerTurn; ++n) {
    int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      back_off_ms_ = 0;
      on_socket_(fd);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return wait();
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return back_off(errno);
      default:  // the peer gave up before we came, or an error of its network: on to the next
        break;
    }
  }
  wait();
}

void Acceptor::back_off(int error) {
  if (back_off_ms_ == 0) {
    log_for("net")->warn(
        "no new connections for now: {}; raise the limit of open files or close some",
        boost::system::error_code(error, boost::system::system_category()).message());
  }
  back_off_ms_ = std::clamp(back_off_ms_ * 2, kFirstBackOffMs, kLongestBackOffMs);
  shard_.timers().schedule(retry_, shard_.steady_now().plus_ms(back_off_ms_));
}

}  // namespace tarry
