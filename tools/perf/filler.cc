#include "perf/filler.h"

#include <unistd.h>

#include "perf/process_stats.h"

namespace tarry::perf {

Filler::Filler(const Options& options) {
  for (uint32_t i = 0; i < options.publishers; ++i) {
    uint64_t share = options.count / options.publishers + (i < options.count % options.publishers);
    publishers_.push_back(std::make_unique<Publisher>(options, i, share, counters));
  }
  thread_ = std::make_unique<std::thread>([this] { run(); });
}

Filler::~Filler() {
  stop_ = true;
  thread_->join();
}

bool Filler::wait(double seconds) const {
  const int64_t deadline = now_ns() + static_cast<int64_t>(seconds * 1e9);
  while (!done_ && now_ns() < deadline) ::usleep(1000);
  return done_;
}

void Filler::run() {
  for (;;) {
    bool open = false, moved = false;
    for (auto& publisher : publishers_) {
      moved = publisher->pump(now_ns(), true) || moved;
      open = open || !publisher->sent_all() || !publisher->all_confirmed();
    }
    if (!open || stop_) break;
    if (!moved) ::usleep(200);
  }
  done_ = true;
}

}  // namespace tarry::perf
