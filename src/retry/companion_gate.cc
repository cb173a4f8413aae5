#include <utility>

#include "tarrymq/retry/companion.h"

namespace tarry {

CompanionGate gate_of(StoreShard& store) {
  return {[&store](Ticket ticket) { return store.passed(ticket); },
          [&store](Task task) { store.when_durable(std::move(task)); }};
}

}  // namespace tarry
