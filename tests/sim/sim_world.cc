#include "sim/sim_world.h"

#include <cstdio>

#include "storage/store_impl.h"
#include "tarrymq/runtime/as_shard.h"

namespace tarry::sim {
namespace {

constexpr uint64_t kSteps = 5000;
constexpr size_t kSeats = 9;
constexpr size_t kChurned = 5;

}  // namespace

/// Who dead-letters to whom is always the same; what the queues are is drawn.
std::vector<QueueSpec> SimWorld::draw_queues(Random& r) {
  std::vector<QueueSpec> q(14);
  auto retry = [&](QueueSpec& spec) {
    static const uint64_t kMins[] = {1, 20, 100, 500, 2000};
    spec.retry_min = kMins[r.below(5)];
    if (r.percent(70)) spec.multiplier = r.between(1, 3);
    if (r.one_in(3)) spec.retry_max = r.between(1, 4000);
    spec.limit = r.between(0, 5);
  };
  auto dies_to = [&](size_t from, std::string exchange, std::string key, std::vector<size_t> to) {
    q[from].dead_letter_exchange = std::move(exchange);
    q[from].dead_letter_key = std::move(key);
    for (size_t t : to) q[t].parent = from;
    q[from].dead_letters_to = std::move(to);
  };
  const char* names[] = {"work",  "split", "plain",     "prio",      "short",
                         "churn", "bare",  "dead.work", "dead.a",    "dead.b",
                         "again", "grave", "dead.prio", "dead.short"};
  for (size_t i = 0; i < q.size(); ++i) {
    q[i].name = names[i];
    q[i].published = i <= 6;
  }
  retry(q[0]);
  dies_to(0, "", "dead.work", {7});
  retry(q[1]);
  dies_to(1, "graves", "", {8, 9});
  q[2].quorum = true;
  if (r.one_in(2)) q[2].limit = r.between(0, 6);
  dies_to(2, "", "again", {10});
  retry(q[3]);
  q[3].max_priority = static_cast<uint8_t>(r.between(1, 4));
  dies_to(3, "", "dead.prio", {12});
  if (r.one_in(2)) retry(q[4]);
  q[4].max_length = r.between(3, 20);
  q[4].reject_publish = r.one_in(2);
  dies_to(4, "", "dead.short", {13});
  retry(q[5]);
  retry(q[10]);
  dies_to(10, "", "grave", {11});
  return q;
}

SimWorld::SimWorld(uint64_t seed, bool verbose)
    : seed_(seed), verbose_(verbose), random_(seed), model_(draw_queues(random_)) {
  if (random_.one_in(5)) durability_ = Durability::os;
  shard_count_ = random_.between(1, 4);
  due_budget_ = random_.one_in(3) ? 4 : 100'000;
  tail_memory_ = random_.one_in(3) ? 100'000 : 64 << 20;
  session_.handshake_timeout_ms = 0x7fffffff;
  session_.outbound_high_bytes = random_.one_in(3) ? 2000 : 1 << 20;
  clients_world_ = std::make_unique<ClientsWorld>(
      ClientsWorld{model_,
                   random_,
                   next_number_,
                   [this](const std::string& line) { trace(line); },
                   {},
                   {0, 1, 2},
                   kChurned,
                   false,
                   false,
                   [this](size_t queue) { return declare_arguments(queue); }});
  for (size_t i = 0; i < model_.queues().size(); ++i) {
    if (model_.queues()[i].published) clients_world_->published.push_back(i);
  }
  draw_weights();
}

SimWorld::~SimWorld() { take_down(); }

// What a step is, drawn anew for each seed: some runs starve the disk, some the clients.
void SimWorld::draw_weights() {
  // turn, barrier, barrier with what nobody waits for, store thread, bytes arrive, client acts,
  // client reads, time, drop
  static const uint32_t kBase[] = {60, 12, 3, 12, 40, 40, 40, 10, 1};
  for (uint32_t base : kBase)
    weights_.push_back(1 + base * static_cast<uint32_t>(random_.between(30, 170)) / 100);
  weights_.back() = static_cast<uint32_t>(random_.below(3));
  crash_every_ = random_.one_in(4) ? 0 : random_.between(150, 1500);
  quiet_every_ = random_.between(200, 1200);
}

void SimWorld::trace(const std::string& line) {
  for (char c : line)
    outcome_.trace_hash = (outcome_.trace_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  if (verbose_) std::printf("%6llu %s\n", static_cast<unsigned long long>(step_), line.c_str());
}

std::string SimWorld::declare_arguments(size_t queue) const {
  const QueueSpec& spec = model_.queues()[queue];
  FieldTable arguments;
  auto number = [&](const char* name, uint64_t value) {
    arguments.set(name, FieldValue::int64(static_cast<int64_t>(value)));
  };
  if (spec.retry_min > 0) number("x-delayed-retry-min", spec.retry_min);
  if (spec.retry_min > 0 && spec.multiplier) number("x-delayed-retry-multiplier", *spec.multiplier);
  if (spec.retry_min > 0 && spec.retry_max) number("x-delayed-retry-max", *spec.retry_max);
  if (spec.limit) number("x-delivery-limit", *spec.limit);
  if (spec.quorum) arguments.set("x-queue-type", FieldValue::text("quorum"));
  if (spec.max_length > 0) number("x-max-length", spec.max_length);
  if (spec.reject_publish) arguments.set("x-overflow", FieldValue::text("reject-publish"));
  if (spec.max_priority > 0) number("x-max-priority", spec.max_priority);
  if (!spec.dead_letters_to.empty()) {
    arguments.set("x-dead-letter-exchange", FieldValue::text(spec.dead_letter_exchange));
    if (!spec.dead_letter_key.empty())
      arguments.set("x-dead-letter-routing-key", FieldValue::text(spec.dead_letter_key));
  }
  return arguments.encode();
}

// -- Up and down

bool SimWorld::start() {
  StoreOptions options;
  options.data_dir = "/d";
  options.durability = durability_;
  options.tail_memory_bytes = tail_memory_;
  auto store = open_manual_store(options, fs_);
  if (!store) {
    if (!fs_.crashed()) model_.fault("the store does not open: " + store.error().message());
    return false;
  }
  store_ = std::move(*store);
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
  store_.reset();
}

void SimWorld::declare_all() {
  // By the broker's inner face, as a client would: answers come while the pump runs.
  auto login = std::make_shared<Login>(Login{"guest"});
  auto vhost = broker_->access().open_vhost(*login, "/");
  if (!vhost) return model_.fault("no vhost");
  Actor actor{login.get(), ConnectionId{1}, {&broker_->queue_shard(0), ConnectionId{1}}};
  size_t answers = 0, wanted = 0;
  run_as_shard(*shards_[0], [&] {
    for (const char* name : {"both", "graves"}) {
      ++wanted;
      ExchangeDeclare d;
      d.name = name, d.type = "fanout", d.durable = true;
      (*vhost)->declare_exchange(actor, d,
                                 [&, login](Result<void, PeerError> r) { answers += r ? 1 : 0; });
    }
    for (size_t i = 0; i < model_.queues().size(); ++i) {
      if (i == kChurned) continue;
      ++wanted;
      QueueDeclare d;
      d.name = model_.queues()[i].name, d.durable = true;
      d.arguments = *FieldTable::decode(as_bytes(declare_arguments(i)));
      (*vhost)->declare_queue(
          actor, d, [&, login](Result<QueueDeclared, PeerError> r) { answers += r ? 1 : 0; });
    }
  });
  for (int i = 0; i < 200 && answers < wanted; ++i)
    pump_once(true);  // the first queue waits for ids to be reserved
  run_as_shard(*shards_[0], [&] {
    for (auto [source, queue] : {std::pair<const char*, size_t>{"both", 0},
                                 {"both", 1},
                                 {"both", 2},
                                 {"graves", 8},
                                 {"graves", 9}}) {
      ++wanted;
      BindingSpec b;
      b.source = source, b.destination = model_.queues()[queue].name;
      (*vhost)->bind(actor, b, [&, login](Result<void, PeerError> r) { answers += r ? 1 : 0; });
    }
  });
  for (int i = 0; i < 200; ++i) pump_once(true);
  if (answers != wanted)
    model_.fault("declared " + std::to_string(answers) + " of " + std::to_string(wanted));
  model_.delete_sent(kChurned);
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

// -- Running

void SimWorld::advance(uint64_t ms) { clock_.advance_ms(static_cast<int64_t>(ms)); }

void SimWorld::step() {
  SimClient& client = *seats_[random_.below(seats_.size())].client;
  switch (random_.weighted(weights_)) {
    case 0:
      shards_[random_.below(shard_count_)]->run_turn_for_test();
      break;
    case 1:
      store_->impl().barrier->run_round(false);
      break;
    case 2:
      store_->impl().barrier->run_round(true);
      break;
    case 3:
      store_->impl().store_thread.run_queued();
      break;
    case 4:
      client.link().arrive(random_.one_in(4) ? random_.between(1, 200) : 1 << 20);
      break;
    case 5:
      client.act();
      break;
    case 6:
      client.read();
      break;
    case 7: {
      static const uint64_t kJumps[] = {1, 1, 3, 10, 25, 100, 700, 3000};
      clock_.advance_ns(static_cast<int64_t>(random_.below(1'000'000)));
      advance(kJumps[random_.below(random_.one_in(4) ? 8 : 5)]);
      // An operator sets the machine's clock: nothing may come of it.
      if (random_.one_in(10)) clock_.step_system_ms(random_.one_in(2) ? 86'400'000 : -86'400'000);
      break;
    }
    default:
      trace("cut " + std::to_string(client.serial()));
      client.link().cut();
      break;
  }
  for (size_t i = 0; i < seats_.size(); ++i) {
    SimClient* at = seats_[i].client.get();
    if (at->over() && at->link().ended()) seat(i, draw_role(i));
  }
}

void SimWorld::crash() {
  ++outcome_.crashes;
  if (!fs_.crashed()) fs_.crash_at(1);
  for (Seat& seat : seats_) seat.client->on_crash();
  take_down();
  auto way = durability_ == Durability::os
                 ? FaultyFileSystem::Survives::everything
                 : FaultyFileSystem::kAllWays[random_.below(std::size(FaultyFileSystem::kAllWays))];
  trace("crash, survives " + std::to_string(static_cast<int>(way)));
  fs_.reboot(way, static_cast<uint32_t>(random_.next()));
  model_.crashed();
  if (random_.one_in(2)) advance(random_.below(10'000));
  start_until_it_stays();
  seats_.resize(kSeats);
  if (failed()) return;
  for (size_t i = 0; i < kSeats; ++i) seat(i, draw_role(i));
}

/// Everybody goes, everything is written, and the broker comes back.
void SimWorld::restart() {
  leave_all();
  trace("restart");
  ++outcome_.restarts;
  size_t flushed = 0;
  for (size_t i = 0; i < shard_count_; ++i) {
    run_as_shard(*shards_[i], [&] { broker_->queue_shard(i).flush([&flushed] { ++flushed; }); });
  }
  for (int i = 0; i < 100 && flushed < shard_count_; ++i) pump_once(false);
  if (flushed < shard_count_) return model_.fault("the flush does not come to its end");
  take_down();
  model_.restarted();
  if (random_.one_in(2)) advance(random_.below(10'000));
  if (!start()) return;
  seats_.resize(kSeats);
  for (size_t i = 0; i < kSeats; ++i) seat(i, draw_role(i));
}

/// All clients are cut; what they held is back, and everything is quiet and durable.
void SimWorld::leave_all() {
  clients_world_->all_leave = true;
  for (Seat& seat : seats_) seat.client->link().cut();
  quiesce();
  clients_world_->all_leave = false;
  if (!fs_.crashed()) model_.checkpoint(clock_.wall_now().floor_ms());
}

bool SimWorld::pump_once(bool lazily) {
  bool any = false;
  busy_.clear();
  auto note = [&](const char* what, bool did) {
    if (did) busy_ += what;
    any = any || did;
  };
  for (auto& shard : shards_) note("shard ", shard->run_turn_for_test());
  note("store ", store_->impl().store_thread.run_queued());
  note("barrier ", store_->impl().barrier->run_round(lazily));
  for (Seat& seat : seats_) {
    if (!seat.client || seat.client->link().ended()) continue;
    note("arrives ", seat.client->link().arrive(1 << 20));
    note("leaves ", seat.client->link().readable());
    seat.client->read();
  }
  return any;
}

/// Turns until nothing happens, some time passing so that what is only done lazily is done. Clients
/// start nothing.
void SimWorld::quiesce() {
  for (int round = 0; round < 25 && !failed() && !fs_.crashed(); ++round) {
    int quiet = 0;
    for (int i = 0; i < 20'000 && quiet < 4 && !fs_.crashed(); ++i)
      quiet = pump_once(true) ? 0 : quiet + 1;
    if (quiet < 4 && !fs_.crashed()) return model_.fault("it does not come to rest: " + busy_);
    advance(10);
  }
}

void SimWorld::check_quiet() {
  for (Seat& seat : seats_) {
    if (seat.client->over()) continue;
    if (seat.client->unconfirmed() > 0) {
      model_.fault(std::to_string(seat.client->unconfirmed()) +
                   " publishes are never confirmed to " + std::to_string(seat.client->serial()));
    }
    if (seat.client->waiting())
      model_.fault("an answer never comes to " + std::to_string(seat.client->serial()));
  }
}

void SimWorld::drain() {
  leave_all();
  if (failed()) return;
  // To the last instant that something waits for, and not beyond it: what is due must be there.
  uint64_t now = clock_.wall_now().floor_ms(), last = model_.last_due_ms(),
           longest = model_.longest_postponement_ms();
  if (last > now) advance(last - now + 1);
  quiesce();
  trace("drain");
  Login login{"guest"};
  if (auto vhost = broker_->access().open_vhost(login, "/")) {
    clients_world_->churned_there = (*vhost)->find_queue(model_.queues()[kChurned].name) != nullptr;
  }
  model_.begin_drain();
  seats_.clear();
  seats_.resize(1);
  seat(0, Role::drainer);
  quiesce();
  if (!failed()) model_.check_end(clock_.wall_now().floor_ms(), false);
  // But where the queue was full: that waits for one more period, and for another.
  for (int i = 0; i < 3 && longest > 0 && !failed(); ++i) {
    advance(longest);
    quiesce();
  }
  if (failed()) return;
  model_.check_end(clock_.wall_now().floor_ms(), true);
  check_quiet();
}

Outcome SimWorld::run() {
  if (fs_.make_directory("/d") || fs_.sync_directory("/")) std::abort();
  start_until_it_stays();
  if (!failed()) declare_all();
  if (!failed()) {
    quiesce();
    seats_.resize(kSeats);
    for (size_t i = 0; i < kSeats; ++i) seat(i, draw_role(i));
  }
  for (step_ = 1; step_ <= kSteps && !failed(); ++step_) {
    step();
    // Either at some later call of the disk, or here and now.
    if (crash_every_ > 0 && random_.one_in(crash_every_)) {
      if (random_.one_in(4))
        crash();
      else
        fs_.crash_at(random_.between(1, 40));
    }
    if (fs_.crashed()) crash();
    if (!failed() && random_.one_in(quiet_every_)) {
      trace("quiet");
      quiesce();
      if (fs_.crashed()) {
        crash();
      } else if (!failed()) {
        check_quiet();
        model_.checkpoint(clock_.wall_now().floor_ms());
      }
    }
    if (!failed() && random_.one_in(1200) && !fs_.crashed()) {
      fs_.crash_at(0);
      restart();
    }
  }
  fs_.crash_at(0);
  if (!failed() && !fs_.crashed()) drain();
  outcome_.faults = model_.faults();
  outcome_.steps = step_;
  outcome_.deliveries = model_.deliveries();
  outcome_.retries = model_.retries();
  outcome_.deaths = model_.deaths();
  outcome_.copies = model_.copies();
  return outcome_;
}

}  // namespace tarry::sim
