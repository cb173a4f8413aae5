#include "sim/sim_topology.h"
#include "sim/sim_world.h"
#include "storage/store_impl.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/as_shard.h"

// A simulated broker comes up and goes down.

namespace tarry::sim {

bool SimWorld::start() {
  StoreOptions options;
  options.data_dir = "/d";
  options.durability = durability_;
  options.tail_memory_bytes = tail_memory_;
  options.parked_listed_max = parked_listed_max_;
  auto store = open_manual_store(options, fs_);
  if (!store) {
    if (!fs_.crashed()) model_.fault("the store does not open: " + store.error().message());
    return false;
  }
  store_ = std::move(*store);
  store_->impl().segment_bytes(segment_bytes_, segment_bytes_);
  auto run = [impl = &store_->impl()](Task task) { impl->store_thread.run(std::move(task)); };
  auto definitions = std::make_unique<SimDefinitionStore>(definitions_, run);
  definition_store_ = definitions.get();
  store_->impl().definitions = std::move(definitions);
  store_->impl().due = make_due_store(std::make_unique<SimDueTable>(), run);
  store_->impl().due->set_memory_budget(due_budget_);
  std::vector<Shard*> shards;
  for (size_t i = 0; i < shard_count_; ++i) {
    shards_.push_back(std::make_unique<Shard>(ShardId(static_cast<uint16_t>(i)), clock_));
    shards.push_back(shards_.back().get());
  }
  BrokerOptions broker_options;
  broker_options.shards_share_thread = true;
  broker_options.stop_timeout_ms = 0;
  auto broker = Broker::open(broker_options, *store_, clock_, shards);
  if (!broker) {
    model_.fault("the broker does not open: " + broker.error());
    return false;
  }
  broker_ = std::move(*broker);
  auto started = broker_->start();
  if (!started && !fs_.crashed()) model_.fault("the broker does not start: " + started.error());
  // One that had ended may not have said so durably, and goes on.
  if (model_.ever_redriven(kDeadA)) model_.redrive_sent(kDeadA);
  return !fs_.crashed();
}

void SimWorld::start_until_it_stays() {
  while (!failed()) {
    // Sometimes the next crash comes while it is still reading.
    if (outcome_.crashes > 0 && random_.one_in(3)) fs_.crash_at(random_.between(1, 30));
    bool up = start();
    if (up) {
      fs_.crash_at(0);
      return;
    }
    trace("crash while starting");
    ++outcome_.crashes;
    take_down();
    fs_.reboot(
        durability_ == Durability::os
            ? FaultyFileSystem::Survives::everything
            : FaultyFileSystem::kAllWays[random_.below(std::size(FaultyFileSystem::kAllWays))],
        static_cast<uint32_t>(random_.next()));
    model_.crashed();
  }
}

/// In the order in which the daemon does it.
void SimWorld::take_down() {
  ++boot_;
  redrive_asked_ = false;
  for (Seat& seat : seats_) {
    if (!seat.client) continue;
    SimLink& link = seat.client->link();
    run_as_shard(link.shard(), [&] { link.destroy(); });
  }
  seats_.clear();
  if (definition_store_) definition_store_->crash(random_);
  definition_store_ = nullptr;
  broker_.reset();
  shards_.clear();
  if (store_) outcome_.recycled += store_->impl().pool->taken();
  store_.reset();
}

/// By the broker's inner face, as a client would: answers come while the pump runs. All, or what a
/// restart has taken.
void SimWorld::declare(bool all) {
  auto login = std::make_shared<Login>(Login{"guest"});
  auto vhost = broker_->access().open_vhost(*login, "/");
  if (!vhost) return model_.fault("no vhost");
  Actor actor{login.get(), ConnectionId{1}, {&broker_->queue_shard(0), ConnectionId{1}}};
  auto answers = std::make_shared<size_t>(0);
  auto answered = [answers, login](auto result) { *answers += result ? 1 : 0; };
  size_t wanted = 0;
  run_as_shard(*shards_[0], [&] {
    for (const char* name : {"both", "graves"}) {
      if (!all) break;
      ++wanted;
      ExchangeDeclare d;
      d.name = name, d.type = "fanout", d.durable = true;
      (*vhost)->declare_exchange(actor, d, answered);
    }
    for (size_t i = 0; i < model_.queues().size(); ++i) {
      const QueueSpec& spec = model_.queues()[i];
      if (i == kChurned || (!all && !spec.transient)) continue;
      ++wanted;
      QueueDeclare d;
      d.name = spec.name, d.durable = !spec.transient;
      d.arguments = *FieldTable::decode(as_bytes(declare_arguments(spec)));
      (*vhost)->declare_queue(actor, d, answered);
    }
  });
  for (int i = 0; i < 200 && *answers < wanted; ++i)
    pump_once(true);  // the first queue waits for ids to be reserved
  run_as_shard(*shards_[0], [&] {
    for (auto [source, queue] : {std::pair<const char*, size_t>{"both", kWork},
                                 {"both", kSplit},
                                 {"both", kPlain},
                                 {"both", kFleeting},
                                 {"graves", kDeadA},
                                 {"graves", kDeadB}}) {
      if (!all && !model_.queues()[queue].transient) continue;
      ++wanted;
      BindingSpec b;
      b.source = source, b.destination = model_.queues()[queue].name;
      (*vhost)->bind(actor, b, answered);
    }
  });
  for (int i = 0; i < 200 && (all || *answers < wanted); ++i) pump_once(true);
  if (*answers != wanted)
    model_.fault("declared " + std::to_string(*answers) + " of " + std::to_string(wanted));
  if (all) model_.delete_sent(kChurned);
}

Role SimWorld::draw_role(size_t index) {
  static const Role kRoles[] = {Role::publisher, Role::publisher,  Role::consumer, Role::consumer,
                                Role::consumer,  Role::transactor, Role::getter,   Role::churner};
  if (index < 8) return kRoles[index];
  return random_.one_in(3) ? Role::admin : random_.one_in(2) ? Role::consumer : Role::publisher;
}

void SimWorld::seat(size_t index, Role role) {
  size_t home = random_.below(shard_count_);
  size_t window = role != Role::drainer && random_.one_in(3) ? random_.between(400, 6000) : 1 << 20;
  auto client = std::make_unique<SimClient>(*clients_world_, next_serial_++, role);
  trace("seat " + std::to_string(index) + ": " + role_name(role) + " " +
        std::to_string(client->serial()));
  auto link =
      std::make_shared<SimLink>(*broker_, home, *shards_[home], session_, window, client->ends());
  client->open(std::move(link));
  seats_[index].client = std::move(client);
}

}  // namespace tarry::sim
