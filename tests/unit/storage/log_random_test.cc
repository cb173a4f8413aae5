// A log under whatever order of appends, deliveries, settlements, expiries, writes and reads, from
// seeds, against a plain list: each record is served once, in order, unless it was taken out of its
// turn, and nothing is called damaged.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>

#include "sim/sim_random.h"
#include "support/faulty_file_system.h"
#include "unit/storage/log_fixture.h"

namespace tarry {
namespace {

class LogRandomTest : public LogTest {
 protected:
  FileSystem& files() override { return *fs_; }

  struct Record {
    Position position;
    std::string body;
  };

  void run(uint64_t seed) {
    fs_ = std::make_unique<FaultyFileSystem>();
    random_ = sim::Random(seed);
    fresh_.clear();
    out_.clear();
    served_ = 0;
    // Of some runs short memory, so that what is written is dropped from it.
    options_.tail_memory_bytes = random_.one_in(2) ? 16u << 10 : 4u << 20;
    // And of some small segments, so that their files are written over.
    segment_bytes_ = random_.one_in(2) ? 4u << 10 : 0;
    largest_ = static_cast<size_t>(random_.one_in(3) ? 3000 : 200);
    open();
    std::vector<uint32_t> weights;
    for (int i = 0; i < 10; ++i) weights.push_back(static_cast<uint32_t>(random_.between(1, 10)));
    for (int step = 0; step < 600 && !HasFailure(); ++step) one_step(weights);
    fs_->set_cold(false);
    commit();
    settle_down();
    while (!fresh_.empty() && !HasFailure()) serve(true);
    Fetched nothing;
    EXPECT_EQ(peek_wait(nothing), Fetch::none);
    for (const Record& record : out_) expect_readable(record);
    EXPECT_EQ(log_->damaged_count(), 0u);
    stop();
  }

  void one_step(const std::vector<uint32_t>& weights) {
    switch (random_.weighted(weights)) {
      case 0:
        for (uint64_t n = random_.between(1, 12); n > 0; --n) append_one();
        break;
      case 1:
        for (uint64_t n = random_.between(1, 6); n > 0; --n) serve(false);
        break;
      case 2:
        if (!out_.empty()) settle_one(random_.below(out_.size()));
        break;
      case 3:
        for (uint64_t n = random_.between(1, 8); n > 0; --n) take_out_of_turn();
        break;
      case 4:
        (void)store_->impl().barrier->run_round(random_.one_in(2));
        break;
      case 5:
        (void)store_->impl().store_thread.run_queued();
        break;
      case 6:
        clock_.advance_ms(static_cast<int64_t>(random_.between(0, 250)));
        turn();
        break;
      case 7:
        fs_->set_cold(random_.one_in(2));
        break;
      case 8:
        if (!out_.empty()) read_one(out_[random_.below(out_.size())]);
        break;
      default:
        store_shard_->when_durable([] {});
        turn();
    }
    EXPECT_EQ(log_->fresh_count(), fresh_.size());
  }

  void append_one() {
    std::string body = std::to_string(++served_) + " ";
    body.resize(body.size() + random_.below(largest_), 'x');
    fresh_.push_back({append(body), body});
  }
  void serve(bool wait) {
    Fetched fetched;
    const Fetch result = wait ? peek_wait(fetched) : log_->peek(fetched);
    if (result == Fetch::pending && !wait) return;
    if (fresh_.empty()) {
      EXPECT_EQ(result, Fetch::none);
      return;
    }
    ASSERT_EQ(result, Fetch::ok) << "lost " << fresh_.size();
    EXPECT_EQ(as_text(fetched.record.body), fresh_.front().body);
    log_->take();
    out_.push_back(std::move(fresh_.front()));
    fresh_.pop_front();
  }
  /// As when a parked message comes due, of which the ordinal is known. What is on the disk may
  /// take its time.
  void read_one(const Record& record) {
    Fetched fetched;
    const Fetch result = log_->read({record.position.segment, record.position.ordinal, 0}, fetched);
    ASSERT_NE(result, Fetch::none) << "lost " << record.body.substr(0, 8);
    if (result == Fetch::ok) {
      EXPECT_EQ(as_text(fetched.record.body), record.body);
    }
  }
  void settle_one(size_t index) {
    settle(out_[index].position);
    out_.erase(out_.begin() + static_cast<ptrdiff_t>(index));
  }
  /// As what expires behind others, or a redrive moves; mostly neighbours, which become one run.
  void take_out_of_turn() {
    if (fresh_.empty()) return;
    const size_t index =
        random_.one_in(3) ? random_.below(fresh_.size()) : std::min<size_t>(1, fresh_.size() - 1);
    const Record record = fresh_[index];
    ASSERT_TRUE(log_->take_fresh(record.position, static_cast<uint32_t>(record.body.size())));
    fresh_.erase(fresh_.begin() + static_cast<ptrdiff_t>(index));
    if (random_.one_in(8))
      out_.push_back(record);
    else
      settle(record.position);
  }
  void expect_readable(const Record& record) {
    Fetched fetched;
    Position by_ordinal = record.position;
    if (random_.one_in(2)) by_ordinal.offset = 0;
    ASSERT_EQ(read_wait(by_ordinal, fetched), Fetch::ok) << record.position.ordinal;
    EXPECT_EQ(as_text(fetched.record.body), record.body);
  }

  std::unique_ptr<FaultyFileSystem> fs_ = std::make_unique<FaultyFileSystem>();
  sim::Random random_{1};
  std::deque<Record> fresh_;
  std::vector<Record> out_;
  uint64_t served_ = 0;
  size_t largest_ = 200;
};

TEST_F(LogRandomTest, EachRecordIsServedOnceInOrderAndNothingIsCalledDamaged) {
  const char* one = std::getenv("TARRYMQ_LOG_SEED");
  const char* count = std::getenv("TARRYMQ_LOG_SEEDS");
  const uint64_t first = one ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t last = one ? first : count ? std::strtoull(count, nullptr, 10) : 200;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("TARRYMQ_LOG_SEED=" + std::to_string(seed));
    run(seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tarry
