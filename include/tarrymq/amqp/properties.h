#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// Bits of the property flags word, from content-type down (AMQP 0-9-1, 4.2.6.1).
namespace property_flag {
inline constexpr uint16_t content_type = 1 << 15, content_encoding = 1 << 14, headers = 1 << 13,
                          delivery_mode = 1 << 12, priority = 1 << 11, correlation_id = 1 << 10,
                          reply_to = 1 << 9, expiration = 1 << 8, message_id = 1 << 7,
                          timestamp = 1 << 6, type = 1 << 5, user_id = 1 << 4, app_id = 1 << 3,
                          cluster_id = 1 << 2;
}  // namespace property_flag

/// A content header's payload looked at in place: class 60, weight, body size, flags, property
/// list. All views borrow the payload. Made by parse(), which walks everything once and checks it,
/// the header table included.
struct PropertiesView {
  uint64_t body_size = 0;
  uint16_t flags = 0;
  ByteSpan headers;           // the whole table with its length, empty if there is none
  size_t headers_offset = 0;  // where the table starts in the payload (or would start)
  uint8_t delivery_mode = 0;  // 0 if absent
  uint8_t priority = 0;       // 0 if absent
  std::optional<std::string_view> expiration, user_id, reply_to, content_type, content_encoding,
      correlation_id, message_id, type, app_id, cluster_id;
  std::optional<uint64_t> timestamp;
  // What the header table holds at its top level, so that nobody has to look again.
  bool has_cc = false, has_bcc = false, has_delivery_count = false, has_death = false,
       has_delay = false, has_deduplication = false;

  /// `payload`: of a content header frame. The error text says what was malformed (it becomes 501).
  static Result<PropertiesView, std::string> parse(ByteSpan payload);
  /// The same into `out`, which is overwritten: for the hot path. False: malformed, `error` says
  /// what.
  static bool parse_into(ByteSpan payload, PropertiesView& out, std::string& error);
};

/// The header payload with another header table (empty table: no headers property). Everything else
/// byte for byte.
std::string with_headers(ByteSpan header_payload, const FieldTable& headers);
/// The same with `x-delivery-count` = count as signed 64-bit at the end of the table (replacing one
/// that is there). Appends to `out`; does not decode the table. Hot path of redeliveries.
void append_with_delivery_count(std::string& out, ByteSpan header_payload,
                                const PropertiesView& view, int64_t count);
/// The same with `x-last-error` too, as a long string (retry-spec 35), replacing one that is there.
/// `count` 0: without a new x-delivery-count.
void append_with_last_error(std::string& out, ByteSpan header_payload, const PropertiesView& view,
                            int64_t count, std::string_view last_error);
/// The header payload without the entries of that name at the top level of its header table; all
/// else byte for byte (a table that becomes empty stays). For BCC, and x-delivery-count of a client
/// (retry-spec 15). Appends to `out`.
void append_without_header(std::string& out, ByteSpan header_payload, const PropertiesView& view,
                           std::string_view name);
/// The header payload without its expiration property, and with other headers (dead-lettering).
std::string without_expiration(ByteSpan header_payload, const FieldTable& headers);

/// A content header payload from values, for messages that the broker or HTTP makes.
struct PropertiesBuilder {
  std::optional<std::string> content_type, content_encoding, correlation_id, reply_to, expiration,
      message_id, type, user_id, app_id, cluster_id;
  std::optional<FieldTable> headers;
  std::optional<uint8_t> delivery_mode, priority;
  std::optional<uint64_t> timestamp;
  std::string build(uint64_t body_size) const;
};

}  // namespace tarry
