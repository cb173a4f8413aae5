// Random clients, queues and cuts: whatever comes, nothing aborts, and every message that a queue
// handed over is settled exactly once by the time the connection is gone. A failure prints its
// seed.
#include <random>

#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Chaos : public SessionTest {
 protected:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random() % n); }
  uint16_t some_channel() { return static_cast<uint16_t>(1 + pick(3)); }

  bool rarely() { return pick(60) == 0; }

  void client_step() {
    const uint16_t c = some_channel();
    const bool open = state[c] == Open::yes;
    if (!open && !rarely()) {  // what is sent on a channel that is not open ends the connection
      if (state[c] == Open::no) say(c, method::ChannelOpen{});
      state[c] = Open::asked;
      return;
    }
    switch (pick(26)) {
      case 0:
        return rarely() ? say(c, method::ChannelOpen{}) : say(c, method::ChannelFlow{true});
      case 1:
        if (pick(4) != 0) return;
        state[c] = Open::asked;
        return say(c, method::ChannelClose{200, "", 0, 0});
      case 2:
      case 3:
      case 4:
      case 5:
        return publish(c, "", rarely() ? "nowhere" : "q", std::string(pick(200), 'x'), pick(2));
      case 6:
      case 7: {
        const std::string tag = "t" + std::to_string(pick(3));
        if (!tags_used[c].insert(tag).second && !rarely()) return;
        return say(c, method::BasicConsume{"q", tag, false, pick(3) == 0});
      }
      case 8: {
        const std::string tag = "t" + std::to_string(pick(3));
        tags_used[c].erase(tag);
        return say(c, method::BasicCancel{tag});
      }
      case 9:
      case 10:
        return say(c, method::BasicGet{"q", pick(2) == 0});
      case 11:
      case 12:
      case 13:
      case 14:
      case 15:
        return settle_some(c);
      case 16:
        return say(c, method::BasicQos{0, static_cast<uint16_t>(pick(5)), pick(2) == 0});
      case 17:
        outstanding[c].clear();
        return say(c, method::BasicRecover{true});
      case 18:
        return say(c, method::ChannelFlow{pick(2) == 0});
      case 19:
        return c == 1 || rarely() ? say(c, method::ConfirmSelect{}) : void();
      case 20:
        return c == 2 || rarely() ? say(c, method::TxSelect{}) : void();
      case 21:
        return c == 2 ? say(c, method::TxCommit{}) : void();
      case 22:
        if (c == 2 && pick(3) == 0) say(c, method::TxRollback{});
        return;
      case 23:
        return say(c, method::QueueDeclare{"q"});
      case 24:
        return frame(FrameType::heartbeat, 0, "");
      default:
        if (rarely()) frame(static_cast<FrameType>(1 + pick(3)), c, std::string(pick(20), '\1'));
        if (rarely() && !input.empty()) {
          input[pick(static_cast<uint32_t>(input.size()))] ^= static_cast<char>(1 << pick(8));
        }
        return;
    }
  }
  void settle_some(uint16_t c) {
    auto& out = outstanding[c];
    if (out.empty()) return rarely() ? say(c, method::BasicAck{1, false}) : void();
    auto it = std::next(out.begin(), pick(static_cast<uint32_t>(out.size())));
    const uint64_t tag = *it;
    const bool multiple = pick(4) == 0;
    if (multiple) {
      out.erase(out.begin(), std::next(it));
    } else if (!rarely()) {
      out.erase(it);
    }
    switch (pick(3)) {
      case 0:
        return say(c, method::BasicAck{tag, multiple});
      case 1:
        return say(c, method::BasicNack{tag, multiple, pick(2) == 0});
      default:
        return multiple ? say(c, method::BasicAck{tag, true})
                        : say(c, method::BasicReject{tag, pick(2) == 0});
    }
  }

  void queue_step() {
    QueueActor& q = queue();
    switch (pick(11)) {
      case 0:
      case 1:
      case 2:
        if (q.consumers.empty()) return;
        if (const size_t n = pick(static_cast<uint32_t>(q.consumers.size())); q.may_deliver(n)) {
          q.deliver(n, std::vector<std::string>(1 + pick(4), std::string(pick(100), 'b')));
        }
        return;
      case 3:
        q.ready.push_back("m");
        return;
      case 4:
        q.hold_replies = !q.hold_replies;
        return;
      case 5:
        return q.release_held();
      case 6:
        q.confirm_at_once = pick(2) == 0;
        return;
      case 7:
        if (!q.published.empty() && q.published.back().number != 0)
          q.confirm(1, q.published.back().number, pick(4) == 0);
        return;
      case 8:
        if (!q.consumers.empty() && pick(5) == 0)
          q.cancel_from_queue(pick(static_cast<uint32_t>(q.consumers.size())));
        return;
      case 9:
        access.vhost->hold_disk = pick(2) == 0;
        if (!access.vhost->hold_disk) access.vhost->sync();
        return;
      default:
        access.vhost->hold_answers = pick(2) == 0;
        if (!access.vhost->hold_answers) access.vhost->release();
        return;
    }
  }
  void hear() {
    for (const Got& g : take()) {
      const uint16_t c = g.channel;
      switch (g.id()) {
        case method_id::basic_consume_ok:
          break;
        case method_id::basic_deliver: {
          auto d = as<method::BasicDeliver>(g);
          if (!no_ack_tag(d.consumer_tag)) outstanding[c].insert(d.delivery_tag);
          break;
        }
        case method_id::channel_open_ok:
          state[c] = Open::yes;
          outstanding[c].clear();
          tags_used[c].clear();
          break;
        case method_id::channel_close:
          say(c, method::ChannelCloseOk{});
          state[c] = Open::no;
          break;
        case method_id::channel_close_ok:
          state[c] = Open::no;
          break;
        default:
          break;
      }
    }
  }
  bool no_ack_tag(std::string_view tag) {
    for (const auto& consumer : queue().consumers) {
      if (consumer.tag == tag && consumer.no_ack) return true;
    }
    return false;
  }
  void run(uint32_t seed) {
    random.seed(seed);
    access.vhost->add("q");
    open_connection();
    settings.outbound_high_bytes = 300;
    const uint32_t steps = 20 + pick(300);
    for (uint32_t i = 0; i < steps && !pipe.closing; ++i) {
      for (uint32_t n = pick(4); n > 0; --n) client_step();
      stuck = pick(100) == 0;
      hear();
      on_shard([&] { queue_step(); });
      if (stuck && pick(2) == 0) {
        on_shard([&] {
          pipe.buffer.consume(pick(static_cast<uint32_t>(pipe.buffer.unsent_bytes() + 1)));
          connection->on_sent();
        });
        // The client lost track of the frames; it goes on as one that reads nothing more.
        output.clear();
        break;
      }
    }
    on_shard([&] { connection.reset(); });
    on_shard([&] {
      queue().hold_replies = false;
      queue().release_held();
      access.vhost->release();
      access.vhost->hold_disk = false;
      access.vhost->sync();
    });
    check_settled(seed);
    pipe.closing = pipe.aborted = false;
    pipe.reading = true;
    pipe.buffer.consume(pipe.buffer.unsent_bytes());
    input.clear();
    output.clear();
    got.clear();
    state.clear();
    outstanding.clear();
    tags_used.clear();
    access.vhost->hold_answers = false;
    stuck = false;
  }
  void check_settled(uint32_t seed) {
    QueueActor& q = queue();
    messages += q.next_ordinal;
    std::vector<int> times(q.next_ordinal, 0);
    for (const auto& s : q.settled) {
      outcomes[s.outcome] += s.run.run.count;
      for (uint32_t i = 0; i < s.run.run.count; ++i) {
        ASSERT_LT(s.run.run.first.ordinal + i, times.size()) << "seed " << seed;
        ++times[s.run.run.first.ordinal + i];
      }
    }
    for (size_t i = 0; i < times.size(); ++i)
      ASSERT_EQ(times[i], 1) << "seed " << seed << ", message " << i;
  }

  std::mt19937 random;
  enum class Open : uint8_t { no, asked, yes };
  std::map<uint16_t, Open> state;
  std::map<uint16_t, std::set<uint64_t>> outstanding;
  std::map<uint16_t, std::set<std::string>> tags_used;
  uint64_t messages = 0;
  std::map<Outcome, uint64_t> outcomes;
};

TEST_F(Chaos, EveryDeliveryIsSettledExactlyOnce) {
  ASSERT_TRUE(set_log_level("off"));
  const char* only = std::getenv("TARRY_SEED");
  const auto first = static_cast<uint32_t>(only ? std::atoi(only) : 1);
  const uint32_t last = only ? first : 150;
  for (uint32_t seed = first; seed <= last && !HasFatalFailure(); ++seed) run(seed);
  ASSERT_TRUE(set_log_level("info"));
  if (only || HasFatalFailure()) return;
  // The walk must not dry up: each way out is taken often.
  EXPECT_GT(messages, 2'000u);
  for (Outcome outcome :
       {Outcome::ack, Outcome::reject_requeue, Outcome::nack_requeue, Outcome::drop,
        Outcome::channel_closed, Outcome::recovered, Outcome::not_delivered}) {
    EXPECT_GT(outcomes[outcome], 10u) << static_cast<int>(outcome);
  }
}

}  // namespace
}  // namespace tarry::testing
