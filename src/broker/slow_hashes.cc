#include "broker/slow_hashes.h"

#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <chrono>

#include "broker/passwords.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {
constexpr size_t kJobsMax = 64;  // each takes a tenth of a second
constexpr size_t kRememberedMax = 1'000;
}  // namespace

SlowHashes::SlowHashes() {
  TARRY_INVARIANT(RAND_bytes(key_.data(), static_cast<int>(key_.size())) == 1);
}

SlowHashes::~SlowHashes() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (Job& job : jobs_) job.answer(false);
}

std::string SlowHashes::fingerprint(std::string_view hash, std::string_view password) const {
  std::string input(hash);
  input += password;
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  TARRY_INVARIANT(HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                       reinterpret_cast<const unsigned char*>(input.data()), input.size(), sum,
                       &size) != nullptr);
  return {reinterpret_cast<const char*>(sum), size};
}

void SlowHashes::check(const std::string& hash, const std::string& password,
                       std::function<void(bool)> answer) {
  {
    std::lock_guard lock(mutex_);
    auto known = right_.find(hash);
    const bool remembered = known != right_.end() && known->second == fingerprint(hash, password);
    if (!remembered && !stopping_ && jobs_.size() < kJobsMax) {
      jobs_.push_back({hash, password, std::move(answer)});
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      wake_.notify_one();
      return;
    }
    if (!remembered) return answer(false);
  }
  answer(true);
}

void SlowHashes::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const auto began = std::chrono::steady_clock::now();
    const bool right = slow_password_matches(job.hash, job.password);
    const auto took =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
    longest_ms_ = std::max(longest_ms_.load(), static_cast<uint32_t>(took.count()));
    const std::string mark = right ? fingerprint(job.hash, job.password) : std::string();
    lock.lock();
    if (right) {
      if (right_.size() >= kRememberedMax) right_.clear();
      right_[job.hash] = mark;
    }
    lock.unlock();
    job.answer(right);
    lock.lock();
  }
}

}  // namespace tarry
