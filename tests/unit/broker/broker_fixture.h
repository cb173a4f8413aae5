#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tarrymq/amqp/properties.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/definition_store.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/store.h"

namespace tarry {

inline FieldTable arguments(std::vector<std::pair<std::string, FieldValue>> entries) {
  return {std::move(entries)};
}

/// A whole broker over a real store in a directory of its own, two shards with their threads, no
/// sockets. Sessions are played on the first shard.
class BrokerTest : public testing::Test {
 protected:
  BrokerTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tarry-broker-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    options_.login_failure_delay_ms = 1;
  }
  ~BrokerTest() override {
    stop();
    std::filesystem::remove_all(dir_);
  }

  void SetUp() override { start(); }
  virtual Durability durability() const { return Durability::os; }
  virtual FileSystem& files() { return posix_file_system(); }
  virtual std::string data_dir() const { return dir_ + "/data"; }

  void start() { ASSERT_EQ(try_start(), ""); }
  std::string try_start() {
    StoreOptions options;
    options.data_dir = data_dir();
    options.durability = durability();
    std::string why;
    auto store = Store::open(options, files(), &why);
    if (!store) return why.empty() ? store.error().message() : why;
    store_ = std::move(*store);
    for (uint16_t i = 0; i < 2; ++i) shards_.push_back(std::make_unique<Shard>(ShardId{i}, clock_));
    auto broker = Broker::open(options_, *store_, clock_, {shards_[0].get(), shards_[1].get()});
    if (!broker) return broker.error();
    broker_ = std::move(*broker);
    for (auto& shard : shards_) threads_.emplace_back([&shard] { shard->run(); });
    auto started = broker_->start();
    if (!started) return started.error();
    ask<bool>(
        [this](auto answer) { store_->definitions().when_queue_id([answer] { answer(true); }); });
    return "";
  }
  void stop() {
    vhost_.reset();
    if (!broker_) return;
    EXPECT_TRUE(broker_->stop());
    end();
  }
  void end() {
    for (auto& shard : shards_) shard->stop();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    broker_.reset();
    shards_.clear();
    store_.reset();
  }
  void restart() {
    stop();
    start();
  }

  Management& management() { return broker_->management(); }
  const Login guest{"guest"};

  /// Runs `work` on the first shard with a function that takes its one answer, and waits for that.
  template <class T, class Work>
  T on_shard(Work work) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    shards_[0]->post([promise, work] {
      work(
          [promise](auto&& answer) { promise->set_value(std::forward<decltype(answer)>(answer)); });
    });
    return take(future);
  }
  /// Calls `work` here with the answer to be given, on whatever thread, and waits for it.
  template <class T, class Work>
  T ask(Work work) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    work([promise](auto&& answer) { promise->set_value(std::forward<decltype(answer)>(answer)); });
    return take(future);
  }
  template <class T>
  static T take(std::future<T>& future) {
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      ADD_FAILURE() << "no answer within 20 s";
      std::abort();
    }
    return future.get();
  }

  VhostPort& vhost() {
    if (!vhost_) {
      auto opened = broker_->access().open_vhost(guest, "/");
      EXPECT_TRUE(opened);
      vhost_ = *opened;
    }
    return *vhost_;
  }
  /// An actor on the first shard; `connection` matters for exclusive queues.
  Actor actor(uint64_t connection = 7, const Login* login = nullptr) {
    return {login ? login : &guest,
            ConnectionId{connection},
            {&broker_->queue_shard(0), ConnectionId{connection}}};
  }

  template <class T>
  using Answered = Result<T, PeerError>;
  Answered<QueueDeclared> declare(QueueDeclare d, uint64_t connection = 7,
                                  const Login* login = nullptr) {
    Actor who = actor(connection, login);
    return on_shard<Answered<QueueDeclared>>(
        [&](auto answer) { vhost().declare_queue(who, d, answer); });
  }
  Answered<void> declare_exchange(ExchangeDeclare d, const Login* login = nullptr) {
    Actor who = actor(7, login);
    return on_shard<Answered<void>>([&](auto answer) { vhost().declare_exchange(who, d, answer); });
  }
  Answered<void> delete_exchange(std::string name, bool if_unused = false) {
    return on_shard<Answered<void>>(
        [&](auto answer) { vhost().delete_exchange(actor(), name, if_unused, answer); });
  }
  Answered<uint64_t> delete_queue(std::string name, uint64_t connection = 7) {
    return on_shard<Answered<uint64_t>>(
        [&](auto answer) { vhost().delete_queue(actor(connection), name, false, false, answer); });
  }
  Answered<void> bind(BindingSpec b, const Login* login = nullptr) {
    Actor who = actor(7, login);
    return on_shard<Answered<void>>([&](auto answer) { vhost().bind(who, b, answer); });
  }
  Answered<void> unbind(BindingSpec b) {
    return on_shard<Answered<void>>([&](auto answer) { vhost().unbind(actor(), b, answer); });
  }

  static QueueDeclare queue(std::string name, FieldTable args = {}) {
    QueueDeclare d;
    d.name = std::move(name);
    d.durable = true;
    d.arguments = std::move(args);
    return d;
  }
  static ExchangeDeclare exchange(std::string name, std::string type, bool durable = true) {
    ExchangeDeclare d;
    d.name = std::move(name);
    d.type = std::move(type);
    d.durable = durable;
    return d;
  }

  Answered<bool> publish(std::string exchange_name, std::string key, std::string body,
                         FieldTable headers = {}) {
    PropertiesBuilder properties;
    properties.delivery_mode = 2;
    if (!headers.empty()) properties.headers = std::move(headers);
    PublishMessage message{"/", exchange_name, key, properties.build(body.size()), body};
    return ask<Answered<bool>>([&](auto answer) { management().publish(guest, message, answer); });
  }
  std::vector<GotMessage> get(std::string name, uint32_t count = 1,
                              GetMode mode = GetMode::ack_requeue_false) {
    auto got = ask<Answered<std::vector<GotMessage>>>(
        [&](auto answer) { management().get_messages(guest, "/", name, count, mode, answer); });
    EXPECT_TRUE(got) << got.error().text;
    return got ? *got : std::vector<GotMessage>();
  }
  /// Repeats the get until there is a message, for what arrives by a way of its own (a dead
  /// letter).
  GotMessage need(std::string name) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      auto got = get(name);
      if (!got.empty()) return got[0];
    }
    ADD_FAILURE() << "no message in " << name;
    return {};
  }
  /// Asks until it is so, for what comes by a way of its own.
  template <class Ask>
  static bool comes_true(Ask ask) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!ask()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  std::vector<std::string> routed_to(std::string exchange_name, std::string key,
                                     const PropertiesView* properties = nullptr) {
    std::vector<std::shared_ptr<QueueHandle>> targets;
    auto routed = vhost().route(guest, exchange_name, key, properties, targets);
    EXPECT_TRUE(routed) << routed.error().text;
    std::vector<std::string> names;
    for (const auto& t : targets) names.push_back(t->identity.name);
    std::sort(names.begin(), names.end());
    return names;
  }
  void put_policy(PolicyInfo policy, bool operators = false) {
    auto put = ask<Answered<bool>>(
        [&](auto answer) { management().put_policy(policy, operators, answer); });
    ASSERT_TRUE(put) << put.error().text;
  }

  std::string dir_;
  BrokerOptions options_;
  SystemClock clock_;
  std::unique_ptr<Store> store_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::thread> threads_;
  std::unique_ptr<Broker> broker_;
  std::shared_ptr<VhostPort> vhost_;
};

}  // namespace tarry
