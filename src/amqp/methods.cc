#include "tarrymq/amqp/methods.h"

#include <array>
#include <utility>

#include "amqp/method_reader.h"
#include "tarrymq/amqp/method_writer.h"
#include "tarrymq/runtime/utf8.h"

namespace tarry {

namespace {

using Name = std::pair<uint32_t, std::string_view>;
constexpr auto kNames = std::to_array<Name>({
    {method_id::connection_start, "connection.start"},
    {method_id::connection_start_ok, "connection.start-ok"},
    {method_id::connection_secure, "connection.secure"},
    {method_id::connection_secure_ok, "connection.secure-ok"},
    {method_id::connection_tune, "connection.tune"},
    {method_id::connection_tune_ok, "connection.tune-ok"},
    {method_id::connection_open, "connection.open"},
    {method_id::connection_open_ok, "connection.open-ok"},
    {method_id::connection_close, "connection.close"},
    {method_id::connection_close_ok, "connection.close-ok"},
    {method_id::connection_blocked, "connection.blocked"},
    {method_id::connection_unblocked, "connection.unblocked"},
    {method_id::connection_update_secret, "connection.update-secret"},
    {method_id::connection_update_secret_ok, "connection.update-secret-ok"},
    {method_id::channel_open, "channel.open"},
    {method_id::channel_open_ok, "channel.open-ok"},
    {method_id::channel_flow, "channel.flow"},
    {method_id::channel_flow_ok, "channel.flow-ok"},
    {method_id::channel_close, "channel.close"},
    {method_id::channel_close_ok, "channel.close-ok"},
    {method_id::access_request, "access.request"},
    {method_id::access_request_ok, "access.request-ok"},
    {method_id::exchange_declare, "exchange.declare"},
    {method_id::exchange_declare_ok, "exchange.declare-ok"},
    {method_id::exchange_delete, "exchange.delete"},
    {method_id::exchange_delete_ok, "exchange.delete-ok"},
    {method_id::exchange_bind, "exchange.bind"},
    {method_id::exchange_bind_ok, "exchange.bind-ok"},
    {method_id::exchange_unbind, "exchange.unbind"},
    {method_id::exchange_unbind_ok, "exchange.unbind-ok"},
    {method_id::queue_declare, "queue.declare"},
    {method_id::queue_declare_ok, "queue.declare-ok"},
    {method_id::queue_bind, "queue.bind"},
    {method_id::queue_bind_ok, "queue.bind-ok"},
    {method_id::queue_purge, "queue.purge"},
    {method_id::queue_purge_ok, "queue.purge-ok"},
    {method_id::queue_delete, "queue.delete"},
    {method_id::queue_delete_ok, "queue.delete-ok"},
    {method_id::queue_unbind, "queue.unbind"},
    {method_id::queue_unbind_ok, "queue.unbind-ok"},
    {method_id::basic_qos, "basic.qos"},
    {method_id::basic_qos_ok, "basic.qos-ok"},
    {method_id::basic_consume, "basic.consume"},
    {method_id::basic_consume_ok, "basic.consume-ok"},
    {method_id::basic_cancel, "basic.cancel"},
    {method_id::basic_cancel_ok, "basic.cancel-ok"},
    {method_id::basic_publish, "basic.publish"},
    {method_id::basic_return, "basic.return"},
    {method_id::basic_deliver, "basic.deliver"},
    {method_id::basic_get, "basic.get"},
    {method_id::basic_get_ok, "basic.get-ok"},
    {method_id::basic_get_empty, "basic.get-empty"},
    {method_id::basic_ack, "basic.ack"},
    {method_id::basic_reject, "basic.reject"},
    {method_id::basic_recover_async, "basic.recover-async"},
    {method_id::basic_recover, "basic.recover"},
    {method_id::basic_recover_ok, "basic.recover-ok"},
    {method_id::basic_nack, "basic.nack"},
    {method_id::confirm_select, "confirm.select"},
    {method_id::confirm_select_ok, "confirm.select-ok"},
    {method_id::tx_select, "tx.select"},
    {method_id::tx_select_ok, "tx.select-ok"},
    {method_id::tx_commit, "tx.commit"},
    {method_id::tx_commit_ok, "tx.commit-ok"},
    {method_id::tx_rollback, "tx.rollback"},
    {method_id::tx_rollback_ok, "tx.rollback-ok"},
});
static_assert(kNames.size() == std::variant_size_v<Method>);

PeerError method_error(uint16_t code, uint32_t id, std::string text) {
  PeerError error = PeerError::connection(code, std::move(text));
  error.class_id = method_id::klass(id);
  error.method_id = method_id::method(id);
  return error;
}

/// Names and keys are text: JSON and definitions could not give others back.
class NameReader : public MethodReader {
 public:
  using MethodReader::MethodReader;
  void short_text(std::string_view& v) {
    MethodReader::short_text(v);
    text_ &= is_utf8(v);
  }
  bool text() const { return text_; }

