// Parked records of large segments: counted when the log is opened, read when they are asked for.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <optional>

#include "unit/storage/log_fixture.h"

namespace tarry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LogParkedTest : public LogTest {
 protected:
  LogParkedTest() { options_.parked_listed_max = 3; }

  void open_counting(uint64_t queue_ttl_ms = UINT64_MAX) {
    start();
    seen_.clear();
    MessageLog::Options options;
    options.directory = store_->queue_directory(QueueId{7}) + "/0";
    options.queue_id = 7;
    options.label = "/ test";
    options.queue_ttl_ms = queue_ttl_ms;
    options.in_batch = [this](const RecoveredPark& park) { seen_.push_back(park); };
    auto log = MessageLog::open(*store_shard_, options);
    ASSERT_TRUE(log) << log.error().message();
    log_ = std::move(*log);
  }
  void kill_and_count(uint64_t queue_ttl_ms = UINT64_MAX) {
    stop();
    open_counting(queue_ttl_ms);
  }
  ParkedRead read(uint32_t segment, size_t at_most) {
    std::optional<ParkedRead> read;
    log_->read_parked(segment, at_most, [&](ParkedRead r) { read = std::move(r); });
    store_->impl().store_thread.run_queued();
    turn();
    EXPECT_TRUE(read);
    return read.value_or(ParkedRead{});
  }
  /// `count` records that are out.
  std::vector<Position> deliver_some(int count) {
    for (int i = 0; i < count; ++i) append("body" + std::to_string(i));
    commit();
    std::vector<Position> out;
    for (int i = 0; i < count; ++i) out.push_back(deliver());
    return out;
  }
  void park(const Position& position, uint64_t due_ms, uint32_t counter = 1) {
    log_->park(position, {.due_ms = due_ms, .rejected_ms = 5, .counter = counter, .error = {}});
  }
  static std::vector<uint32_t> ordinals(const std::vector<RecoveredPark>& parks) {
    std::vector<uint32_t> out;
    for (const RecoveredPark& park : parks) out.push_back(park.position.ordinal);
    return out;
  }
  std::string ack_log() {
    for (const std::string& name : log_files())
      if (name.ends_with(".ack")) return store_->queue_directory(QueueId{7}) + "/0/" + name;
    return {};
  }

  std::vector<RecoveredPark> seen_;
};

TEST_F(LogParkedTest, ABatchGivesEachOnceInTheOrderInWhichTheWaitsEnd) {
  open();
  const auto out = deliver_some(10);
  for (int i = 0; i < 8; ++i) park(out[i], 1000 - static_cast<uint64_t>(i) * 100);
  log_->take_back(out[2]);
  park(out[2], 5000, 2);
  settle(out[1]);
  log_->mark_dying(out[3], {.reason = 1, .delivery_count = 1, .died_ms = 1, .error = {}});
  log_->requeue({out[4], 1}, 7, true);
  log_->note_error(out[5], "why");
  commit();
  kill_and_count();
  EXPECT_THAT(log_->recovered_parked(), IsEmpty());
  EXPECT_EQ(log_->recovered_dying().size(), 1u);
  ASSERT_EQ(log_->recovered_batches().size(), 1u);
  const ParkedBatch batch = log_->recovered_batches()[0];
  EXPECT_EQ(batch.segment, out[0].segment);
  EXPECT_EQ(batch.count, 6u);
  EXPECT_EQ(batch.ordinals, 10u);
  EXPECT_EQ(batch.body_bytes, 6u * 5);
  EXPECT_EQ(batch.first_ms, 300u);
  EXPECT_EQ(batch.last_ms, 5000u);
  EXPECT_THAT(ordinals(seen_), ElementsAre(0, 2, 4, 5, 6, 7));
  EXPECT_EQ(log_->fresh_count(), 2u);

  const ParkedRead first = read(batch.segment, 4);
  EXPECT_THAT(ordinals(first.records), ElementsAre(7, 6, 5, 4));
  EXPECT_EQ(first.left, 2u);
  EXPECT_EQ(first.next_ms, 1000u);
  EXPECT_EQ(first.records[3].counter, 7u);
  EXPECT_EQ(first.records[2].position.offset, out[5].offset);
  EXPECT_EQ(first.records[2].published_ms, 1000u);
  EXPECT_EQ(log_->park_error(out[5]), "why");
  Fetched fetched;
  ASSERT_EQ(read_wait(first.records[0].position, fetched), Fetch::ok);
  EXPECT_EQ(as_text(fetched.record.body), "body7");
  // What happens to others meanwhile is no matter.
  log_->take_back(out[7]);
  park(out[7], 9000, 2);
  commit();
  const ParkedRead rest = read(batch.segment, 100);
  EXPECT_THAT(ordinals(rest.records), ElementsAre(0, 2));
  EXPECT_EQ(rest.records[1].counter, 2u);
  EXPECT_EQ(rest.left, 0u);
  EXPECT_EQ(rest.next_ms, UINT64_MAX);
  EXPECT_THAT(read(batch.segment, 100).records, IsEmpty());

  kill_and_count();
  ASSERT_EQ(log_->recovered_batches().size(), 1u);
  EXPECT_THAT(ordinals(read(batch.segment, 100).records), ElementsAre(6, 5, 4, 0, 2, 7));
}

