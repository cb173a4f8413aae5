#include "http/handshake_turns.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace tarry::http {

void HandshakeTurns::take(std::function<void()> step) {
  if (taken_) return crowd_.push_back(std::move(step));
  taken_ = true;
  // Behind what is ready now; the sockets are looked at before it comes up.
  boost::asio::post(io_, [this] { next(); });
  step();
}

void HandshakeTurns::next() {
  taken_ = false;
  if (crowd_.empty()) return;
  auto step = std::move(crowd_.front());
  crowd_.pop_front();
  take(std::move(step));
}

void HandshakeTurns::let_all_go() {
  for (auto& step : std::exchange(crowd_, {})) step();
}

}  // namespace tarry::http
