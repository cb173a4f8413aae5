#pragma once

#include <string>
#include <vector>

#include "sim/sim_model.h"
#include "sim/sim_random.h"
#include "tarrymq/amqp/field_table.h"

namespace tarry::sim {

/// The queues of a simulation, by index.
enum QueueIndex : size_t {
  kWork,
  kSplit,
  kPlain,
  kPrio,
  kShort,
  kChurned,
  kBare,
  kFleeting,
  kDeadWork,
  kDeadA,
  kDeadB,
  kAgain,
  kGrave,
  kDeadPrio,
  kDeadShort,
  kDeadFleeting,
  kRevived,
  kQueueCount
};

/// Who dead-letters to whom is always the same; what the queues are is drawn.
std::vector<QueueSpec> draw_queues(Random& random);

/// For a trace.
std::string describe_arguments(const FieldTable& arguments);

/// The encoded argument table of its declaration.
std::string declare_arguments(const QueueSpec& spec);

}  // namespace tarry::sim
