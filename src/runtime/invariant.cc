#include "tarrymq/runtime/invariant.h"

#include <cstdlib>

#include "tarrymq/runtime/log.h"

namespace tarry {

void invariant_failed(const char* condition, const char* file, int line) {
  log_for("invariant")
      ->critical("broken invariant: {} ({}:{}); stopping at once", condition, file, line);
  flush_logs();
  std::abort();
}

}  // namespace tarry
