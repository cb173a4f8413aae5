#pragma once

// What stands for RocksDB in a simulation: definitions that survive a crash as a prefix of what was
// written, and a due index that does not survive at all (it is derived).

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/sim_random.h"
#include "storage/due_store.h"
#include "tarrymq/storage/definition_store.h"

namespace tarry::sim {

/// The definitions on the simulated disk. Outlives the stores that are opened on it one after the
/// other.
struct DefinitionDisk {
  std::map<std::string, std::string> values;
  uint64_t next_id = 1;
  bool written = false;
};

class SimDefinitionStore final : public DefinitionStore {
 public:
  SimDefinitionStore(DefinitionDisk& disk, std::function<void(Task)> run)
      : disk_(disk), created_(!disk.written), run_(std::move(run)) {}

  void write(DefinitionBatch batch, Task done) override {
    pending_.push_back({std::move(batch), std::move(done)});
    run_([this] { write_one(); });
  }
  void write_and_wait(DefinitionBatch batch) override {
    while (!pending_.empty()) write_one();
    apply(batch);
  }
  std::vector<std::pair<std::string, std::string>> read_all() override {
    return {disk_.values.begin(), disk_.values.end()};
  }
  std::optional<std::string> read(std::string_view key) override {
    for (auto one = pending_.rbegin(); one != pending_.rend(); ++one) {
      for (auto put = one->batch.puts.rbegin(); put != one->batch.puts.rend(); ++put) {
        if (put->first == key) return put->second;
      }
      for (const auto& erased : one->batch.erases) {
        if (erased == key) return std::nullopt;
      }
    }
    auto it = disk_.values.find(std::string(key));
    return it == disk_.values.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<QueueId> next_queue_id() override {
    // Now and then none is reserved: who declares has to come again.
    refused_ = !refused_ && disk_.next_id % 3 == 0;
    return refused_ ? std::nullopt : std::optional(QueueId(disk_.next_id++));
  }
  void when_queue_id(Task then) override { run_(std::move(then)); }
  bool created() const override { return created_; }

  /// The machine stops: of what nobody was told of, some first part is on the disk.
  void crash(Random& random) {
    size_t kept = pending_.empty() ? 0 : random.below(pending_.size() + 1);
    for (size_t i = 0; i < kept; ++i) apply(pending_[i].batch);
    pending_.clear();
    dead_ = true;
  }

 private:
  struct Pending {
    DefinitionBatch batch;
    Task done;
  };
  void write_one() {
    if (dead_ || pending_.empty()) return;
    Pending one = std::move(pending_.front());
    pending_.pop_front();
    apply(one.batch);
    if (one.done) one.done();
  }
  void apply(const DefinitionBatch& batch) {
    if (!batch.empty()) disk_.written = true;
    for (const auto& key : batch.erases) disk_.values.erase(key);
    for (const auto& [key, value] : batch.puts) disk_.values[key] = value;
  }

  DefinitionDisk& disk_;
  const bool created_;
  const std::function<void(Task)> run_;
  std::deque<Pending> pending_;
  bool dead_ = false, refused_ = false;
};

class SimDueTable final : public DueTable {
 public:
  bool put(uint64_t generation, std::span<const DueItem> items, bool) override {
    for (const DueItem& item : items) tables_[generation].insert_or_assign(item.key(), item);
    return true;
  }
  bool read(uint64_t generation, DueKey from, uint64_t until_due_ms, size_t count_max,
            DuePage& page) override {
    const auto& table = tables_[generation];
    auto it = table.lower_bound(from);
    for (; it != table.end() && it->first.due_ms <= until_due_ms && page.items.size() < count_max;
         ++it) {
      page.items.push_back(it->second);
    }
    if (it != table.end()) page.next_due_ms = it->first.due_ms;
    return true;
  }
  bool erase(uint64_t generation, DueKey before) override {
    auto& table = tables_[generation];
    table.erase(table.begin(), table.lower_bound(before));
    if (before == kDueKeyMax) tables_.erase(generation);
    return true;
  }
  bool erase_keys(uint64_t generation, std::span<const DueKey> keys) {
    for (const DueKey& key : keys) tables_[generation].erase(key);
    return true;
  }

 private:
  std::map<uint64_t, std::map<DueKey, DueItem>> tables_;
};

}  // namespace tarry::sim
