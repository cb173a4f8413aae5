#include <string>

#include "fuzz/fuzz_support.h"
#include "unit/session/fake_queues.inc"
#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

/// What happens around the connection while the client talks: the input has these among its frames,
/// as 0x80 + the value.
enum class Event : uint8_t {
  deliver,         // by the a-th consumer: 1 + b % 8 messages; c: bit 0 a counter, bit 1 a text
  confirm,         // what is not confirmed so far; a: bit 0 refused, bit 1 only the first half
  confirm_mode,    // a: bit 0 at once
  replies,         // of queues; a: bit 0 held
  answers,         // of the vhost; a: bit 0 held
  socket,          // a: bit 0 takes nothing
  time,            // a seconds and b * 10 ms pass
  room,            // in other shards; a: bit 0 none
  alarm,           // a: bit 0 on
  close,           // by the administrator
  queue_cancel,    // the a-th consumer
  credit_wanted,   // by the queue, for the a-th consumer
  credit_back,     // b of the a-th consumer's
  ready,           // a message for basic.get
  vanish,          // the queue, from the vhost
  no_consumption,  // a: bit 0 basic.consume is refused
  kCount
};

/// The connection's state machine with a client, queues and a vhost that do what the input says.
class FuzzedSession final : public SessionTest {
 public:
  ~FuzzedSession() override {
    on_shard([this] { connection.reset(); });
    access.vhost->queues.clear();
  }
  void TestBody() override {}

