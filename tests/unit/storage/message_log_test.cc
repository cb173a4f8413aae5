#include "tarrymq/storage/message_log.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "unit/storage/log_fixture.h"

namespace tarry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MessageLogTest : public LogTest {};

TEST_F(MessageLogTest, RecordsComeBackInOrderWithEverythingThatWasPutIn) {
  open();
  RecordParts parts;
  parts.published_ms = 123456789;
  parts.ttl_ms = 5000;
  parts.hops = 3;
  parts.counter = 9;
  append("first", parts);
  append("second");
  EXPECT_EQ(log_->fresh_count(), 2u);
  EXPECT_EQ(log_->fresh_bytes(), 11u);
  Fetched fetched;
  ASSERT_EQ(log_->peek(fetched), Fetch::ok);
  EXPECT_EQ(fetched.record.published_ms, 123456789u);
  EXPECT_EQ(fetched.record.ttl_ms, 5000u);
  EXPECT_EQ(fetched.record.hops, 3);
  EXPECT_EQ(fetched.counter, 9u);
  EXPECT_TRUE(fetched.redelivered);
  EXPECT_TRUE(fetched.record.persistent);
  EXPECT_EQ(as_text(fetched.record.header), "header");
  EXPECT_EQ(as_text(fetched.record.body), "first");
  log_->take();
  ASSERT_EQ(log_->peek(fetched), Fetch::ok);
  // A later record is never older than the one before it.
  EXPECT_EQ(fetched.record.published_ms, 123456789u);
  EXPECT_EQ(as_text(fetched.record.body), "second");
  EXPECT_FALSE(fetched.redelivered);
  log_->take();
  EXPECT_EQ(log_->peek(fetched), Fetch::none);
  EXPECT_EQ(log_->fresh_count(), 0u);
  EXPECT_EQ(log_->fresh_bytes(), 0u);
}

TEST_F(MessageLogTest, NoFileBeforeSomethingMustBeWritten) {
  open();
  settle_down();
  EXPECT_THAT(log_files(), IsEmpty());
  settle(([&] {
    append("gone before its chunk is handed over");
    return deliver();
  })());
  clock_.advance_ms(1000);
  settle_down();
  EXPECT_THAT(log_files(), IsEmpty());
}

TEST_F(MessageLogTest, AWaiterMakesItDurableAndKillKeepsIt) {
  open();
  append("a");
  append("b");
  commit();
  append("lost with the process, nobody was told");
  kill_and_reopen();
  EXPECT_EQ(log_->fresh_count(), 2u);
  EXPECT_EQ(log_->fresh_bytes(), 2u);
  EXPECT_THAT(drain(), ElementsAre("a", "b"));
}

