#include "storage/due_store.h"

#include <utility>

namespace tarry {

DueItem DueItem::pack(const DueEntry& entry, uint64_t sequence) {
  return {.due_ms = entry.due_ms,
          .segment = entry.position.segment,
          .ordinal = entry.position.ordinal,
          .offset = entry.position.offset,
          .counter = entry.counter,
          .delay_ms = entry.delay_ms,
          .body_bytes = entry.body_bytes,
          .sequence_low = static_cast<uint32_t>(sequence),
          .sequence_high = static_cast<uint16_t>(sequence >> 32),
          .lane = entry.lane,
          .kind = static_cast<uint8_t>(entry.kind | (entry.stored ? kStored : 0))};
}

DueEntry DueItem::unpack() const {
  return {.due_ms = due_ms,
          .position = {segment, ordinal, offset},
          .counter = counter,
          .delay_ms = delay_ms,
          .body_bytes = body_bytes,
          .lane = lane,
          .kind = static_cast<uint8_t>(kind & ~(kStored | kDead)),
          .stored = stored()};
}

DueStoreCore::DueStoreCore(std::unique_ptr<DueTable> table,
                           std::function<void(Task)> run_on_store_thread)
    : table_(std::move(table)), run_on_store_thread_(std::move(run_on_store_thread)) {}

void DueStoreCore::erase_later(uint64_t generation, DueKey before) {
  // Each task erases its own, since only what was put before it was given is sure to be there to be
  // erased.
  run([self = shared_from_this(), one = Garbage{generation, before}] { self->erase(one); });
}

void DueStoreCore::erase(const Garbage& latest) {
  garbage_.push_back(latest);
  // What fails waits for the next one: nobody reads there again, it only takes room.
  std::erase_if(garbage_,
                [this](const Garbage& one) { return table_->erase(one.generation, one.before); });
}

std::unique_ptr<DueStore> make_due_store(std::unique_ptr<DueTable> table,
                                         std::function<void(Task)> run_on_store_thread) {
  return std::make_unique<DueStoreImpl>(
      std::make_shared<DueStoreCore>(std::move(table), std::move(run_on_store_thread)));
}

}  // namespace tarry
