#include "session/connection_impl.h"
#include "tarrymq/runtime/limit_hits.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr std::string_view kMechanisms = "PLAIN AMQPLAIN";
constexpr std::string_view kMechanismsWithCertificate = "PLAIN AMQPLAIN EXTERNAL";

std::string server_properties() {
  FieldTable capabilities;
  for (const char* name : {"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
                           "consumer_cancel_notify", "connection.blocked", "consumer_priorities",
                           "authentication_failure_close", "per_consumer_qos", "direct_reply_to"}) {
    capabilities.set(name, FieldValue::boolean(true));
  }
  FieldTable properties;
  properties.set("capabilities", FieldValue::table(std::move(capabilities)));
  properties.set("product", FieldValue::text("TarryMQ"));
  properties.set("version", FieldValue::text(TARRYMQ_VERSION));
  properties.set("platform", FieldValue::text("C++"));
  return properties.encode();
}

struct Credentials {
  std::string user, password;
};

/// RFC 4616: [authorization identity] NUL user NUL password. Nobody here may act for another, so
/// that an identity must be the user's own.
bool parse_plain(std::string_view response, Credentials& out) {
  const size_t first = response.find('\0');
  if (first == std::string_view::npos) return false;
  const size_t second = response.find('\0', first + 1);
  if (second == std::string_view::npos) return false;
  out.user = response.substr(first + 1, second - first - 1);
  out.password = response.substr(second + 1);
  return first == 0 || response.substr(0, first) == out.user;
}

/// A field table without its length, with LOGIN and PASSWORD.
bool parse_amqplain(std::string_view response, Credentials& out) {
  std::string table(4, '\0');
  store_be(reinterpret_cast<std::byte*>(table.data()), static_cast<uint32_t>(response.size()));
  table += response;
  auto decoded = FieldTable::decode(as_bytes(table));
  if (!decoded) return false;
  const FieldValue* user = decoded->find("LOGIN");
  const FieldValue* password = decoded->find("PASSWORD");
  if (!user || !user->text() || !password || !password->text()) return false;
  out.user = *user->text();
  out.password = *password->text();
  return true;
}

PeerError out_of_range(const char* what, uint64_t got, const char* side, uint64_t allowed) {
  return PeerError::connection(
      reply::not_allowed, std::string("negotiated ") + what + " = " + std::to_string(got) + " is " +
                              (side[0] == 'm' && side[1] == 'i' ? "lower" : "higher") +
                              " than the " + side + " allowed value (" + std::to_string(allowed) +
                              ")");
}

}  // namespace

size_t ConnectionImpl::on_protocol_header(ByteSpan bytes) {
  switch (check_protocol_header(bytes)) {
    case ProtocolHeaderStatus::accepted:
      break;
    case ProtocolHeaderStatus::need_more:
      return 0;
    case ProtocolHeaderStatus::refused:
      port_.outbound().append(as_bytes(kProtocolHeader));
      flush_later();
      end();
      return bytes.size();
  }
  static const std::string properties = server_properties();
  const bool external = peer_.tls && peer_.tls->user;
  send(0, method::ConnectionStart{0, 9, as_bytes(properties),
                                  external ? kMechanismsWithCertificate : kMechanisms, "en_US"});
  state_ = State::start;
  return kProtocolHeader.size();
}

void ConnectionImpl::on(const method::ConnectionStartOk& m) {
  mechanism_ = m.mechanism;
  if (auto properties = FieldTable::decode(m.client_properties))
    client_properties_ = std::move(*properties);
  // kombu goes by the broker's name: only of "RabbitMQ" it knows that basic.qos without `global` is
  // for new consumers. Celery then raises its prefetch on the channel while it holds tasks for
  // later, and would stop if that had no effect.
  if (const FieldValue* value = client_properties_.find("product"); value && value->text())
    qos_is_of_the_channel_ = *value->text() == "py-amqp";
  if (const FieldValue* value = client_properties_.find("capabilities"); value && value->table()) {
    auto announced = [table = value->table()](const char* name) {
      const FieldValue* capability = table->find(name);
      return capability && capability->boolean().value_or(false);
    };
    capability_cancel_ = announced("consumer_cancel_notify");
    capability_blocked_ = announced("connection.blocked");
    capability_auth_close_ = announced("authentication_failure_close");
  }
  auto answered = [home = &home_, connection_id = id_](std::unique_ptr<Login> login) {
    if (auto* connection = find(*home, connection_id))
      connection->log_in_answered(std::move(login));
  };
  LoginOrigin from{peer_.host, peer_.loopback};
  if (m.mechanism == "EXTERNAL" && peer_.tls && peer_.tls->user) {
    state_ = State::logging_in;
    begin_wait();
    return access_.log_in_verified(*peer_.tls->user, std::move(from), std::move(answered));
  }
  Credentials credentials;
  bool parsed = false;
  if (m.mechanism == "PLAIN") {
    parsed = parse_plain(m.response, credentials);
  } else if (m.mechanism == "AMQPLAIN") {
    parsed = parse_amqplain(m.response, credentials);
  } else {
    return fail(nullptr,
                PeerError::connection(reply::command_invalid,
                                      "unknown authentication mechanism '" + mechanism_ + "'"));
  }
  if (!parsed) return refuse_log_in();
  state_ = State::logging_in;
  begin_wait();
  access_.log_in(std::move(credentials.user), std::move(credentials.password), std::move(from),
                 std::move(answered));
}