TEST_F(MessageLogTest, WhenDurableRunsInOrderAndOnlyAfterTheRound) {
  open();
  std::vector<int> order;
  store_shard_->when_durable([&] { order.push_back(0); });
  turn();
  EXPECT_THAT(order, ElementsAre(0));  // nothing was outstanding
  append("a");
  Ticket first = store_shard_->ticket();
  store_shard_->when_durable([&] { order.push_back(1); });
  turn();
  append("b");
  store_shard_->when_durable([&] { order.push_back(2); });
  turn();
  EXPECT_FALSE(store_shard_->passed(first));
  round();
  turn();
  EXPECT_TRUE(store_shard_->passed(first));
  EXPECT_THAT(order, ElementsAre(0, 1));
  round();
  turn();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST_F(MessageLogTest, WhatNobodyWaitsForIsWrittenWithin20Ms) {
  open();
  append("a");
  turn();
  round();
  EXPECT_THAT(log_files(), IsEmpty());
  clock_.advance_ms(20);
  turn();
  round();
  EXPECT_EQ(log_files().size(), 1u);
  kill_and_reopen();
  EXPECT_THAT(drain(), ElementsAre("a"));
}

TEST_F(MessageLogTest, SettledRecordsStayGone) {
  open();
  for (int i = 0; i < 10; ++i) append(std::to_string(i));
  commit();
  std::vector<Position> out;
  for (int i = 0; i < 10; ++i) out.push_back(deliver());
  log_->settle({out[0], 3});
  settle(out[5]);
  settle(out[7]);
  settle(out[6]);
  EXPECT_FALSE(log_->live(out[6]));
  EXPECT_TRUE(log_->live(out[4]));
  commit();
  kill_and_reopen();
  EXPECT_THAT(drain(), ElementsAre("3", "4", "8", "9"));
}

TEST_F(MessageLogTest, DeliveredAndUnsettledIsRedelivered) {
  open();
  append("a");
  append("b");
  commit();
  deliver();
  clock_.advance_ms(300);
  settle_down();
  clock_.advance_ms(300);
  settle_down();
  kill_and_reopen();
  Fetched fetched;
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_TRUE(fetched.redelivered);
  EXPECT_EQ(fetched.counter, 0u);
  log_->take();
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_FALSE(fetched.redelivered);
}

TEST_F(MessageLogTest, RaisedCounterSurvives) {
  open();
  for (int i = 0; i < 4; ++i) append(std::to_string(i));
  commit();
  Position first = deliver();
  for (int i = 0; i < 3; ++i) deliver();
  log_->requeue({first, 2}, 3, true);
  Fetched fetched;
  ASSERT_EQ(read_wait(first, fetched), Fetch::ok);
  EXPECT_EQ(fetched.counter, 3u);
  commit();
  kill_and_reopen();
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_EQ(fetched.counter, 3u);
  EXPECT_TRUE(fetched.redelivered);
  log_->take();
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_EQ(fetched.counter, 3u);
  log_->take();
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_EQ(fetched.counter, 0u);
}

TEST_F(MessageLogTest, ParkedRecordsAreListedNotServed) {
  open();
  for (int i = 0; i < 5; ++i) append("body" + std::to_string(i));
  commit();
  std::vector<Position> out;
  for (int i = 0; i < 3; ++i) out.push_back(deliver());
  log_->park(
      out[1],
      {.due_ms = 9000, .rejected_ms = 8000, .counter = 4, .delay_ms = 1000, .error = "boom"});
  EXPECT_EQ(log_->park_error(out[1]), "boom");
  turn();
  EXPECT_EQ(log_->park_error(out[1]), "boom");
  settle(out[0]);
  commit();
  EXPECT_EQ(log_->park_error(out[1]), "boom");
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_parked().size(), 1u);
  RecoveredPark park = log_->recovered_parked()[0];
  EXPECT_EQ(park.position, out[1]);
  EXPECT_EQ(park.position.offset, out[1].offset);
  EXPECT_EQ(park.due_ms, 9000u);
  EXPECT_EQ(park.rejected_ms, 8000u);
  EXPECT_EQ(park.counter, 4u);
  EXPECT_EQ(park.delay_ms, 1000u);
  EXPECT_EQ(park.published_ms, 1000u);
  EXPECT_EQ(park.ttl_ms, kNoTtl);
  EXPECT_EQ(park.body_bytes, 5u);
  EXPECT_EQ(log_->park_error(out[1]), "boom");
  EXPECT_EQ(log_->fresh_count(), 3u);
  EXPECT_THAT(drain(), ElementsAre("body2", "body3", "body4"));
  Fetched fetched;
  ASSERT_EQ(read_wait(park.position, fetched), Fetch::ok);
  EXPECT_EQ(as_text(fetched.record.body), "body1");
  log_->forget_recovered();
  log_->take_back(park.position);
  settle(park.position);
  commit();
  kill_and_reopen();
  EXPECT_THAT(log_->recovered_parked(), IsEmpty());
}

TEST_F(MessageLogTest, ParkedAnewCountsOnlyTheLastPark) {
  open();
  append("a");
  commit();
  Position a = deliver();
  log_->park(a, {.due_ms = 10, .counter = 1, .error = "one"});
  commit();
  log_->take_back(a);
  log_->park(a, {.due_ms = 20, .counter = 2, .error = {}});
  commit();
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_parked().size(), 1u);
  EXPECT_EQ(log_->recovered_parked()[0].due_ms, 20u);
  EXPECT_EQ(log_->recovered_parked()[0].counter, 2u);
  EXPECT_EQ(log_->park_error(a), "one");  // the last that was told
  // Delivered again, then requeued at once: due in the past, with the raised counter.
  log_->take_back(a);
  log_->requeue({a, 1}, 3, true);
  commit();
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_parked().size(), 1u);
  EXPECT_EQ(log_->recovered_parked()[0].counter, 3u);
}