  /// Input: a byte of flags, then either bytes as they are, or frames of (type, channel, two bytes
  /// of length, payload), which are sent well framed, and events of four bytes.
  void run(const uint8_t* data, size_t size) {
    if (size == 0) return;
    const uint8_t flags = data[0];
    std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    one_byte_at_a_time = flags & 1 && rest.size() < 300;
    settings.outbound_high_bytes = 2000;
    home_queue_ = make_fake_queue(home, "q", flags & 64);
    access.vhost->queues["q"] = home_queue_;
    access.vhost->exchanges["f"] = {"q"};
    connect();
    if (flags & 2) open_all(flags);
    if (flags & 32) {
      raw(rest);
    } else {
      play(rest);
    }
    pump();
    // What came out are whole frames, in the right order for a decoder.
    (void)parse();
    FUZZ_CHECK(output.empty() || output.size() < kFrameOverheadBytes || pipe.closing ||
               pipe.aborted || stuck);
    clock.advance_ms(60'000);
    on_shard([] {});
    pump();
    on_shard([this] { connection->on_closed(); });
    on_shard([this] { connection.reset(); });
    on_shard([this] { let_all_answers_go(); });
    check_settled();
  }

 private:
  void open_all(uint8_t flags) {
    raw(kProtocolHeader);
    say_start_ok();
    say(0, method::ConnectionTuneOk{0, 0, 0});
    say(0, method::ConnectionOpen{"/"});
    if (flags & 4) {
      say(1, method::ChannelOpen{});
      say(1, method::QueueDeclare{"q", false, true, false, false, false, {}});
      if (flags & 8) say(1, method::ConfirmSelect{});
      if (flags & 16) say(1, method::TxSelect{});
    }
    pump();
  }
  void play(std::string_view rest) {
    while (rest.size() >= 4) {
      const auto at = [rest](size_t i) { return static_cast<uint8_t>(rest[i]); };
      const uint8_t type = at(0), a = at(1), b = at(2), c = at(3);
      rest.remove_prefix(4);
      if (type >= 0x80 && type - 0x80 < static_cast<int>(Event::kCount)) {
        // Not from within the connection: an event comes by mail.
        on_shard([&] { happen(static_cast<Event>(type - 0x80), a, b, c); });
      } else {
        const size_t length = b | c << 8;
        frame(static_cast<FrameType>(type), a, rest.substr(0, length));
        rest.remove_prefix(std::min(rest.size(), length));
      }
      pump();
    }
  }
  QueueActor& q() { return fake(*home_queue_); }
  void happen(Event event, uint8_t a, uint8_t b, uint8_t c) {
    const bool on = a & 1;
    switch (event) {
      case Event::confirm_mode:
        confirm_open(false, 0);
        q().confirm_at_once = on;
        return;
      case Event::confirm:
        return confirm_open(on, a >> 1 & 1);
      case Event::replies:
        q().hold_replies = on;
        return on ? void() : q().release_held();
      case Event::answers:
        access.vhost->hold_answers = on;
        return on ? void() : access.vhost->release();
      case Event::socket:
        stuck = on;
        return;
      case Event::time:
        return clock.advance_ms(a * 1000 + b * 10);
      case Event::room:
        return hold_publishes_up(home, on);
      case Event::alarm:
        return pipe.closing ? void() : connection->set_blocked(on, "disk");
      case Event::close:
        return connection->close(320, "by the administrator");
      case Event::ready:
        return q().ready.push_back(std::string(b, 'm'));
      case Event::vanish:
        access.vhost->queues.erase("q");
        ++access.vhost->version;
        return;
      case Event::no_consumption:
        q().consume_error.reset();
        if (on) q().consume_error = PeerError::not_found("no queue 'q' in vhost '/'");
        return;
      default:
        return happen_to_consumer(event, a, b, c);
    }
  }
  void happen_to_consumer(Event event, uint8_t a, uint8_t b, uint8_t c) {
    if (q().consumers.empty()) return;
    const size_t n = a % q().consumers.size();
    if (!q().may_deliver(n)) return;
    const ConsumeRequest& consumer = q().consumers[n];
    DeliverySink* sink = home.find_sink(consumer.from.connection);
    if (!sink) return;
    switch (event) {
      case Event::deliver: {
        QueueActor::Extra extra;
        if (c & 1) extra.counter = 1 + b, extra.show_counter = true;
        if (c & 2) extra.last_error = std::string(b, 'e');
        return q().deliver(n, std::vector<std::string>(1 + b % 8, std::string(c, 'b')), extra);
      }
      case Event::queue_cancel:
        return q().cancel_from_queue(n);
      case Event::credit_wanted:
        return sink->on_credit_wanted(consumer.consumer);
      case Event::credit_back:
        return sink->on_credit_returned(consumer.consumer, b);
      default:
        return;
    }
  }
  /// Each number once, as a queue does it: those that were published while nothing was confirmed.
  void confirm_open(bool refused, int shift) {
    const auto& published = q().published;
    if (q().confirm_at_once) confirmed_ = published.size();
    const size_t until = confirmed_ + ((published.size() - confirmed_) >> shift);
    for (; confirmed_ < until; ++confirmed_) {
      const auto& p = published[confirmed_];
      const ConfirmRange range{p.channel, p.channel_serial, p.number, p.number, refused};
      DeliverySink* sink = home.find_sink(p.from.connection);
      if (sink && p.number != 0) sink->on_confirm({&range, 1});
    }
  }
  void let_all_answers_go() {
    for_each_queue([](QueueActor& actor) {
      actor.hold_replies = false;
      actor.release_held();
    });
    access.vhost->release();
  }
  void for_each_queue(const std::function<void(QueueActor&)>& call) {
    for (auto& actor : all_actors()) call(*actor);
  }
  /// Each message that a queue handed over came back exactly once.
  void check_settled() {
    for_each_queue([](QueueActor& actor) {
      std::vector<int> times(actor.next_ordinal, 0);
      const auto count = [&times](const SettleRun& settled) {
        for (uint32_t i = 0; i < settled.run.count; ++i) {
          FUZZ_CHECK(settled.run.first.ordinal + i < times.size());
          ++times[settled.run.first.ordinal + i];
        }
      };
      for (const auto& settled : actor.settled) count(settled.run);
      for (const OwnWord& word : actor.words) count(word.delivery);
      for (const int n : times) FUZZ_CHECK(n == 1);
    });
  }

  std::shared_ptr<QueueHandle> home_queue_;
  size_t confirmed_ = 0;
};

}  // namespace
}  // namespace tarry::testing

/// Whatever a client sends and whatever happens meanwhile, the connection stays in one piece, ends
/// when it is told to, and gives back all that it was handed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = tarry::set_log_level("off");
  FUZZ_CHECK(quiet);
  {
    tarry::testing::FuzzedSession session;
    session.run(data, size);
  }
  tarry::forget_fake_queues();
  return 0;
}
