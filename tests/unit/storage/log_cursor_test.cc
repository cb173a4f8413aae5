#include "unit/storage/log_fixture.h"

namespace tarry {
namespace {

class LogCursorTest : public LogTest {};

/// What is parked or out in an older segment was passed by the cursor; the end of the last segment
/// must not send it back there. Found by the simulation: a message was with two consumers.
TEST_F(LogCursorTest, WhatIsParkedIsNotServedAsFreshWhenTheSegmentBehindItEnds) {
  open();
  append("waits");
  commit();
  reopen();  // a recovered segment takes no more
  Position parked = deliver();
  ParkEvent event;
  event.due_ms = 5000;
  event.counter = 1;
  log_->park(parked, event);
  append("short-lived");
  Position second = deliver();
  ASSERT_NE(second.segment, parked.segment);
  commit();
  settle(second);
  for (int i = 0; i < 5; ++i) {  // an idle log gives up what is empty
    clock_.advance_ms(250);
    settle_down();
  }
  ASSERT_EQ(log_->segment_count(), 1u);  // the second one has ended, and the cursor was there

  append("next");
  EXPECT_EQ(deliver_body(), "next");
  EXPECT_TRUE(drain().empty());
  EXPECT_TRUE(log_->live(parked));
}

/// What is elided is one skip record on disk, however many chunks it was in; the first of these may
/// still be in memory. Found by the simulation: messages that were requeued together were lost.
TEST_F(LogCursorTest, ARecordIsFoundBehindElidedOnesOfWhichAChunkIsStillInMemory) {
  open();
  const std::string padding(100, 'x');
  std::vector<Position> at;
  for (int i = 0; i < 16; ++i) append(std::to_string(i) + padding);
  for (int i = 0; i < 16; ++i) at.push_back(deliver());
  for (int i = 1; i <= 12; ++i) settle(at[static_cast<size_t>(i)]);
  commit();
  settle_down();
  Fetched fetched;
  for (uint32_t i = 13; i < 16; ++i) {
    Position by_ordinal = at[i];
    by_ordinal.offset = 0;
    ASSERT_EQ(read_wait(by_ordinal, fetched), Fetch::ok) << i;
    EXPECT_EQ(as_text(fetched.record.body), std::to_string(i) + padding);
  }
  EXPECT_EQ(log_->damaged_count(), 0u);
}

}  // namespace
}  // namespace tarry
