#include <charconv>

#include "session/channel.h"
#include "session/connection_impl.h"
#include "session/content_frame.h"
#include "session/own_word.h"
#include "tarrymq/amqp/table_view.h"
#include "tarrymq/runtime/limit_hits.h"

namespace tarry {
namespace {

constexpr std::string_view kRetryPrefix = "amq.retry-";

/// Digits only, up to 2^32-1 ms.
bool parse_expiration(std::string_view text, uint32_t& ttl_ms) {
  if (text.empty() || text.front() == '+' || text.front() == '-') return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ttl_ms);
  return error == std::errc{} && end == text.data() + text.size();
}

/// False if publish_alike would find nothing, told by the end of the last property: of messages
/// with an id or a time each, that is where most differ, and to look closer has its price.
bool may_be_alike(ByteSpan first, ByteSpan behind) {
  constexpr size_t kEnd = 3;  // two bytes and the frame's end
  return behind.size() > first.size() && load_le<uint16_t>(behind.data() + first.size() - kEnd) ==
                                             load_le<uint16_t>(first.data() + first.size() - kEnd);
}

bool is_array_of_strings(const FieldValue& value) {
  const FieldArray* array = value.array();
  if (!array) return false;
  for (const FieldValue& element : *array) {
    if (!element.text()) return false;
  }
  return true;
}

}  // namespace

size_t Channel::on_publish(ByteSpan payload, ByteSpan rest) {
  PublishFields fields;
  if (!parse_publish(payload, fields)) {
    connection_.fail(nullptr, method_syntax_error(payload));
    return 0;
  }
  if (fields.immediate) {
    connection_.fail(nullptr, PeerError::connection(reply::not_implemented, "immediate=true"));
    return 0;
  }
  // Who only settles by amq.retry is a consumer: an alarm must not keep it from that.
  if (!is_own_word_route(fields.route)) connection_.note_publisher();
  const uint32_t frame_max = connection_.frame_max();
  const DecodedFrame head = decode_frame(rest, frame_max);
  if (is_content(head, FrameType::header, number) &&
      head.payload.size() >= kContentHeaderFixedBytes) {
    const auto body_size = load_be<uint64_t>(head.payload.data() + 4);
    size_t used = head.total_bytes;
    const std::byte* body = nullptr;  // not a span: it would be copied by a load that is wider than
                                      // the stores before it
    bool whole = body_size == 0;
    if (!whole) {
      const DecodedFrame part = decode_frame(rest.subspan(used), frame_max);
      whole = is_content(part, FrameType::body, number) && part.payload.size() == body_size;
      if (whole) {
        body = part.payload.data();
        used += part.total_bytes;
      }
    }
    if (whole) {
      // Kept, since to clear one costs more than to look at a small header, which sets all of it.
      static thread_local PropertiesView view;
      if (!check_header(head.payload, view)) return used;
      PublishRequest request;
      request.route = fields.route;
      request.header = head.payload;
      request.body = {body, static_cast<size_t>(body_size)};
      const RouteTargets* targets = publish(request, fields.mandatory, view);
      if (!targets) return used;
      // The method's frame lies before what we were given, the header's behind it.
      const ByteSpan first(payload.data() - kFrameHeadBytes, rest.data() + head.total_bytes);
      const ByteSpan behind = rest.subspan(used);
      if (!may_be_alike(first, behind)) return used;
      return used + publish_alike(*targets, request, fields.mandatory, first, behind);
    }
  }
  content_.state = Content::State::header;
  content_.route.assign(as_text(fields.route));
  content_.mandatory = fields.mandatory;
  return 0;
}