TEST_F(MessageLogTest, AnErrorTextHoldsOnUntilAnotherIsToldAndSurvivesAKill) {
  open();
  for (int i = 0; i < 3; ++i) append(std::to_string(i));
  commit();
  Position parked = deliver(), requeued = deliver();
  log_->note_error(requeued, "told at a requeue");
  log_->requeue({requeued, 1}, 1, true);
  log_->park(parked, {.due_ms = 10, .counter = 1, .error = "first"});
  log_->park(parked, {.due_ms = 20, .counter = 2, .error = std::string(5000, 'x')});
  log_->park(parked, {.due_ms = 30, .counter = 2, .error = {}});
  EXPECT_EQ(log_->park_error(parked), std::string(4096, 'x'));
  commit();
  EXPECT_EQ(log_->park_error(parked), std::string(4096, 'x'));
  kill_and_reopen();
  EXPECT_EQ(log_->park_error(parked), std::string(4096, 'x'));
  Fetched fetched;
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_EQ(fetched.position, requeued);
  EXPECT_TRUE(fetched.has_error);
  EXPECT_EQ(log_->park_error(requeued), "told at a requeue");
  log_->take();
  ASSERT_EQ(peek_wait(fetched), Fetch::ok);
  EXPECT_FALSE(fetched.has_error);
  log_->take_back(parked);
  settle(parked);
  EXPECT_EQ(log_->park_error(parked), "");
}

TEST_F(MessageLogTest, AMillionErrorTextsCostFourBytesEach) {
  open();
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) append("b");
  commit();
  const uint64_t before = log_->memory_bytes();
  for (int i = 0; i < kCount; ++i) {
    Position out = deliver();
    log_->park(out,
               {.due_ms = 10, .counter = 1, .error = "connection refused by the payment service"});
    if (i % 1000 == 999) commit();
  }
  commit();
  EXPECT_LT(log_->memory_bytes(), before + kCount * 16);
}

TEST_F(MessageLogTest, WhatIsDyingIsFoundDyingAfterAKill) {
  open();
  for (int i = 0; i < 6; ++i) append("body" + std::to_string(i));
  commit();
  std::vector<Position> out;
  for (int i = 0; i < 5; ++i) out.push_back(deliver());
  log_->mark_dying(out[0], {.reason = 3, .delivery_count = 5, .died_ms = 7000, .error = "no"});
  log_->park(out[1], {.due_ms = 9000, .counter = 1, .error = "parked first"});
  log_->mark_dying(out[1], {.reason = 1, .delivery_count = 1, .died_ms = 7001, .error = {}});
  log_->mark_dying(out[2], {.reason = 0, .delivery_count = 0, .died_ms = 7002, .error = {}});
  log_->park(out[2], {.due_ms = 9000, .counter = 2, .error = {}});  // the later one rules
  log_->mark_dying(out[3], {.reason = 0, .delivery_count = 0, .died_ms = 7003, .error = {}});
  settle(out[3]);
  commit();
  kill_and_reopen();
  const auto dying = log_->recovered_dying();
  ASSERT_EQ(dying.size(), 2u);
  EXPECT_EQ(dying[0].position, out[0]);
  EXPECT_EQ(dying[0].position.offset, out[0].offset);
  EXPECT_EQ(dying[0].reason, 3);
  EXPECT_EQ(dying[0].delivery_count, 5u);
  EXPECT_EQ(dying[0].died_ms, 7000u);
  EXPECT_EQ(dying[0].body_bytes, 5u);
  EXPECT_EQ(dying[1].position, out[1]);
  EXPECT_EQ(log_->park_error(out[0]), "no");
  EXPECT_EQ(log_->park_error(out[1]), "parked first");
  ASSERT_EQ(log_->recovered_parked().size(), 1u);
  EXPECT_EQ(log_->recovered_parked()[0].position, out[2]);
  EXPECT_EQ(log_->fresh_count(), 2u);
  log_->forget_recovered();
  EXPECT_THAT(log_->recovered_dying(), IsEmpty());
  // It is out: a purge spares it, and only its end takes it.
  for (Position p : {out[0], out[1]}) log_->take_back(p);
  log_->purge();
  EXPECT_TRUE(log_->live(out[0]));
  EXPECT_FALSE(log_->live(out[2]));
  settle(out[0]);
  commit();
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_dying().size(), 1u);
  EXPECT_EQ(log_->recovered_dying()[0].position, out[1]);
}

TEST_F(MessageLogTest, PurgeSparesWhatIsOut) {
  open();
  for (int i = 0; i < 8; ++i) append(std::to_string(i));
  commit();
  std::vector<Position> out;
  for (int i = 0; i < 4; ++i) out.push_back(deliver());
  log_->park(out[1], {.due_ms = 5, .counter = 1, .error = {}});
  log_->requeue({out[2], 1}, 0, false);
  log_->purge();
  EXPECT_EQ(log_->fresh_count(), 0u);
  EXPECT_EQ(log_->fresh_bytes(), 0u);
  EXPECT_TRUE(log_->live(out[0]));
  EXPECT_FALSE(log_->live(out[1]));
  EXPECT_FALSE(log_->live(out[2]));
  EXPECT_TRUE(log_->live(out[3]));
  append("after");
  commit();
  kill_and_reopen();
  EXPECT_THAT(log_->recovered_parked(), IsEmpty());
  EXPECT_THAT(drain(), ElementsAre("0", "3", "after"));
}

