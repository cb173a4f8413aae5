#include "tarrymq/amqp/properties.h"

#include "amqp/append_be.h"
#include "tarrymq/amqp/method_writer.h"
#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/amqp/table_view.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {

namespace {

constexpr size_t kRewrittenFlagsAt = 12;
constexpr std::string_view kDeliveryCount = "x-delivery-count";
constexpr std::string_view kLastError = "x-last-error";
constexpr size_t kDeliveryCountBytes = 1 + kDeliveryCount.size() + 1 + 8;  // as an entry of type l

void append(std::string& out, ByteSpan bytes) { out.append(as_text(bytes)); }

/// Everything before the header table, with other flags.
void append_front(std::string& out, ByteSpan payload, const PropertiesView& view, uint16_t flags) {
  append(out, payload.first(kRewrittenFlagsAt));
  append_be(out, flags);
  append(out,
         payload.subspan(kContentHeaderFixedBytes, view.headers_offset - kContentHeaderFixedBytes));
}

/// Everything behind the header table.
ByteSpan back_of(ByteSpan payload, const PropertiesView& view) {
  return payload.subspan(view.headers_offset + view.headers.size());
}

/// Copies the table's entries but those of these names.
void append_entries_without(std::string& out, ByteSpan table, std::string_view name,
                            std::string_view other = {}) {
  const std::byte* entry = table.data() + 4;
  TableReader reader(table);
  FieldView field;
  while (reader.next(field)) {
    const std::byte* end = field.value.data() + field.value.size();
    if (field.name != name && (other.empty() || field.name != other)) append(out, {entry, end});
    entry = end;
  }
}

PropertiesView checked_view(ByteSpan payload) {
  PropertiesView view;
  std::string error;
  const bool well_formed = PropertiesView::parse_into(payload, view, error);
  TARRY_INVARIANT(
      well_formed);  // it was checked when it was published, and a record's checksum holds
  return view;
}

std::string rewrite(ByteSpan payload, const FieldTable& headers, bool keep_expiration) {
  const PropertiesView view = checked_view(payload);
  uint16_t flags = view.flags & ~property_flag::headers;
  if (!headers.empty()) flags |= property_flag::headers;
  if (!keep_expiration) flags &= ~property_flag::expiration;
  std::string out;
  append_front(out, payload, view, flags);
  if (!headers.empty()) headers.encode(out);
  ByteSpan back = back_of(payload, view);
  if (!keep_expiration && view.expiration) {
    const size_t at = as_bytes(*view.expiration).data() - 1 - back.data();  // its size octet
    append(out, back.first(at));
    back = back.subspan(at + 1 + view.expiration->size());
  }
  append(out, back);
  return out;
}

}  // namespace

std::string with_headers(ByteSpan header_payload, const FieldTable& headers) {
  return rewrite(header_payload, headers, true);
}

std::string without_expiration(ByteSpan header_payload, const FieldTable& headers) {
  return rewrite(header_payload, headers, false);
}

void append_with_delivery_count(std::string& out, ByteSpan header_payload,
                                const PropertiesView& view, int64_t count) {
  append_front(out, header_payload, view, view.flags | property_flag::headers);
  const size_t table_at = out.size();
  append_be(out, uint32_t{0});
  if (view.has_delivery_count) {
    append_entries_without(out, view.headers, kDeliveryCount);
  } else if (!view.headers.empty()) {
    append(out, view.headers.subspan(4));
  }
  std::byte entry[kDeliveryCountBytes];
  MethodWriter writer(entry);
  writer.short_text(kDeliveryCount);
  writer.octet('l');
  writer.integer(count);
  append(out, entry);
  store_be(reinterpret_cast<std::byte*>(out.data()) + table_at,
           static_cast<uint32_t>(out.size() - table_at - 4));
  append(out, back_of(header_payload, view));
}

void append_with_last_error(std::string& out, ByteSpan header_payload, const PropertiesView& view,
                            int64_t count, std::string_view last_error) {
  append_front(out, header_payload, view, view.flags | property_flag::headers);
  const size_t table_at = out.size();
  append_be(out, uint32_t{0});
  if (!view.headers.empty()) {
    append_entries_without(out, view.headers, kLastError,
                           count > 0 ? kDeliveryCount : std::string_view());
  }
  const auto name = [&out](std::string_view text) {
    out.push_back(static_cast<char>(text.size()));
    out.append(text);
  };
  if (count > 0) {
    name(kDeliveryCount);
    out.push_back('l');
    append_be(out, static_cast<uint64_t>(count));
  }
  name(kLastError);
  out.push_back('S');
  append_be(out, static_cast<uint32_t>(last_error.size()));
  out.append(last_error);
  store_be(reinterpret_cast<std::byte*>(out.data()) + table_at,
           static_cast<uint32_t>(out.size() - table_at - 4));
  append(out, back_of(header_payload, view));
}

void append_without_header(std::string& out, ByteSpan header_payload, const PropertiesView& view,
                           std::string_view name) {
  if (view.headers.empty()) return append(out, header_payload);
  append_front(out, header_payload, view, view.flags);
  const size_t table_at = out.size();
  append_be(out, uint32_t{0});
  append_entries_without(out, view.headers, name);
  store_be(reinterpret_cast<std::byte*>(out.data()) + table_at,
           static_cast<uint32_t>(out.size() - table_at - 4));
  append(out, back_of(header_payload, view));
}

std::string PropertiesBuilder::build(uint64_t body_size) const {
  std::string out;
  append_be(out, class_id::basic);
  append_be(out, uint16_t{0});
  append_be(out, body_size);
  append_be(out, uint16_t{0});
  uint16_t flags = 0;
  auto text = [&](const std::optional<std::string>& value, uint16_t flag) {
    if (!value) return;
    flags |= flag;
    const std::string_view cut = short_text(*value);
    out.push_back(static_cast<char>(cut.size()));
    out.append(cut);
  };
  auto octet = [&](std::optional<uint8_t> value, uint16_t flag) {
    if (!value) return;
    flags |= flag;
    out.push_back(static_cast<char>(*value));
  };
  text(content_type, property_flag::content_type);
  text(content_encoding, property_flag::content_encoding);
  if (headers) {
    flags |= property_flag::headers;
    headers->encode(out);
  }
  octet(delivery_mode, property_flag::delivery_mode);
  octet(priority, property_flag::priority);
  text(correlation_id, property_flag::correlation_id);
  text(reply_to, property_flag::reply_to);
  text(expiration, property_flag::expiration);
  text(message_id, property_flag::message_id);
  if (timestamp) {
    flags |= property_flag::timestamp;
    append_be(out, *timestamp);
  }
  text(type, property_flag::type);
  text(user_id, property_flag::user_id);
  text(app_id, property_flag::app_id);
  text(cluster_id, property_flag::cluster_id);
  store_be(reinterpret_cast<std::byte*>(out.data()) + kRewrittenFlagsAt, flags);
  return out;
}

}  // namespace tarry
