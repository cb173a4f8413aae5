#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/sim_client.h"
#include "sim/sim_disk.h"
#include "sim/sim_model.h"
#include "sim/sim_random.h"
#include "support/faulty_file_system.h"
#include "tarrymq/broker/broker.h"
#include "tarrymq/broker/retry_operations.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry::sim {

struct Outcome {
  std::vector<std::string> faults;  // empty: all is well
  uint64_t trace_hash = 0;          // of all that clients saw: the same seed gives the same
  uint64_t steps = 0, deliveries = 0, retries = 0, deaths = 0, crashes = 0, restarts = 0,
           copies = 0, spoilt = 0,
           recycled = 0;  // files of segments that were written over by later ones
};

/// One simulated broker with its clients, disk and time, all on the calling thread; every choice
/// comes from the seed.
class SimWorld {
 public:
  SimWorld(uint64_t seed, bool verbose);
  ~SimWorld();
  Outcome run();

 private:
  struct Seat {
    std::unique_ptr<SimClient> client;
  };
  void draw_weights();

  bool start();  // false: the disk crashed meanwhile
  void start_until_it_stays();
  void take_down();
  void declare(bool all);
  void seat(size_t index, Role role);
  Role draw_role(size_t index);

  void step();
  void operate();
  void act_on_waiting(RetryOperations& operations);
  void look_at_redrive();
  void spoil_disk();
  void mend_disk();
  uint64_t spoil_every_ = 0, mend_at_ = 0;  // 0: never; 0: it is well
  void crash();
  void restart();
  void leave_all();
  bool pump_once(bool lazily);
  void quiesce();
  void check_quiet();
  void drain();
  bool failed() const { return !model_.faults().empty(); }
  void trace(const std::string& line);
  void trace_queues();
  void advance(uint64_t ms);

  const uint64_t seed_;
  const bool verbose_;
  Random random_;
  Model model_;
  ManualClock clock_;
  FaultyFileSystem fs_;
  DefinitionDisk definitions_;
  SimDefinitionStore* definition_store_ = nullptr;  // of the present store
  Durability durability_ = Durability::fsync;
  size_t shard_count_ = 2;
  size_t due_budget_ = 1000;
  uint64_t tail_memory_ = 0;
  uint32_t parked_listed_max_ = 0;
  uint32_t segment_bytes_ = 0;
  SessionSettings session_;
  std::unique_ptr<Store> store_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unique_ptr<Broker> broker_;
  uint32_t next_number_ = 1;
  uint64_t next_serial_ = 1;
  std::unique_ptr<ClientsWorld> clients_world_;
  std::vector<Seat> seats_;
  std::vector<uint32_t> weights_;
  uint64_t boot_ = 0;           // answers of an earlier life are for nobody
  bool redrive_asked_ = false;  // and not answered yet
  uint64_t crash_every_ = 0, quiet_every_ = 0;
  Outcome outcome_;
  uint64_t step_ = 0;
  std::string busy_;  // who did something in the last pump
};

}  // namespace tarry::sim
