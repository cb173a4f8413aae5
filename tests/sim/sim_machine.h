#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/sim_disk.h"
#include "storage/store_impl.h"
#include "support/faulty_file_system.h"
#include "tarrymq/amqp/properties.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry::sim {

/// What of a machine a crash leaves.
struct MachineDisk {
  std::unique_ptr<FaultyFileSystem> files;
  DefinitionDisk definitions;
  MachineDisk copy() const { return {files->clone(), definitions}; }
};

/// A broker without clients, driven by hand.
class Machine {
 public:
  struct Shards {
    size_t count = 1;
    bool backwards = false;  // the order in which a round goes through them
  };
  Machine(MachineDisk& disk, Shards shards) : disk_(disk), order_(shards) {}
  ~Machine() {
    if (definitions_) definitions_->crash(random_);
    broker_.reset();
    shards_.clear();
    store_.reset();
  }

  /// False: it crashed meanwhile.
  bool start() {
    StoreOptions options;
    options.data_dir = "/d";
    auto store = open_manual_store(options, *disk_.files);
    if (!store) return false;
    store_ = std::move(*store);
    auto run = [impl = &store_->impl()](Task task) { impl->store_thread.run(std::move(task)); };
    auto definitions = std::make_unique<SimDefinitionStore>(disk_.definitions, run);
    definitions_ = definitions.get();
    store_->impl().definitions = std::move(definitions);
    store_->impl().due = make_due_store(std::make_unique<SimDueTable>(), run);
    std::vector<Shard*> shards;
    for (size_t i = 0; i < order_.count; ++i) {
      shards_.push_back(std::make_unique<Shard>(ShardId(static_cast<uint16_t>(i)), clock_));
      shards.push_back(shards_.back().get());
    }
    BrokerOptions broker_options;
    broker_options.shards_share_thread = true;
    broker_options.stop_timeout_ms = 0;
    auto broker = Broker::open(broker_options, *store_, clock_, shards);
    EXPECT_TRUE(broker);
    broker_ = std::move(*broker);
    EXPECT_TRUE(broker_->start() || disk_.files->crashed());
    return !disk_.files->crashed();
  }

  /// Until nothing happens, or it crashes. `meanwhile` is called before each round.
  void run(const std::function<void()>& meanwhile = nullptr) {
    for (int round = 0; round < 12; ++round) {
      for (int i = 0, quiet = 0; i < 1000 && quiet < 4; ++i) {
        if (meanwhile) meanwhile();
        bool any = false;
        for (size_t n = 0; n < shards_.size(); ++n) {
          const size_t at = order_.backwards ? shards_.size() - 1 - n : n;
          any = shards_[at]->run_turn_for_test() || any;
        }
        any = store_->impl().store_thread.run_queued() || any;
        any = store_->impl().barrier->run_round(true) || any;
        if (disk_.files->crashed()) return;
        quiet = any ? 0 : quiet + 1;
      }
      clock_.advance_ms(50);
    }
  }

  Management& management() { return broker_->management(); }
  const Login& login() const { return login_; }
  void declare(const std::string& name, FieldTable arguments = {}, bool durable = true) {
    QueueDeclare declare;
    declare.name = name;
    declare.durable = durable;
    declare.arguments = std::move(arguments);
    bool done = false;
    management().declare_queue(login_, "/", declare, [&done](auto d) { done = d.has_value(); });
    run();
    ASSERT_TRUE(done) << name;
  }
  void publish(const std::string& queue) {
    PropertiesBuilder properties;
    properties.delivery_mode = 2;
    bool done = false;
    management().publish(login_, {"/", "", queue, properties.build(5), "hello"},
                         [&done](auto d) { done = d.has_value(); });
    run();
    ASSERT_TRUE(done);
  }
  /// Takes one and settles it so; what follows comes with the next rounds.
  void get(const std::string& queue, GetMode mode) {
    management().get_messages(login_, "/", queue, 1, mode, [](auto) {});
  }
  uint64_t ready(const std::string& queue) const {
    auto info = broker_->management().queue("/", queue);
    return info ? info->numbers.ready : 1000;
  }
  /// Of a queue that holds for an exchange: waiting for their delay, or on their way out.
  uint64_t left_in(const std::string& queue) const {
    auto info = broker_->management().queue("/", queue);
    return info ? info->numbers.ready + info->numbers.delayed + info->numbers.dead_lettering : 1000;
  }

 private:
  MachineDisk& disk_;
  const Shards order_;
  Random random_{1};
  const Login login_{"guest"};
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  SimDefinitionStore* definitions_ = nullptr;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Broker> broker_;
};

}  // namespace tarry::sim
