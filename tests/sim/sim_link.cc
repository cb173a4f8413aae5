#include "sim/sim_link.h"

#include <algorithm>

#include "tarrymq/runtime/bytes.h"

namespace tarry::sim {

SimLink::SimLink(Broker& broker, size_t home, Shard& shard, const SessionSettings& settings,
                 size_t window, Ends ends)
    : broker_(broker),
      home_(home),
      shard_(shard),
      settings_(settings),
      window_(window),
      ends_(std::move(ends)) {}

SimLink::~SimLink() = default;

void SimLink::start() {
  shard_.post([self = shared_from_this()] {
    Connection::Peer peer{"127.0.0.1", 40000, 5672, true, nullptr};
    self->connection_ =
        Connection::create(self->broker_.queue_shard(self->home_), self->broker_.access(),
                           self->settings_, peer, *self, &self->broker_.connections());
  });
}

bool SimLink::arrive(size_t most) {
  if (ended_ || closing_ || wire_.empty()) return false;
  size_t n = std::min(most, wire_.size());
  shard_.post([self = shared_from_this(), bytes = wire_.substr(0, n)] {
    self->pending_ += bytes;
    self->offer();
  });
  wire_.erase(0, n);
  return true;
}

void SimLink::offer() {
  offer_wanted_ = false;
  if (!connection_ || !reading_ || closing_ || failed_ || pending_.empty()) return;
  std::string bytes;
  bytes.swap(pending_);
  size_t used = connection_->on_bytes(as_bytes(bytes));
  pending_.insert(0, bytes, used);
  consumed_ += used;
  ends_.consumed(consumed_);
}

std::string SimLink::read() {
  std::string out;
  out.swap(socket_);
  if (!ended_ && outbound_.unsent_bytes() > 0) {
    shard_.post([self = shared_from_this()] { self->request_flush(); });
  }
  return out;
}

uint64_t SimLink::stamp_ms(uint64_t offset) const {
  auto it = std::lower_bound(stamps_.begin(), stamps_.end(), offset,
                             [](const auto& stamp, uint64_t at) { return stamp.first < at; });
  return it == stamps_.end() ? 0 : it->second;
}

std::string SimLink::look_ahead() const {
  return socket_ + std::string(as_text(outbound_.unsent()));
}

void SimLink::cut() {
  shard_.post([self = shared_from_this()] { self->finish(); });
}

void SimLink::destroy() {
  ended_ = true;
  connection_.reset();
}

void SimLink::request_flush() {
  if (!ended_) shard_.at_turn_end(TurnStage::connections, *this);
}

void SimLink::set_reading(bool on) {
  if (reading_ == on) return;
  reading_ = on;
  if (!on) return;
  offer_wanted_ = true;
  request_flush();
}

void SimLink::close_after_flush() {
  closing_ = true;
  reading_ = false;
  request_flush();
}

void SimLink::abort() {
  failed_ = true;
  request_flush();
}

void SimLink::on_turn_end() {
  auto self = shared_from_this();
  if (failed_) return finish();
  if (offer_wanted_) offer();
  if (ended_) return;
  ByteSpan bytes = outbound_.unsent();
  size_t n = std::min(bytes.size(), window_ - std::min(window_, socket_.size()));
  if (n > 0) {
    socket_ += as_text(bytes.first(n));
    outbound_.consume(n);
    uint64_t now_ms = shard_.now().floor_ms();
    if (!stamps_.empty() && stamps_.back().second == now_ms) {
      stamps_.back().first = outbound_.sent();
    } else {
      stamps_.emplace_back(outbound_.sent(), now_ms);
    }
    connection_->on_sent();
  }
  if (closing_ && outbound_.unsent_bytes() == 0) finish();
}

void SimLink::finish() {
  if (ended_) return;
  ends_.ended();
  ended_ = true;
  auto connection = std::move(connection_);
  if (connection) connection->on_closed();
}

}  // namespace tarry::sim
