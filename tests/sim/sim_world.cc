#include "sim/sim_world.h"

#include <boost/system/errc.hpp>
#include <cstdio>

#include "sim/sim_topology.h"
#include "storage/store_impl.h"
#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/as_shard.h"

namespace tarry::sim {
namespace {

constexpr uint64_t kSteps = 5000;
constexpr size_t kSeats = 9;

}  // namespace

SimWorld::SimWorld(uint64_t seed, bool verbose)
    : seed_(seed), verbose_(verbose), random_(seed), model_(draw_queues(random_)) {
  if (random_.one_in(5)) durability_ = Durability::os;
  shard_count_ = random_.between(1, 4);
  due_budget_ = random_.one_in(3) ? 4 : 100'000;
  parked_listed_max_ = random_.one_in(3) ? 1024 : static_cast<uint32_t>(random_.below(4));
  // Small ones are often full, and their files written over by later ones.
  segment_bytes_ =
      random_.one_in(4) ? 64u << 10 : static_cast<uint32_t>(random_.between(500, 3000));
  tail_memory_ = random_.one_in(3) ? 100'000 : 64 << 20;
  session_.handshake_timeout_ms = 0x7fffffff;
  session_.outbound_high_bytes = random_.one_in(3) ? 2000 : 1 << 20;
  clients_world_ = std::make_unique<ClientsWorld>(
      ClientsWorld{model_,
                   random_,
                   next_number_,
                   [this](const std::string& line) { trace(line); },
                   {},
                   {kWork, kSplit, kPlain, kFleeting},
                   kChurned,
                   false,
                   kSplit,
                   false,
                   false,
                   false,
                   [this](size_t queue) { return declare_arguments(model_.queues()[queue]); }});
  for (size_t i = 0; i < model_.queues().size(); ++i) {
    if (model_.queues()[i].published) clients_world_->published.push_back(i);
  }
  draw_weights();
}

SimWorld::~SimWorld() { take_down(); }

// What a step is, drawn anew for each seed: some runs starve the disk, some the clients.
void SimWorld::draw_weights() {
  // turn, barrier, barrier with what nobody waits for, store thread, bytes arrive, client acts,
  // client reads, time, an operator acts, drop
  static const uint32_t kBase[] = {60, 12, 3, 12, 40, 40, 40, 10, 2, 1};
  for (uint32_t base : kBase)
    weights_.push_back(1 + base * static_cast<uint32_t>(random_.between(30, 170)) / 100);
  weights_.back() = static_cast<uint32_t>(random_.below(3));
  crash_every_ = random_.one_in(4) ? 0 : random_.between(150, 1500);
  quiet_every_ = random_.between(200, 1200);
  spoil_every_ = random_.one_in(3) ? random_.between(300, 2000) : 0;
}

void SimWorld::trace(const std::string& line) {
  for (char c : line)
    outcome_.trace_hash = (outcome_.trace_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  if (verbose_) std::printf("%6llu %s\n", static_cast<unsigned long long>(step_), line.c_str());
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
      if (random_.one_in(10)) store_->impl().pool->trim_idle();
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
    case 8:
      operate();
      break;
    default:
      trace("cut " + std::to_string(client.serial()));
      client.link().cut();
      break;
  }
  look_at_redrive();
  if (mend_at_ == 0 && !store_->disk_alarm()) clients_world_->disk_trouble = false;
  for (size_t i = 0; i < seats_.size(); ++i) {
    SimClient* at = seats_[i].client.get();
    if (at->over() && at->link().ended()) seat(i, draw_role(i));
  }
}

void SimWorld::crash() {
  mend_disk();
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
  if (!failed()) declare(false);
  seats_.resize(kSeats);
  if (failed()) return;
  for (size_t i = 0; i < kSeats; ++i) seat(i, draw_role(i));
}

/// It is full, or fails, for a while.
void SimWorld::spoil_disk() {
  namespace errc = boost::system::errc;
  const uint64_t kind = random_.below(4);
  static const char* const kKinds[] = {"too little free", "full", "nearly full", "failing syncs"};
  trace(std::string("disk: ") + kKinds[kind]);
  ++outcome_.spoilt;
  mend_at_ = step_ + random_.between(10, 500);
  clients_world_->disk_trouble = true;
  model_.disk_trouble(true);
  for (Seat& seat : seats_) {
    if (seat.client->role() == Role::transactor) seat.client->link().cut();
  }
  if (kind == 0) {
    fs_.set_free_bytes(1000);
    store_->impl().barrier->check_free_space();
  } else {
    fs_.set_fault([this, kind](const std::string& call, const std::string&) -> FileError {
      if (kind == 3) {
        return call == "sync" && random_.one_in(3) ? errc::make_error_code(errc::io_error)
                                                   : FileError();
      }
      const bool takes_room = call == "write" || call == "create" || call == "make_directory";
      return takes_room && (kind == 1 || random_.one_in(2))
                 ? errc::make_error_code(errc::no_space_on_device)
                 : FileError();
    });
  }
}

void SimWorld::mend_disk() {
  if (mend_at_ == 0) return;
  trace("disk: well again");
  mend_at_ = 0;
  model_.disk_trouble(false);
  fs_.set_fault(nullptr);
  fs_.set_free_bytes(1ull << 40);
  store_->impl().barrier->check_free_space();
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
  declare(false);
  seats_.resize(kSeats);
  for (size_t i = 0; i < kSeats; ++i) seat(i, draw_role(i));
}

/// All clients are cut; what they held is back, and everything is quiet and durable.
void SimWorld::leave_all() {
  mend_disk();
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
  // What nobody waits for is on the disk some time after the last that happened.
  uint64_t events = 0;
  for (int round = 0, last = 0;
       (round < 25 || (round < last + 25 && round < 300)) && !failed() && !fs_.crashed(); ++round) {
    if (model_.events() != std::exchange(events, model_.events())) last = round;
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
  last = std::max(last, now + model_.longest_unseen_wait_ms());
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
  for (int i = 0; i < 10 && longest > 0 && !failed(); ++i) {
    advance(longest);
    quiesce();
  }
  if (failed()) return;
  model_.check_end(clock_.wall_now().floor_ms(), true);
  check_quiet();
}

/// For who looks at a failing seed.
void SimWorld::trace_queues() {
  if (!verbose_ || !broker_) return;
  for (const QueueInfo& info : broker_->management().queues({})) {
    const QueueNumbers& n = info.numbers;
    trace(info.name + ": " + std::to_string(n.ready) + " ready, " + std::to_string(n.unacked) +
          " unacknowledged, " + std::to_string(n.delayed) + " delayed to " +
          std::to_string(n.next_due_ms) + " and on, " + std::to_string(n.dead_lettering) +
          " dying; " + describe_arguments(info.arguments));
  }
}

Outcome SimWorld::run() {
  if (fs_.make_directory("/d") || fs_.sync_directory("/")) std::abort();
  start_until_it_stays();
  if (!failed()) declare(true);
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
    if (mend_at_ > 0 && step_ >= mend_at_) mend_disk();
    if (mend_at_ == 0 && spoil_every_ > 0 && random_.one_in(spoil_every_)) spoil_disk();
    if (!failed() && random_.one_in(quiet_every_)) {
      mend_disk();
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
  if (failed()) trace_queues();
  outcome_.recycled += store_ ? store_->impl().pool->taken() : 0;
  outcome_.faults = model_.faults();
  outcome_.steps = step_;
  outcome_.deliveries = model_.deliveries();
  outcome_.retries = model_.retries();
  outcome_.deaths = model_.deaths();
  outcome_.copies = model_.copies();
  return outcome_;
}

}  // namespace tarry::sim
