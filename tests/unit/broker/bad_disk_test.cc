// A broker on a disk that takes nothing for a while, or loses what was not synced.
#include "storage/definition_store.h"
#include "storage/rocks_stores_db.h"
#include "support/faulty_file_system.h"
#include "support/rocks_files.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/storage/store_shard.h"
#include "unit/broker/broker_fixture.h"

namespace tarry {
namespace {

class BadDisk : public BrokerTest {
 protected:
  BadDisk() {
    (void)set_log_level("off");
    put_in(std::make_unique<FaultyFileSystem>());
    queue_id_block = 4;
    options_.stop_timeout_ms = 20;
    definition_retry_pause = std::chrono::milliseconds(1);
  }
  ~BadDisk() override {
    fill(false);
    stop();
    set_rocks_env(nullptr);
    queue_id_block = 10'000;
    definition_retry_pause = std::chrono::milliseconds(50);
    (void)set_log_level("info");
  }
  FileSystem& files() override { return *fs_; }
  Durability durability() const override { return Durability::fsync; }
  void put_in(std::unique_ptr<FaultyFileSystem> disk) {
    set_rocks_env(nullptr);
    env_.reset();
    fs_ = std::move(disk);
    env_ = make_rocks_env(*fs_);
    set_rocks_env(env_.get());
  }
  std::string data_dir() const override { return "/data"; }
  void fill(bool full) {
    if (!full) return fs_->set_fault(nullptr);
    fs_->set_fault([](const std::string&, const std::string&) {
      return boost::system::errc::make_error_code(boost::system::errc::no_space_on_device);
    });
  }
  using Pending = std::future<Answered<QueueDeclared>>;
  Pending begin_declare(QueueDeclare d) {
    auto promise = std::make_shared<std::promise<Answered<QueueDeclared>>>();
    auto future = promise->get_future();
    Actor who = actor();
    shards_[0]->post([this, who, d, promise] {
      vhost().declare_queue(who, d,
                            [promise](auto answer) { promise->set_value(std::move(answer)); });
    });
    return future;
  }
  static bool answered(Pending& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  /// Of one that may also have been dropped.
  static bool told(Pending& one) {
    if (!answered(one)) return false;
    try {
      (void)one.get();
      return true;
    } catch (const std::future_error&) {
      return false;
    }
  }
  static QueueDeclare queue(std::string name, bool durable) {
    QueueDeclare d;
    d.name = std::move(name);
    d.durable = durable;
    return d;
  }

  std::unique_ptr<FaultyFileSystem> fs_;
  std::unique_ptr<rocksdb::Env> env_;
};

TEST_F(BadDisk, ADeclarationThatFindsNoQueueIdWaitsByItselfAndIsAnsweredOnceThereIsRoom) {
  ASSERT_TRUE(declare(queue("there", false)));
  fill(true);
  QueueDeclare look = queue("there", false);
  look.passive = true;
  Pending waiting;
  int given = 0;
  for (;; ++given) {
    ASSERT_LE(given, 20) << "never out of ids";
    waiting = begin_declare(queue("q" + std::to_string(given), false));
    // The shard goes on; an answer that needs no disk has come before this one.
    ASSERT_TRUE(declare(look));
    if (!answered(waiting)) break;
  }
  EXPECT_GE(given, 1) << "ids are reserved ahead";
  // Whatever asks the broker for something else is answered, and so is one that waits when it comes
  // again.
  Pending same = begin_declare(queue("q" + std::to_string(given), false));
  look.name = "q" + std::to_string(given);
  EXPECT_EQ(declare(look).error().code, 404);
  EXPECT_FALSE(answered(waiting));
  fill(false);
  EXPECT_TRUE(take(waiting));
  EXPECT_TRUE(take(same));
  EXPECT_TRUE(declare(queue("after", true)));
}

TEST_F(BadDisk, AnAnswerThatComesAfterTheBrokerHasEndedIsNoFaultAndWhatWasDeclaredIsThere) {
  fill(true);
  Pending durable = begin_declare(queue("late", true));
  ASSERT_FALSE(broker_->stop());
  vhost_.reset();
  for (auto& shard : shards_) shard->stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  broker_.reset();
  shards_.clear();
  fill(false);
  store_.reset();
  EXPECT_FALSE(told(durable));
  start();
  EXPECT_NE(vhost().find_queue("late"), nullptr);
}

}  // namespace
}  // namespace tarry
