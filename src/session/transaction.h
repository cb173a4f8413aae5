#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "session/unacked.h"

namespace tarry {

/// What a transactional channel holds back until tx.commit.
struct Transaction {
  struct Publish {
    std::string route, header, body;
    bool mandatory = false;
  };
  struct Settlement {
    UnackedRun run;  // holds a use of its queue
    Outcome outcome;
    std::shared_ptr<OwnWord> word = nullptr;  // by a publish to amq.retry
  };
  std::vector<Publish> publishes;
  std::vector<Settlement> settlements;

  // While tx.commit waits:
  bool committing = false;   // from tx.commit to commit-ok
  bool syncing = false;      // the settlements were given to the queues
  uint64_t stores_left = 0;  // publishes that a queue has not answered for
  uint64_t refused = 0;
  uint64_t syncs_left = 0;
};

}  // namespace tarry
