#include "broker/login_book.h"

#include <algorithm>

namespace tarry {

void LoginBook::note(const char* protocol, const LoginOrigin& from, const std::string& user,
                     bool succeeded) {
  std::string name = user.substr(0, kUserBytesMax);
  std::lock_guard lock(mutex_);
  LoginAttempts& sum = protocols_[protocol];
  sum.protocol = protocol;
  ++(succeeded ? sum.succeeded : sum.failed);
  const auto key = std::tuple(std::string(protocol), from.address, name);
  if (!sources_.contains(key) && sources_.size() >= kLoginSourcesMax) make_room();
  Source& source = sources_[key];
  source.last = ++count_;
  source.attempts.protocol = protocol;
  source.attempts.address = from.address;
  source.attempts.user = std::move(name);
  ++(succeeded ? source.attempts.succeeded : source.attempts.failed);
}

void LoginBook::make_room() {
  sources_.erase(
      std::ranges::min_element(sources_, {}, [](const auto& entry) { return entry.second.last; }));
}

std::vector<LoginAttempts> LoginBook::by_protocol() const {
  std::lock_guard lock(mutex_);
  std::vector<LoginAttempts> out;
  for (const auto& [protocol, attempts] : protocols_) out.push_back(attempts);
  return out;
}

std::vector<LoginAttempts> LoginBook::by_source() const {
  std::lock_guard lock(mutex_);
  std::vector<LoginAttempts> out;
  for (const auto& [key, source] : sources_) out.push_back(source.attempts);
  return out;
}

void LoginBook::forget() {
  std::lock_guard lock(mutex_);
  protocols_.clear();
  sources_.clear();
}

}  // namespace tarry
