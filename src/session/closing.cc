#include "session/connection_impl.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

// How long a client may take to answer connection.close.
constexpr int64_t kCloseTimeoutMs = 5'000;

constexpr size_t kReplyTextMax = 255;  // a short string
constexpr size_t kQuotedBytesKept = 24;
constexpr std::string_view kCut = "...";

/// A text that is too long for the wire, with its longest quoted part (a name, a value) cut, so
/// that what was wrong with it still arrives. Texts without such a part lose their end when they
/// are written.
std::string fitting(std::string text) {
  while (text.size() > kReplyTextMax) {
    size_t longest = 0, begin = 0;
    for (size_t open = text.find('\''); open != std::string::npos;) {
      const size_t close = text.find('\'', open + 1);
      if (close == std::string::npos) break;
      if (close - open - 1 > longest) longest = close - open - 1, begin = open + 1;
      open = text.find('\'', close + 1);
    }
    if (longest <= kQuotedBytesKept + kCut.size()) break;
    const size_t over = text.size() - kReplyTextMax + kCut.size();
    size_t kept = longest > over + kQuotedBytesKept ? longest - over : kQuotedBytesKept;
    while (kept > 0 && (static_cast<unsigned char>(text[begin + kept]) & 0xC0) == 0x80)
      --kept;  // not within a character
    text.replace(begin + kept, longest - kept, kCut);
  }
  return text;
}

std::string reply_text(const PeerError& error) {
  std::string text(reply::name(error.code));
  if (!error.text.empty()) text += " - " + error.text;
  return fitting(std::move(text));
}

}  // namespace

void ConnectionImpl::fail(Channel* c, const PeerError& error, uint32_t method) {
  if (state_ == State::closing || state_ == State::ended) return;
  if (!c || error.hard || c->number == 0) {
    if (owed_count_ > 0) return fail_later(nullptr, error, method);
    return fail_connection(error, method);
  }
  if (!c->open()) return;
  if (c->owes()) return fail_later(c, error, method);
  fail_channel(*c, error, method);
}

void ConnectionImpl::fail_channel(Channel& c, const PeerError& error, uint32_t method) {
  const uint32_t at = error.class_id != 0 ? method_id::of(error.class_id, error.method_id) : method;
  log_for("session")->info("{}: channel {} is closed: {} {}", name_, c.number, error.code,
                           reply_text(error));
  c.flush_confirms();
  c.shut();
  send(c.number, method::ChannelClose{error.code, reply_text(error), method_id::klass(at),
                                      method_id::method(at)});
}

void ConnectionImpl::fail_connection(const PeerError& error, uint32_t method) {
  const uint32_t at = error.class_id != 0 ? method_id::of(error.class_id, error.method_id) : method;
  log_for("session")->warn("{}: closed because of the client: {} {}", name_, error.code,
                           reply_text(error));
  begin_close(error.code, reply_text(error), at);
}

void ConnectionImpl::begin_close(uint16_t code, std::string_view text, uint32_t method) {
  channels_.for_each([](Channel& c) {
    if (c.open()) c.flush_confirms();
  });
  state_ = State::closing;
  if (figures_) figures_->state.store(ConnectionState::closing, std::memory_order_relaxed);
  release_all();
  heartbeat_.cancel();
  send(0, method::ConnectionClose{code, text, method_id::klass(method), method_id::method(method)});
  shard().timers().schedule(deadline_, shard().steady_now().plus_ms(kCloseTimeoutMs));
  update_reading();
}

void ConnectionImpl::close(uint16_t code, std::string text) {
  affine_.check();
  if (state_ == State::closing || state_ == State::ended) return;
  if (state_ == State::header) return port_.abort();
  begin_close(code, reply_text(PeerError::connection(code, std::move(text))), 0);
}

void ConnectionImpl::on(const method::ConnectionClose&) {
  const auto farewell = std::make_shared<Farewell>();
  farewell->say = [this] {
    if (state_ == State::ended) return;
    send(0, method::ConnectionCloseOk{});
    end(true);
  };
  release_all(farewell);
  state_ = State::closing;
  heartbeat_.cancel();
  shard().timers().schedule(deadline_, shard().steady_now().plus_ms(kCloseTimeoutMs));
  update_reading();
  farewell->one_left();
}

/// As the client asks.
void ConnectionImpl::close_channel(Channel& c) {
  const auto farewell = std::make_shared<Farewell>();
  farewell->say = [this, number = c.number, serial = c.serial] {
    const Channel* left = channels_.find(number);
    if (state_ != State::running || !left || left->serial != serial) return;
    send(number, method::ChannelCloseOk{});
    remove_channel(number);
  };
  c.shut(farewell);
  farewell->one_left();
}

/// Nothing is taken any more; what is in the outbound buffer leaves, then the port closes.
void ConnectionImpl::end(bool peer_said_goodbye) {
  state_ = State::ended;
  if (figures_) figures_->state.store(ConnectionState::closed, std::memory_order_relaxed);
  heartbeat_.cancel();
  deadline_.cancel();  // from here on the port has its own
  release_all();
  if (peer_said_goodbye) {
    port_.close_after_peer();
  } else {
    port_.close_after_flush();
  }
}

/// All that others hold for us: consumers, unacknowledged deliveries, exclusive queues.
void ConnectionImpl::release_all(const std::shared_ptr<Farewell>& farewell) {
  if (released_) return;
  released_ = true;
  channels_.for_each([&](Channel& c) {
    c.shut(farewell);
    if (figures_) figures_->remove_channel(c.number);
  });
  queues_.flush();
  if (vhost_) vhost_->connection_closed(id_);
}

void ConnectionImpl::on_closed() {
  if (gone_) return;
  affine_.check();
  gone_ = true;
  state_ = State::ended;
  heartbeat_.cancel();
  deadline_.cancel();
  release_all();
  // What the socket never took was never delivered.
  while (!auto_acks_.empty()) {
    AutoAck& first = auto_acks_.front();
    queues_.settle(*first.queue, Outcome::not_delivered, first.run);
    queues_.release(*first.queue);
    auto_acks_.pop_front();
  }
  queues_.flush();
  home_.remove_sink(id_);
  if (!announced_) return;
  figures_->state.store(ConnectionState::closed, std::memory_order_relaxed);
  if (list_) list_->remove(id_);
  access_.connection_closed(id_);
}

void ConnectionImpl::remove_channel(uint16_t number) {
  if (figures_) figures_->remove_channel(number);
  removed_.push_back(channels_.remove(number));
  flush_later();
}

}  // namespace tarry
