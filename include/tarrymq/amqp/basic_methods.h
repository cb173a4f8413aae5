#pragma once

#include <cstdint>
#include <string_view>

#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/bytes.h"

/// A struct for each method; see methods.h for what they have in common. This file: basic, confirm,
/// tx.
namespace tarry::method {

struct BasicQos {
  static constexpr uint32_t id = method_id::basic_qos;
  uint32_t prefetch_size = 0;
  uint16_t prefetch_count = 0;
  bool global = false;
  static void fields(auto& m, auto& f) {
    f.integer(m.prefetch_size), f.integer(m.prefetch_count), f.bits(m.global);
  }
};
struct BasicQosOk {
  static constexpr uint32_t id = method_id::basic_qos_ok;
  static void fields(auto&, auto&) {}
};
struct BasicConsume {
  static constexpr uint32_t id = method_id::basic_consume;
  std::string_view queue{}, consumer_tag{};
  bool no_local = false, no_ack = false, exclusive = false, no_wait = false;
  ByteSpan arguments{};
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue), f.short_text(m.consumer_tag);
    f.bits(m.no_local, m.no_ack, m.exclusive, m.no_wait), f.table(m.arguments);
  }
};
struct BasicConsumeOk {
  static constexpr uint32_t id = method_id::basic_consume_ok;
  std::string_view consumer_tag{};
  static void fields(auto& m, auto& f) { f.short_text(m.consumer_tag); }
};
struct BasicCancel {
  static constexpr uint32_t id = method_id::basic_cancel;
  std::string_view consumer_tag{};
  bool no_wait = false;
  static void fields(auto& m, auto& f) { f.short_text(m.consumer_tag), f.bits(m.no_wait); }
};
struct BasicCancelOk {
  static constexpr uint32_t id = method_id::basic_cancel_ok;
  std::string_view consumer_tag{};
  static void fields(auto& m, auto& f) { f.short_text(m.consumer_tag); }
};
struct BasicPublish {
  static constexpr uint32_t id = method_id::basic_publish;
  std::string_view exchange{}, routing_key{};
  bool mandatory = false, immediate = false;
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.exchange), f.short_text(m.routing_key),
        f.bits(m.mandatory, m.immediate);
  }
};
struct BasicReturn {
  static constexpr uint32_t id = method_id::basic_return;
  uint16_t reply_code = 0;
  std::string_view reply_text{}, exchange{}, routing_key{};
  static void fields(auto& m, auto& f) {
    f.integer(m.reply_code), f.short_text(m.reply_text), f.short_text(m.exchange),
        f.short_text(m.routing_key);
  }
};
struct BasicDeliver {
  static constexpr uint32_t id = method_id::basic_deliver;
  std::string_view consumer_tag{};
  uint64_t delivery_tag = 0;
  bool redelivered = false;
  std::string_view exchange{}, routing_key{};
  static void fields(auto& m, auto& f) {
    f.short_text(m.consumer_tag), f.integer(m.delivery_tag), f.bits(m.redelivered);
    f.short_text(m.exchange), f.short_text(m.routing_key);
  }
};
struct BasicGet {
  static constexpr uint32_t id = method_id::basic_get;
  std::string_view queue{};
  bool no_ack = false;
  static void fields(auto& m, auto& f) {
    f.reserved_short(), f.short_text(m.queue), f.bits(m.no_ack);
  }
};
struct BasicGetOk {
  static constexpr uint32_t id = method_id::basic_get_ok;
  uint64_t delivery_tag = 0;
  bool redelivered = false;
  std::string_view exchange{}, routing_key{};
  uint32_t message_count = 0;
  static void fields(auto& m, auto& f) {
    f.integer(m.delivery_tag), f.bits(m.redelivered), f.short_text(m.exchange),
        f.short_text(m.routing_key);
    f.integer(m.message_count);
  }
};
struct BasicGetEmpty {
  static constexpr uint32_t id = method_id::basic_get_empty;
  static void fields(auto&, auto& f) { f.reserved_short_text(); }
};
struct BasicAck {
  static constexpr uint32_t id = method_id::basic_ack;
  uint64_t delivery_tag = 0;
  bool multiple = false;
  static void fields(auto& m, auto& f) { f.integer(m.delivery_tag), f.bits(m.multiple); }
};
struct BasicReject {
  static constexpr uint32_t id = method_id::basic_reject;
  uint64_t delivery_tag = 0;
  bool requeue = false;
  static void fields(auto& m, auto& f) { f.integer(m.delivery_tag), f.bits(m.requeue); }
};
struct BasicRecoverAsync {
  static constexpr uint32_t id = method_id::basic_recover_async;
  bool requeue = false;
  static void fields(auto& m, auto& f) { f.bits(m.requeue); }
};
struct BasicRecover {
  static constexpr uint32_t id = method_id::basic_recover;
  bool requeue = false;
  static void fields(auto& m, auto& f) { f.bits(m.requeue); }
};
struct BasicRecoverOk {
  static constexpr uint32_t id = method_id::basic_recover_ok;
  static void fields(auto&, auto&) {}
};
struct BasicNack {
  static constexpr uint32_t id = method_id::basic_nack;
  uint64_t delivery_tag = 0;
  bool multiple = false, requeue = false;
  static void fields(auto& m, auto& f) { f.integer(m.delivery_tag), f.bits(m.multiple, m.requeue); }
};

struct ConfirmSelect {
  static constexpr uint32_t id = method_id::confirm_select;
  bool no_wait = false;
  static void fields(auto& m, auto& f) { f.bits(m.no_wait); }
};
struct ConfirmSelectOk {
  static constexpr uint32_t id = method_id::confirm_select_ok;
  static void fields(auto&, auto&) {}
};

struct TxSelect {
  static constexpr uint32_t id = method_id::tx_select;
  static void fields(auto&, auto&) {}
};
struct TxSelectOk {
  static constexpr uint32_t id = method_id::tx_select_ok;
  static void fields(auto&, auto&) {}
};
struct TxCommit {
  static constexpr uint32_t id = method_id::tx_commit;
  static void fields(auto&, auto&) {}
};
struct TxCommitOk {
  static constexpr uint32_t id = method_id::tx_commit_ok;
  static void fields(auto&, auto&) {}
};
struct TxRollback {
  static constexpr uint32_t id = method_id::tx_rollback;
  static void fields(auto&, auto&) {}
};
struct TxRollbackOk {
  static constexpr uint32_t id = method_id::tx_rollback_ok;
  static void fields(auto&, auto&) {}
};

}  // namespace tarry::method