void Channel::on_header(ByteSpan payload) {
  if (content_.state != Content::State::header) {
    return connection_.fail(
        nullptr,
        PeerError::connection(reply::unexpected_frame,
                              content_.state == Content::State::body
                                  ? "expected content body, got non content body frame instead"
                                  : "expected method frame, got non method frame instead"));
  }
  PropertiesView view;
  if (!check_header(payload, view)) return;
  content_.header.assign(as_text(payload));
  content_.body.clear();
  content_.body_size = view.body_size;
  content_.state = Content::State::body;
  // Not all of it at once: what a header promises need not come.
  content_.body.reserve(static_cast<size_t>(std::min<uint64_t>(view.body_size, 1 << 20)));
  if (view.body_size == 0) on_body({});
}

void Channel::on_body(ByteSpan payload) {
  if (content_.state != Content::State::body) {
    return connection_.fail(
        nullptr,
        PeerError::connection(
            reply::unexpected_frame,
            content_.state == Content::State::header
                ? "expected content header for class 60, got non content header frame instead"
                : "expected method frame, got non method frame instead"));
  }
  if (payload.size() > content_.body_size - content_.body.size()) {
    return connection_.fail(
        nullptr, PeerError::connection(reply::unexpected_frame,
                                       "content body of " +
                                           std::to_string(content_.body.size() + payload.size()) +
                                           " bytes is longer than the " +
                                           std::to_string(content_.body_size) + " of its header"));
  }
  content_.body.append(as_text(payload));
  // It is kept here until it is whole: an alarm stops it in the middle, or it would bring no end.
  if (content_.body.size() < content_.body_size) return connection_.note_publisher();
  Content content;
  std::swap(content, content_);
  // Parsed again: the first view borrowed the frame. It was checked, so it parses.
  auto view = PropertiesView::parse(as_bytes(content.header));
  if (!view)
    return connection_.fail(nullptr, PeerError::connection(reply::frame_error, view.error()));
  PublishRequest request;
  request.route = as_bytes(content.route);
  request.header = as_bytes(content.header);
  request.body = as_bytes(content.body);
  publish(request, content.mandatory, *view);
  if (content.body.capacity() <= 64 << 10) {  // the buffers serve the next one
    content.state = Content::State::none;
    if (content_.state == Content::State::none) std::swap(content, content_);
  }
}

bool Channel::check_header(ByteSpan payload, PropertiesView& view) {
  if (payload.size() < 2 || load_be<uint16_t>(payload.data()) != class_id::basic) {
    const int got = payload.size() < 2 ? 0 : load_be<uint16_t>(payload.data());
    connection_.fail(
        nullptr, PeerError::connection(reply::unexpected_frame,
                                       "expected content header for class 60, got one for class " +
                                           std::to_string(got) + " instead"));
    return false;
  }
  std::string error;
  if (!PropertiesView::parse_into(payload, view, error)) {
    connection_.fail(nullptr, PeerError::connection(reply::frame_error, error));
    return false;
  }
  const uint64_t most = connection_.settings().max_message_bytes;
  if (view.body_size > most) {
    count_limit_hit(Limit::message_bytes);
    content_ = {};
    connection_.fail(this, PeerError::precondition_failed(
                               "message size " + std::to_string(view.body_size) +
                               " is larger than configured max size " + std::to_string(most)));
    return false;
  }
  return true;
}

bool Channel::check_properties(const PropertiesView& view, uint32_t& ttl_ms) {
  if (view.user_id && *view.user_id != connection_.login().user &&
      !connection_.vhost().may_impersonate(connection_.login())) {
    connection_.fail(this, PeerError::precondition_failed(
                               "user_id property set to '" + std::string(*view.user_id) +
                               "' but authenticated user was '" + connection_.login().user + "'"));
    return false;
  }
  if (view.expiration && !parse_expiration(*view.expiration, ttl_ms)) {
    connection_.fail(this, PeerError::precondition_failed(
                               "invalid expiration '" + std::string(*view.expiration) +
                               "': a number of milliseconds from 0 to 4294967295 is allowed"));
    return false;
  }
  return true;
}

