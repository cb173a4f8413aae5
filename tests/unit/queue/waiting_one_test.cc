// One waiting message, looked at by its id (retry-spec 37).
#include <gtest/gtest.h>

#include "support/queue_world.h"
#include "tarrymq/queue/waiting.h"

namespace tarry::test {
namespace {

class WaitingOne : public QueueWorld {
 protected:
  WaitingOne() { retry_queue(1000, 1); }
  void park(int count) {
    for (int i = 0; i < count; ++i) {
      publish({.body = "m" + std::to_string(i)});
      settle(Outcome::nack_requeue, {*get()});
    }
    turns();
  }
  WaitingPage list(WaitingQuery query) {
    std::optional<WaitingPage> page;
    on_shard([&] { queue_->list_waiting(query, [&](WaitingPage p) { page = std::move(p); }); });
    wait_until([&] { return page.has_value(); });
    return std::move(*page);
  }
  void drop(const std::string& id) {
    std::optional<WaitingOutcome> outcome;
    on_shard([&] {
      queue_->act_on_waiting({.act = WaitingAct::drop, .ids = {id}},
                             [&](WaitingOutcome o) { outcome = std::move(o); });
    });
    wait_until([&] { return outcome.has_value(); });
    EXPECT_EQ(outcome->affected, 1u);
  }
};

TEST_F(WaitingOne, Rule37_OneIsShownByItsId) {
  declare();
  park(600);  // more than one scan's worth in one millisecond
  clock_.advance_ms(1);
  park(1);
  const WaitingPage all = list({.count = 1000, .payload_bytes = 99});
  ASSERT_EQ(all.messages.size(), 601u);
  for (const size_t n : {0, 255, 256, 599, 600}) {
    const WaitingMessage& wanted = all.messages[n];
    const WaitingPage one =
        list({.count = 1, .id = WaitingId::parse(wanted.id), .payload_bytes = 99});
    ASSERT_EQ(one.messages.size(), 1u) << n;
    EXPECT_EQ(one.messages[0].id, wanted.id);
    EXPECT_EQ(one.messages[0].body, wanted.body);
  }
  auto other = *WaitingId::parse(all.messages[3].id);
  other.ordinal += 10'000;
  EXPECT_TRUE(list({.id = other}).messages.empty());
  other.due_ms += 50'000;
  EXPECT_TRUE(list({.id = other}).messages.empty());
  drop(all.messages[3].id);
  EXPECT_TRUE(list({.id = WaitingId::parse(all.messages[3].id)}).messages.empty());
}

}  // namespace
}  // namespace tarry::test
