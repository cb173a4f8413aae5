#include "storage/ack_events.h"

#include <cstring>

namespace tarry {
namespace {

constexpr uint32_t kEventBytesMax = 64u << 20;

std::byte* start(std::vector<std::byte>& out, AckKind kind, size_t payload_bytes) {
  size_t at = out.size();
  out.resize(at + kEventHeadBytes + payload_bytes);
  std::byte* p = out.data() + at;
  store_le<uint32_t>(p + 4, static_cast<uint32_t>(kEventHeadBytes + payload_bytes));
  p[8] = static_cast<std::byte>(kind);
  return p;
}

/// Every error text has its length in the four bytes before it.
void put_text(std::byte* to, std::string_view text) {
  store_le<uint32_t>(to - 4, static_cast<uint32_t>(text.size()));
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
}

}  // namespace

void put_gone(std::vector<std::byte>& out, OrdinalRun run) {
  std::byte* p = start(out, AckKind::gone, 8);
  store_le<uint32_t>(p + 12, run.first);
  store_le<uint32_t>(p + 16, run.count);
}

void put_raise(std::vector<std::byte>& out, OrdinalRun run, uint32_t counter) {
  std::byte* p = start(out, AckKind::raise, 12);
  store_le<uint32_t>(p + 12, run.first);
  store_le<uint32_t>(p + 16, run.count);
  store_le<uint32_t>(p + 20, counter);
}

void put_delivered(std::vector<std::byte>& out, uint32_t up_to) {
  store_le<uint32_t>(start(out, AckKind::delivered, 4) + 12, up_to);
}

void put_move_closed(std::vector<std::byte>& out, uint32_t ordinal) {
  store_le<uint32_t>(start(out, AckKind::move_closed, 4) + 12, ordinal);
}

void put_all_gone(std::vector<std::byte>& out, uint32_t up_to,
                  const std::vector<OrdinalRun>& spared) {
  std::byte* p = start(out, AckKind::all_gone, 8 + spared.size() * 8);
  store_le<uint32_t>(p + 12, up_to);
  store_le<uint32_t>(p + 16, static_cast<uint32_t>(spared.size()));
  p += 20;
  for (const OrdinalRun& run : spared) {
    store_le<uint32_t>(p, run.first);
    store_le<uint32_t>(p + 4, run.count);
    p += 8;
  }
}

void put_park(std::vector<std::byte>& out, const AckPark& park) {
  std::string_view error = park.error.substr(0, kErrorTextBytesMax);
  std::byte* p = start(out, AckKind::park, kParkFixedBytes - kEventHeadBytes + error.size());
  p[9] = static_cast<std::byte>((park.shape_known ? 1 : 0) | (park.no_ttl ? 2 : 0) |
                                (park.body_counted ? 4 : 0));
  store_le<uint32_t>(p + 12, park.ordinal);
  store_le<uint32_t>(p + 16, park.offset);
  store_le<uint64_t>(p + 20, park.due_ms);
  store_le<uint64_t>(p + 28, park.rejected_ms);
  store_le<uint32_t>(p + 36, park.counter);
  store_le<uint32_t>(p + 40, park.delay_ms);
  store_le<uint64_t>(p + 44, park.published_ms);
  store_le<uint32_t>(p + 52, park.ttl_ms);
  store_le<uint32_t>(p + 56, park.body_bytes);
  put_text(p + kParkFixedBytes, error);
}

void put_dying(std::vector<std::byte>& out, uint32_t ordinal, const AckDying& dying,
               std::string_view error) {
  error = error.substr(0, kErrorTextBytesMax);
  std::byte* p = start(out, AckKind::dying, kDyingFixedBytes - kEventHeadBytes + error.size());
  store_le<uint32_t>(p + 12, ordinal);
  store_le<uint64_t>(p + 16, dying.died_ms);
  store_le<uint32_t>(p + 24, dying.delivery_count);
  p[28] = static_cast<std::byte>(dying.reason);
  put_text(p + kDyingFixedBytes, error);
}

void put_error(std::vector<std::byte>& out, uint32_t ordinal, std::string_view error) {
  error = error.substr(0, kErrorTextBytesMax);
  std::byte* p = start(out, AckKind::error, kErrorFixedBytes - kEventHeadBytes + error.size());
  store_le<uint32_t>(p + 12, ordinal);
  put_text(p + kErrorFixedBytes, error);
}

std::string text_behind_length(ByteSpan bytes) {
  if (bytes.size() < 4) return {};
  const uint32_t length = load_le<uint32_t>(bytes.data());
  return length <= bytes.size() - 4 ? std::string(as_text(bytes.subspan(4, length)))
                                    : std::string();
}

void seal_events(std::span<std::byte> events, uint32_t seed) {
  while (!events.empty()) {
    uint32_t bytes = load_le<uint32_t>(events.data() + 4);
    store_le<uint32_t>(events.data(), checksum(events.data() + 4, bytes - 4, seed));
    events = events.subspan(bytes);
  }
}

AckPark load_park(const std::byte* p) {
  AckPark out;
  out.shape_known = (p[9] & std::byte{1}) != std::byte{0};
  out.no_ttl = (p[9] & std::byte{2}) != std::byte{0};
  out.body_counted = (p[9] & std::byte{4}) != std::byte{0};
  out.ordinal = load_le<uint32_t>(p + 12);
  out.offset = load_le<uint32_t>(p + 16);
  out.due_ms = load_le<uint64_t>(p + 20);
  out.rejected_ms = load_le<uint64_t>(p + 28);
  out.counter = load_le<uint32_t>(p + 36);
  out.delay_ms = load_le<uint32_t>(p + 40);
  out.published_ms = load_le<uint64_t>(p + 44);
  out.ttl_ms = load_le<uint32_t>(p + 52);
  out.body_bytes = load_le<uint32_t>(p + 56);
  return out;
}

namespace {

bool decode_text(const std::byte* p, uint32_t fixed_bytes, AckEvent& out) {
  if (out.bytes < fixed_bytes) return false;
  out.error_at = fixed_bytes;
  out.error_bytes = load_le<uint32_t>(p + fixed_bytes - 4);
  return out.error_bytes == out.bytes - fixed_bytes && out.error_bytes <= kErrorTextBytesMax;
}

bool decode_park(const std::byte* p, AckEvent& event) {
  if (!decode_text(p, kParkFixedBytes, event)) return false;
  event.park = load_park(p);
  return true;
}

bool decode_dying(const std::byte* p, AckEvent& event) {
  if (!decode_text(p, kDyingFixedBytes, event)) return false;
  event.dying.died_ms = load_le<uint64_t>(p + 16);
  event.dying.delivery_count = load_le<uint32_t>(p + 24);
  event.dying.reason = static_cast<uint8_t>(p[28]);
  return true;
}

bool decode_all_gone(const std::byte* p, uint32_t bytes, AckEvent& out) {
  if (bytes < kEventHeadBytes + 8) return false;
  uint32_t runs = load_le<uint32_t>(p + 16);
  if (runs != (bytes - kEventHeadBytes - 8) / 8) return false;
  for (uint32_t i = 0; i < runs; ++i) {
    out.spared.push_back({load_le<uint32_t>(p + 20 + i * 8), load_le<uint32_t>(p + 24 + i * 8)});
  }
  return true;
}

}  // namespace

std::optional<AckEvent> decode_event(ByteSpan in, uint32_t seed) {
  if (in.size() < kEventHeadBytes + 4) return {};
  const std::byte* p = in.data();
  AckEvent event;
  event.bytes = load_le<uint32_t>(p + 4);
  if (event.bytes < kEventHeadBytes + 4 || event.bytes > in.size() || event.bytes > kEventBytesMax)
    return {};
  if (load_le<uint32_t>(p) != checksum(p + 4, event.bytes - 4, seed)) return {};
  event.kind = static_cast<AckKind>(p[8]);
  event.first = load_le<uint32_t>(p + 12);
  bool good = false;
  switch (event.kind) {
    case AckKind::gone:
      good = event.bytes == kGoneEventBytes;
      if (good) event.count = load_le<uint32_t>(p + 16);
      break;
    case AckKind::raise:
      good = event.bytes == kEventHeadBytes + 12;
      if (good) event.count = load_le<uint32_t>(p + 16);
      if (good) event.counter = load_le<uint32_t>(p + 20);
      break;
    case AckKind::delivered:
    case AckKind::move_closed:
      good = event.bytes == kEventHeadBytes + 4;
      break;
    case AckKind::park:
      good = decode_park(p, event);
      break;
    case AckKind::dying:
      good = decode_dying(p, event);
      break;
    case AckKind::error:
      good = decode_text(p, kErrorFixedBytes, event);
      break;
    case AckKind::all_gone:
      good = decode_all_gone(p, event.bytes, event);
      break;
  }
  if (!good) return {};
  return event;
}

}  // namespace tarry
