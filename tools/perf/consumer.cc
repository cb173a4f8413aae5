#include "perf/consumer.h"

#include "perf/process_stats.h"
#include "perf/wire.h"

namespace tarry::perf {
namespace {

constexpr int kReceivesPerPump = 8;

}  // namespace

Consumer::Consumer(const Options& options, uint32_t index, uint32_t publishers, Counters& counters,
                   Findings& findings)
    : link_(options),
      counters_(counters),
      findings_(findings),
      ledger_(findings.ledgers[index % options.queues % findings.ledgers.size()]),
      size_bytes_(options.size_bytes),
      last_(publishers, -1) {
  // A batch that the prefetch does not allow to fill would wait for ever.
  ack_batch_ = options.ack_batch;
  if (options.prefetch > 0) ack_batch_ = std::min(ack_batch_, options.prefetch);
  start_consuming(link_, options, index % options.queues, ack_batch_ == 0);
  link_.make_asynchronous();
}

bool Consumer::pump() {
  uint64_t before = received_;
  bool moved = false;
  for (int i = 0; i < kReceivesPerPump && link_.receive() > 0; ++i) {
    moved = true;
    each_frame(link_, [this](uint8_t type, std::string_view payload) { on_frame(type, payload); });
  }
  (void)link_.flush();  // what does not fit leaves at the next round: the socket's edge wakes us
  if (received_ != before) {
    counters_.received.fetch_add(received_ - before, std::memory_order_relaxed);
    findings_.last_ns = now_ns();
    if (findings_.first_ns == 0) findings_.first_ns = findings_.last_ns;
  }
  return moved;
}

void Consumer::finish_batch() {
  if (unacked_ == 0) return;
  acknowledge();
  (void)link_.flush();
}

void Consumer::on_frame(uint8_t type, std::string_view payload) {
  if (type == kMethodFrame) {
    uint32_t key = load32(payload.data());
    if (key != kBasicDeliver) return Link::check_close(key, payload.substr(4));
    size_t tag_at = 5 + static_cast<uint8_t>(payload[4]);
    delivery_tag_ = load64(payload.data() + tag_at);
    redelivered_ = payload[tag_at + 8] != 0;
  } else if (type == kHeaderFrame) {
    body_bytes_ = load64(payload.data() + 4);
    if (body_bytes_ != size_bytes_) die("a body of another size than was sent");
    body_left_ = body_bytes_;
    if (body_left_ == 0) on_message();
  } else if (type == kBodyFrame) {
    if (body_left_ == body_bytes_ && payload.size() >= 8) note(load64(payload.data()));
    body_left_ -= payload.size();
    if (body_left_ == 0) on_message();
  }
}

void Consumer::note(uint64_t number) {
  if (!ledger_.note(number)) ++findings_.doubled;
  if (redelivered_) {
    ++findings_.redelivered;
    return;
  }
  auto sequence = static_cast<int64_t>(MessageNumber::sequence(number));
  uint32_t publisher = MessageNumber::publisher(number);
  if (publisher >= last_.size()) return;  // counted by the ledger
  if (sequence <= last_[publisher]) ++findings_.out_of_order;
  last_[publisher] = sequence;
}

void Consumer::on_message() {
  ++received_;
  whole_tag_ = delivery_tag_;
  if (ack_batch_ > 0 && ++unacked_ >= ack_batch_) acknowledge();
}

void Consumer::acknowledge() {
  static const std::string kAck = method_frame(1, 60, 80, std::string(8, '\0') + '\1');  // multiple
  size_t at = link_.out.size();
  link_.out += kAck;
  store64(link_.out.data() + at + kFrameHead + 4, whole_tag_);
  unacked_ = 0;
}

}  // namespace tarry::perf
