#include "tarrymq/broker/broker.h"

#include <atomic>
#include <chrono>

#include "broker/access.h"
#include "broker/core.h"
#include "broker/management_face.h"
#include "broker/recovery.h"
#include "broker/redrives.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

using std::chrono::milliseconds;

class BrokerImpl final : public Broker {
 public:
  BrokerImpl(BrokerOptions options, Store& store, const Clock& clock, std::vector<Shard*> shards)
      : core_(std::move(options), store, clock, std::move(shards)),
        access_(core_),
        management_(core_) {}

  ~BrokerImpl() override { core_.store.on_disk_alarm({}); }

  Result<void, std::string> start() override {
    auto recovered = recover_broker(core_);
    if (!recovered) return recovered;
    core_.redrives->resume();
    core_.when_queue_id([] {});  // reserved ahead of the first declaration
    core_.store.on_disk_alarm([this](bool on, const std::string& why) { disk_alarm(on, why); });
    if (core_.store.disk_alarm()) disk_alarm(true, "disk");
    return {};
  }

  void close_connections() override;
  bool stop() override;

  size_t shard_count() const override { return core_.shards.size(); }
  QueueShard& queue_shard(size_t index) override { return *core_.queue_shards[index]; }
  AccessPort& access() override { return access_; }
  ConnectionList& connections() override { return core_.connections; }
  Management& management() override { return management_; }

 private:
  void disk_alarm(bool on, const std::string& why);

  Core core_;
  Access access_;
  ManagementFace management_;
};

void BrokerImpl::disk_alarm(bool on, const std::string& why) {
  if (on)
    log_for("broker")->warn("disk alarm: publishers are blocked: {}", why);
  else
    log_for("broker")->info("disk alarm is over");
  core_.connections.set_blocked(on, "low on disk");
}

void BrokerImpl::close_connections() {
  if (core_.connections.size() == 0) return;
  core_.connections.close_all(320, "broker forced connection closure with reason 'shutdown'");
  auto patience = std::chrono::steady_clock::now() + milliseconds(core_.options.goodbye_timeout_ms);
  core_.signal.wait_until(patience, [this] { return core_.connections.size() == 0; });
  if (size_t left = core_.connections.size())
    log_for("broker")->warn("{} connections did not close in time", left);
}

bool BrokerImpl::stop() {
  close_connections();
  auto deadline = std::chrono::steady_clock::now() + milliseconds(core_.options.stop_timeout_ms);
  // Outlives this call, since an answer may come after the deadline.
  struct Flushes {
    Signal signal;
    std::atomic<size_t> left;
  };
  auto flushes = std::make_shared<Flushes>();
  flushes->left = core_.shards.size();
  for (size_t i = 0; i < core_.shards.size(); ++i) {
    core_.shards[i]->post([shard = core_.queue_shards[i].get(), flushes] {
      shard->flush([flushes] { flushes->signal.notify_after([&] { --flushes->left; }); });
    });
  }
  bool all = flushes->signal.wait_until(deadline, [&] { return flushes->left == 0; });
  all = core_.wait_for_writes(deadline) && all;
  if (!all)
    log_for("broker")->error(
        "not everything could be written before the time for stopping ran out");
  return all;
}

}  // namespace

Result<std::unique_ptr<Broker>, std::string> Broker::open(BrokerOptions options, Store& store,
                                                          const Clock& clock,
                                                          std::vector<Shard*> shards) {
  if (shards.empty()) return std::string("a broker needs at least one shard");
  return std::unique_ptr<Broker>(
      std::make_unique<BrokerImpl>(std::move(options), store, clock, std::move(shards)));
}

}  // namespace tarry
