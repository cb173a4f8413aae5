#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tarrymq/amqp/field_table.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/result.h"

namespace tarry {

/// What `x-message-deduplication: true` asks for, on a queue or on an exchange.
struct Deduplication {
  size_t cache_size = 128;               // x-cache-size, 1 to 10,000,000
  std::optional<uint64_t> cache_ttl_ms;  // x-cache-ttl, at least 1; none: until others push it out
  std::string header =
      "x-deduplication-header";  // x-deduplication-header: the name of the message's header
};

/// What goes wrong: the argument's name, and what was expected and came instead.
struct ArgumentComplaint {
  std::string argument, text;
};
/// None: not asked for. A cache argument without `x-message-deduplication: true` is a complaint
/// too.
Result<std::optional<Deduplication>, ArgumentComplaint> deduplication_of(
    const FieldTable& arguments);
/// The arguments that deduplication_of looks at, for equivalence.
inline constexpr std::string_view kDeduplicationArguments[] = {
    "x-message-deduplication", "x-cache-size", "x-cache-ttl", "x-deduplication-header"};

/// The values of the deduplication header seen lately, in memory: a restart forgets them (as
/// LavinMQ does). A message without the header is never a duplicate. One thread at a time.
class Deduplicator {
 public:
  explicit Deduplicator(Deduplication settings) : settings_(std::move(settings)) {}

  /// True if a message with this value was seen and has not expired. Else it is noted: for the
  /// message's own x-cache-ttl (an integer, ms) if it has one, else for the settings'. The oldest
  /// leaves when the cache is full. `headers`: a checked header table, may be empty.
  bool seen_before(ByteSpan headers, uint64_t now_ms) {
    auto value = value_of(headers);
    return value && seen_before(std::move(*value), headers, now_ms);
  }
  bool seen_before(std::string value, ByteSpan headers, uint64_t now_ms);
  /// What of a message is compared: its header as bytes, integers of all types alike. None: it has
  /// no such header.
  std::optional<std::string> value_of(ByteSpan headers) const;
  /// The message was not taken after all: its publisher will come again with it.
  void forget(const std::string& value);
  size_t size() const { return by_age_.size(); }

 private:
  struct Seen {
    std::string value;
    uint64_t expires_ms;
  };
  const Deduplication settings_;
  std::list<Seen> by_age_;  // oldest first
  std::unordered_map<std::string_view, std::list<Seen>::iterator>
      seen_;  // keys borrow from by_age_
};

}  // namespace tarry