bool Channel::check_extra_keys(const PropertiesView& view, ByteSpan& header) {
  auto table = FieldTable::decode(view.headers);
  if (!table) {
    connection_.fail(nullptr, PeerError::connection(reply::frame_error, table.error()));
    return false;
  }
  for (const char* name : {"CC", "BCC"}) {
    const FieldValue* value = table->find(name);
    if (!value || is_array_of_strings(*value)) continue;
    connection_.fail(this, PeerError::precondition_failed("unsupported type in message header '" +
                                                          std::string(name) + "': the value '" +
                                                          value->to_text() + "' of type '" +
                                                          std::string(value->type_name()) +
                                                          "', an array of strings is allowed"));
    return false;
  }
  if (table->erase("BCC")) {
    rewritten_header_ = with_headers(header, *table);
    header = as_bytes(rewritten_header_);
  }
  return true;
}

const RouteTargets* Channel::targets_of(ByteSpan route, const PropertiesView& view) {
  VhostPort& vhost = connection_.vhost();
  const uint64_t version = vhost.topology_version();
  const bool extra_keys = view.has_cc || view.has_bcc;
  if (!extra_keys) {
    if (const RouteTargets* known = routes_.find(route, version)) {
      routed_ = {};
      return known;
    }
  }
  const RouteNames names = split_route(route);
  if (names.exchange.empty() && names.routing_key.starts_with(kRetryPrefix)) {
    connection_.fail(this, PeerError::access_refused("queue '" + std::string(names.routing_key) +
                                                     "' in vhost '" + vhost.name() +
                                                     "' is internal: publishing to it is refused"));
    return nullptr;
  }
  asked_targets_.clear();
  auto routed =
      vhost.route(connection_.login(), names.exchange, names.routing_key, &view, asked_targets_);
  if (!routed) {
    connection_.fail(this, routed.error());
    return nullptr;
  }
  routed_ = {routed->held, routed->nowhere, routed->deduplicates};
  if (routed->cacheable && !extra_keys) {
    routes_.put(route, version, asked_targets_, std::move(routed->figures));
  } else if (routed->figures) {
    routed->figures->add(1, asked_targets_.size());
  }
  return &asked_targets_;
}

const RouteTargets* Channel::publish(PublishRequest& request, bool mandatory,
                                     const PropertiesView& view) {
  const ByteSpan route = request.route, header = request.header;
  if (!check_properties(view, request.ttl_ms)) return nullptr;
  if (view.reply_to && is_reply_name(*view.reply_to)) {
    std::string addressed;
    if (!address_request(view, header, addressed)) return nullptr;
    auto again = PropertiesView::parse(as_bytes(addressed));
    TARRY_INVARIANT(again.has_value());
    request.header = as_bytes(addressed);
    publish(request, mandatory, *again);
    return nullptr;
  }
  if (is_own_word_route(route)) [[unlikely]] {
    settle_by_word(route, view);
    return nullptr;
  }
  if ((view.has_cc || view.has_bcc) && !check_extra_keys(view, request.header)) return nullptr;
  const bool to_reply = is_reply_route(route);
  const RouteTargets* targets = to_reply ? nullptr : targets_of(route, view);
  if (!targets && !to_reply) return nullptr;
  connection_.touch(*this);
  if (tx_ && !tx_->committing) {
    tx_->publishes.push_back({std::string(as_text(route)), std::string(as_text(header)),
                              std::string(as_text(request.body)), mandatory});
    return nullptr;
  }
  if (to_reply) {
    publish_reply(route, mandatory, request.header, request.body);
    return nullptr;
  }
  ++published_;
  request.persistent = view.delivery_mode == 2;
  request.priority = view.priority;
  request.has_delivery_count = view.has_delivery_count;
  if (routed_.nowhere && mandatory) {
    asked_targets_.clear();
  } else if (routed_.deduplicates && is_duplicate(*targets, route, view)) {
    asked_targets_.clear();  // a route that deduplicates is not in the cache
    routed_.suppressed = true;
  }
  post(*targets, request, mandatory, header);
  return targets == &asked_targets_ ? nullptr : targets;
}