void ConnectionImpl::log_in_answered(std::unique_ptr<Login> login) {
  if (state_ == State::logging_in) {
    if (login) {
      login_ = std::move(login);
      state_ = State::tune;
      frame_max_ = settings_.frame_max;  // a client may use what was offered from here on
      send(0, method::ConnectionTune{settings_.channel_max, settings_.frame_max,
                                     settings_.heartbeat_s});
    } else {
      method_ = method_id::connection_start_ok;
      refuse_log_in();
    }
  }
  end_wait();
}

void ConnectionImpl::refuse_log_in() {
  log_for("session")->warn("{}: log-in refused, mechanism {}", name_, mechanism_);
  if (!capability_auth_close_) return end();
  fail(nullptr, PeerError::connection(reply::access_refused,
                                      "Login was refused using authentication mechanism " +
                                          mechanism_ + ". For details see the broker logfile."));
}

void ConnectionImpl::on(const method::ConnectionTuneOk& m) {
  const uint32_t offered = settings_.frame_max;
  if (m.frame_max != 0 && m.frame_max < kFrameMaxLowest) {
    return fail(nullptr, out_of_range("frame_max", m.frame_max, "minimum", kFrameMaxLowest));
  }
  if (m.frame_max > offered)
    return fail(nullptr, out_of_range("frame_max", m.frame_max, "maximum", offered));
  const uint16_t channels = settings_.channel_max;
  if (channels != 0 && m.channel_max > channels) {
    return fail(nullptr, out_of_range("channel_max", m.channel_max, "maximum", channels));
  }
  frame_max_ = m.frame_max == 0 ? offered : m.frame_max;
  channel_max_ = m.channel_max != 0 ? m.channel_max : channels != 0 ? channels : UINT16_MAX;
  heartbeat_s_ = m.heartbeat;
  state_ = State::opening;
  start_heartbeat();
}

void ConnectionImpl::on(const method::ConnectionOpen& m) {
  auto vhost = access_.open_vhost(*login_, m.vhost);
  if (!vhost) return fail(nullptr, vhost.error());
  vhost_ = *vhost;
  state_ = State::running;
  deadline_.cancel();
  ConnectionInfo info;
  info.id = id_;
  info.name = name_;
  info.peer_host = peer_.host;
  info.peer_port = peer_.port;
  info.local_host = peer_.local_host;
  info.local_port = peer_.local_port;
  info.user = login_->user;
  info.vhost = vhost_->name();
  info.mechanism = mechanism_;
  info.connected_at_ms = shard().clock().system_now().floor_ms();
  info.channel_max = channel_max_;
  info.heartbeat_s = heartbeat_s_;
  info.frame_max = frame_max_;
  info.client_properties = client_properties_;
  info.tls = peer_.tls;
  figures_ = std::make_shared<ConnectionFigures>(info);
  announced_ = true;
  if (list_) list_->add(figures_, home_);
  send(0, method::ConnectionOpenOk{});
  access_.connection_opened(info);
}

/// For tokens that run out. A password does not: there is nothing to renew, and the client goes on
/// (as with RabbitMQ).
void ConnectionImpl::on(const method::ConnectionUpdateSecret&) {
  send(0, method::ConnectionUpdateSecretOk{});
}

void ConnectionImpl::open_channel_method(uint16_t number) {
  if (channel(number)) {
    return fail(nullptr, PeerError::connection(reply::channel_error, "second 'channel.open' seen"));
  }
  // channel_max is about how many there are; their numbers are the client's own affair (as with
  // RabbitMQ).
  if (channels_.size() >= channel_max_) {
    count_limit_hit(Limit::channel_max);
    return fail(nullptr, PeerError::connection(reply::not_allowed,
                                               "number of channels opened (" +
                                                   std::to_string(channels_.size()) +
                                                   ") has reached the negotiated channel_max (" +
                                                   std::to_string(channel_max_) + ")"));
  }
  if (auto allowed = vhost_->may_open_channel(*login_); !allowed)
    return fail(nullptr, allowed.error());
  Channel& opened = channels_.add(std::make_unique<Channel>(*this, number, next_serial_++));
  figures_->add_channel(opened.figures());
  send(number, method::ChannelOpenOk{});
}

void ConnectionImpl::set_blocked(bool blocked, std::string reason) {
  affine_.check();
  if (state_ != State::running || blocked == alarm_.has_value()) return;
  if (blocked) {
    alarm_ = std::move(reason);
    if (publisher_) tell_blocked();
    return;
  }
  alarm_.reset();
  stopped_ = false;
  if (std::exchange(told_blocked_, false)) {
    figures_->state.store(ConnectionState::running, std::memory_order_relaxed);
    if (capability_blocked_) send(0, method::ConnectionUnblocked{});
  }
  update_reading();
}

void ConnectionImpl::tell_blocked() {
  if (std::exchange(told_blocked_, true)) return;
  figures_->state.store(ConnectionState::blocked, std::memory_order_relaxed);
  if (capability_blocked_) send(0, method::ConnectionBlocked{*alarm_});
}

void ConnectionImpl::note_publisher() {
  publisher_ = true;
  if (!alarm_ || stopped_) [[likely]]
    return;
  stopped_ = true;
  tell_blocked();
}

}  // namespace tarry
