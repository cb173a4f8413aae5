#include "tarrymq/amqp/properties.h"

#include "amqp/table_walk.h"
#include "tarrymq/amqp/method_writer.h"
#include "tarrymq/amqp/spec_0_9_1.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {

// A content header's payload, all integers big-endian:
//
//     class 60 (2) | weight 0 (2) | body size (8) | flags (2) | properties that the flags name,
//     from bit 15 down
//
// A property: content-type, content-encoding, correlation-id, reply-to, expiration, message-id,
// type, user-id, app-id, cluster-id: short string; headers: table; delivery-mode, priority: 1
// octet; timestamp: 8 octets. Flag bit 0 (a second flags word follows) and bit 1 mean properties
// that nobody has defined: malformed.

namespace {

constexpr size_t kFlagsAt = 12;

/// Reads properties one by one; after the first fault all else is a no-op.
class Reader {
 public:
  Reader(ByteSpan payload)
      : start_(payload.data()),
        p_(start_ + kContentHeaderFixedBytes),
        end_(start_ + payload.size()) {}

  void short_text(std::optional<std::string_view>& out) {
    if (p_ == end_) return fail("cut property", p_);
    const size_t size = std::to_integer<uint8_t>(*p_);
    if (static_cast<size_t>(end_ - p_) <= size) return fail("property beyond the end", p_);
    out.emplace(reinterpret_cast<const char*>(p_ + 1), size);
    p_ += 1 + size;
  }
  void octet(uint8_t& out) {
    if (p_ == end_) return fail("cut property", p_);
    out = std::to_integer<uint8_t>(*p_++);
  }
  void timestamp(std::optional<uint64_t>& out) {
    if (end_ - p_ < 8) return fail("cut property", p_);
    out = load_be<uint64_t>(p_);
    p_ += 8;
  }
  void headers(PropertiesView& out);
  void end() {
    if (p_ != end_) fail("bytes behind the properties", p_);
  }

  size_t offset() const { return p_ - start_; }
  const table_walk::Fault& fault() const { return fault_; }
  std::string describe() const { return table_walk::describe(fault_, start_); }

 private:
  void fail(const char* what, const std::byte* at) { fail({what, at}); }
  void fail(const table_walk::Fault& fault) {
    if (!fault_) fault_ = fault;
    p_ = end_;  // what is read from here on fails too, and is not heard
  }

  const std::byte* const start_;
  const std::byte* p_;
  const std::byte* const end_;
  table_walk::Fault fault_;
};

void note_name(PropertiesView& out, std::string_view name) {
  switch (name.size()) {
    case 2:
      out.has_cc |= name == "CC";
      break;
    case 3:
      out.has_bcc |= name == "BCC";
      break;
    case 7:
      out.has_death |= name == "x-death";
      out.has_delay |= name == "x-delay";
      break;
    case 16:
      out.has_delivery_count |= name == "x-delivery-count";
      break;
    case 22:
      out.has_deduplication |= name == "x-deduplication-header";
      break;
    default:
      break;
  }
}

void Reader::headers(PropertiesView& out) {
  const std::byte* const table = p_;
  const std::byte* table_end = nullptr;
  if (auto fault = table_walk::check_size(p_, end_, table_end)) return fail(fault);
  auto seen = [&](std::string_view name) { note_name(out, name); };
  if (auto fault = table_walk::check_entries(p_, table_end, 1, seen)) return fail(fault);
  p_ = table_end;
  out.headers = {table, table_end};
}

/// The ordinary message has none but these.
constexpr uint16_t kOctets = property_flag::delivery_mode | property_flag::priority;

constexpr size_t octets_end(uint16_t flags) {
  return kContentHeaderFixedBytes + ((flags & property_flag::delivery_mode) != 0) +
         ((flags & property_flag::priority) != 0);
}

/// Back to a new one, if it is new or as a parse left it. What parse has filled is what the flags
/// of that time name, and mostly that is little: clearing all of a view costs more than parsing an
/// ordinary header.
void reset(PropertiesView& out) {
  if ((out.flags & ~kOctets) != 0) {
    out = PropertiesView{};
    return;
  }
  out.body_size = 0;
  out.flags = 0;
  out.headers_offset = 0;
  out.delivery_mode = out.priority = 0;
}

/// The properties that the flags name, one after the other.
bool parse_list(ByteSpan payload, uint16_t flags, PropertiesView& out, std::string& error) {
  Reader in(payload);
  if (flags & property_flag::content_type) in.short_text(out.content_type);
  if (flags & property_flag::content_encoding) in.short_text(out.content_encoding);
  out.headers_offset = in.offset();
  if (flags & property_flag::headers) in.headers(out);
  if (flags & property_flag::delivery_mode) in.octet(out.delivery_mode);
  if (flags & property_flag::priority) in.octet(out.priority);
  if (flags & property_flag::correlation_id) in.short_text(out.correlation_id);
  if (flags & property_flag::reply_to) in.short_text(out.reply_to);
  if (flags & property_flag::expiration) in.short_text(out.expiration);
  if (flags & property_flag::message_id) in.short_text(out.message_id);
  if (flags & property_flag::timestamp) in.timestamp(out.timestamp);
  if (flags & property_flag::type) in.short_text(out.type);
  if (flags & property_flag::user_id) in.short_text(out.user_id);
  if (flags & property_flag::app_id) in.short_text(out.app_id);
  if (flags & property_flag::cluster_id) in.short_text(out.cluster_id);
  in.end();
  if (in.fault()) [[unlikely]] {
    error = in.describe();
    return false;
  }
  return true;
}

}  // namespace

bool PropertiesView::parse_into(ByteSpan payload, PropertiesView& out, std::string& error) {
  reset(out);
  if (payload.size() < kContentHeaderFixedBytes) {
    error = "content header of " + std::to_string(payload.size()) + " bytes, at least 14 expected";
    return false;
  }
  // Class and weight at once.
  if (load_be<uint32_t>(payload.data()) != uint32_t{class_id::basic} << 16) {
    error = "content header of class " + std::to_string(load_be<uint16_t>(payload.data())) +
            ", weight " + std::to_string(load_be<uint16_t>(payload.data() + 2)) +
            ", expected class 60, weight 0";
    return false;
  }
  out.body_size = load_be<uint64_t>(payload.data() + 4);
  const auto flags = out.flags = load_be<uint16_t>(payload.data() + kFlagsAt);
  if ((flags & 3) != 0) {
    error = "property flags of undefined properties";
    return false;
  }
  out.headers_offset = kContentHeaderFixedBytes;
  if ((flags & ~kOctets) == 0 && payload.size() == octets_end(flags)) [[likely]] {
    const std::byte* p = payload.data() + kContentHeaderFixedBytes;
    if (flags & property_flag::delivery_mode) out.delivery_mode = std::to_integer<uint8_t>(*p++);
    if (flags & property_flag::priority) out.priority = std::to_integer<uint8_t>(*p);
    return true;
  }
  return parse_list(payload, flags, out, error);
}

Result<PropertiesView, std::string> PropertiesView::parse(ByteSpan payload) {
  PropertiesView view;
  std::string error;
  if (!parse_into(payload, view, error)) return error;
  return view;
}

}  // namespace tarry