TEST_F(LogParkedTest, FewAreListed) {
  open();
  const auto out = deliver_some(4);
  for (int i = 0; i < 3; ++i) park(out[i], 1000);
  commit();
  kill_and_count();
  EXPECT_THAT(ordinals(log_->recovered_parked()), ElementsAre(0, 1, 2));
  EXPECT_THAT(log_->recovered_batches(), IsEmpty());
  EXPECT_THAT(seen_, IsEmpty());
}

TEST_F(LogParkedTest, AWaitEndsWithTheTtlOfTheMessageOrTheQueue) {
  open();
  RecordParts parts;
  parts.ttl_ms = 50;  // published at 1000
  append("short", parts);
  const auto out = deliver_some(4);
  for (uint32_t i = 0; i < 5; ++i)
    log_->park({out[0].segment, i, 0}, {.due_ms = 2000, .counter = 1, .error = {}});
  commit();
  kill_and_count();
  EXPECT_EQ(log_->recovered_batches()[0].first_ms, 1050u);
  EXPECT_EQ(log_->recovered_batches()[0].last_ms, 2000u);
  EXPECT_EQ(read(out[0].segment, 1).records[0].expires_ms(UINT64_MAX), 1050u);
  kill_and_count(500);
  EXPECT_EQ(log_->recovered_batches()[0].first_ms, 1050u);
  EXPECT_EQ(log_->recovered_batches()[0].last_ms, 1500u);
  EXPECT_EQ(read(out[0].segment, 9).records[4].ends_ms(500), 1500u);
}

TEST_F(LogParkedTest, ARecordIsLookedAtOnlyIfItMayExpire) {
  open();
  const auto out = deliver_some(5);
  kill_and_reopen();  // so that it is not in memory
  for (int i = 0; i < 5; ++i)
    log_->park(deliver(), {.due_ms = 2000, .counter = 1, .error = {}, .no_ttl = true});
  commit();
  kill_and_count();
  ASSERT_EQ(seen_.size(), 5u);
  EXPECT_EQ(seen_[0].published_ms, 0u);
  EXPECT_EQ(read(out[0].segment, 1).records[0].published_ms, 0u);
  kill_and_count(300);
  EXPECT_EQ(seen_[0].published_ms, 1000u);
  EXPECT_EQ(read(out[0].segment, 1).records[0].published_ms, 1000u);
}