TEST_F(MessageLogTest, PurgeIsDurableAlsoForSegmentsThatGoAsAWhole) {
  open();
  append_many(500);
  EXPECT_GT(log_->segment_count(), 1u);
  log_->purge();
  commit();
  kill_and_reopen();
  EXPECT_EQ(log_->fresh_count(), 0u);
}

TEST_F(MessageLogTest, DamageInsideAnAckLogIsReportedAndTheEventsBehindItStillCount) {
  open();
  std::vector<Position> positions;
  for (int i = 0; i < 30; ++i) positions.push_back(append("m" + std::to_string(i)));
  commit();
  Fetched out;
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(peek_wait(out), Fetch::ok);
    log_->take();
  }
  for (int i = 0; i < 30; i += 2) {
    log_->settle({positions[i], 1});
    commit();
  }
  log_->hand_over_all();
  stop();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_)) {
    if (entry.path().extension() != ".ack") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(64 + 10);  // in the first events
    file.put('!');
  }
  open();
  EXPECT_EQ(log_->damaged_count(), 1u);
  EXPECT_FALSE(log_->live(positions[28]));
  EXPECT_GE(log_->fresh_count(), 15u);
  EXPECT_LT(log_->fresh_count(), 20u);  // only what the damaged bytes said is back
}

TEST_F(MessageLogTest, ATransientRecordDoesNotSurvive) {
  open();
  append("kept");
  persistent_ = false;
  append("dropped");
  persistent_ = true;
  append("kept too");
  commit();
  EXPECT_THAT(drain(), ElementsAre("kept", "dropped", "kept too"));
  kill_and_reopen();
  EXPECT_EQ(log_->fresh_count(), 2u);
  EXPECT_EQ(log_->fresh_bytes(), 12u);
  EXPECT_THAT(drain(), ElementsAre("kept", "kept too"));
}

TEST_F(MessageLogTest, ManySegmentsAreReadBackFromDisk) {
  open();
  std::vector<std::string> bodies;
  for (int i = 0; i < 3000; ++i) {
    bodies.push_back(std::to_string(i) + std::string(static_cast<size_t>(i % 700), 'b'));
    append(bodies.back());
    if (i % 100 == 0) commit();
  }
  commit();
  EXPECT_GT(log_->segment_count(), 2u);
  kill_and_reopen();
  EXPECT_EQ(log_->fresh_count(), 3000u);
  EXPECT_EQ(drain(), bodies);
  EXPECT_EQ(log_->damaged_count(), 0u);
}

TEST_F(MessageLogTest, EveryRecordIsReadByPositionAlsoAcrossTheEndOfTheCursorsWindow) {
  open();
  std::vector<Position> positions;
  for (int i = 0; i < 700; ++i) {
    positions.push_back(append(std::to_string(i) + std::string(1000 + i % 7, 'x')));
    if (i % 50 == 49) commit();
  }
  reopen();
  Fetched out;
  ASSERT_EQ(peek_wait(out), Fetch::ok);  // the cursor's window ends inside some record
  for (int i = 0; i < 700; ++i) {
    ASSERT_EQ(read_wait(positions[i], out), Fetch::ok) << i;
    EXPECT_TRUE(as_text(out.record.body).starts_with(std::to_string(i) + "x")) << i;
  }
  EXPECT_EQ(log_->damaged_count(), 0u);
  EXPECT_EQ(log_->fresh_count(), 700u);
}

TEST_F(MessageLogTest, AnEmptiedSegmentLosesItsFiles) {
  open();
  append_many(500);
  EXPECT_GE(log_files().size(), 3u);
  while (log_->fresh_count() > 0) settle(deliver());
  commit();
  for (int i = 0; i < 4; ++i) {
    clock_.advance_ms(300);
    settle_down();
  }
  EXPECT_THAT(log_files(), IsEmpty());
  EXPECT_EQ(log_->segment_count(), 0u);
  append("goes on");
  commit();
  kill_and_reopen();
  EXPECT_THAT(drain(), ElementsAre("goes on"));
}

