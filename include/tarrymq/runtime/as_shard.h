#pragma once

#include <functional>

namespace tarry {

class Shard;

/// For tests in which several shards share one thread: runs `work` as if on `shard`'s thread
/// (Shard::current()), without a turn around it. Not from inside of another shard's work.
void run_as_shard(Shard& shard, const std::function<void()>& work);

}  // namespace tarry
