#include "session/direct_reply.h"

#include <sys/random.h>

#include <algorithm>
#include <charconv>

#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {

namespace {

constexpr size_t kSecretBytes = 16;
constexpr std::string_view kSecretEnd = "==";  // of 16 bytes in base64

std::array<char, 24> new_secret() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<uint8_t, kSecretBytes + 2> bytes{};  // a multiple of three
  TARRY_INVARIANT(::getrandom(bytes.data(), kSecretBytes, 0) == static_cast<ssize_t>(kSecretBytes));
  std::array<char, 24> out{};
  for (size_t i = 0, at = 0; i < bytes.size(); i += 3, at += 4) {
    const uint32_t three = uint32_t{bytes[i]} << 16 | uint32_t{bytes[i + 1]} << 8 | bytes[i + 2];
    for (size_t digit = 0; digit < 4; ++digit)
      out[at + digit] = kDigits[three >> (18 - 6 * digit) & 63];
  }
  std::copy(kSecretEnd.begin(), kSecretEnd.end(), out.end() - kSecretEnd.size());
  return out;
}

}  // namespace

std::string ReplyAddress::text() const {
  char buffer[48];
  const int size =
      std::snprintf(buffer, sizeof buffer, "%llx-%x-%x.",
                    static_cast<unsigned long long>(connection.value), unsigned{channel}, serial);
  return std::string(prefix)
      .append(buffer, static_cast<size_t>(size))
      .append(secret.data(), secret.size());
}

bool ReplyAddress::parse(std::string_view name, ReplyAddress& out) {
  if (!is_reply_address(name)) return false;
  out.prefix = name.starts_with(kReplyPrefix) ? kReplyPrefix : kReplyPrefixToo;
  const char* at = name.data() + out.prefix.size();
  const char* const end = name.data() + name.size();
  auto number = [&at, end](auto& value, char behind) {
    auto [next, error] = std::from_chars(at, end, value, 16);
    if (error != std::errc{} || next == end || *next != behind) return false;
    at = next + 1;
    return true;
  };
  if (!number(out.connection.value, '-') || !number(out.channel, '-') || !number(out.serial, '.'))
    return false;
  const std::string_view secret(at, static_cast<size_t>(end - at));
  if (secret.size() != out.secret.size() || !secret.ends_with(kSecretEnd)) return false;
  std::copy(secret.begin(), secret.end(), out.secret.begin());
  return out.connection.value != 0;
}

ReplyConsumer::ReplyConsumer(std::string consumer_tag, uint16_t channel, const ReplyAddress& a,
                             ConnectionList* l)
    : list(l), tag(std::move(consumer_tag)), frames(channel, tag), address(a) {
  if (list) list->add_reply_consumer(address.key());
}

ReplyConsumer::~ReplyConsumer() {
  if (list) list->remove_reply_consumer(address.key());
}

void Channel::consume_replies(const method::BasicConsume& m, std::string_view name,
                              std::string tag) {
  if (!m.no_ack) {
    return connection_.fail(this,
                            PeerError::precondition_failed("reply consumer cannot acknowledge"));
  }
  if (replies_)
    return connection_.fail(this, PeerError::precondition_failed("reply consumer already set"));
  ReplyAddress address{kReplyPrefix, connection_.id(), number, serial, new_secret()};
  if (kReplyPrefixToo.starts_with(name)) address.prefix = kReplyPrefixToo;
  replies_ = std::make_unique<ReplyConsumer>(tag, number, address, connection_.list());
  if (!m.no_wait) connection_.send(number, method::BasicConsumeOk{tag});
}

/// The header of a request, with the reply-to that the answer can be sent to. False (and 406) if
/// nobody here would hear it.
bool Channel::address_request(const PropertiesView& view, ByteSpan header, std::string& out) {
  if (!replies_) {
    connection_.fail(this, PeerError::precondition_failed("fast reply consumer does not exist"));
    return false;
  }
  const std::string address = replies_->address.text();
  const auto* old = reinterpret_cast<const std::byte*>(view.reply_to->data());
  const auto at = static_cast<size_t>(old - header.data());  // behind the length of the old one
  out.assign(as_text(header.first(at - 1)));
  out += static_cast<char>(address.size());
  out += address;
  out += as_text(header.subspan(at + view.reply_to->size()));
  return true;
}

void Channel::publish_reply(ByteSpan route, bool mandatory, ByteSpan header, ByteSpan body) {
  connection_.touch(*this);
  ++published_;
  const bool routed = connection_.send_reply(route, header, body);
  if (!routed && mandatory) return_unroutable(route, header, body);
  if (confirms_) confirms_->add(0);
}

bool Channel::deliver_reply(const ReplyAddress& address, ByteSpan route, ByteSpan header,
                            ByteSpan body) {
  if (!replies_ || !(replies_->address == address)) return false;
  replies_->frames.append(connection_.outbound(), ++delivery_tag_, false, route, header, body,
                          connection_.frame_max());
  ++delivered_no_ack_;
  connection_.touch(*this);
  return true;
}

/// To a channel of this shard at once; else by mail to the shard of its connection, which drops it
/// if the channel is gone by then. False: nobody would get it.
bool ConnectionImpl::send_reply(ByteSpan route, ByteSpan header, ByteSpan body) {
  ReplyAddress address;
  if (!ReplyAddress::parse(split_route(route).routing_key, address)) return false;
  if (ConnectionImpl* near = find(home_, address.connection))
    return near->take_reply(address, route, header, body);
  QueueShard* far = list_ ? list_->home_of(address.connection) : nullptr;
  if (!far || far == &home_ || !list_->has_reply_consumer(address.key())) return false;
  struct Mail {
    ReplyAddress address;
    std::string route, header, body;
  };
  auto mail =
      std::make_unique<Mail>(Mail{address, std::string(as_text(route)),
                                  std::string(as_text(header)), std::string(as_text(body))});
  far->shard().post([far, mail = std::move(mail)] {
    ConnectionImpl* to = find(*far, mail->address.connection);
    if (to)
      to->take_reply(mail->address, as_bytes(mail->route), as_bytes(mail->header),
                     as_bytes(mail->body));
  });
  return true;
}

bool ConnectionImpl::take_reply(const ReplyAddress& address, ByteSpan route, ByteSpan header,
                                ByteSpan body) {
  Channel* c = open_channel(address.channel, address.serial);
  return c && c->deliver_reply(address, route, header, body);
}

/// For queue.declare of a reply name, by which clients ask whether the other side is still there.
bool ConnectionImpl::reply_name_known(std::string_view name) {
  if (is_reply_name(name)) return true;
  ReplyAddress address;
  if (!ReplyAddress::parse(name, address)) return false;
  if (ConnectionImpl* near = find(home_, address.connection)) {
    Channel* c = near->open_channel(address.channel, address.serial);
    return c && c->hears(address);
  }
  return list_ && list_->has_reply_consumer(address.key());
}

}  // namespace tarry