TEST_F(LogParkedTest, WhatIsDamagedAfterTheStartIsNotLostAndNotEarly) {
  open();
  const auto out = deliver_some(6);
  for (int i = 0; i < 6; ++i) park(out[i], 1000 + static_cast<uint64_t>(i), 3);
  commit();
  kill_and_count();
  {
    std::fstream file(ack_log(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(64 + 2 * 64 + 30);  // within the third event
    file.put('\x55');
  }
  const ParkedRead all = read(out[0].segment, 100);
  ASSERT_EQ(all.records.size(), 6u);
  EXPECT_THAT(ordinals(all.records), ElementsAre(0, 1, 3, 4, 2, 5));
  EXPECT_EQ(all.records[4].due_ms, 1005u);
  EXPECT_EQ(log_->damaged_count(), 1u);
}

TEST_F(LogParkedTest, WhatCannotBeOpenedNowCanLater) {
  open();
  const auto out = deliver_some(6);
  for (int i = 0; i < 6; ++i) park(out[i], 1000);
  commit();
  kill_and_count();
  const std::string path = ack_log();
  std::filesystem::rename(path, path + "-away");
  EXPECT_FALSE(read(out[0].segment, 100).good);
  std::filesystem::rename(path + "-away", path);
  EXPECT_EQ(read(out[0].segment, 100).records.size(), 6u);
}

TEST_F(LogParkedTest, OfASegmentThatIsGoneNothingIsLeft) {
  open();
  const auto out = deliver_some(6);
  for (int i = 0; i < 6; ++i) park(out[i], 1000);
  commit();
  kill_and_count();
  log_->purge();
  commit();
  settle_down();
  const ParkedRead none = read(out[0].segment, 100);
  EXPECT_TRUE(none.good);
  EXPECT_THAT(none.records, IsEmpty());
  EXPECT_EQ(none.left, 0u);
}

TEST_F(LogParkedTest, ASegmentStaysUntilItsBatchIsRead) {
  open();
  const auto out = deliver_some(6);
  for (int i = 0; i < 6; ++i) park(out[i], 1000);
  commit();
  kill_and_count();
  for (const Position& position : out) settle(position);
  commit();
  for (int i = 0; i < 4; ++i) {
    clock_.advance_ms(300);
    settle_down();
  }
  EXPECT_FALSE(log_files().empty());
  EXPECT_EQ(read(out[0].segment, 100).records.size(), 6u);
  EXPECT_FALSE(log_->live(out[0]));
  for (int i = 0; i < 4; ++i) {
    clock_.advance_ms(300);
    settle_down();
  }
  EXPECT_THAT(log_files(), IsEmpty());
}

TEST_F(LogParkedTest, WhatIsDurableMayBeKeptWhileRunning) {
  open();
  const auto out = deliver_some(6);
  for (uint32_t i = 0; i < 6; ++i) {
    ParkEvent event{.due_ms = 2000 - i, .rejected_ms = 5, .counter = i, .delay_ms = 7, .error = {}};
    event.no_ttl = true;
    event.entry_body_bytes = 100 + i;
    log_->park({out[i].segment, i, 0}, event);
  }
  commit();
  const uint32_t segment = out[0].segment;
  EXPECT_TRUE(log_->keep_parked(segment, std::vector<uint32_t>{1, 2, 3}, 1999));
  EXPECT_FALSE(log_->keep_parked(segment + 1, std::vector<uint32_t>{1}, 1999));
  const ParkedRead first = read(segment, 2);
  EXPECT_THAT(ordinals(first.records), ElementsAre(3, 2));
  EXPECT_EQ(first.records[0].counter, 3u);
  EXPECT_EQ(first.records[0].delay_ms, 7u);
  EXPECT_EQ(first.records[0].body_bytes, 103u);
  EXPECT_EQ(first.left, 1u);
  EXPECT_EQ(first.next_ms, 1999u);
  // Parked anew, and kept again, with the others.
  log_->take_back(out[3]);
  log_->park(out[3], {.due_ms = 3000, .counter = 4, .error = {}, .no_ttl = true});
  append("more");
  commit();
  EXPECT_TRUE(log_->keep_parked(segment, std::vector<uint32_t>{3, 5}, 3000));
  EXPECT_THAT(ordinals(read(segment, 9).records), ElementsAre(5, 1, 3));
  for (const Position& position : out) settle(position);
  kill_and_count();
  EXPECT_EQ(log_->fresh_count(), 1u);
}

TEST_F(LogParkedTest, ALogMayEndWhileABatchIsRead) {
  open();
  const auto out = deliver_some(6);
  for (int i = 0; i < 6; ++i) park(out[i], 1000);
  commit();
  kill_and_count();
  log_->read_parked(out[0].segment, 100, [](ParkedRead) { FAIL(); });
  store_->impl().store_thread.run_queued();
  log_.reset();
  turn();
}

}  // namespace
}  // namespace tarry