 private:
  bool text_ = true;
};

constexpr bool has_names(uint32_t id) {
  const uint16_t of = method_id::klass(id);
  return of == method_id::klass(method_id::exchange_declare) ||
         of == method_id::klass(method_id::queue_declare) || id == method_id::basic_consume ||
         id == method_id::connection_open;
}

template <class M>
Result<Method, PeerError> parse_as(ByteSpan payload) {
  M parsed;
  NameReader reader(payload.subspan(4));
  M::fields(parsed, reader);
  if (reader.cut() || reader.left() != 0) return method_syntax_error(payload);
  if (reader.table_fault()) {
    return method_error(
        reply::frame_error, M::id,
        "malformed table in the arguments of " + method_name(M::id) + ": " + *reader.table_fault());
  }
  if (has_names(M::id) && !reader.text()) {
    return method_error(reply::frame_error, M::id,
                        "malformed UTF-8 in a name of " + method_name(M::id));
  }
  return Method(parsed);
}

using Parser = Result<Method, PeerError> (*)(ByteSpan);

template <size_t... I>
Parser find_parser(uint32_t id, std::index_sequence<I...>) {
  Parser found = nullptr;
  ((id == std::variant_alternative_t<I, Method>::id
        ? void(found = &parse_as<std::variant_alternative_t<I, Method>>)
        : void(0)),
   ...);
  return found;
}

}  // namespace

std::string method_name(uint32_t id) {
  for (const auto& [known, name] : kNames) {
    if (known == id) return std::string(name);
  }
  return std::to_string(method_id::klass(id)) + "." + std::to_string(method_id::method(id));
}

PeerError method_syntax_error(ByteSpan payload) {
  const uint32_t id = peek_method_id(payload);
  if (payload.size() < 4) {
    return method_error(reply::frame_error, 0,
                        "method frame of " + std::to_string(payload.size()) +
                            " bytes, at least 4 expected for class and method");
  }
  return method_error(reply::frame_error, id,
                      "cannot decode the arguments of " + method_name(id) +
                          ": they are cut, or longer "
                          "than they say (" +
                          std::to_string(payload.size() - 4) + " bytes)");
}

Result<Method, PeerError> parse_method(ByteSpan payload) {
  if (payload.size() < 4) return method_syntax_error(payload);
  const uint32_t id = peek_method_id(payload);
  const Parser parser = find_parser(id, std::make_index_sequence<std::variant_size_v<Method>>{});
  if (parser == nullptr) {
    return method_error(reply::not_implemented, id,
                        "unimplemented method: class " + std::to_string(method_id::klass(id)) +
                            ", method " + std::to_string(method_id::method(id)));
  }
  return parser(payload);
}

std::string make_route(std::string_view exchange, std::string_view routing_key) {
  std::string out;
  for (const std::string_view name : {short_text(exchange), short_text(routing_key)}) {
    out.push_back(static_cast<char>(name.size()));
    out.append(name);
  }
  return out;
}

}  // namespace tarry
