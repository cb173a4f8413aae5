#include "session/own_word.h"

#include <charconv>

#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {
namespace {

constexpr std::string_view kRetryHeaders = "x-retry-";
constexpr size_t kErrorBytesMax = 4096;

std::string in_words(const FieldValue& value) {
  return "the value '" + value.to_text() + "' of type '" + std::string(value.type_name()) + "'";
}

/// Not in the middle of a UTF-8 sequence.
std::string cut_error(const std::string& text) {
  if (text.size() <= kErrorBytesMax) return text;
  size_t end = kErrorBytesMax;
  while (end > kErrorBytesMax - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

/// Empty, or what is wrong with this header.
std::string read_header(const std::string& name, const FieldValue& value, OwnWord& word) {
  if (name == "x-retry-delay") {
    // An unsigned number above 63 bits is no less of a delay: the queue caps it like any other.
    const int64_t delay_ms = value.is_integer() ? value.integer().value_or(INT64_MAX) : -1;
    if (delay_ms < 0) return "allowed is an integer >= 0 (milliseconds)";
    word.delay_ms = static_cast<uint64_t>(delay_ms);
  } else if (name == "x-retry-error") {
    if (!value.text()) return "allowed is a string";
    word.error = cut_error(*value.text());
  } else if (name == "x-retry-permanent") {
    const auto permanent = value.boolean();
    if (!permanent) return "allowed is a boolean";
    word.permanent = *permanent;
  } else if (name.starts_with(kRetryHeaders)) {
    // A silent no-op would cost its user a night.
    return "allowed are x-retry-delay, x-retry-error and x-retry-permanent";
  }
  return {};
}

}  // namespace

bool Channel::read_word(const PropertiesView& view, OwnWord& word) {
  if (view.headers.empty()) return true;
  auto table = FieldTable::decode(view.headers);
  if (!table) {
    connection_.fail(nullptr, PeerError::connection(reply::frame_error, table.error()));
    return false;
  }
  for (const auto& [name, value] : table->entries) {
    const std::string complaint = read_header(name, value, word);
    if (complaint.empty()) continue;
    connection_.fail(this, PeerError::precondition_failed(
                               "invalid header '" + name + "' of a publish to exchange '" +
                               std::string(kOwnWordExchange) + "': it was " + in_words(value) +
                               ", " + complaint));
    return false;
  }
  return true;
}

/// Everything is checked before anything is settled. It needs no right: who holds a delivery may
/// settle it.
void Channel::settle_by_word(ByteSpan route, const PropertiesView& view) {
  const std::string_view key = split_route(route).routing_key;
  uint64_t tag = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), tag);
  if (key.empty() || error != std::errc{} || end != key.data() + key.size() || tag == 0) {
    return connection_.fail(
        this, PeerError::precondition_failed(
                  "invalid routing key '" + std::string(key) + "' of a publish to exchange '" +
                  std::string(kOwnWordExchange) +
                  "': expected a delivery tag of this channel, a decimal number from 1"));
  }
  OwnWord word;
  if (!read_word(view, word)) return;
  const UnackedRun* run = unacked_.find_run(tag);
  if (!run) {
    return connection_.fail(
        this, PeerError::precondition_failed("unknown delivery tag " + std::string(key)));
  }
  const QueueIdentity& queue = run->queue->handle->identity;
  if (word.delay_ms && !queue.retry_enabled) {
    return connection_.fail(
        this, PeerError::precondition_failed("invalid header 'x-retry-delay': queue '" +
                                             queue.name + "' in vhost '" + queue.vhost +
                                             "' has no retries (no x-delayed-retry-min, or "
                                             "x-delayed-retry-type disabled), a delay is "
                                             "allowed only for a queue with them"));
  }
  connection_.touch(*this);
  (void)unacked_.take_one(tag, [&](const UnackedRun& one, int entries) {
    if (entries > 0) ++one.queue->uses;
    if (tx_) {
      if (entries >= 0) ++one.queue->uses;
      tx_->settlements.push_back(
          {one, Outcome::nack_requeue, std::make_shared<OwnWord>(std::move(word))});
      return;
    }
    if (confirms_) {
      word.publish_number = confirms_->add(1);
      word.channel = number;
      word.channel_serial = serial;
      word.from = connection_.requester();
    }
    send_word(one, std::move(word));
    if (entries < 0) connection_.queues().release(*one.queue);
  });
}

void Channel::send_word(const UnackedRun& run, OwnWord word) {
  if (run.settle.consumer.value != 0) limited_out_ -= std::min<uint64_t>(limited_out_, run.count());
  settled_ += run.count();
  connection_.queues().flush();  // what was settled before it
  word.delivery = run.settle;
  run.queue->handle->settle_by_word(std::move(word));
}

}  // namespace tarry
