#pragma once

#include <cstdint>
#include <string_view>

#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/bytes.h"

/// A struct for each method; see methods.h for what they have in common. This file: exchange,
/// queue.
namespace tarry::method {

struct ExchangeDeclare {
  static constexpr uint32_t id = method_id::exchange_declare;
  std::string_view exchange{}, type{};
  bool passive = false, durable = false, auto_delete = false, internal = false, no_wait = false;
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.exchange), f.short_text(m.type);
    f.bits(m.passive, m.durable, m.auto_delete, m.internal, m.no_wait), f.table(m.arguments);
  }
};
struct ExchangeDeclareOk {
  static constexpr uint32_t id = method_id::exchange_declare_ok;
  static void fields(auto&, auto&) {}
};
struct ExchangeDelete {
  static constexpr uint32_t id = method_id::exchange_delete;
  std::string_view exchange{};
  bool if_unused = false, no_wait = false;
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.exchange), f.bits(m.if_unused, m.no_wait);
  }
};
struct ExchangeDeleteOk {
  static constexpr uint32_t id = method_id::exchange_delete_ok;
  static void fields(auto&, auto&) {}
};
struct ExchangeBind {
  static constexpr uint32_t id = method_id::exchange_bind;
  std::string_view destination{}, source{}, routing_key{};
  bool no_wait = false;
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.destination), f.short_text(m.source),
        f.short_text(m.routing_key);
    f.bits(m.no_wait), f.table(m.arguments);
  }
};
struct ExchangeBindOk {
  static constexpr uint32_t id = method_id::exchange_bind_ok;
  static void fields(auto&, auto&) {}
};
struct ExchangeUnbind {
  static constexpr uint32_t id = method_id::exchange_unbind;
  std::string_view destination{}, source{}, routing_key{};
  bool no_wait = false;
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.destination), f.short_text(m.source),
        f.short_text(m.routing_key);
    f.bits(m.no_wait), f.table(m.arguments);
  }
};
struct ExchangeUnbindOk {
  static constexpr uint32_t id = method_id::exchange_unbind_ok;
  static void fields(auto&, auto&) {}
};

struct QueueDeclare {
  static constexpr uint32_t id = method_id::queue_declare;
  std::string_view queue{};
  bool passive = false, durable = false, exclusive = false, auto_delete = false, no_wait = false;
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue);
    f.bits(m.passive, m.durable, m.exclusive, m.auto_delete, m.no_wait), f.table(m.arguments);
  }
};
struct QueueDeclareOk {
  static constexpr uint32_t id = method_id::queue_declare_ok;
  std::string_view queue{};
  uint32_t message_count = 0, consumer_count = 0;
  static void fields(auto& m, auto& f) {
    f.short_text(m.queue), f.integer(m.message_count), f.integer(m.consumer_count);
  }
};
struct QueueBind {
  static constexpr uint32_t id = method_id::queue_bind;
  std::string_view queue{}, exchange{}, routing_key{};
  bool no_wait = false;
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue), f.short_text(m.exchange),
        f.short_text(m.routing_key);
    f.bits(m.no_wait), f.table(m.arguments);
  }
};
struct QueueBindOk {
  static constexpr uint32_t id = method_id::queue_bind_ok;
  static void fields(auto&, auto&) {}
};
struct QueuePurge {
  static constexpr uint32_t id = method_id::queue_purge;
  std::string_view queue{};
  bool no_wait = false;
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue), f.bits(m.no_wait);
  }
};
struct QueuePurgeOk {
  static constexpr uint32_t id = method_id::queue_purge_ok;
  uint32_t message_count = 0;
  static void fields(auto& m, auto& f) { f.integer(m.message_count); }
};
struct QueueDelete {
  static constexpr uint32_t id = method_id::queue_delete;
  std::string_view queue{};
  bool if_unused = false, if_empty = false, no_wait = false;
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue), f.bits(m.if_unused, m.if_empty, m.no_wait);
  }
};
struct QueueDeleteOk {
  static constexpr uint32_t id = method_id::queue_delete_ok;
  uint32_t message_count = 0;
  static void fields(auto& m, auto& f) { f.integer(m.message_count); }
};
struct QueueUnbind {  // has no no-wait
  static constexpr uint32_t id = method_id::queue_unbind;
  std::string_view queue{}, exchange{}, routing_key{};
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue), f.short_text(m.exchange),
        f.short_text(m.routing_key);
    f.table(m.arguments);
  }
};
struct QueueUnbindOk {
  static constexpr uint32_t id = method_id::queue_unbind_ok;
  static void fields(auto&, auto&) {}
};

}  // namespace tarry::method
