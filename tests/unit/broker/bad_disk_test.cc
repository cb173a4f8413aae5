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
  /// Messages can be written, definitions cannot.
  void fill_definitions() {
    fs_->set_fault([](const std::string&, const std::string& path) {
      return path.find("/definitions-and-index") == std::string::npos
                 ? FileError()
                 : boost::system::errc::make_error_code(boost::system::errc::no_space_on_device);
    });
  }
  /// The answer as soon as the declaration has taken effect.
  std::pair<Answered<QueueDeclared>, Stored> declare_early(QueueDeclare d) {
    using Early = std::pair<Answered<QueueDeclared>, Stored>;
    Actor who = actor();
    return on_shard<Early>([&](auto answer) {
      vhost().declare_queue(who, d, [answer](Answered<QueueDeclared> result, Stored stored) {
        answer(Early(std::move(result), stored));
      });
    });
  }
  std::future<bool> ask_for_disk() {
    auto promise = std::make_shared<std::promise<bool>>();
    shards_[0]->post(
        [this, promise] { vhost().when_stored([promise] { promise->set_value(true); }); });
    return promise->get_future();
  }
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
  template <class T>
  static bool answered(std::future<T>& one) {
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

TEST_F(BadDisk, AChangeTakesEffectBeforeItIsDurableAndTheRestIsToldInOrder) {
  fill(true);
  auto [declared, stored] = declare_early(queue("early", true));
  ASSERT_TRUE(declared);
  EXPECT_EQ(stored, Stored::not_yet);
  EXPECT_NE(vhost().find_queue("early"), nullptr);
  auto first = ask_for_disk();
  auto [again, again_stored] = declare_early(queue("early", true));
  ASSERT_TRUE(again);
  EXPECT_EQ(again_stored, Stored::not_yet) << "the first is not durable, so neither is this";
  auto [transient, transient_stored] = declare_early(queue("transient", false));
  ASSERT_TRUE(transient);
  EXPECT_EQ(transient_stored, Stored::yes) << "owes the disk nothing";
  auto [bad, bad_stored] = declare_early(queue("early", false));
  EXPECT_EQ(bad.error().code, 406);
  EXPECT_EQ(bad_stored, Stored::yes);
  EXPECT_FALSE(answered(first));
  fill(false);
  EXPECT_TRUE(take(first));
  auto after = ask_for_disk();
  EXPECT_TRUE(take(after));
}

TEST_F(BadDisk, ADeletionTakesEffectBeforeItIsDurableAndTheNameIsFree) {
  ASSERT_TRUE(declare(queue("q", true)));
  fill(true);
  auto deleted = on_shard<std::pair<Answered<uint64_t>, Stored>>([&](auto answer) {
    vhost().delete_queue(actor(), "q", false, false, [answer](Answered<uint64_t> r, Stored stored) {
      answer(std::pair(std::move(r), stored));
    });
  });
  ASSERT_TRUE(deleted.first);
  EXPECT_EQ(deleted.second, Stored::not_yet);
  EXPECT_EQ(vhost().find_queue("q"), nullptr);
  ASSERT_TRUE(declare_early(queue("q", true)).first);
  fill(false);
  auto stored = ask_for_disk();
  EXPECT_TRUE(take(stored));
  restart();
  EXPECT_NE(vhost().find_queue("q"), nullptr) << "declared after it was deleted";
}

TEST_F(BadDisk, AMessageIsConfirmedOnlyOnceTheDefinitionOfItsQueueIsDurable) {
  ASSERT_TRUE(declare(queue("known", true)));
  ASSERT_TRUE(publish("", "known", "x")) << "its definition is known to be durable from here on";
  fill_definitions();
  std::vector<std::future<Answered<bool>>> early;
  for (const char* name : {"new on one shard", "new on the other"}) {
    ASSERT_TRUE(declare_early(queue(name, true)).first);
    auto promise = std::make_shared<std::promise<Answered<bool>>>();
    early.push_back(promise->get_future());
    PropertiesBuilder properties;
    properties.delivery_mode = 2;
    management().publish(guest, {"/", "", name, properties.build(1), "x"},
                         [promise](auto answer) { promise->set_value(std::move(answer)); });
  }
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(publish("", "known", "y")) << "the disk takes messages";
  for (auto& one : early) EXPECT_FALSE(answered(one)) << "a crash would take the queue with it";
  fill(false);
  for (auto& one : early) EXPECT_TRUE(*take(one));
  restart();
  EXPECT_EQ(get("new on one shard").size(), 1u);
  EXPECT_EQ(get("new on the other").size(), 1u);
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