void Channel::post(const RouteTargets& targets, PublishRequest& request, bool mandatory,
                   ByteSpan whole_header) {
  if (targets.empty() && !routed_.suppressed) {
    if (mandatory)
      return_unroutable(request.route, request.header, request.body);
    else
      ++unroutable_;
  }
  if (confirms_) {
    request.publish_number = confirms_->add(static_cast<uint32_t>(targets.size()));
  } else if (tx_) {
    request.publish_number = ++tx_publish_number_;
    tx_->stores_left += targets.size();
  }
  if (request.publish_number != 0) {
    request.channel = number;
    request.channel_serial = serial;
    request.from = connection_.requester();
    if (noted_) [[unlikely]]
      noted_in_.emplace(request.publish_number, std::move(*noted_));
  }
  noted_.reset();
  if (!routed_.held) [[likely]] {
    for (const auto& queue : targets) queue->publish(request);
    return;
  }
  const ByteSpan shown = request.header;
  for (const auto& queue : targets) {
    request.header = queue->identity.holds_for.empty() ? shown : whole_header;
    queue->publish(request);
  }
}

/// What reaches no queue is not noted, nor is what a queue refuses (settle_noted): the publisher is
/// told so and sends it again.
bool Channel::is_duplicate(const RouteTargets& targets, ByteSpan route,
                           const PropertiesView& view) {
  if (targets.empty()) return false;
  const std::string_view exchange = split_route(route).exchange;
  std::string value;
  if (connection_.vhost().seen_before(exchange, view, value)) return true;
  if (!value.empty()) noted_ = Noted{std::string(exchange), std::move(value)};
  return false;
}

void Channel::settle_noted(uint64_t tag, bool multiple, bool ack) {
  const auto end = noted_in_.upper_bound(tag);
  const auto begin = multiple ? noted_in_.begin() : noted_in_.lower_bound(tag);
  if (!ack) {
    for (auto it = begin; it != end; ++it) {
      connection_.vhost().forget_seen(it->second.exchange, it->second.value);
    }
  }
  noted_in_.erase(begin, end);
}

void Channel::return_unroutable(ByteSpan route, ByteSpan header, ByteSpan body) {
  // Those before it are not answered behind it: with `multiple`, its own confirm would swallow
  // theirs, and a client that takes the next confirm after a return for the returned message's
  // would take the wrong one.
  flush_confirms();
  const RouteNames names = split_route(route);
  connection_.send(number, method::BasicReturn{reply::no_route, reply::name(reply::no_route),
                                               names.exchange, names.routing_key});
  append_content(connection_.outbound(), number, header, body, connection_.frame_max());
  ++returned_;
}

void Channel::on_confirm(const ConfirmRange& range) {
  if (confirms_) {
    confirms_->settle(range.first, range.last, range.refused);
  } else if (tx_ && tx_->committing) {
    const uint64_t count = range.last - range.first + 1;
    tx_->stores_left -= std::min(tx_->stores_left, count);
    if (range.refused) {
      tx_->refused += count;
      for (uint64_t n = range.first; n <= range.last && !noted_in_.empty(); ++n) {
        settle_noted(n, false, false);
      }
    }
  }
  connection_.touch(*this);
}

void Channel::flush_confirms() {
  if (!confirms_ || !confirms_->dirty()) return;
  confirms_->flush([this](uint64_t tag, bool multiple, bool ack) {
    if (!noted_in_.empty()) [[unlikely]]
      settle_noted(tag, multiple, ack);
    if (ack) {
      connection_.send(number, method::BasicAck{tag, multiple});
    } else {
      connection_.send(number, method::BasicNack{tag, multiple, true});
    }
  });
  confirmed_ = confirms_->next_number() - 1 - confirms_->outstanding();
}

}  // namespace tarry
