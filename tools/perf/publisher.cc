#include "perf/publisher.h"

#include <algorithm>

#include "perf/ledger.h"
#include "perf/wire.h"

namespace tarry::perf {
namespace {

constexpr size_t kBatchBytes = 128 * 1024;
constexpr size_t kNumberBytes = 8;
constexpr int kBatchesPerPump = 16;

}  // namespace

Publisher::Publisher(const Options& options, uint32_t index, uint64_t count, Counters& counters)
    : link_(options),
      counters_(counters),
      index_(index),
      window_(options.confirm_window),
      count_(count),
      rate_(options.rate),
      numbered_(options.size_bytes >= kNumberBytes),
      stamped_(options.stamped) {
  if (window_ > 0) link_.call(85, 10, std::string(1, '\0'), 11);
  auto encode = [&](uint32_t queue) {
    return encode_publish(exchange_name(options), routing_key(options, queue), options.persistent,
                          std::string(options.size_bytes, 'x'), link_.frame_max());
  };
  auto message = encode(index % options.queues);
  stride_ = message.bytes.size();
  body_offset_ = message.body_offset;
  batch_messages_ = std::max<uint64_t>(1, kBatchBytes / stride_);
  for (uint64_t i = 0; i < batch_messages_; ++i) {
    // A topic's keys are all of one length.
    if (options.exchange_type == "topic")
      message = encode(static_cast<uint32_t>((index + i) % options.queues));
    batch_ += message.bytes;
  }
  link_.make_asynchronous();
}

bool Publisher::begin_batch(int64_t now) {
  if (began_ == 0) began_ = now;
  uint64_t n = std::min(batch_messages_, count_ - sequence_);
  if (window_ > 0)
    n = std::min(
        n, window_ - std::min<uint64_t>(window_, sequence_ - settled_to_ - settled_ahead_.size()));
  if (rate_ > 0) {
    auto allowed = static_cast<uint64_t>(static_cast<double>(now - began_) * 1e-9 *
                                         static_cast<double>(rate_)) +
                   1;
    n = std::min(n, allowed - std::min(allowed, sequence_));
  }
  if (n == 0) return false;
  if (numbered_) {
    char* at = batch_.data() + body_offset_;
    for (uint64_t i = 0; i < n; ++i, at += stride_) {
      store64(at, MessageNumber::make(index_, sequence_ + i));
      if (stamped_) store64(at + kNumberBytes, static_cast<uint64_t>(now));
    }
  }
  sequence_ += n;
  batch_at_ = 0;
  batch_end_ = n * stride_;
  return true;
}

bool Publisher::pump(int64_t now, bool may_begin_batches) {
  bool moved = false;
  if (window_ > 0) read_confirms();
  for (int i = 0; i < kBatchesPerPump; ++i) {
    if (batch_at_ == batch_end_ && (!may_begin_batches || sequence_ >= count_ || !begin_batch(now)))
      break;
    size_t sent = link_.send_some({batch_.data() + batch_at_, batch_end_ - batch_at_});
    if (sent == 0) break;
    moved = true;
    batch_at_ += sent;
    if (batch_at_ == batch_end_)
      counters_.sent.fetch_add(batch_end_ / stride_, std::memory_order_relaxed);
  }
  if (!moved) {
    uint64_t before = settled_to_;
    read_confirms();
    moved = settled_to_ != before;
  }
  return moved;
}

void Publisher::read_confirms() {
  while (link_.receive() > 0) {
    each_frame(link_, [this](uint8_t type, std::string_view payload) {
      if (type != kMethodFrame) return;
      uint32_t key = load32(payload.data());
      if (key == kBasicAck || key == kBasicNack) {
        settle(load64(payload.data() + 4), (payload[12] & 1) != 0, key == kBasicAck);
      } else {
        Link::check_close(key, payload.substr(4));
      }
    });
  }
}

void Publisher::settle(uint64_t tag, bool multiple, bool well) {
  uint64_t before = settled_to_ + settled_ahead_.size();
  if (tag <= settled_to_ || tag > sequence_ || settled_ahead_.contains(tag))
    die("a confirm for a tag that is not open");
  if (multiple || tag == settled_to_ + 1) {
    settled_to_ = tag;
    settled_ahead_.erase(settled_ahead_.begin(), settled_ahead_.upper_bound(tag));
    while (!settled_ahead_.empty() && *settled_ahead_.begin() == settled_to_ + 1) {
      ++settled_to_;
      settled_ahead_.erase(settled_ahead_.begin());
    }
  } else {
    settled_ahead_.insert(tag);
  }
  uint64_t settled = settled_to_ + settled_ahead_.size() - before;
  (well ? counters_.confirmed : counters_.refused).fetch_add(settled, std::memory_order_relaxed);
}

}  // namespace tarry::perf
