#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "http/url.h"
#include "tarrymq/runtime/result.h"

namespace tarry::http {

/// What a shovel means that tools of RabbitMQ make to move messages: those of one queue to another
/// one of the same vhost, once.
struct ShovelMove {
  std::string source, target;
};

/// Why `uri` does not lead to `vhost` of this broker. Who may move is decided by who asks, so that
/// the user in it is not looked at.
inline std::optional<std::string> not_here(std::string_view uri, const std::string& vhost,
                                           const std::vector<uint16_t>& amqp_ports) {
  constexpr std::string_view kScheme = "amqp://";
  if (!uri.starts_with(kScheme)) return "it must begin with amqp://";
  uri = uri.substr(kScheme.size(), uri.find('?') - kScheme.size());
  const size_t slash = uri.find('/');
  if (slash != std::string_view::npos &&
      percent_decode(uri.substr(slash + 1), false) != std::optional(vhost))
    return "it names another vhost";
  std::string_view host = uri.substr(0, slash);
  if (const size_t at = host.rfind('@'); at != std::string_view::npos) host = host.substr(at + 1);
  if (host.empty()) return std::nullopt;  // amqp://, amqp:///vhost: the broker that is asked
  uint16_t port = 5672;
  if (const size_t colon = host.rfind(':');
      colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    const std::string_view text = host.substr(colon + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size()) return "its port is no number";
    host = host.substr(0, colon);
  }
  const bool this_machine = host == "localhost" || host == "127.0.0.1" || host == "[::1]";
  if (this_machine && std::ranges::find(amqp_ports, port) != amqp_ports.end()) return std::nullopt;
  return "it names another broker";
}

/// The error says what of the shovel cannot be honoured. `value`: of the parameter.
inline Result<ShovelMove, std::string> move_of_shovel(const Json& value, const std::string& vhost,
                                                      const std::vector<uint16_t>& amqp_ports) {
  using Strings = std::vector<std::string_view>;
  const auto refused = [](std::string why) {
    return Result<ShovelMove, std::string>(boost::system::in_place_error, std::move(why));
  };
  const auto is_one_of = [](const Json& is, const Strings& allowed) {
    return is.is_string() &&
           std::ranges::find(allowed, is.get_ref<const std::string&>()) != allowed.end();
  };
  if (!value.is_object()) return refused("'value' must be an object");
  ShovelMove move;
  bool once = false;
  for (const auto& [key, is] : value.items()) {
    std::optional<std::string> trouble;
    if (key == "src-uri" || key == "dest-uri") {
      const Json& uri = is.is_array() && is.size() == 1 ? is[0] : is;
      trouble = uri.is_string() ? not_here(uri.get_ref<const std::string&>(), vhost, amqp_ports)
                                : "it must be one URI";
    } else if (key == "src-queue" || key == "dest-queue") {
      if (is.is_string() && !is.get_ref<const std::string&>().empty())
        (key == "src-queue" ? move.source : move.target) = is.get<std::string>();
      else
        trouble = "it must be the name of a queue";
    } else if (key == "src-delete-after" || key == "delete-after") {
      once = is_one_of(is, {"queue-length"});
    } else if (key == "src-protocol" || key == "dest-protocol") {
      if (!is_one_of(is, {"amqp091"})) trouble = "it must be amqp091";
    } else if (key == "ack-mode") {
      if (!is_one_of(is, {"on-confirm", "on-publish", "no-ack"})) trouble = "no such mode";
    } else if (key == "add-forward-headers" || key == "dest-add-forward-headers" ||
               key == "dest-add-timestamp-header") {
      if (!is.is_boolean() || is.get<bool>()) trouble = "headers are not added";
    } else if (key != "src-prefetch-count" && key != "prefetch-count" && key != "reconnect-delay" &&
               key != "src-predeclared" && key != "dest-predeclared") {
      trouble = "not supported";
    }
    if (trouble) return refused("'" + key + "': " + *trouble);
  }
  for (const char* key : {"src-uri", "src-queue", "dest-uri", "dest-queue"}) {
    if (!value.contains(key)) return refused("'" + std::string(key) + "' is missing");
  }
  if (!once) return refused("'src-delete-after' must be queue-length");
  if (move.source == move.target) return refused("'dest-queue' is where the messages are");
  return move;
}

}  // namespace tarry::http
