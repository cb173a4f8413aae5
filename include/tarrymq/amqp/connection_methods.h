#pragma once

#include <cstdint>
#include <string_view>

#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/bytes.h"

/// A struct for each method; see methods.h for what they have in common. This file: connection,
/// channel, access.
namespace tarry::method {

struct ConnectionStart {
  static constexpr uint32_t id = method_id::connection_start;
  uint8_t version_major = 0, version_minor = 9;
  ByteSpan server_properties{};
  std::string_view mechanisms{}, locales{};  // long strings: words with spaces between
  static void fields(auto& m, auto& f) {
    f.octet(m.version_major), f.octet(m.version_minor), f.table(m.server_properties);
    f.long_text(m.mechanisms), f.long_text(m.locales);
  }
};
struct ConnectionStartOk {
  static constexpr uint32_t id = method_id::connection_start_ok;
  ByteSpan client_properties{};
  std::string_view mechanism{}, response{}, locale{};  // response: a long string, opaque bytes
  static void fields(auto& m, auto& f) {
    f.table(m.client_properties), f.short_text(m.mechanism), f.long_text(m.response),
        f.short_text(m.locale);
  }
};
struct ConnectionSecure {
  static constexpr uint32_t id = method_id::connection_secure;
  std::string_view challenge{};
  static void fields(auto& m, auto& f) { f.long_text(m.challenge); }
};
struct ConnectionSecureOk {
  static constexpr uint32_t id = method_id::connection_secure_ok;
  std::string_view response{};
  static void fields(auto& m, auto& f) { f.long_text(m.response); }
};
struct ConnectionTune {
  static constexpr uint32_t id = method_id::connection_tune;
  uint16_t channel_max = 0;
  uint32_t frame_max = 0;
  uint16_t heartbeat = 0;  // seconds
  static void fields(auto& m, auto& f) {
    f.integer(m.channel_max), f.integer(m.frame_max), f.integer(m.heartbeat);
  }
};
struct ConnectionTuneOk {
  static constexpr uint32_t id = method_id::connection_tune_ok;
  uint16_t channel_max = 0;
  uint32_t frame_max = 0;
  uint16_t heartbeat = 0;  // seconds
  static void fields(auto& m, auto& f) {
    f.integer(m.channel_max), f.integer(m.frame_max), f.integer(m.heartbeat);
  }
};
struct ConnectionOpen {
  static constexpr uint32_t id = method_id::connection_open;
  std::string_view vhost{};
  static void fields(auto& m, auto& f) {
    f.short_text(m.vhost), f.reserved_short_text(), f.reserved_bits();
  }
};
struct ConnectionOpenOk {
  static constexpr uint32_t id = method_id::connection_open_ok;
  static void fields(auto&, auto& f) { f.reserved_short_text(); }
};
struct ConnectionClose {
  static constexpr uint32_t id = method_id::connection_close;
  uint16_t reply_code = 0;
  std::string_view reply_text{};
  uint16_t failing_class = 0, failing_method = 0;
  static void fields(auto& m, auto& f) {
    f.integer(m.reply_code), f.short_text(m.reply_text), f.integer(m.failing_class),
        f.integer(m.failing_method);
  }
};
struct ConnectionCloseOk {
  static constexpr uint32_t id = method_id::connection_close_ok;
  static void fields(auto&, auto&) {}
};
struct ConnectionBlocked {
  static constexpr uint32_t id = method_id::connection_blocked;
  std::string_view reason{};
  static void fields(auto& m, auto& f) { f.short_text(m.reason); }
};
struct ConnectionUnblocked {
  static constexpr uint32_t id = method_id::connection_unblocked;
  static void fields(auto&, auto&) {}
};
struct ConnectionUpdateSecret {
  static constexpr uint32_t id = method_id::connection_update_secret;
  std::string_view new_secret{}, reason{};
  static void fields(auto& m, auto& f) { f.long_text(m.new_secret), f.short_text(m.reason); }
};
struct ConnectionUpdateSecretOk {
  static constexpr uint32_t id = method_id::connection_update_secret_ok;
  static void fields(auto&, auto&) {}
};

struct ChannelOpen {
  static constexpr uint32_t id = method_id::channel_open;
  static void fields(auto&, auto& f) { f.reserved_short_text(); }
};
struct ChannelOpenOk {
  static constexpr uint32_t id = method_id::channel_open_ok;
  static void fields(auto&, auto& f) { f.reserved_long_text(); }
};
struct ChannelFlow {
  static constexpr uint32_t id = method_id::channel_flow;
  bool active = false;
  static void fields(auto& m, auto& f) { f.bits(m.active); }
};
struct ChannelFlowOk {
  static constexpr uint32_t id = method_id::channel_flow_ok;
  bool active = false;
  static void fields(auto& m, auto& f) { f.bits(m.active); }
};
struct ChannelClose {
  static constexpr uint32_t id = method_id::channel_close;
  uint16_t reply_code = 0;
  std::string_view reply_text{};
  uint16_t failing_class = 0, failing_method = 0;
  static void fields(auto& m, auto& f) {
    f.integer(m.reply_code), f.short_text(m.reply_text), f.integer(m.failing_class),
        f.integer(m.failing_method);
  }
};
struct ChannelCloseOk {
  static constexpr uint32_t id = method_id::channel_close_ok;
  static void fields(auto&, auto&) {}
};

struct AccessRequest {
  static constexpr uint32_t id = method_id::access_request;
  std::string_view realm{};
  bool exclusive = false, passive = false, active = false, write = false, read = false;
  static void fields(auto& m, auto& f) {
    f.short_text(m.realm), f.bits(m.exclusive, m.passive, m.active, m.write, m.read);
  }
};
struct AccessRequestOk {
  static constexpr uint32_t id = method_id::access_request_ok;
  uint16_t ticket = 1;
  static void fields(auto& m, auto& f) { f.integer(m.ticket); }
};

}  // namespace tarry::method