TEST_F(MessageLogTest, OrdinalsAndSegmentNumbersAreNotReusedAfterARestart) {
  open();
  Position a = append("a");
  commit();
  kill_and_reopen();
  Position b = append("b");
  EXPECT_GT(b.segment, a.segment);
  commit();
  kill_and_reopen();
  EXPECT_THAT(drain(), ElementsAre("a", "b"));
}

TEST_F(MessageLogTest, OriginsAreListedUntilTheMoveIsClosedAlsoWhenSettled) {
  open();
  Origin first{QueueId{3}, 1, 17, 4}, second{QueueId{3}, 1, 17, 5};
  RecordParts parts;
  parts.origin = &first;
  append("one", parts);
  parts.origin = &second;
  append("two", parts);
  settle(deliver());  // before it was handed over: still written
  commit();
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_origins().size(), 2u);
  EXPECT_EQ(log_->recovered_origins()[0].origin, first);
  EXPECT_EQ(log_->recovered_origins()[1].origin, second);
  EXPECT_EQ(log_->fresh_count(), 1u);
  log_->close_move(first);
  commit();
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_origins().size(), 1u);
  EXPECT_EQ(log_->recovered_origins()[0].origin, second);
  EXPECT_THAT(drain(), ElementsAre("two"));
}

TEST_F(MessageLogTest, ASegmentWithOpenMovesStaysUntilTheyAreClosed) {
  open();
  Origin origin{QueueId{3}, 0, 17, 4};
  RecordParts parts;
  parts.origin = &origin;
  append("moved", parts);
  append_many(200);  // the first segment is sealed
  EXPECT_GT(log_->segment_count(), 1u);
  while (log_->fresh_count() > 0) settle(deliver());
  commit();
  kill_and_reopen();
  ASSERT_EQ(log_->recovered_origins().size(), 1u);
  log_->close_move(origin);
  settle_down();
  commit();
  kill_and_reopen();
  EXPECT_THAT(log_->recovered_origins(), IsEmpty());
  EXPECT_EQ(log_->segment_count() + log_->fresh_count(), 0u);
}

TEST_F(MessageLogTest, LentRecordsStayWhileTheyAreSettledInTheSameTurn) {
  open();
  std::string body(3000, 'q');
  for (int i = 0; i < 400; ++i) append(body);
  commit();
  std::vector<Fetched> lent;
  Fetched fetched;
  while (peek_wait(fetched) == Fetch::ok) {
    log_->take();
    lent.push_back(fetched);
  }
  for (auto& f : lent) log_->settle({f.position, 1});
  for (auto& f : lent) EXPECT_EQ(as_text(f.record.body), body);
}

TEST_F(MessageLogTest, DestroyLeavesNoFiles) {
  open();
  append("a");
  commit();
  log_->destroy();
  settle_down();
  EXPECT_THAT(log_files(), IsEmpty());
  log_ = open_log();
  append("b");
  commit();
  EXPECT_EQ(log_files().size(), 1u);
  log_.reset();
  store_->remove_queue_directory(QueueId{7});
  settle_down();
  EXPECT_THAT(store_->queue_directories(), IsEmpty());
}

TEST_F(MessageLogTest, NonDurableLogsSpillOnlyWhenMemoryIsShort) {
  options_.tail_memory_bytes = 1 << 20;
  start();
  log_ = open_log("0", false);
  std::string body(1000, 'x');
  for (int i = 0; i < 300; ++i) append(body + std::to_string(i));
  settle_down();
  EXPECT_THAT(log_files(), IsEmpty());
  for (int i = 300; i < 5000; ++i) {
    append(body + std::to_string(i));
    if (i % 100 == 0) settle_down();
  }
  settle_down();
  EXPECT_GE(log_files().size(), 1u);
  EXPECT_LT(store_->impl().tail_bytes.load(), 2u << 20);
  for (int i = 0; i < 5000; ++i) {
    std::string got;
    Position position = deliver(&got);
    ASSERT_EQ(got, body + std::to_string(i));
    settle(position);
    if (i % 50 == 0) turn();
  }
  log_.reset();
  log_ = open_log("0", false);
  EXPECT_EQ(log_->fresh_count(), 0u);
  EXPECT_THAT(log_files(), IsEmpty());
}

TEST_F(MessageLogTest, TheDirectoryIsLocked) {
  open();
  StoreOptions options;
  options.data_dir = dir_ + "/data";
  auto second = open_manual_store(options, files());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), StoreError::locked);
}

}  // namespace
}  // namespace tarry
