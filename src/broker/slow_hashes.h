#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tarry {

/// Passwords against hashes that are slow on purpose (bcrypt), on a thread of its own that begins
/// with the first of them. What was right once is remembered as a keyed hash, so that a client that
/// logs in with each HTTP request does not wait each time. Any thread.
class SlowHashes {
 public:
  SlowHashes();
  ~SlowHashes();  // those still waiting are answered with false
  SlowHashes(const SlowHashes&) = delete;
  SlowHashes& operator=(const SlowHashes&) = delete;

  /// `answer` at once (remembered, or too many wait already: false), or later on another thread.
  void check(const std::string& hash, const std::string& password,
             std::function<void(bool)> answer);
  /// What the slowest check so far took; 0: none was made yet.
  uint32_t longest_ms() const { return longest_ms_.load(std::memory_order_relaxed); }

 private:
  struct Job {
    std::string hash, password;
    std::function<void(bool)> answer;
  };
  void run();
  std::string fingerprint(std::string_view hash, std::string_view password) const;

  std::array<unsigned char, 32> key_;
  std::atomic<uint32_t> longest_ms_ = 0;  // written by the thread alone
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::map<std::string, std::string> right_;  // hash to fingerprint
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tarry
